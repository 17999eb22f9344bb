"""How likely a sentence ends between two tokens, by the sentences of other text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import log2

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.boundaries import is_word

ODDS, ODDS_LIMIT = 4, 4.0
"""Gain of a boundary for each doubling of its odds, on either side of it; at most so many."""
UNPUNCTUATED = 0.3
"""A sentence counts so much as one that ends before its final punctuation."""
PRIOR = 2
"""The odds after one token weigh as much as so many occurrences of the last two tokens."""
TOGETHER, TOGETHER_LIMIT = 3, 4.0
"""Cost of a boundary for each doubling of the odds that its two tokens follow each other; at most
so many (half as many the other way)."""

Pair = tuple[str, ...]


class Habits:
    """With what the sentences of a text begin and end, and what stands together in them.

    In a script without spaces, where tokens are characters, the latter tells the inside of words.

    Args:
        sentences: the tokens of each.
    """

    def __init__(self, sentences: Sequence[Sequence[str]]) -> None:
        sentences = [tokens for tokens in sentences if tokens]
        self._counts = Counter(token for tokens in sentences for token in tokens)
        self._pairs: Counter[Pair] = Counter(pair for one in sentences for pair in pairwise(one))
        self._total = max(1, sum(self._counts.values()))
        self._share = max(1, len(sentences)) / self._total
        self._begins = _Edge((tokens[:2], 1.0) for tokens in sentences)
        ends = [(tokens[-2:][::-1], 1.0) for tokens in sentences]
        for tokens in sentences:
            bare = len(tokens)
            while bare and not is_word(tokens[bare - 1]):
                bare -= 1
            if 0 < bare < len(tokens):
                ends.append((tokens[:bare][-2:][::-1], UNPUNCTUATED))
        self._ends = _Edge(ends)

    def gains(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        """The gain of a boundary at each place of a text, (tokens + 1); 0 at both ends."""
        found = [0] * (len(tokens) + 1)
        for place in range(1, len(tokens)):
            left, right = tokens[max(0, place - 2) : place], tokens[place : place + 2]
            odds = self._odds(self._ends, left[::-1], tuple(left))
            odds += self._odds(self._begins, right, tuple(right))
            found[place] = int(ODDS * odds - TOGETHER * self._together(left[-1], right[0]))
        return np.array(found, dtype=np.int32)

    def _odds(self, edge: _Edge, tokens: Sequence[str], pair: Pair) -> float:
        """Doublings of the odds of a boundary beside tokens, the nearest first."""
        token = tokens[0]
        share = (edge.one.get(token, 0.0) + 2 * self._share) / (self._counts.get(token, 0) + 2)
        seen = self._pairs.get(pair, 0)
        share = (edge.two.get(tuple(tokens), 0.0) + PRIOR * share) / (seen + PRIOR)
        return max(-ODDS_LIMIT, min(ODDS_LIMIT, log2(share / self._share)))

    def _together(self, left: str, right: str) -> float:
        """Doublings of the odds that two tokens follow each other (mutual information)."""
        expected = self._counts.get(left, 0) * self._counts.get(right, 0) / self._total
        odds = log2((self._pairs.get((left, right), 0) + 0.5) / (expected + 0.5))
        return max(-TOGETHER_LIMIT / 2, min(TOGETHER_LIMIT, odds))


class _Edge:
    """What sentences have at one of their ends: weighted counts.

    Attributes:
        one: of the outermost token.
        two: of the two outermost tokens, the outermost first.
    """

    def __init__(self, sentences: Iterable[tuple[Sequence[str], float]]) -> None:
        self.one: dict[str, float] = {}
        self.two: dict[Pair, float] = {}
        for tokens, weight in sentences:
            self.one[tokens[0]] = self.one.get(tokens[0], 0.0) + weight
            pair = tuple(tokens)
            self.two[pair] = self.two.get(pair, 0.0) + weight
