"""Blocks of running text with inline markup: a paragraph, a heading, a cell of a table.

A block is a sequence of text and marks. Its sentences are what a model translates; marks are left
out of them, and set into the translation by :mod:`gtrans.formats.placing`. A block without a
letter, such as a number in a table, is left as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from gtrans.formats.marks import Content, Mark, Scripts
from gtrans.formats.placing import place
from gtrans.formats.spacing import Placed, one_space, single_spaced

Splitter = Callable[[str], list[str]]
"""Turns running text into its sentences, without white space at their ends."""

_ADDRESS = re.compile(r"(?:https?://|ftp://|www\.|mailto:)[^\s<>\"]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_AFTER_ADDRESS = ".,;:!?)]}'\"*_"
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def with_addresses_marked(text: str) -> Iterator[str | Mark]:
    """A text in which web and mail addresses are points, because they are not translated."""
    done = 0
    for found in _ADDRESS.finditer(text):
        end = found.start() + len(_address(found[0]))
        yield text[done : found.start()]
        yield Mark("point", text[found.start() : end])
        done = end
    yield text[done:]


def _address(text: str) -> str:
    """An address without what follows it; a bracket that it opens itself belongs to it."""
    left = Counter(text)
    end = len(text)
    while end and text[end - 1] in _AFTER_ADDRESS:
        last = text[end - 1]
        if last in _BRACKETS and left[_BRACKETS[last]] >= left[last]:
            break
        left[last] -= 1
        end -= 1
    return text[:end]


def with_scripts_as_points(content: Content) -> Iterator[str | Mark]:
    """A text in which sub- and superscripts that are attached to a word are points.

    As text they would change it: 10<sup>6</sup> is not 106, and the number of a note no word.
    """
    attached, skipped = False, 0
    for number, item in enumerate(content, start=1):
        if number <= skipped:
            continue
        if isinstance(item, str):
            attached = not item[-1:].isspace() if item else attached
        elif item.script and attached:
            count, text = _length_of_script(content[number:])
            if count and not re.search(r"\s", text):
                skipped = number + count
                yield Mark("point", Scripts(content[number - 1 : skipped]))
                continue
        elif item.is_seen:
            attached = False
        yield item


def _length_of_script(items: Content) -> tuple[int, str]:
    """How many items belong to a script that has begun, and its text; 0 if it has no end."""
    depth, text = 1, ""
    for number, item in enumerate(items, start=1):
        if isinstance(item, str):
            text += item
            continue
        depth += {"open": 1, "close": -1}.get(item.kind, 0)
        if not depth:
            return number, text
    return 0, ""


class Block:
    """Running text with marks.

    Attributes:
        text: the text without marks, with single spaces.
        sentences: its sentences; those without a letter are left out.
        moved: after :meth:`translated`, whether markup inside a word could not stay there.
    """

    def __init__(self, content: Content, split: Splitter) -> None:
        self._text = ""  # with the kinds of its spaces
        self._marks: list[Placed] = []
        self._breaks: list[int] = []
        self.moved = False
        self._read(content)
        self.text = re.sub(r"\s", " ", self._text)
        self._spans = list(self._split(split))
        self.sentences = [self.text[slice(*span)] for span in self._spans if self._counts(span)]

    def _read(self, content: Content) -> None:
        seen: list[Mark] = []  # those that are seen, since the last text
        gap = ["", ""]  # white space since the last text: before and behind those
        white = ""  # since the last text or mark
        for item in with_scripts_as_points(content):
            if isinstance(item, str):
                words = item.strip()
                white += item[: len(item) - len(item.lstrip())]
                if not words:
                    continue
                self._put_behind(white)
                gap[bool(seen)] += white
                self._add(single_spaced(words), seen, gap)
                seen, gap, white = [], ["", ""], item[len(item.rstrip()) :]
                continue
            self._put_behind(white)
            gap[bool(seen)] += white
            self._marks.append(Placed(item, len(self._text), white))
            white = ""
            if item.is_seen:
                seen.append(item)
                gap[1] = ""
                if item.breaks:
                    self._breaks.append(len(self._text))
        self._put_behind(white)

    def _put_behind(self, white: str) -> None:
        """Let the last mark know the white space behind it, if no text has come since."""
        if self._marks and self._marks[-1].offset == len(self._text):
            self._marks[-1].after = white

    def _add(self, words: str, seen: Sequence[Mark], gap: Sequence[str]) -> None:
        """Go on with a text; ``gap``: the white space before and behind the marks ``seen``."""
        before, behind = gap
        if seen and not behind:
            # Without its point, "the <code>x</code>, then" is "the, then".
            wanted = bool(before and words[0].isalnum()) or any(one.breaks for one in seen)
            before = (before or " ") if wanted else ""
        if self._text:
            self._text += one_space(behind or before)
        self._text += words

    def _split(self, split: Splitter) -> Iterator[tuple[int, int]]:
        begin = 0
        for end in [*self._breaks, len(self.text)]:
            for sentence in split(self.text[begin:end]):
                found = self.text.index(sentence, begin)
                begin = found + len(sentence)
                yield found, begin
            begin = end

    def _counts(self, span: tuple[int, int]) -> bool:
        return any(letter.isalpha() for letter in self.text[slice(*span)])

    def translated(self, translations: Iterable[str], joint: str) -> list[str | Mark]:
        """The content with translated text.

        Args:
            translations: of ``sentences``.
            joint: what stands between two sentences of the translation.
        """
        following = iter(translations)
        pairs = [
            (span, next(following) if self._counts(span) else self.text[slice(*span)])
            for span in self._spans
        ]
        items, self.moved = place(self._text, self._marks, pairs, joint)
        written: list[str | Mark] = []
        for item in items:
            if isinstance(item, Mark) and isinstance(item.what, Scripts):
                written += item.what
            else:
                written.append(item)
        return written
