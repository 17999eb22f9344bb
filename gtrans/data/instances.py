"""Cut a document into instances: the unit that a document model reads at once.

Training data and evaluation need the same cuts, so the rule stands here, once,
without torch. Lengths are counts of whatever the caller counts in; in training
that is BPE tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

# Each sentence is wrapped in a begin and an end mark.
MARKS_PER_SENTENCE = 2


def split_instances(
    source_lengths: Sequence[int], target_lengths: Sequence[int], max_tokens: int
) -> list[range]:
    """Group the sentences of one document greedily, in order.

    A sentence costs ``max(source length, target length) + 2``, so that an instance
    with its sentence marks fits on both sides. An instance takes the next sentence
    as long as its costs sum up to at most ``max_tokens``. A sentence that costs more
    than that stands alone; no sentence is ever cut. This is the input of "up to
    512 tokens" of Bao et al. (2021), G-Transformer, cut as in the authors' program.

    Args:
        source_lengths: tokens per source sentence, without marks.
        target_lengths: tokens per target sentence, without marks.
        max_tokens: the limit, marks included.

    Returns:
        Ranges of sentence indices; joined, they are ``range(number of sentences)``.

    Raises:
        ValueError: the two sides have different numbers of sentences.
    """
    costs = [
        max(source, target) + MARKS_PER_SENTENCE
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]
    instances: list[range] = []
    start = used = 0
    for index, cost in enumerate(costs):
        if index > start and used + cost > max_tokens:
            instances.append(range(start, index))
            start, used = index, 0
        used += cost
    if costs:
        instances.append(range(start, len(costs)))
    return instances
