"""The words and symbols of a text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from copy import copy

_IDEOGRAPHS = "\u2e80-\u312f\u31a0-\u9fff\uf900-\ufaff"
# Ideographs and kana are words of their own; a word may have joined parts; other symbols stand
# alone.
_UNIT = re.compile(
    f"[{_IDEOGRAPHS}]|[^\\W{_IDEOGRAPHS}]+(?:['’-][^\\W{_IDEOGRAPHS}]+)*|[^\\w\\s]"
)
_LETTER = re.compile(f"[^\\W{_IDEOGRAPHS}]")


def is_part_of_word(letter: str) -> bool:
    """Whether a character is one of a word that white space ends."""
    return _LETTER.fullmatch(letter) is not None


class Units:
    """The words and symbols of texts that stand one after the other.

    Args:
        texts: the texts.
        joint: what stands between two of them.

    Attributes:
        text: the whole text.
        places: where each unit begins and ends in it.
        counts: how many units each of the texts has.
    """

    def __init__(self, texts: Iterable[str], joint: str = "") -> None:
        self.text = ""
        self.places: list[tuple[int, int]] = []
        self.counts: list[int] = []
        for number, text in enumerate(texts):
            self.text += joint if number else ""
            begin = len(self.text)
            found = [(begin + one.start(), begin + one.end()) for one in _UNIT.finditer(text)]
            self.places += found
            self.counts.append(len(found))
            self.text += text
        self._begins = [begin for begin, _ in self.places]
        self._ends = [end for _, end in self.places]

    def __len__(self) -> int:
        return len(self.places)

    def words(self, begin: int, end: int) -> list[str]:
        """Some of the units."""
        return [self.text[slice(*place)] for place in self.places[begin:end]]

    def before(self, offset: int) -> int:
        """How many end at or before an offset."""
        return bisect_right(self._ends, offset)

    def begun(self, offset: int) -> int:
        """How many begin before an offset."""
        return bisect_left(self._begins, offset)

    def inside(self, offset: int) -> int | None:
        """The unit that goes on at an offset, if there is one."""
        number = self.before(offset)
        return number if self.begun(offset) > number else None

    def is_symbol(self, number: int) -> bool:
        """Whether a unit is neither a word nor a number."""
        return not self.text[self.places[number][0]].isalnum()

    def gap(self, number: int) -> str:
        """What stands between a unit and the one before it."""
        if not 0 < number < len(self):
            return ""
        return self.text[self.places[number - 1][1] : self.places[number][0]]

    def with_spaces_of(self, source: Units, same: Mapping[int, int]) -> Units:
        """A copy with the white space of another text between units that are neighbours in both.

        Args:
            source: the other text.
            same: its units that stand here, too, and their numbers here.
        """
        letters = list(self.text)
        for there, here in same.items():
            if here and same.get(there - 1) == here - 1 and self.gap(here) == " ":
                gap = source.gap(there)
                letters[self.places[here][0] - 1] = gap if len(gap) == 1 and gap.isspace() else " "
        found = copy(self)
        found.text = "".join(letters)
        return found
