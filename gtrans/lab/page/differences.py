"""Where a translation differs from another text, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import chain

import regex

# Words of these scripts stand without spaces between them: their characters are compared.
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_TOKEN = regex.compile(rf"{_UNSPACED}\p{{M}}*|(?:(?!{_UNSPACED})[\p{{L}}\p{{M}}\p{{N}}_'’-])+|\S")


def differences(text: str, other: str) -> list[int]:
    """The parts of ``text`` that are different in ``other``, by difflib.

    Returns:
        four numbers for each part, one after the other: its begin and end in ``text``, and begin
        and end of what stands in its place in ``other``, in characters. Either may be empty.
    """
    if text == other:
        return []
    words, others = _tokens(text), _tokens(other)
    matcher = SequenceMatcher(
        None, [word for word, *_ in words], [word for word, *_ in others], autojunk=False
    )
    return list(
        chain.from_iterable(
            (*_span(words, i, j, len(text)), *_span(others, k, m, len(other)))
            for tag, i, j, k, m in matcher.get_opcodes()
            if tag != "equal"
        )
    )


def _tokens(text: str) -> list[tuple[str, int, int]]:
    return [(found[0], found.start(), found.end()) for found in _TOKEN.finditer(text)]


def _span(words: Sequence[tuple[str, int, int]], begin: int, end: int, length: int) -> list[int]:
    """The characters of words ``begin`` to ``end``."""
    if begin == end:
        place = words[begin][1] if begin < len(words) else length
        return [place, place]
    return [words[begin][1], words[end - 1][2]]
