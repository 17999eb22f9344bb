"""Batches for decoding."""

from __future__ import annotations

from collections.abc import Sequence

# A short row costs the work of a step, too.
LEAST_ROW_TOKENS = 16
# Logits of a step: 250 rows, a beam of 5 and 30,000 symbols; 150 MB in single precision.
MOST_LOGITS = 250 * 5 * 30_000


def rows_at_once(beam: int, vocabulary: int) -> int:
    """The most rows of which a step of beam search computes no more than ``MOST_LOGITS``; >= 1."""
    return max(MOST_LOGITS // (beam * vocabulary), 1)


def make_batches(
    lengths: Sequence[int], max_tokens: int, max_rows: int | None = None
) -> list[list[int]]:
    """Batches of row indices with at most ``max_tokens`` tokens each, padding included.

    A longer row is a batch of its own. The longest rows come first, so that rows of similar
    length are decoded together. So the first batch has the longest rows, whose keys need the most
    memory; later batches have more rows, whose logits may need more (:func:`rows_at_once`).

    Args:
        lengths: tokens of each row.
        max_tokens: most tokens of a batch.
        max_rows: most rows of a batch; None: no limit but that of the tokens.
    """
    batches: list[list[int]] = []
    rows_left = 0
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if not rows_left:
            batches.append([])
            # The first row of a batch is its longest.
            rows_left = max(max_tokens // max(lengths[index], LEAST_ROW_TOKENS), 1)
            if max_rows is not None:
                rows_left = min(rows_left, max_rows)
        batches[-1].append(index)
        rows_left -= 1
    return batches
