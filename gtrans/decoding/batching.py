"""Batches for decoding."""

from __future__ import annotations

from collections.abc import Sequence

# Even for a short source, every hypothesis costs the logits of a step.
_LEAST_ROW_TOKENS = 16


def make_batches(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Batches of row indices with at most ``max_tokens`` tokens each, padding included.

    A longer row is a batch of its own. The longest rows come first, so that rows of similar
    length are decoded together, and a batch that does not fit into memory is the first one.

    Args:
        lengths: tokens of each row.
        max_tokens: most tokens of a batch.
    """
    batches: list[list[int]] = []
    rows_left = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not rows_left:
            batches.append([])
            # The first row of a batch is its longest.
            rows_left = max(max_tokens // max(lengths[index], _LEAST_ROW_TOKENS), 1)
        batches[-1].append(index)
        rows_left -= 1
    return batches
