"""Tokens of a text, and the places between them at which a sentence may end.

Tokens serve an edit distance, not a metric: words, numbers, single punctuation marks, and single
characters of scripts that put no spaces between words (Chinese, Japanese, Thai, Lao,
Khmer, Burmese). Case, width and the form of quotation marks, brackets and dashes do not count, but
whether a mark opens or closes does.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from itertools import pairwise
from math import log2

import numpy as np
from numpy.typing import NDArray

# Thai and Lao, Burmese, Khmer, kana, Chinese characters.
_WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_FINAL = frozenset(".!?…。！？．｡؟।॥۔።⁇⁈⁉‼")
_OPENING = frozenset("([{“")  # normal forms, as the next ones
_CLOSING = frozenset(")]}'”")
_INSIDE = frozenset(",，、;；(（-")
WRAPPED = 0.2
"""If more of its line ends stand inside of sentences, a text has lines of some width."""

_SAME = (
    dict.fromkeys("'‘’‚‛‹›`´", "'")
    | dict.fromkeys("（［｛【《〈〔", "(")
    | dict.fromkeys("）］｝】》〉〕", ")")
    | dict.fromkeys("-‐‑‒–—―−", "-")
    | dict.fromkeys("。｡…", ".")
    | dict.fromkeys("·•・", "·")
)

_ALTERNATING = frozenset('"＂')
_OPENS = frozenset("“„‟«「『〝")  # so they do in most languages
_CLOSED_BY = {"“": "”", "„": "“”", "‟": "”", "”": "”", "«": "»", "»": "«", "「": "」", "『": "』"}
_QUOTES = _ALTERNATING | _OPENS | frozenset("”»」』〞")


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
    return _normal_tokens(text, list(_pattern().finditer(text)))


def cased_tokens(text: str) -> list[str]:
    """The tokens of a text, in their normal form but for capitals."""
    matches = list(_pattern().finditer(text))
    return _cased(matches, _normal_tokens(text, matches))


def _cased(matches: Sequence[re.Match[str]], tokens: Sequence[str]) -> list[str]:
    cased = []
    for token, match in zip(tokens, matches, strict=True):
        has_capital = match[0][0].isupper()
        cased.append(token.capitalize() if has_capital else token)
    return cased


def _normal_tokens(text: str, matches: Sequence[re.Match[str]]) -> list[str]:
    """The normal forms of tokens; a quotation mark is one that opens, or one that closes."""
    tokens = []
    spaces = not _has_no_spaces(text)
    last = len(matches) - 1
    opened, alternating = "", False
    for place, token in enumerate(matches):
        mark = token.group()
        if mark not in _QUOTES:
            tokens.append(_normal(mark))
            continue
        before = place == 0 or matches[place - 1].end() < token.start()
        after = place == last or token.end() < matches[place + 1].start()
        if mark in _CLOSED_BY.get(opened, ""):
            opens = False
        elif spaces and before != after:
            opens = before
        else:
            opens = not alternating if mark in _ALTERNATING else mark in _OPENS
        if mark in _ALTERNATING:
            alternating = opens
        else:
            opened = mark if opens else ""
        tokens.append("“" if opens else "”")
    return tokens


def is_word(token: str) -> bool:
    """Whether a token is a word or a number, and no punctuation mark."""
    return token[0].isalnum()


def ends_a_sentence(tokens: list[str]) -> bool:
    """Whether a final punctuation mark ends the text, maybe before quotes and brackets."""
    for token in reversed(tokens):
        if token not in _CLOSING:
            return token in _FINAL
    return False


class TokenisedText:
    """A text of one document with its tokens.

    Attributes:
        tokens: their normal forms.
        cased: the same with capitals, (tokens,).
        edges: an :class:`Edge` for every place: before the first token, after each token,
            (tokens + 1).
    """

    def __init__(self, text: str) -> None:
        """Find the tokens of ``text``, whose line ends are hints for boundaries."""
        matches = list(_pattern().finditer(text))
        self._text = text
        self._found = matches
        self._raw = [token.group() for token in matches]
        self.tokens = _normal_tokens(text, matches)
        self.cased = _cased(matches, self.tokens)
        self.edges: NDArray[np.int8] = np.array(self._find_edges(), dtype=np.int8)

    def part(self, start: int, stop: int) -> str:
        """The text from the token ``start`` to the one before ``stop``, in one line."""
        if start == stop:
            return ""
        text = self._text[self._found[start].start() : self._found[stop - 1].end()]
        # Lines of a script without spaces are joined without one.
        around = rf"(?<=[{_WITHOUT_SPACES}。，！？、])\s*\n\s*(?=[{_WITHOUT_SPACES}])"
        return " ".join(re.sub(around, "", text).split())

    def _gap(self, place: int) -> str:
        return self._text[self._found[place - 1].end() : self._found[place].start()]

    def _line_ends(self) -> set[int]:
        """The places of line ends, unless lines end inside of sentences."""
        ends = {place for place in range(1, len(self._raw)) if "\n" in self._gap(place)}
        inside = set()
        for place in ends:
            if self._raw[place][0].islower() or self._raw[place - 1] in _INSIDE:
                inside.add(place)
        return set() if len(inside) > WRAPPED * len(ends) else ends - inside

    def _find_edges(self) -> list[Edge]:
        edges = [Edge.LINE_END]
        line_ends = self._line_ends()
        after_final = False  # only closing marks since a final punctuation mark
        for place in range(1, len(self._raw)):
            before, after = self._raw[place - 1], self._raw[place]
            gap = self._gap(place)
            closes = self.tokens[place] in _CLOSING or after in _FINAL
            if before in _FINAL:
                after_final = not self._abbreviates(place - 1)
            elif self.tokens[place - 1] not in _CLOSING:
                after_final = False
            if place in line_ends:
                edges.append(Edge.LINE_END)
            elif self._belongs_together(place):
                edges.append(Edge.NONE)
            elif after_final and (gap or not closes):
                edges.append(Edge.SENTENCE_END)
            elif not before[0].isalnum():
                edges.append(Edge.PUNCTUATION)
            else:
                edges.append(Edge.LOWER_CASE if after[0].islower() else Edge.SPACE)
        return [*edges, Edge.LINE_END] if self._raw else edges

    def _belongs_together(self, place: int) -> bool:
        """Whether no sentence ends between two tokens, such as behind an opening mark."""
        if self.tokens[place - 1] in _OPENING:
            return True
        if self.tokens[place] in _CLOSING - {"'"}:
            return True
        if self._gap(place):
            return False
        before = self._raw[place - 1]
        after = self._raw[place]
        return not _stands_alone(before) and not _stands_alone(after)

    def _abbreviates(self, place: int) -> bool:
        """Whether a full stop stands behind a single letter, which it abbreviates."""
        if place == 0 or self._raw[place] != "." or self._gap(place):
            return False
        letter = self._raw[place - 1]
        return len(letter) == 1 and letter.isalpha() and not _stands_alone(letter)


def _has_no_spaces(text: str) -> bool:
    """Whether most letters of a text are of scripts that have no spaces between words."""
    return 2 * len(re.findall(f"[{_WITHOUT_SPACES}]", text)) >= sum(map(str.isalpha, text))


def _stands_alone(raw: str) -> bool:
    """Whether a token needs no space beside it: of a script without spaces, or full-width."""
    return raw[0] > "\u2fff" or re.match(f"[{_WITHOUT_SPACES}]", raw) is not None


# --- how likely a sentence ends between two tokens -----------------------------------------------

ODDS, ODDS_LIMIT = 4, 4.0
"""Gain of a boundary for each doubling of its odds, on either side of it; at most so many."""
UNPUNCTUATED = 0.3
"""A sentence counts so much as one that ends before its final punctuation."""
PRIOR = 2
"""The odds after one token weigh as much as so many occurrences of the last two tokens."""
TOGETHER, TOGETHER_LIMIT = 3, 4.0
"""Cost of a boundary for each doubling of the odds that its two tokens follow each other; at most
so many (half as many the other way)."""
CAPITAL = 10
"""Gain of a boundary without a final mark, before a capital that only begins sentences."""

_Counts = dict[str | tuple[str, ...], float]


class Habits:
    """With what the sentences of a text begin and end, and what stands together in them.

    In a script without spaces, where tokens are characters, the latter tells the inside of words.

    Args:
        sentences: the tokens of each, with capitals.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        given = [tuple(tokens) for tokens in sentences if tokens]
        # How often each token and each pair occurs, begins sentences, and ends them.
        seen = Counter[str | tuple[str, ...]]()
        for tokens in given:
            seen.update(tokens)
            seen.update(pairwise(tokens))
        self._seen: _Counts = dict(seen)
        self._begins: _Counts = {}
        self._ends: _Counts = {}
        self._total = max(1, sum(len(tokens) for tokens in given))
        self._share = max(1, len(given)) / self._total
        for tokens in given:
            _count(self._begins, tokens, 1.0)
            _count(self._ends, tokens[::-1], 1.0)
            bare = len(tokens)
            while bare and not is_word(tokens[bare - 1]):
                bare -= 1
            if 0 < bare < len(tokens):
                _count(self._ends, tokens[:bare][::-1], UNPUNCTUATED)

    def gains(self, text: TokenisedText) -> NDArray[np.int64]:
        """The gain of a boundary at each place of a text, (tokens + 1); 0 at both ends."""
        tokens = tuple(text.cased)
        evidence = [0] * (len(tokens) + 1)
        for place in range(1, len(tokens)):
            left = tokens[max(0, place - 2) : place]
            right = tokens[place : place + 2]
            odds = self._odds(self._ends, left[::-1], left)
            odds += self._odds(self._begins, right, right)
            together = self._together(left[-1], right[0])
            gain = int(ODDS * odds - TOGETHER * together)
            is_unmarked = text.edges[place] >= Edge.PUNCTUATION
            if is_unmarked and self._only_begins(right[0]):
                gain += CAPITAL
            evidence[place] = gain
        return np.array(evidence)

    def _odds(self, edge: _Counts, tokens: tuple[str, ...], pair: tuple[str, ...]) -> float:
        """Doublings of the odds of a boundary beside tokens, the nearest first."""
        token = tokens[0]
        at_edge = edge.get(token, 0.0) + 2 * self._share
        share = at_edge / (self._seen.get(token, 0) + 2)
        at_edge = edge.get(tokens, 0.0) + PRIOR * share
        share = at_edge / (self._seen.get(pair, 0) + PRIOR)
        odds = log2(share / self._share)
        return max(-ODDS_LIMIT, min(ODDS_LIMIT, odds))

    def _together(self, left: str, right: str) -> float:
        """Doublings of the odds that two tokens follow each other (mutual information)."""
        both = self._seen.get(left, 0) * self._seen.get(right, 0)
        expected = both / self._total
        found = self._seen.get((left, right), 0)
        odds = log2((found + 0.5) / (expected + 0.5))
        return max(-TOGETHER_LIMIT / 2, min(TOGETHER_LIMIT, odds))

    def _only_begins(self, token: str) -> bool:
        """Whether inside of sentences a token with a capital more often has none."""
        if not token[0].isupper():
            return False
        inside = self._seen.get(token, 0) - self._begins.get(token, 0)
        without_capital = self._seen.get(token.casefold(), 0)
        return without_capital > inside


def _count(counts: _Counts, tokens: tuple[str, ...], weight: float) -> None:
    """Count the outermost token of a sentence, and the two outermost ones."""
    for key in (tokens[0], tokens[:2]):
        counts[key] = counts.get(key, 0.0) + weight
