"""Cut a document into instances: the sentences that a document model reads at once.

Training and evaluation need the same instances, so the rule is defined once, here, without
torch. The caller chooses in what lengths are counted; in training it is BPE tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

# Each sentence has a begin and an end mark.
MARKS_PER_SENTENCE = 2


def split_instances(
    source_lengths: Sequence[int], target_lengths: Sequence[int], max_tokens: int
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

    Returns:
        Consecutive ranges of sentence numbers, which cover all sentences.

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
