"""BLEU by position in the document and by sentence length.

The score of a bucket is the corpus BLEU of its sentences, from the statistics
that were counted for the whole corpus. Scores of small buckets are noisy, and BLEU depends on
length for every system; so compare systems within a bucket, not buckets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.scores import Measurement
from gtrans.evaluation.significance import Resampling

POSITIONS_PER_BUCKET = 10
SENTENCE_LENGTHS = (20, 40, 80)

BucketScores = dict[str, float | None]

# Intervals and tests of a metric, such as :func:`gtrans.evaluation.significance.resample`.
Compare = Callable[[Measurement], Resampling]


@dataclass(frozen=True)
class Bucket:
    """Scores of a part of the corpus.

    Attributes:
        first: the smallest value in it (position or length, counted from 1).
        last: the largest value; None if there is no upper bound.
        counts: its number of ``sentences``.
        scores: by key (a metric, or ``mean_of_positions``), then by system; None for every
            system if the bucket is empty.
        resampled: by key of a metric, the systems compared within the bucket, if that was asked
            for and it is not empty.
    """

    first: int
    last: int | None
    counts: dict[str, int]
    scores: dict[str, BucketScores]
    resampled: dict[str, Resampling] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its range as text."""
        return f"{self.first} and more" if self.last is None else f"{self.first} to {self.last}"


def by_position(
    s_bleu: Measurement,
    per_bucket: int = POSITIONS_PER_BUCKET,
    compare: Compare | None = None,
) -> list[Bucket]:
    """s-BLEU by the position of a sentence in its document, counted from 1.

    ``mean_of_positions`` is BLEU at each position, averaged over the positions of a bucket, as in
    Feng et al. (2022), recurrent memory, figure 3. ``s_bleu`` is the corpus BLEU of all
    sentences of the bucket, which is less noisy.

    Args:
        s_bleu: the scores of sentences.
        per_bucket: positions in a bucket.
        compare: tests the systems within each bucket; None: there is no test.
    """
    starts = np.searchsorted(s_bleu.documents, s_bleu.documents)
    positions = np.arange(len(s_bleu.documents)) - starts + 1
    buckets = []
    for first in range(1, int(positions.max()) + 1, per_bucket):
        last = first + per_bucket - 1
        inside = (first <= positions) & (positions <= last)
        present = np.unique(positions[inside])
        scores = _scores(s_bleu, inside)
        scores["mean_of_positions"] = {
            system: float(np.mean([s_bleu.score(system, positions == n) for n in present]))
            for system in s_bleu.statistics
        }
        counts = {"sentences": int(inside.sum())}
        buckets.append(Bucket(first, last, counts, scores, _compared(s_bleu, inside, compare)))
    return buckets


def by_sentence_length(
    s_bleu: Measurement,
    tokens: Sequence[int],
    bounds: Sequence[int] = SENTENCE_LENGTHS,
    compare: Compare | None = None,
) -> list[Bucket]:
    """s-BLEU by the length of the reference.

    Yang et al. (2022), layer fusion, figure 12, report long sentences separately.

    Args:
        s_bleu: the scores of sentences.
        tokens: number of tokens of each sentence of the (first) reference.
        bounds: largest length in each bucket except the last, ascending.
        compare: as for :func:`by_position`.
    """
    lengths = np.array(tokens)
    return [
        Bucket(
            first,
            last,
            {"sentences": int(inside.sum())},
            _scores(s_bleu, inside),
            _compared(s_bleu, inside, compare),
        )
        for first, last, inside in _intervals(lengths, bounds)
    ]


def _intervals(
    values: NDArray[Any], bounds: Sequence[int]
) -> list[tuple[int, int | None, NDArray[np.bool_]]]:
    """The first value, the last value and the members of each bucket."""
    edges = [0, *bounds]
    inside = [(low < values) & (values <= high) for low, high in zip(edges, bounds, strict=False)]
    inside.append(values > edges[-1])
    lasts: list[int | None] = [*bounds, None]
    return [(low + 1, last, which) for low, last, which in zip(edges, lasts, inside, strict=True)]


def _scores(measurement: Measurement, inside: NDArray[np.bool_]) -> dict[str, BucketScores]:
    some = bool(inside.any())
    return {
        measurement.key: {
            name: measurement.score(name, inside) if some else None
            for name in measurement.statistics
        }
    }


def _compared(
    measured: Measurement, inside: NDArray[np.bool_], compare: Compare | None
) -> dict[str, Resampling]:
    """The systems compared on some of the sentences."""
    if compare is None or not inside.any():
        return {}
    # Documents are counted anew: those that are not there have no say.
    _, documents = np.unique(measured.documents[inside], return_inverse=True)
    statistics = {name: values[inside] for name, values in measured.statistics.items()}
    part = replace(measured, statistics=statistics, documents=documents)
    return {measured.key: compare(part)}
