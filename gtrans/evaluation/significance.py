"""Significance tests: is the difference between two systems more than chance?

Sentences of one document are not independent: a system that gets the topic of a document
right gets many of its sentences right. So whole documents are drawn or swapped; the statistics of
the segments of a document are summed first, which does not change the corpus score.

The test is paired approximate randomisation; it holds its level with few documents, too. Its
p-value counts trials *at least* as large as the observed difference, in both directions, so that
two equal translations have p = 1. Holm's method adjusts it for the number of systems. The 95%
interval of a difference has the values that the same test does not reject: if they were the true
difference, each unit would have a share of it, as much as it has of the reference's length. The
least detectable difference is the one that the test finds in 80 of 100 such test sets.

A test of non-inferiority asks whether a system is worse than the baseline by less than a margin.
Its null hypothesis is that it is worse by the margin or more. So every unit is given back its share
of the margin, then units are swapped; p is one-sided. n units give no p below 1 in 2 to the n.

On request there are two more tests, whose p-values are too small with few documents, or where the
systems differ by whole documents: the paired bootstrap, and the sign test of Collins et al. (2005),
which Bao et al. (2021) use. Random numbers are those of sacreBLEU's ``PairedTest`` with the same
seed. Its p-values count only trials *above* the observed difference, and its bootstrap compares
both tails with one; they are given as ``p_sacrebleu``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, t

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Measurement, Statistics

Resample = Literal["document", "sentence", "none"]
Direction = Literal["better", "worse", "even"]
BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SIGNIFICANT, POWER = 0.05, 0.8
FEW_FOR_MARGIN = 20
"""Of fewer units, the test of non-inferiority may miss that a few of them fail badly."""
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
    """The result of one resampling test: our p-value and that of sacreBLEU.

    ``p_holm`` is adjusted for all systems by Holm's method; None if there are only two.
    """

    p: float
    p_sacrebleu: float
    trials: int
    p_holm: float | None = None


@dataclass(frozen=True)
class NonInferiority:
    """Whether a system is worse than the baseline by less than a margin.

    Attributes:
        margin: in points of the score, at least 0.
        p: one-sided; a small one is evidence that the system loses less than the margin.
        trials: of the randomisation.
        largest_loss: how much worse than the baseline the system is in the unit where it loses
            most, in points of the score; below 0: it is better everywhere.
        worst_unit: the number of this unit, from 1.
    """

    margin: float
    p: float
    trials: int
    largest_loss: float
    worst_unit: int


@dataclass(frozen=True)
class SignTest:
    """Number of segments whose exchange makes the baseline better, worse, or neither.

    The test asks how often, not how much, so it can point the other way than the scores.
    ``direction`` is what the system does more often; what a small ``p`` is evidence of.
    """

    better: int
    worse: int
    equal: int
    p: float
    direction: Direction


@dataclass(frozen=True)
class Comparison:
    """A system compared with the baseline; the last six are None without what they need.

    Attributes:
        difference: the system's score minus the baseline's.
        direction: whether the score is better or worse than the baseline's.
        interval: 95% interval of the difference, by randomisation; None with fewer than 6 units.
        detectable: the least true difference that is detected with a power of 80%.
        paired_randomisation: paired approximate randomisation.
        paired_bootstrap: paired bootstrap; None unless all tests were asked for, as the next one.
        sign_test: sign test over the segments of the metric.
        non_inferiority: test against a margin.
    """

    difference: float
    direction: Direction
    interval: tuple[float, float] | None = None
    detectable: float | None = None
    paired_randomisation: PairedResult | None = None
    paired_bootstrap: PairedResult | None = None
    sign_test: SignTest | None = None
    non_inferiority: NonInferiority | None = None

    @property
    def p(self) -> float:
        """The p-value of the randomisation, adjusted if there are several; 1 without a test."""
        test = self.paired_randomisation
        if test is None:
            return 1.0
        return test.p if test.p_holm is None else test.p_holm


@dataclass(frozen=True)
class Resampling:
    """Confidence intervals and comparisons of one metric.

    Attributes:
        unit: what was resampled: ``document``, or the unit of the metric's segments.
        units: number of these units; 0: nothing was resampled.
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
    all_tests: bool = False,
) -> Resampling:
    """Confidence intervals of all systems, and comparisons of each system with the first.

    Args:
        measurement: one metric on all systems.
        unit: the unit to resample. ``sentence`` means the segments of the metric, as in
            ``sacrebleu --paired-bs``; ``none``: only differences, and the sign test on request.
        bootstrap_trials: number of resampled corpora of the bootstrap.
        randomisation_trials: number of trials of approximate randomisation.
        margin: of the test of non-inferiority, in points of the score; None: no such test.
        all_tests: also the paired bootstrap and the sign test.

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
    drawn: dict[str, NDArray[Any]] = {}
    if unit != "none" and units > 1:
        times = _drawn(units, bootstrap_trials)
        drawn = {name: measurement.compute(times @ it) for name, it in statistics.items()}
    comparisons = {}
    for name in others:
        difference = measurement.score(name) - measurement.score(baseline)
        up = difference if measurement.higher_is_better else -difference
        found = Comparison(difference, "even" if measurement.neutral else _direction(up))
        if all_tests:
            found = replace(found, sign_test=sign_test(measurement, baseline, name))
        if drawn:
            changes = drawn[name] - drawn[baseline]
            pair = statistics[baseline], statistics[name]
            swapped, shares = _swapped(measurement, *pair, randomisation_trials)
            found = replace(
                found,
                interval=_interval(swapped, shares, difference),
                detectable=_detectable(changes, units),
                paired_randomisation=_result(swapped, np.abs(swapped), difference),
            )
            if all_tests:
                trials = changes - changes.mean(), np.abs(changes) - np.abs(changes).mean()
                found = replace(found, paired_bootstrap=_result(*trials, difference))
            if margin is not None:
                sign = 1 if measurement.higher_is_better else -1
                p = _p_above(sign * swapped + margin * shares, sign * difference + margin)
                losses = sign * (measurement.compute(pair[0]) - measurement.compute(pair[1]))
                worst = int(losses.argmax())
                not_worse = NonInferiority(
                    margin, p, randomisation_trials, float(losses[worst]), worst + 1
                )
                found = replace(found, non_inferiority=not_worse)
        comparisons[name] = found
    _adjust(comparisons)
    return Resampling(
        "document" if grouped else measurement.unit,
        0 if unit == "none" else units,
        {name: _confidence(scores) for name, scores in drawn.items()},
        comparisons,
    )


def _adjust(comparisons: dict[str, Comparison]) -> None:
    """Adjust the p-values by Holm's method where there are several systems."""
    tests = {name: it.paired_randomisation for name, it in comparisons.items()}
    known = {name: test for name, test in tests.items() if test is not None}
    least = 0.0
    for rank, name in enumerate(sorted(known, key=lambda name: known[name].p)):
        least = max(least, min(1.0, (len(known) - rank) * known[name].p))
        if len(known) > 1:
            adjusted = replace(known[name], p_holm=least)
            comparisons[name] = replace(comparisons[name], paired_randomisation=adjusted)


