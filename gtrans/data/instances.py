"""Cut a document into instances: the sentences that a document model reads at once.

Training and evaluation need the same instances, so the rule is defined once, here, without
torch. The caller chooses in what lengths are counted; in training it is BPE tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

# Each sentence has a begin and an end mark.
MARKS_PER_SENTENCE = 2


def split_instances(
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    max_tokens: int,
    first: int | None = None,
) -> list[range]:
    """Group the sentences of one document greedily, in order.

    A sentence costs ``max(source length, target length) + 2``, so that an instance fits on both
    sides with its sentence marks. The next sentence joins an instance if their costs sum up to
    at most ``max_tokens``. A sentence that costs more than that is an instance of its own; no
    sentence is ever cut. This is the input of "up to 512 tokens" of Bao et al. (2021),
    G-Transformer, cut as in the authors' program.

    Args:
        source_lengths: tokens per source sentence, without marks.
        target_lengths: tokens per target sentence, without marks.
        max_tokens: the limit, marks included.
        first: the limit of the first instance; None: ``max_tokens``.

    Returns:
        Consecutive ranges of sentence numbers, which cover all sentences.

    Raises:
        ValueError: the two sides have different numbers of sentences.
    """
    costs = _costs(source_lengths, target_lengths)
    instances: list[range] = []
    start = used = 0
    limit = max_tokens if first is None else first
    for index, cost in enumerate(costs):
        if index > start and used + cost > limit:
            instances.append(range(start, index))
            start, used, limit = index, 0, max_tokens
        used += cost
    if costs:
        instances.append(range(start, len(costs)))
    return instances


def split_overlapping(
    source_lengths: Sequence[int], target_lengths: Sequence[int], max_tokens: int, overlap: int
) -> list[tuple[int, range]]:
    """As :func:`split_instances`, but an instance begins with sentences of the one before.

    Args:
        source_lengths, target_lengths: as in :func:`split_instances`.
        max_tokens: the limit of all sentences of an instance together.
        overlap: how many sentences before its own an instance reads; fewer, of which the last
            are kept, where they would leave no room for a new one.

    Returns:
        For each instance the first sentence that it reads, and its own sentences, which cover
        the document.
    """
    costs = _costs(source_lengths, target_lengths)
    instances: list[tuple[int, range]] = []
    start = 0
    while start < len(costs):
        used, read = costs[start], start
        while start - read < overlap and read > 0 and used + costs[read - 1] <= max_tokens:
            read -= 1
            used += costs[read]
        stop = start + 1
        while stop < len(costs) and used + costs[stop] <= max_tokens:
            used += costs[stop]
            stop += 1
        instances.append((read, range(start, stop)))
        start = stop
    return instances


def _costs(source_lengths: Sequence[int], target_lengths: Sequence[int]) -> list[int]:
    return [
        max(source, target) + MARKS_PER_SENTENCE
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]
