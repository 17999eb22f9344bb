"""Significance tests: is the difference between two systems more than chance?

Sentences of one document are not independent, so whole documents are drawn or swapped.

*Paired approximate randomisation* is the test: two-sided, adjusted for several systems by Holm's
method. The 95% interval contains the differences that it does not reject.

*Non-inferiority*: the null hypothesis is a loss of the margin or more. Every unit gets its share of
the margin back, then units are swapped; p is one-sided.

sacreBLEU's ``PairedTest`` draws the same random numbers; ``p_sacrebleu`` is its p-value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from gtrans.errors import GtransError
from gtrans.evaluation.metrics import Measurement, Statistics

Resample = Literal["document", "sentence", "none"]
Direction = Literal["better", "worse", "even"]
BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
SIGNIFICANT, POWER = 0.05, 0.8
FEW_UNITS = 20
"""With fewer units, the bootstrap's interval is often too narrow."""
FEW_FOR_NON_INFERIORITY = 200
"""With fewer units, the test of non-inferiority often misses a few bad failures."""
_ROUNDING = 1e-9  # smaller differences between scores are rounding errors
_AT_ONCE = 20_000_000  # units of trials in memory


@dataclass(frozen=True)
class Confidence:
    """The bootstrap's interval of one system; ``resampled`` is the unit."""

    interval: tuple[float, float]
    mean: float
    trials: int
    level: float
    radius: float
    resampled: str
    units: int
    seed: str


@dataclass(frozen=True)
class PairedTest:
    """A two-sided test; ``p_holm`` is adjusted for several systems."""

    p: float
    p_sacrebleu: float
    trials: int
    p_holm: float | None = None


@dataclass(frozen=True)
class NonInferiority:
    """The one-sided test that a system loses less than the margin.

    Attributes:
        worst_unit: number of the unit with the largest loss, from 1.
    """

    margin: float
    p: float
    trials: int
    largest_loss: float
    worst_unit: int


@dataclass(frozen=True)
class Comparison:
    """A system compared with the baseline.

    Attributes:
        resampled: the unit; None: nothing was resampled.
        difference: the system's score minus the baseline's.
        interval: 95% interval of the difference; None with fewer than 6 units.
        detectable: least difference detected with 80% power.
    """

    resampled: str | None
    units: int | None
    baseline: str
    higher_is_better: bool
    difference: float
    direction: Direction
    interval: tuple[float, float] | None = None
    paired_randomisation: PairedTest | None = None
    non_inferiority: NonInferiority | None = None
    detectable: float | None = None
    paired_bootstrap: PairedTest | None = None

    @property
    def p(self) -> float:
        """The adjusted p-value of randomisation; 1 without a test."""
        test = self.paired_randomisation
        if test is None:
            return 1.0
        return test.p if test.p_holm is None else test.p_holm


@dataclass(frozen=True)
class Resampling:
    """Confidence intervals and comparisons of one metric.

    Attributes:
        unit: ``document``, or the metric's unit.
        units: their number; 0: nothing was resampled.
        confidence: by system.
        comparisons: by system, without the first, the baseline.
        best: the system that is significantly better than all others.
    """

    unit: str
    units: int
    confidence: dict[str, Confidence]
    comparisons: dict[str, Comparison]
    best: str | None = None


def seed() -> int | None:
    """Return ``SACREBLEU_SEED``; None: another seed in every call."""
    value = os.environ.get("SACREBLEU_SEED", "12345").lower()
    if value != "none" and not (value.isdecimal() and value.isascii()):
        raise GtransError(f"`SACREBLEU_SEED` must be a number or none, but is '{value}'.")
    return None if value == "none" else int(value)


