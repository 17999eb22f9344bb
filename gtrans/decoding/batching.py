"""Batches for decoding."""

from __future__ import annotations

from collections.abc import Sequence

# A hypothesis costs a row of logits however short its source is.
_LEAST_ROW_TOKENS = 16


def make_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Indices of rows, the longest first, so many at once as fit into ``max_tokens``.

    Rows of similar length are decoded together, and what does not fit into memory shows
    at once.
    """
    batches: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not room:
            batches.append([])
            # the first of a batch is its longest
            room = max(max_tokens // max(lengths[index], _LEAST_ROW_TOKENS), 1)
        batches[-1].append(index)
        room -= 1
    return batches
