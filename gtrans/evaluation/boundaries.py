"""Tokens of a text, and the places between them at which a sentence may end.

Characters of scripts without spaces are tokens. Case, width and the forms of quotation marks,
brackets and dashes are normalised; a quotation mark keeps its direction.
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
"""A text with a larger share of line ends inside sentences is wrapped at some width."""

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
    """A place between two tokens; lower values are better places for a boundary."""

    LINE_END = 0
    SENTENCE_END = 1
    PUNCTUATION = 2
    SPACE = 3
    LOWER_CASE = 4  # before a lower-case word
    NONE = 5  # no space, in a script that has spaces


@cache
def _pattern() -> re.Pattern[str]:
    # Letters of many scripts have combining marks, which ``\w`` lacks.
    characters = map(chr, range(0x300, 0x10000))
    marks = "".join(filter(_is_combining, characters))
    word = rf"(?:(?![{_WITHOUT_SPACES}])[\w{marks}])+"
    return re.compile(rf"[{_WITHOUT_SPACES}][{marks}]*|{word}|[^\w\s]")


def _is_combining(character: str) -> bool:
    return unicodedata.category(character).startswith("M")


@cache
def _normal(token: str) -> str:
    return _SAME.get(token) or unicodedata.normalize("NFKC", token).casefold()


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text in their normal form."""
    return _normal_tokens(text, _matches(text))


def cased_tokens(text: str) -> list[str]:
    """Return :func:`tokens_of` with capitals."""
    matches = _matches(text)
    return _cased(matches, _normal_tokens(text, matches))


def _matches(text: str) -> list[re.Match[str]]:
    return list(_pattern().finditer(text))


def _cased(matches: Sequence[re.Match[str]], tokens: Sequence[str]) -> list[str]:
    cased = []
    for token, match in zip(tokens, matches, strict=True):
        has_capital = match[0][0].isupper()
        cased.append(token.capitalize() if has_capital else token)
    return cased


def _normal_tokens(text: str, matches: Sequence[re.Match[str]]) -> list[str]:
    """Return normal forms; quotation marks become “ or ”."""
    tokens = []
    has_spaces = not _has_no_spaces(text)
    opened = ""  # the last opening mark with two forms
    alternating = False  # whether the last mark with a single form opened
    for place, match in enumerate(matches):
        token = match.group()
        if token not in _QUOTES:
            tokens.append(_normal(token))
            continue
        space_before = place == 0 or _is_spaced(matches[place - 1], match)
        space_after = place + 1 == len(matches) or _is_spaced(match, matches[place + 1])
        if token in _CLOSED_BY.get(opened, ""):
            opens = False
        elif has_spaces and space_before != space_after:
            opens = space_before
        elif token in _ALTERNATING:
            opens = not alternating
        else:
            opens = token in _OPENS
        if token in _ALTERNATING:
            alternating = opens
        else:
            opened = token if opens else ""
        tokens.append("“" if opens else "”")
    return tokens


def _is_spaced(match: re.Match[str], following: re.Match[str]) -> bool:
    return match.end() < following.start()


def is_word(token: str) -> bool:
    """Return whether a token is a word or a number."""
    return token[0].isalnum()


def ends_a_sentence(tokens: list[str]) -> bool:
    """Return whether a final punctuation mark ends the text, quotes and brackets aside."""
    for token in reversed(tokens):
        if token not in _CLOSING:
            return token in _FINAL
    return False


class TokenisedText:
    """A document with its tokens.

    Attributes:
        tokens: normal forms.
        cased: the same with capitals.
        edges: the :class:`Edge` before each token and at the end, (tokens + 1).
    """

    def __init__(self, text: str) -> None:
        matches = _matches(text)
        self._text = text
        self._matches = matches
        self._raw = [match.group() for match in matches]
        self.tokens = _normal_tokens(text, matches)
        self.cased = _cased(matches, self.tokens)
        self.edges: NDArray[np.int8] = np.array(self._find_edges(), dtype=np.int8)

    def part(self, start: int, stop: int) -> str:
        """Return the text of tokens ``start`` to ``stop - 1`` in one line."""
        if start == stop:
            return ""
        begin = self._matches[start].start()
        end = self._matches[stop - 1].end()
        text = self._text[begin:end]
        # Lines of a script without spaces are joined without a space.
        before = rf"(?<=[{_WITHOUT_SPACES}。，！？、])"
        behind = rf"(?=[{_WITHOUT_SPACES}])"
        text = re.sub(rf"{before}\s*\n\s*{behind}", "", text)
        return " ".join(text.split())

    def _gap(self, place: int) -> str:
        begin = self._matches[place - 1].end()
        end = self._matches[place].start()
        return self._text[begin:end]

    def _line_ends(self) -> set[int]:
        """Return the places of line ends between sentences; none in wrapped text."""
        between = set()
        inside = set()
        for place in range(1, len(self._raw)):
            if "\n" not in self._gap(place):
                continue
            before = self._raw[place - 1]
            after = self._raw[place]
            if after[0].islower() or before in _INSIDE:
                inside.add(place)
            else:
                between.add(place)
        count = len(inside) + len(between)
        is_wrapped = len(inside) > WRAPPED * count
        return set() if is_wrapped else between

    def _find_edges(self) -> list[Edge]:
        edges = [Edge.LINE_END]
        line_ends = self._line_ends()
        after_final = False  # only closing marks since a final punctuation mark
        for place in range(1, len(self._raw)):
            if self._raw[place - 1] in _FINAL:
                after_final = not self._abbreviates(place - 1)
            elif self.tokens[place - 1] not in _CLOSING:
                after_final = False
            if place in line_ends:
                edges.append(Edge.LINE_END)
            else:
                edges.append(self._edge_in_line(place, after_final))
        if self._raw:
            edges.append(Edge.LINE_END)
        return edges

    def _edge_in_line(self, place: int, after_final: bool) -> Edge:
        before = self._raw[place - 1]
        after = self._raw[place]
        if self._belongs_together(place):
            return Edge.NONE
        closes = self.tokens[place] in _CLOSING or after in _FINAL
        if after_final and (self._gap(place) or not closes):
            return Edge.SENTENCE_END
        if not before[0].isalnum():
            return Edge.PUNCTUATION
        if after[0].islower():
            return Edge.LOWER_CASE
        return Edge.SPACE

    def _belongs_together(self, place: int) -> bool:
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
        """Return whether a full stop at this place follows a single letter."""
        if place == 0 or self._raw[place] != "." or self._gap(place):
            return False
        before = self._raw[place - 1]
        is_letter = len(before) == 1 and before.isalpha()
        return is_letter and not _stands_alone(before)


