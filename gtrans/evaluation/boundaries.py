"""Tokens of a text, and the places between them at which a sentence may end.

Tokens are those of an edit distance, not of a metric: words, numbers, single punctuation marks,
and single characters of scripts that put no spaces between words (Chinese, Japanese, Thai, Lao,
Khmer, Burmese). Case, width and the form of quotation marks and dashes do not count.
"""

from __future__ import annotations

import re
import unicodedata
from enum import IntEnum
from functools import cache

import numpy as np
from numpy.typing import NDArray

# Thai and Lao, Burmese, Khmer, kana, Chinese characters.
_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_FINAL = frozenset(".!?…。！？．｡؟।॥۔።⁇⁈⁉‼")
_CLOSING = frozenset(")]}\"'”’»›“」』）】》〉］｝＂")
_INSIDE = frozenset(",，、;；(（-")
_DIRECTIONLESS = frozenset('"“')  # may close a sentence, or open the next
WRAPPED = 0.2
"""If more of its line ends stand inside of sentences, a text has lines of some width."""

_SAME = (
    dict.fromkeys('"“”„‟«»「」『』〝〞＂', '"')
    | dict.fromkeys("'‘’‚‛‹›`´", "'")
    | dict.fromkeys("-‐‑‒–—―−", "-")
    | dict.fromkeys("。｡…", ".")
    | dict.fromkeys("·•・", "·")
)


class Edge(IntEnum):
    """What stands at a place between two tokens, from the best place for a boundary down."""

    LINE_END = 0
    SENTENCE_END = 1
    PUNCTUATION = 2
    SPACE = 3
    LOWER_CASE = 4
    """A space (or none, in a script without spaces), and a lower-case word after it."""
    NONE = 5
    """No space, in a script that has spaces."""


@cache
def _pattern() -> re.Pattern[str]:
    """The pattern of a token; letters of many scripts carry marks that are no ``\\w``."""
    marks = "".join(
        chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code))[0] == "M"
    )
    word = rf"(?:(?![{_WITHOUT_SPACES}])[\w{marks}])+"
    return re.compile(rf"[{_WITHOUT_SPACES}][{marks}]*|{word}|[^\w\s]")


@cache
def _normal(token: str) -> str:
    return _SAME.get(token) or unicodedata.normalize("NFKC", token).casefold()


def tokens_of(text: str) -> list[str]:
    """The tokens of a text, in their normal form."""
    return [_normal(found.group()) for found in _pattern().finditer(text)]


def is_word(token: str) -> bool:
    """Whether a token is a word or a number, and no punctuation mark."""
    return token[0].isalnum()


def ends_a_sentence(tokens: list[str]) -> bool:
    """Whether a final punctuation mark ends the text, maybe before quotes and brackets."""
    last = next((token for token in reversed(tokens) if token not in _CLOSING), "")
    return last in _FINAL


class Text:
    """A text of one document with its tokens.

    Attributes:
        tokens: their normal forms.
        edges: an :class:`Edge` for every place: before the first token, after each token,
            (tokens + 1).
    """

    def __init__(self, text: str) -> None:
        """Find the tokens of ``text``, whose line ends are hints for boundaries."""
        found = list(_pattern().finditer(text))
        self._text = text
        self._starts = [token.start() for token in found]
        self._ends = [token.end() for token in found]
        self._raw = [token.group() for token in found]
        self.tokens = [_normal(token) for token in self._raw]
        self.edges: NDArray[np.int8] = np.array(self._find_edges(), dtype=np.int8)

    def part(self, start: int, stop: int) -> str:
        """The text from the token ``start`` to the one before ``stop``, in one line."""
        if start == stop:
            return ""
        text = self._text[self._starts[start] : self._ends[stop - 1]]
        # Lines of a script without spaces are joined without one.
        around = rf"(?<=[{_WITHOUT_SPACES}。，！？、])\s*\n\s*(?=[{_WITHOUT_SPACES}])"
        return " ".join(re.sub(around, "", text).split())

    def _gap(self, place: int) -> str:
        return self._text[self._ends[place - 1] : self._starts[place]]

    def _line_ends(self) -> set[int]:
        """The places of line ends, unless lines end inside of sentences."""
        ends = [place for place in range(1, len(self._raw)) if "\n" in self._gap(place)]
        inside = {
            place
            for place in ends
            if self._raw[place][0].islower() or self._raw[place - 1] in _INSIDE
        }
        return set() if len(inside) > WRAPPED * len(ends) else set(ends) - inside

    def _find_edges(self) -> list[Edge]:
        edges = [Edge.LINE_END]
        line_ends = self._line_ends()
        after_final = False  # only closing marks since a final punctuation mark
        for place in range(1, len(self._raw)):
            before, after = self._raw[place - 1], self._raw[place]
            gap = self._gap(place)
            closes = after in _CLOSING or after in _FINAL
            if before in _FINAL:
                after_final = True
            elif before not in _CLOSING:
                after_final = False
            if place in line_ends:
                edges.append(Edge.LINE_END)
            elif not gap and not (_stands_alone(before) or _stands_alone(after)):
                edges.append(Edge.NONE)
            elif after_final and (gap or not closes or after in _DIRECTIONLESS):
                edges.append(Edge.SENTENCE_END)
            elif not before[0].isalnum():
                edges.append(Edge.PUNCTUATION)
            else:
                edges.append(Edge.LOWER_CASE if after[0].islower() else Edge.SPACE)
        return [*edges, Edge.LINE_END] if self._raw else edges


def _stands_alone(raw: str) -> bool:
    """Whether a token needs no space beside it: of a script without spaces, or full-width."""
    return raw[0] > "\u2fff" or re.match(f"[{_WITHOUT_SPACES}]", raw) is not None
