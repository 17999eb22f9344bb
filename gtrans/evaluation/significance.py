"""Significance tests: is the difference between two systems more than chance?

Sentences of one document are not independent: a system that gets the topic of a document
right gets many of its sentences right. So whole documents are drawn or swapped. The resampling
is done by sacreBLEU's ``PairedTest``, which resamples its segments. For d-BLEU these are
documents. For a score over sentences or instances, the statistics of the segments of a document
are summed first; this does not change the corpus score.

Two p-values are given. That of sacreBLEU counts only trials *above* the observed difference.
So two equal translations get p = 1/(trials + 1), and so do any two systems on three documents,
which can be swapped in only eight combinations. In addition, its paired bootstrap compares both
tails with one, so it rejects twice as often as it should. Our p-value uses the same trials and
counts those *at least* as large as the observed difference, in both directions (for the
bootstrap, around its mean).

There is also the sign test of Collins et al. (2005), which Bao et al. (2021) use, and a test of
non-inferiority: is a system worse than the baseline by less than a margin? Its null hypothesis is
that it is worse by the margin or more. At the margin itself, the difference is the margin's loss
and chance, and chance may go either way in every unit. So first every unit is given back its share
of the margin, as many points as it has of the segments. Then units are swapped, and p is the share
of trials that are at least the observed difference plus the margin. With the margin 0 this is the
one-sided randomisation test; n units give no p below 1 in 2 to the n with any margin.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest
from scipy.stats import binomtest

from gtrans.errors import GtransError
from gtrans.evaluation.scores import Measurement, Statistics

Resample = Literal["document", "sentence", "none"]
Direction = Literal["better", "worse", "even"]
BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SIGNIFICANT = 0.05
# Smaller differences between scores are rounding errors.
_ROUNDING = 1e-9
_NO_TEXT = "the statistics of the texts are given, so no text is read here"


@dataclass(frozen=True)
class Confidence:
    """A 95% interval by bootstrap: the percentiles of the trials, so it stays within the scale.

    sacreBLEU prints ``mean`` plus or minus ``radius`` of the same trials, which may leave it.
    """

    interval: tuple[float, float]
    mean: float
    trials: int

    @property
    def radius(self) -> float:
        """Half of the interval's width."""
        return (self.interval[1] - self.interval[0]) / 2


@dataclass(frozen=True)
class PairedResult:
    """The result of one resampling test: our p-value and that of sacreBLEU."""

    p: float
    p_sacrebleu: float
    trials: int


@dataclass(frozen=True)
class NonInferiority:
    """Whether a system is worse than the baseline by less than a margin.

    Attributes:
        margin: in points of the score, at least 0.
        p: one-sided; a small one is evidence that the system loses less than the margin.
        trials: of the randomisation.
    """

    margin: float
    p: float
    trials: int


@dataclass(frozen=True)
class SignTest:
    """Number of segments whose exchange makes the baseline better, worse, or neither.

    The test asks how often, not how much, so it can point the other way than the scores.
    """

    better: int
    worse: int
    equal: int
    p: float

    @property
    def direction(self) -> Direction:
        """What the system does more often than the baseline; what a small ``p`` is evidence of."""
        if self.better == self.worse:
            return "even"
        return "better" if self.better > self.worse else "worse"


@dataclass(frozen=True)
class Comparison:
    """A system compared with the baseline.

    Attributes:
        difference: the system's score minus the baseline's.
        direction: whether the score is better or worse than the baseline's.
        interval: 95% interval of the bootstrap's differences; None without resampling.
        bootstrap: paired bootstrap; None without resampling.
        randomisation: paired approximate randomisation; None without resampling.
        sign_test: sign test over the segments of the metric.
        non_inferiority: test against a margin; None without one, or without resampling.
    """

    difference: float
    direction: Direction
    interval: tuple[float, float] | None
    bootstrap: PairedResult | None
    randomisation: PairedResult | None
    sign_test: SignTest
    non_inferiority: NonInferiority | None = None

    @property
    def sign_test_disagrees(self) -> bool:
        """Whether significantly more segments go the other way than the score."""
        opposite = {self.direction, self.sign_test.direction} == {"better", "worse"}
        return opposite and self.sign_test.p < SIGNIFICANT


@dataclass(frozen=True)
class Resampling:
    """Confidence intervals and comparisons of one metric.

    Attributes:
        unit: what was resampled: ``document``, or the unit of the metric's segments.
        units: number of these units.
        confidence: by system; empty if there are too few units.
        comparisons: by system, for all but the first one, which is the baseline.
    """

    unit: str
    units: int
    confidence: dict[str, Confidence]
    comparisons: dict[str, Comparison]


