"""Where in a long translation each sentence of the reference is looked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WHOLE = 4_000
"""A document of up to so many tokens is searched as a whole."""
MARGIN = 600
"""Tokens on both sides of a sentence's place between two anchors."""
WIDEST = 12_000
"""Most tokens in which a sentence is looked for, where there are no anchors."""
_SEQUENCE = 3
_COMPANION = 60, 20  # an anchor has another one within so many tokens, that far from its diagonal

Anchor = tuple[int, int]


class Band(NamedTuple):
    """Places between tokens of the translation, both included."""

    first: int
    last: int


def bands(sentences: Sequence[Sequence[Sequence[str]]], tokens: Sequence[str]) -> list[Band]:
    """The band of each sentence of a reference.

    A long document is searched around anchors: sequences of three tokens that occur exactly
    once on both sides, in the same order (as in the alignment of ``diff --patience``).
    Between two anchors the whole stretch and a margin belong to the band.

    Args:
        sentences: for each sentence, its tokens in each of the references.
        tokens: the translation.

    Returns:
        as many bands; their ends ascend, neighbours share a place, the first one begins at 0
        and the last one ends at the number of tokens.
    """
    size = len(tokens)
    if size <= WHOLE:
        return [Band(0, size)] * len(sentences)
    first = [sentence[0] for sentence in sentences]
    anchors = list(_anchors([token for sentence in first for token in sentence], tokens))
    end = sum(map(len, first))
    anchors = [(0, 0), *anchors, (end, size)]
    places = [place for place, _ in anchors]
    found: list[Band] = []
    start = 0
    for sentence in first:
        stop = start + len(sentence)
        before = anchors[max(0, bisect_left(places, start + 1) - 1)]
        after = anchors[min(len(anchors) - 1, bisect_left(places, stop))]
        low, high = before[1] - MARGIN, after[1] + MARGIN
        if high - low > WIDEST:
            share = (start + stop - 2 * before[0]) / max(1, 2 * (after[0] - before[0]))
            middle = before[1] + int(share * (after[1] - before[1]))
            low, high = max(low, middle - WIDEST // 2), min(high, middle + WIDEST // 2)
        low, high = max(0, low), min(size, high)
        if found:  # ends ascend, and neighbours share a place
            low = max(min(low, found[-1].last), found[-1].first)
            high = max(high, found[-1].last)
        else:
            low = 0
        found.append(Band(low, high))
        start = stop
    found[-1] = Band(found[-1].first, size)
    return found


def _anchors(reference: Sequence[str], translation: Sequence[str]) -> Iterator[Anchor]:
    """Pairs of places with the same unique sequence, ascending on both sides."""
    ours, theirs = _unique(reference), _unique(translation)
    pairs = [(place, theirs[found]) for found, place in ours.items() if found in theirs]
    chain = _longest_ascending(pairs)
    reach, drift = _COMPANION
    for number, (one, other) in enumerate(chain):
        for near in (*chain[max(0, number - 1) : number], *chain[number + 1 : number + 2]):
            along, aside = abs(near[0] - one), abs((near[1] - near[0]) - (other - one))
            if along <= reach and aside <= drift:
                yield one, other
                break


def _unique(tokens: Sequence[str]) -> dict[tuple[str, ...], int]:
    """The place of every sequence that occurs once, in order."""
    places: dict[tuple[str, ...], int] = {}
    again = set()
    for place in range(len(tokens) - _SEQUENCE + 1):
        sequence = tuple(tokens[place : place + _SEQUENCE])
        if sequence in places:
            again.add(sequence)
        places[sequence] = place
    return {sequence: place for sequence, place in places.items() if sequence not in again}


def _longest_ascending(pairs: Sequence[Anchor]) -> list[Anchor]:
    """The longest part of pairs, ascending in the first number, that ascends in the second."""
    pairs = sorted(pairs)
    tails: list[int] = []  # last number of the best part of each length
    ends: list[int] = []  # its pair
    before: list[int] = []
    for number, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [value]
        ends[length : length + 1] = [number]
    chain = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]