def _has_no_spaces(text: str) -> bool:
    count = len(re.findall(f"[{_WITHOUT_SPACES}]", text))
    letters = sum(map(str.isalpha, text))
    return 2 * count >= letters


def _stands_alone(raw: str) -> bool:
    is_full_width = raw[0] > "\u2fff"
    return is_full_width or re.match(f"[{_WITHOUT_SPACES}]", raw) is not None


# --- how likely a sentence ends between two tokens -----------------------------------------------

ODDS_GAIN = 4
"""Gain of a boundary for each doubling of its odds on either side."""
ODDS_LIMIT = 4.0  # doublings
UNPUNCTUATED = 0.3
"""Count of a sentence as one that ends before its final punctuation."""
PRIOR = 2
"""The odds beside one token count as this many occurrences of two tokens."""
TOGETHER_COST = 3
"""Cost of a boundary for each doubling of the odds that its two tokens follow each other."""
TOGETHER_LIMIT = 4.0  # doublings; half as many down
CAPITAL = 10
"""Gain of a boundary without a final mark, before a capital that only begins sentences."""

_Counts = dict[str | tuple[str, ...], float]


class Habits:
    """Counts of :func:`cased_tokens` at both ends of sentences, and of pairs inside them.

    Pairs mark the inside of words where characters are tokens.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        counts = Counter[str | tuple[str, ...]]()  # of tokens and pairs
        self._begins: _Counts = {}
        self._ends: _Counts = {}
        total = 0
        sentence_count = 0
        for sentence in sentences:
            if not sentence:
                continue
            tokens = tuple(sentence)
            total += len(tokens)
            sentence_count += 1
            counts.update(tokens)
            counts.update(pairwise(tokens))
            _count(self._begins, tokens, 1.0)
            _count(self._ends, tokens[::-1], 1.0)
            stop = len(tokens)
            while stop and not is_word(tokens[stop - 1]):
                stop -= 1
            if 0 < stop < len(tokens):
                unpunctuated = tokens[:stop]
                _count(self._ends, unpunctuated[::-1], UNPUNCTUATED)
        self._counts: _Counts = dict(counts)
        self._total = max(1, total)
        self._share = max(1, sentence_count) / self._total

    def gains(self, text: TokenisedText) -> NDArray[np.int64]:
        """Return the gain of a boundary at each place of a text, (tokens + 1); 0 at both ends."""
        tokens = tuple(text.cased)
        gains = [0] * (len(tokens) + 1)
        for place in range(1, len(tokens)):
            left = tokens[max(0, place - 2) : place]
            right = tokens[place : place + 2]
            odds = self._odds(self._ends, left[::-1], left)
            odds += self._odds(self._begins, right, right)
            together = self._together(left[-1], right[0])
            gain = int(ODDS_GAIN * odds - TOGETHER_COST * together)
            is_unmarked = text.edges[place] >= Edge.PUNCTUATION
            if is_unmarked and self._only_begins(right[0]):
                gain += CAPITAL
            gains[place] = gain
        return np.array(gains)

    def _odds(self, at_edge: _Counts, tokens: tuple[str, ...], pair: tuple[str, ...]) -> float:
        """Return log2 of how much likelier a sentence ends (or begins) here than anywhere.

        Args:
            at_edge: counts at this end of sentences.
            tokens: one or two beside the boundary, the nearest first.
            pair: the same in the order of the text.
        """
        nearest = tokens[0]
        count_at_edge = at_edge.get(nearest, 0.0) + 2 * self._share
        count = self._counts.get(nearest, 0) + 2
        share = count_at_edge / count
        count_at_edge = at_edge.get(tokens, 0.0) + PRIOR * share
        count = self._counts.get(pair, 0) + PRIOR
        share = count_at_edge / count
        odds = log2(share / self._share)
        return max(-ODDS_LIMIT, min(ODDS_LIMIT, odds))

    def _together(self, left: str, right: str) -> float:
        product = self._counts.get(left, 0) * self._counts.get(right, 0)
        expected = product / self._total
        observed = self._counts.get((left, right), 0)
        odds = log2((observed + 0.5) / (expected + 0.5))
        return max(-TOGETHER_LIMIT / 2, min(TOGETHER_LIMIT, odds))

    def _only_begins(self, token: str) -> bool:
        """Return whether a word mostly has no capital inside sentences."""
        if not token[0].isupper():
            return False
        inside = self._counts.get(token, 0) - self._begins.get(token, 0)
        lower_case = self._counts.get(token.casefold(), 0)
        return lower_case > inside


def _count(counts: _Counts, tokens: tuple[str, ...], weight: float) -> None:
    for key in (tokens[0], tokens[:2]):
        counts[key] = counts.get(key, 0.0) + weight