class _Trials(Metric):
    """A metric for ``PairedTest`` that takes statistics in place of hypotheses.

    It keeps the score of every trial, in order, because ``PairedTest`` returns only its p-value.
    The last column of the statistics does not belong to the metric: ``shares`` has its sums.
    """

    def __init__(self, measurement: Measurement) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._compute = measurement.compute
        self.num_refs = 1
        self.scores: list[float] = []
        self.shares: list[float] = []

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return hypotheses

    def _aggregate_and_compute(self, stats: Any) -> Any:
        return self._compute_score_from_stats(stats.sum(0))

    def _compute_score_from_stats(self, stats: Any) -> Any:
        *own, share = (float(column) for column in stats)
        value = self._compute(own)
        self.scores.append(value)
        self.shares.append(share)
        return _Value(value)

    # Abstract in sacreBLEU. They make statistics from text, and here the statistics are given.

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError(_NO_TEXT)

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError(_NO_TEXT)

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError(_NO_TEXT)


@dataclass(frozen=True)
class _Value:
    """The attributes of a sacreBLEU score that ``PairedTest`` uses."""

    score: float
    name: str = "score"


def seed() -> str:
    """The random seed of all resampling, as sacreBLEU reads it from the environment.

    Raises:
        GtransError: it is neither a number nor ``none``.
    """
    found = os.environ.get("SACREBLEU_SEED", "12345").lower()
    if found != "none" and not (found.isdecimal() and found.isascii()):
        raise GtransError(f"`SACREBLEU_SEED` must be a number or none, but is '{found}'.")
    return found


def resample(
    measurement: Measurement,
    unit: Resample = "document",
    *,
    bootstrap_trials: int = BOOTSTRAP_TRIALS,
    randomisation_trials: int = RANDOMISATION_TRIALS,
    margin: float | None = None,
) -> Resampling:
    """Confidence intervals of all systems, and comparisons of each system with the first.

    Args:
        measurement: one metric on all systems.
        unit: the unit to resample. ``sentence`` means the segments of the metric, as in
            ``sacrebleu --paired-bs``; ``none`` computes the sign test only.
        bootstrap_trials: number of resampled corpora of the bootstrap.
        randomisation_trials: number of trials of approximate randomisation.
        margin: of the test of non-inferiority, in points of the score; None: no such test.

    Returns:
        the results; a single unit cannot be resampled, so there are then no confidence
        intervals, no bootstrap and no randomisation.
    """
    grouped = unit == "document" and measurement.unit != "document"
    statistics = {
        name: _sum_by_document(values, measurement.documents) if grouped else values
        for name, values in measurement.statistics.items()
    }
    baseline, *others = statistics
    units = len(statistics[baseline])
    segments = np.bincount(measurement.documents) if grouped else np.ones(units)
    confidence: dict[str, Confidence] = {}
    paired: dict[str, _Paired] = {}
    if unit != "none" and units > 1:
        confidence, paired = _paired_tests(
            measurement,
            statistics,
            segments / segments.sum(),
            bootstrap_trials,
            randomisation_trials,
            margin,
        )
    comparisons = {}
    for name in others:
        tests = paired.get(name)
        difference = measurement.score(name) - measurement.score(baseline)
        direction: Direction = "even"
        if abs(difference) > _ROUNDING:
            direction = "better" if (difference > 0) == measurement.higher_is_better else "worse"
        comparisons[name] = Comparison(
            difference=difference,
            direction=direction,
            interval=tests.interval if tests else None,
            bootstrap=tests.bootstrap if tests else None,
            randomisation=tests.randomisation if tests else None,
            sign_test=sign_test(measurement, baseline, name),
            non_inferiority=tests.non_inferiority if tests else None,
        )
    return Resampling("document" if grouped else measurement.unit, units, confidence, comparisons)


def _sum_by_document(statistics: Statistics, documents: NDArray[np.int64]) -> Statistics:
    sums = np.zeros((documents[-1] + 1, statistics.shape[1]))
    np.add.at(sums, documents, statistics)
    return sums


@dataclass(frozen=True)
class _Paired:
    """What resampling says of a system and the baseline; as in :class:`Comparison`."""

    interval: tuple[float, float]
    bootstrap: PairedResult
    randomisation: PairedResult
    non_inferiority: NonInferiority | None