def _direction(difference: float) -> Direction:
    if abs(difference) <= _ROUNDING:
        return "even"
    return "better" if difference > 0 else "worse"


def _result(trials: Statistics, of_sacrebleu: Statistics, observed: float) -> PairedResult:
    """The p-values of trials; ``of_sacrebleu``: those that sacreBLEU counts."""
    above = np.count_nonzero(of_sacrebleu > abs(observed))
    other = float((above + 1) / (len(trials) + 1))
    return PairedResult(p_value(trials, observed), other, len(trials))


def _interval(
    swapped: Statistics, shares: Statistics, observed: float
) -> tuple[float, float] | None:
    """The differences that randomisation does not reject; None: it can reject none of them."""

    def rejects(true: float) -> bool:
        return p_value(swapped - true * shares, observed - true) <= SIGNIFICANT

    if not swapped.any():
        return 0.0, 0.0
    ends = []
    for side in (-1, 1):
        kept, step = 0.0, max(float(swapped.std()), _ROUNDING)
        while not rejects(observed + side * step):
            kept, step = step, 2 * step
            if step > 1e6 * max(1.0, abs(observed)):
                return None
        for _ in range(20):
            middle = (kept + step) / 2
            kept, step = (kept, middle) if rejects(observed + side * middle) else (middle, step)
        ends.append(observed + side * kept)
    return ends[0], ends[1]


def _detectable(changes: Statistics, units: int) -> float:
    """The least difference that is found with :data:`POWER`, from differences of the bootstrap."""
    error = float(changes.std()) * np.sqrt(units / (units - 1))
    quantiles = t.ppf(1 - SIGNIFICANT / 2, units - 1) + t.ppf(POWER, units - 1)
    return float(quantiles * error)


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
    measurement: Measurement, one: Statistics, other: Statistics, trials: int
) -> tuple[Statistics, Statistics]:
    """Approximate randomisation: units swapped between two systems at random.

    Returns:
        for each trial the difference of the scores of its two sides, and how much of the length of
        the reference the other system has on the first side, less that on the second one: 1 to -1.
    """
    sizes = one[:, 1]
    chosen = np.random.default_rng(seed()).integers(2, size=(trials, len(one)), dtype=bool)
    rows = np.column_stack([other - one, 2 * sizes / max(sizes.sum(), _ROUNDING)])
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
    return SignTest(better, worse, len(old) - decided, p, _direction(better - worse))
