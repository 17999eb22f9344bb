"""Significance tests: is the difference between two systems more than chance?

Sentences of one document are not independent: a system that gets the topic of a document
right gets many of its sentences right. So whole documents are drawn or swapped; the statistics of
the segments of a document are summed first, which does not change the corpus score. Random
numbers are those of sacreBLEU's ``PairedTest`` with the same seed.

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
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Measurement, Statistics

Resample = Literal["document", "sentence", "none"]
Direction = Literal["better", "worse", "even"]
BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SIGNIFICANT = 0.05
_ROUNDING = 1e-9  # smaller differences between scores are rounding errors
_AT_ONCE = 20_000_000  # units of trials in memory


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
    sign_test: SignTest
    interval: tuple[float, float] | None = None
    bootstrap: PairedResult | None = None
    randomisation: PairedResult | None = None
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


def seed() -> int | None:
    """The random seed of all resampling, that of sacreBLEU; None: another one in every call.

    Raises:
        GtransError: ``SACREBLEU_SEED`` is neither a number nor ``none``.
    """
    found = os.environ.get("SACREBLEU_SEED", "12345").lower()
    if found != "none" and not (found.isdecimal() and found.isascii()):
        raise GtransError(f"`SACREBLEU_SEED` must be a number or none, but is '{found}'.")
    return None if found == "none" else int(found)


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
        name: sum_by(measurement.documents, values) if grouped else values
        for name, values in measurement.statistics.items()
    }
    baseline, *others = statistics
    units = len(statistics[baseline])
    sizes = np.bincount(measurement.documents) if grouped else np.ones(units)
    drawn: dict[str, NDArray[Any]] = {}
    if unit != "none" and units > 1:
        times = _drawn(units, bootstrap_trials)
        drawn = {name: measurement.compute(times @ it) for name, it in statistics.items()}
    comparisons = {}
    for name in others:
        difference = measurement.score(name) - measurement.score(baseline)
        direction: Direction = "even"
        if abs(difference) > _ROUNDING:
            direction = "better" if (difference > 0) == measurement.higher_is_better else "worse"
        comparison = Comparison(difference, direction, sign_test(measurement, baseline, name))
        if drawn:
            changes = drawn[name] - drawn[baseline]
            low, high = np.percentile(changes, [2.5, 97.5])
            swapped, shares = _swapped(
                measurement, statistics[baseline], statistics[name], sizes, randomisation_trials
            )
            comparison = replace(
                comparison,
                interval=(float(low), float(high)),
                bootstrap=PairedResult(
                    p_value(changes - changes.mean(), difference),
                    _p_of_sacrebleu(np.abs(changes) - np.abs(changes).mean(), difference),
                    bootstrap_trials,
                ),
                randomisation=PairedResult(
                    p_value(swapped, difference),
                    _p_of_sacrebleu(np.abs(swapped), difference),
                    randomisation_trials,
                ),
            )
            if margin is not None:
                sign = 1 if measurement.higher_is_better else -1
                p = _p_above(sign * swapped + margin * shares, sign * difference + margin)
                not_worse = NonInferiority(margin, p, randomisation_trials)
                comparison = replace(comparison, non_inferiority=not_worse)
        comparisons[name] = comparison
    confidence = {name: _confidence(scores) for name, scores in drawn.items()}
    return Resampling("document" if grouped else measurement.unit, units, confidence, comparisons)


def sum_by(groups: NDArray[np.int64], values: Statistics) -> Statistics:
    """The sums of rows by the number of their group, ``(groups, columns)``."""
    sums = np.zeros((int(groups.max()) + 1, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums


def _drawn(units: int, trials: int) -> Statistics:
    """How often each unit is in each corpus of the bootstrap, ``(trials, units)``."""
    places = np.random.default_rng(seed()).choice(units, (trials, units))
    times = np.zeros((trials, units))
    np.add.at(times, (np.arange(trials)[:, None], places), 1)
    return times


def _swapped(
    measurement: Measurement, one: Statistics, other: Statistics, sizes: NDArray[Any], trials: int
) -> tuple[Statistics, Statistics]:
    """Approximate randomisation: units swapped between two systems at random.

    Returns:
        for each trial the difference of the scores of its two sides, and the share of all units
        that the other system has on the first side, less that on the second one.
    """
    chosen = np.random.default_rng(seed()).integers(2, size=(trials, len(one)), dtype=bool)
    rows = np.column_stack([other - one, 2 * sizes / sizes.sum()])
    parts = np.array_split(chosen, 1 + chosen.size // _AT_ONCE)
    change = np.concatenate([part @ rows for part in parts])
    first, second = other.sum(0) - change[:, :-1], one.sum(0) + change[:, :-1]
    return measurement.compute(first) - measurement.compute(second), 1 - change[:, -1]


def _confidence(trials: NDArray[Any]) -> Confidence:
    """The interval between the trials that sacreBLEU takes, too."""
    outside = len(trials) // 40
    ordered = np.sort(trials)
    ends = float(ordered[outside]), float(ordered[len(trials) - outside - 1])
    return Confidence(ends, float(ordered.mean()), len(trials))


def p_value(trials: NDArray[Any], observed: float) -> float:
    """Share of trials at least as far from zero as the observed value, which counts as one."""
    return _p_above(np.abs(trials), abs(observed))


def _p_above(trials: NDArray[Any], observed: float) -> float:
    """Share of trials that are at least the observed value, which counts as one."""
    extreme = np.count_nonzero(trials >= observed - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))


def _p_of_sacrebleu(trials: NDArray[Any], observed: float) -> float:
    return float((np.count_nonzero(trials > abs(observed)) + 1) / (len(trials) + 1))


def sign_test(measurement: Measurement, baseline: str, system: str) -> SignTest:
    """The sign test of Collins et al. (2005), two-sided.

    A corpus score has no values for single segments. So one segment of the baseline at a time
    is exchanged for that of the system, and the corpus score goes up, down or neither. Under
    the null hypothesis up and down are equally probable; segments without effect do not count.
    """
    old, new = measurement.statistics[baseline], measurement.statistics[system]
    total = old.sum(0)
    changes = (new - old)[(new != old).any(1)]
    effects = measurement.compute(total + changes) - measurement.compute(total)
    if not measurement.higher_is_better:
        effects = -effects
    better, worse = int((effects > _ROUNDING).sum()), int((effects < -_ROUNDING).sum())
    decided = better + worse
    p = float(binomtest(better, decided).pvalue) if decided else 1.0
    return SignTest(better, worse, len(old) - decided, p)
