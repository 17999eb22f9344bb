"""White space beside inline markup.

Where marks stand together in the source and in the translation, they keep the white space they
had. Elsewhere the white space of the translation is written once; a mark that readers see keeps
to the word that it was attached to, and does not grow together with any other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gtrans.formats.marks import Mark
from gtrans.formats.units import Units, is_part_of_word

_ORDINARY = " \t\r\n\f"


@dataclass
class Placed:
    """A mark and its place.

    Attributes:
        mark: the mark.
        offset: characters of the text before it.
        before, after: the white space beside it, as it was read.
    """

    mark: Mark
    offset: int
    before: str
    after: str = ""


def one_space(white: str) -> str:
    """White space as one character: the first that is no ordinary space, or a space."""
    return next((one for one in white if one not in _ORDINARY), " ") if white else ""


def single_spaced(text: str) -> str:
    """A text with one character for each stretch of white space."""
    return re.sub(r"\s+", lambda found: one_space(found[0]), text)


def spaced(source: Units, target: Units, number: int, marks: Sequence[Placed]) -> list[str | Mark]:
    """The marks before a unit of the translation, with white space.

    Args:
        source, target: the text and its translation.
        number: of the unit; the number of all units for what stands at the end.
        marks: at least one.
    """
    spaces = _spaces(source, target, number, marks)
    found: list[str | Mark] = []
    for space, one in zip(spaces, marks, strict=False):
        found += [space, one.mark]
    return [*found, spaces[-1]]


def _spaces(source: Units, target: Units, number: int, marks: Sequence[Placed]) -> list[str]:
    """The white space before each mark, and behind the last one."""
    spaces = [marks[0].before]
    spaces += [
        one.before if one.offset == last.offset else last.after or one.before
        for last, one in pairwise(marks)
    ]
    spaces.append(marks[-1].after)
    offsets = {one.offset for one in marks}
    if number == 0:
        spaces[0] = ""
        if offsets == {0}:
            return spaces if len(target) else [*spaces[:-1], ""]
    if number == len(target):
        spaces[-1] = ""
        if offsets == {len(source.text)}:
            return spaces
    spaces = [one_space(white) for white in spaces]
    seen = [place for place, one in enumerate(marks) if one.mark.is_seen]
    gap = target.gap(number)
    if seen:
        return _beside_seen(source, target, number, marks, spaces, seen)
    if not gap or not any(spaces):
        spaces = [""] * len(spaces)
        spaces[_slot(marks, 0)] = gap
    elif len(offsets) > 1:  # they have come together: one of their spaces is enough
        first = next(place for place, white in enumerate(spaces) if white)
        spaces = [white if place == first else "" for place, white in enumerate(spaces)]
    return spaces


def _beside_seen(
    source: Units,
    target: Units,
    number: int,
    marks: Sequence[Placed],
    spaces: list[str],
    seen: Sequence[int],
) -> list[str]:
    """White space where some of the marks are seen: ``seen`` has their numbers."""
    gap, first, last = target.gap(number), seen[0], seen[-1]
    breaks = any(marks[place].mark.breaks for place in seen)
    for one, other in pairwise(seen):  # text between two of them was a space, too
        apart = marks[one].offset != marks[other].offset
        if apart and not any(spaces[one + 1 : other + 1]) and not breaks:
            spaces[other] = " "
    held_before = is_part_of_word(source.text[: marks[first].offset][-1:])
    held_after = is_part_of_word(source.text[marks[last].offset :].lstrip()[:1])
    if number == 0:
        spaces[: first + 1] = [""] * (first + 1)
    elif any(spaces[: first + 1]) or breaks or held_before or target.is_symbol(number - 1):
        pass
    else:
        spaces[_slot(marks[: first + 1], 0)] = gap
    behind = _slot(marks, last + 1)
    if number == len(target) or (not gap and target.is_symbol(number)):
        spaces[last + 1 :] = [""] * (len(marks) - last)
    elif any(spaces[last + 1 :]) or breaks or held_after or target.is_symbol(number):
        pass
    else:
        spaces[behind] = gap
    if gap and not any(spaces) and not breaks:
        spaces[behind if held_before else _slot(marks[: first + 1], 0)] = gap
    return spaces


def _slot(marks: Sequence[Placed], begin: int) -> int:
    """Where white space stands: before the first mark that is no end of marked text."""
    places = range(begin, len(marks))
    return next((place for place in places if marks[place].mark.kind != "close"), len(marks))