def resample(
    measurement: Measurement,
    unit: Resample = "document",
    *,
    bootstrap_trials: int = BOOTSTRAP_TRIALS,
    randomisation_trials: int = RANDOMISATION_TRIALS,
    margin: float | None = None,
    all_tests: bool = False,
) -> Resampling:
    """Compute confidence intervals of all systems, and compare each with the first.

    Args:
        unit: ``sentence``: segments of the metric, as in ``sacrebleu --paired-bs``; ``none``:
            differences alone.
        margin: points of the score for the test of non-inferiority.
        all_tests: also the paired bootstrap.
    """
    grouped = unit == "document" and measurement.unit != "document"
    resampled = "document" if grouped else measurement.unit
    statistics = dict(measurement.statistics)
    if grouped:
        for name, values in statistics.items():
            statistics[name] = sum_by(measurement.documents, values)
    baseline, *others = statistics
    units = len(statistics[baseline])
    comparisons = {name: _difference(measurement, baseline, name) for name in others}
    if unit == "none":
        return Resampling(resampled, 0, {}, comparisons)
    if units < 2:
        return Resampling(resampled, units, {}, comparisons)
    times = _drawn(units, bootstrap_trials)
    drawn = {}
    confidence = {}
    for name, rows in statistics.items():
        drawn[name] = measurement.compute(times @ rows)
        confidence[name] = _confidence(drawn[name], resampled, units)
    for name in others:
        pair = _Pair(measurement, statistics[baseline], statistics[name])
        comparison = replace(comparisons[name], resampled=resampled, units=units)
        comparison = _randomised(comparison, pair, randomisation_trials, margin)
        changes = drawn[name] - drawn[baseline]
        if changes.any() and least_p(units, len(others)) <= SIGNIFICANT:
            detectable = _detectable(changes, units, len(others))
            comparison = replace(comparison, detectable=detectable)
        if all_tests:
            bootstrap = _paired_bootstrap(changes, comparison.difference)
            comparison = replace(comparison, paired_bootstrap=bootstrap)
        comparisons[name] = comparison
    if len(others) > 1:
        comparisons = _with_holm(comparisons)
    best = None
    if others and not measurement.neutral:
        best = _significantly_best(measurement, statistics, randomisation_trials)
    return Resampling(resampled, units, confidence, comparisons, best)