def _paired_tests(
    measurement: Measurement,
    statistics: dict[str, Statistics],
    share: NDArray[Any],
    bootstrap_trials: int,
    swap_trials: int,
    margin: float | None,
) -> tuple[dict[str, Confidence], dict[str, _Paired]]:
    """Both tests of ``PairedTest``, with our p-values and its own; ``share``: of each unit."""
    baseline, *others = statistics
    # What a side of a trial has of the system, from 0 to 1.
    statistics = {
        name: np.column_stack([values, share * (name != baseline)])
        for name, values in statistics.items()
    }
    drawn, _, drawn_results = _paired_test("bs", measurement, statistics, bootstrap_trials)
    confidence = {baseline: _confidence(drawn[1 : 1 + bootstrap_trials])}
    if not others:
        return confidence, {}
    swapped, shares, swapped_results = _paired_test("ar", measurement, statistics, swap_trials)
    # Each test first computes the score of the baseline (the bootstrap also its trials). Then it
    # computes, for every other system, its score, the trials of one side and those of the other.
    drawn_scores, swapped_scores, shares = drawn[1 + bootstrap_trials :], swapped[1:], shares[1:]
    paired = {}
    for name in others:
        observed = measurement.score(name) - measurement.score(baseline)
        of_baseline, of_system, drawn_scores = _take(drawn_scores, bootstrap_trials)
        confidence[name] = _confidence(of_system)
        differences = of_system - of_baseline
        low, high = np.percentile(differences, [2.5, 97.5])
        bootstrap = PairedResult(
            p_value(differences - differences.mean(), observed),
            float(drawn_results[name].p_value),
            bootstrap_trials,
        )
        one, other, swapped_scores = _take(swapped_scores, swap_trials)
        of_one, of_other, shares = _take(shares, swap_trials)
        randomisation = PairedResult(
            p_value(one - other, observed),
            float(swapped_results[name].p_value),
            swap_trials,
        )
        not_worse = None
        if margin is not None:
            sign = 1 if measurement.higher_is_better else -1
            given_back = margin * (of_one - of_other)
            p = _p_above(sign * (one - other) + given_back, sign * observed + margin)
            not_worse = NonInferiority(margin, p, swap_trials)
        paired[name] = _Paired((float(low), float(high)), bootstrap, randomisation, not_worse)
    return confidence, paired


def _confidence(trials: NDArray[Any]) -> Confidence:
    """The interval between the trials that sacreBLEU takes, too."""
    outside = len(trials) // 40
    ordered = np.sort(trials)
    ends = float(ordered[outside]), float(ordered[len(trials) - outside - 1])
    return Confidence(ends, float(ordered.mean()), len(trials))


def _paired_test(
    kind: str, measurement: Measurement, statistics: dict[str, Statistics], trials: int
) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    """All scores that sacreBLEU's test computes, in order, their shares, and its results."""
    metric = _Trials(measurement)
    systems: Any = list(statistics.items())
    _, results = PairedTest(systems, {"": metric}, None, test_type=kind, n_samples=trials)()
    by_system = dict(zip(statistics, results["score"], strict=True))
    return np.array(metric.scores), np.array(metric.shares), by_system


def _take(scores: NDArray[Any], trials: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The trials of both sides, which follow the score of a system, and the remaining scores."""
    return scores[1 : 1 + trials], scores[1 + trials : 1 + 2 * trials], scores[1 + 2 * trials :]


def p_value(trials: NDArray[Any], observed: float) -> float:
    """Share of trials at least as far from zero as the observed value, which counts as one."""
    return _p_above(np.abs(trials), abs(observed))


def _p_above(trials: NDArray[Any], observed: float) -> float:
    """Share of trials that are at least the observed value, which counts as one."""
    extreme = np.count_nonzero(trials >= observed - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))


def sign_test(measurement: Measurement, baseline: str, system: str) -> SignTest:
    """The sign test of Collins et al. (2005), two-sided.

    A corpus score has no values for single segments. So one segment of the baseline at a time
    is exchanged for that of the system, and the corpus score goes up, down or neither. Under
    the null hypothesis up and down are equally probable; segments without effect do not count.
    """
    old, new = measurement.statistics[baseline], measurement.statistics[system]
    total = old.sum(0)
    before = measurement.compute(total.tolist())
    better = worse = 0
    for change in new - old:
        if not change.any():
            continue
        effect = measurement.compute((total + change).tolist()) - before
        if abs(effect) > _ROUNDING:
            if (effect > 0) == measurement.higher_is_better:
                better += 1
            else:
                worse += 1
    decided = better + worse
    p = float(binomtest(better, decided).pvalue) if decided else 1.0
    return SignTest(better, worse, len(old) - decided, p)