def _with_holm(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    adjusted = holm([comparison.p for comparison in comparisons.values()])
    with_holm = {}
    for (name, comparison), p in zip(comparisons.items(), adjusted, strict=True):
        test = comparison.paired_randomisation
        assert test is not None, "all systems were tested"
        with_holm[name] = replace(comparison, paired_randomisation=replace(test, p_holm=p))
    return with_holm


def _paired_bootstrap(changes: Statistics, difference: float) -> PairedTest:
    distances = np.abs(changes)
    return _test(
        changes - changes.mean(),
        as_sacrebleu=distances - distances.mean(),
        observed=difference,
    )


def _difference(measurement: Measurement, baseline: str, name: str) -> Comparison:
    difference = measurement.score(name) - measurement.score(baseline)
    gain = difference if measurement.higher_is_better else -difference
    return Comparison(
        resampled=None,
        units=None,
        baseline=baseline,
        higher_is_better=measurement.higher_is_better,
        difference=difference,
        direction="even" if measurement.neutral else _direction(gain),
    )


@dataclass(frozen=True)
class _Pair:
    """The statistics of two systems, ``(units, columns)``."""

    measurement: Measurement
    base: Statistics
    other: Statistics


def _randomised(
    comparison: Comparison,
    pair: _Pair,
    trials: int,
    margin: float | None,
) -> Comparison:
    difference = comparison.difference
    swapped, shares = _swapped(pair, trials)
    non_inferiority = None
    if margin is not None:
        compute = pair.measurement.compute
        sign = 1 if comparison.higher_is_better else -1
        losses = sign * (compute(pair.base) - compute(pair.other))
        given_back = sign * swapped + margin * shares
        non_inferiority = NonInferiority(
            margin=margin,
            p=_p_above(given_back, sign * difference + margin),
            trials=trials,
            largest_loss=float(losses.max()),
            worst_unit=int(losses.argmax()) + 1,
        )
    return replace(
        comparison,
        interval=not_rejected(swapped, shares, difference),
        paired_randomisation=_test(swapped, np.abs(swapped), difference),
        non_inferiority=non_inferiority,
    )


def _significantly_best(
    measurement: Measurement,
    statistics: dict[str, Statistics],
    trials: int,
) -> str | None:
    scores = {name: measurement.score(name) for name in statistics}
    best_of = max if measurement.higher_is_better else min
    best = best_of(scores, key=scores.__getitem__)
    for name, score in scores.items():
        if name == best:
            continue
        pair = _Pair(measurement, statistics[name], statistics[best])
        swapped, _ = _swapped(pair, trials)
        if p_value(swapped, scores[best] - score) >= SIGNIFICANT:
            return None
    return best


def holm(values: Sequence[float]) -> list[float]:
    """Adjust the p-values of several systems by Holm's method."""
    counts = np.arange(len(values), 0, -1)
    adjusted = np.minimum(1, np.sort(values) * counts)
    ascending = np.maximum.accumulate(adjusted)
    ranks = np.argsort(np.argsort(values))
    return [float(ascending[rank]) for rank in ranks]


def _direction(difference: float) -> Direction:
    if abs(difference) <= _ROUNDING:
        return "even"
    return "better" if difference > 0 else "worse"


def _test(trials: Statistics, as_sacrebleu: Statistics, observed: float) -> PairedTest:
    above = np.count_nonzero(as_sacrebleu > abs(observed))
    return PairedTest(
        p=p_value(trials, observed),
        p_sacrebleu=float((above + 1) / (len(trials) + 1)),
        trials=len(trials),
    )


def not_rejected(
    swapped: Statistics,
    shares: Statistics,
    observed: float,
) -> tuple[float, float] | None:
    """Return the interval of differences that randomisation does not reject; None: all of them.

    Args:
        swapped: the difference in each trial.
        shares: the share of a true difference in it, -1 to 1.
    """
    if not swapped.any():
        return 0.0, 0.0
    ends = []
    for side in (-1, 1):
        kept = 0.0
        rejected = max(float(swapped.std()), _ROUNDING)
        while not _rejects(swapped, shares, observed, observed + side * rejected):
            kept = rejected
            rejected *= 2
            if rejected > 1e6 * max(1.0, abs(observed)):
                return None
        for _ in range(20):
            middle = (kept + rejected) / 2
            if _rejects(swapped, shares, observed, observed + side * middle):
                rejected = middle
            else:
                kept = middle
        ends.append(observed + side * kept)
    # Where some units do not differ at all, 0 may be kept though values beside it are not.
    if not _rejects(swapped, shares, observed, 0.0):
        ends.append(0.0)
    return min(ends), max(ends)


def _rejects(swapped: Statistics, shares: Statistics, observed: float, true: float) -> bool:
    shifted = swapped - true * shares
    p = p_value(shifted, observed - true)
    return p <= SIGNIFICANT


def least_p(units: int, systems: int) -> float:
    """Return the smallest adjusted p-value that randomisation can give."""
    return min(1.0, systems * 2.0 ** (1 - units))


def _detectable(changes: Statistics, units: int, systems: int) -> float:
    freedom = units - 1
    error = float(changes.std()) * np.sqrt(units / freedom)
    of_level = t.ppf(1 - SIGNIFICANT / 2 / systems, freedom)
    of_power = t.ppf(POWER, freedom)
    return float((of_level + of_power) * error)


def sum_by(groups: NDArray[np.int64], values: Statistics) -> Statistics:
    """Return the sums of rows by their group, ``(groups, columns)``."""
    count = int(groups.max()) + 1
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums


def _drawn(units: int, trials: int) -> Statistics:
    """Return counts of units in bootstrap samples, ``(trials, units)``."""
    generator = np.random.default_rng(seed())
    places = generator.choice(units, (trials, units))
    times = np.zeros((trials, units))
    rows = np.arange(trials)[:, None]
    np.add.at(times, (rows, places), 1)
    return times


def _swapped(pair: _Pair, trials: int) -> tuple[Statistics, Statistics]:
    """Return the difference in each trial of swapped units, and the share of a true difference.

    Units have shares by their reference length; -1: all units are swapped.
    """
    base = pair.base
    other = pair.other
    sizes = base[:, 1]
    generator = np.random.default_rng(seed())
    chosen = generator.integers(2, size=(trials, len(base)), dtype=bool)
    shares = 2 * sizes / max(sizes.sum(), _ROUNDING)
    rows = np.column_stack([other - base, shares])
    parts = np.array_split(chosen, 1 + chosen.size // _AT_ONCE)
    change = np.concatenate([part @ rows for part in parts])
    moved = change[:, :-1]
    compute = pair.measurement.compute
    first = compute(other.sum(0) - moved)
    second = compute(base.sum(0) + moved)
    return first - second, 1 - change[:, -1]


def _confidence(trials: Statistics, resampled: str, units: int) -> Confidence:
    outside = len(trials) // 40
    ordered = np.sort(trials)
    low = float(ordered[outside])
    high = float(ordered[len(trials) - outside - 1])
    return Confidence(
        interval=(low, high),
        mean=float(ordered.mean()),
        trials=len(trials),
        level=0.95,
        radius=(high - low) / 2,
        resampled=resampled,
        units=units,
        seed=str(seed()).lower(),
    )


def p_value(trials: NDArray[Any], observed: float) -> float:
    """Return the two-sided p-value; the observed value is a trial."""
    return _p_above(np.abs(trials), abs(observed))


def _p_above(trials: NDArray[Any], observed: float) -> float:
    extreme = np.count_nonzero(trials >= observed - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))
