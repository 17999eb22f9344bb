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

On request there is the paired bootstrap, whose p-values are too small with few documents. Random
numbers are the same as in sacreBLEU's ``PairedTest`` with the same seed. Its p-values count only
trials *above* the observed difference, and its bootstrap compares both tails with one; they are
given as ``p_sacrebleu``.

The sign test of Collins et al. (2005), which Bao et al. (2021) use, is left out: it takes sentences
of a document as independent, and finds a difference between equal systems in a third of the cases.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
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
"""With fewer units, the interval of the bootstrap is often too narrow."""
FEW_FOR_NON_INFERIORITY = 200
"""With fewer units, the test of non-inferiority often misses that a few documents fail badly."""
_ROUNDING = 1e-9  # smaller differences between scores are rounding errors
_AT_ONCE = 20_000_000  # units of trials in memory


Found = dict[str, Any]
"""What JSON has of a comparison, or of an interval."""


@dataclass(frozen=True)
class Resampling:
    """Confidence intervals and comparisons of one metric, as JSON has them.

    Attributes:
        unit: what was resampled: ``document``, or the unit of the metric's segments.
        units: number of these units; 0: nothing was resampled.
        confidence: by system, the percentiles of the bootstrap as ``interval``, which stays within
            the scale; sacreBLEU prints ``mean`` plus or minus ``radius``. Empty if there are too
            few units.
        comparisons: by system, for all but the first one, which is the baseline: ``difference`` of
            the scores and its ``direction``; with resampling its ``interval`` (of at least 6
            units), the least ``detectable`` difference (if the systems differ, and any is), and
            tests. ``paired_randomisation`` and
            ``paired_bootstrap`` have ``p`` and sacreBLEU's, the first one ``p_holm``, too, if
            there are several systems; ``non_inferiority`` has a one-sided ``p``, and the
            ``largest_loss`` of a unit with its number from 1.
        best: the system that randomisation finds better than every other one; None: there is none.
    """

    unit: str
    units: int
    confidence: dict[str, Found]
    comparisons: dict[str, Found]
    best: str | None = None


def p_of(comparison: Found) -> float:
    """The p-value of the randomisation, adjusted if there are several systems; 1 without a test."""
    test = comparison.get("paired_randomisation", {})
    return float(test.get("p_holm", test.get("p", 1)))


def seed() -> int | None:
    """The random seed of all resampling, as in sacreBLEU; None: another one in every call.

    Raises:
        GtransError: ``SACREBLEU_SEED`` is neither a number nor ``none``.
    """
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
    """Confidence intervals of all systems, and comparisons of each system with the first.

    Args:
        measurement: one metric on all systems.
        unit: the unit to resample. ``sentence`` means the segments of the metric, as in
            ``sacrebleu --paired-bs``; ``none``: only differences.
        bootstrap_trials: number of resampled corpora of the bootstrap.
        randomisation_trials: number of trials of approximate randomisation.
        margin: of the test of non-inferiority, in points of the score; None: no such test.
        all_tests: also the paired bootstrap.

    Returns:
        the results; a single unit cannot be resampled, so there are then no confidence
        intervals, no bootstrap and no randomisation.
    """
    grouped = unit == "document" and measurement.unit != "document"
    statistics = dict(measurement.statistics)
    if grouped:
        for name, values in statistics.items():
            statistics[name] = sum_by(measurement.documents, values)
    baseline, *others = statistics
    units = len(statistics[baseline])
    resampled = "document" if grouped else measurement.unit
    about: Found = {}
    drawn: dict[str, Statistics] = {}
    if unit != "none" and units > 1:
        times = _drawn(units, bootstrap_trials)
        drawn = {name: measurement.compute(times @ sums) for name, sums in statistics.items()}
        about = {"resampled": resampled, "units": units}
    confidence = {}
    for name, scores in drawn.items():
        confidence[name] = _confidence(scores) | about | {"seed": str(seed()).lower()}
    comparisons = {}
    for name in others:
        comparison = about | _difference(measurement, baseline, name)
        difference = comparison["difference"]
        if drawn:
            pair = _Pair(measurement, statistics[baseline], statistics[name], difference)
            comparison |= _tests(pair, randomisation_trials, margin)
            changes = drawn[name] - drawn[baseline]
            if changes.any() and least_p(units, len(others)) <= SIGNIFICANT:
                comparison["detectable"] = _detectable(changes, units, len(others))
            if all_tests:
                centred = changes - changes.mean()
                distances = np.abs(changes)
                comparison["paired_bootstrap"] = _test(
                    centred, distances - distances.mean(), difference
                )
        comparisons[name] = comparison
    if drawn and len(others) > 1:
        tests = [comparison["paired_randomisation"] for comparison in comparisons.values()]
        for test, adjusted in zip(tests, holm([test["p"] for test in tests]), strict=True):
            test["p_holm"] = adjusted
    best = None
    if drawn and others and not measurement.neutral:
        best = _significantly_best(measurement, statistics, randomisation_trials)
    units = 0 if unit == "none" else units
    return Resampling(resampled, units, confidence, comparisons, best)


def _difference(measurement: Measurement, baseline: str, name: str) -> Found:
    """The difference of two scores, and which system is better."""
    difference = measurement.score(name) - measurement.score(baseline)
    up = difference if measurement.higher_is_better else -difference
    return {
        "baseline": baseline,
        "higher_is_better": measurement.higher_is_better,
        "difference": difference,
        "direction": _direction(0.0 if measurement.neutral else up),
    }


@dataclass(frozen=True)
class _Pair:
    """Two systems: their metric, their statistics by resampled unit, the difference of scores."""

    measurement: Measurement
    base: Statistics
    other: Statistics
    difference: float

    @property
    def sign(self) -> int:
        """-1 for error rates."""
        return 1 if self.measurement.higher_is_better else -1


def _tests(pair: _Pair, trials: int, margin: float | None) -> Found:
    """Approximate randomisation of two systems, its interval, and the test of non-inferiority."""
    measurement = pair.measurement
    swapped, shares = _swapped(measurement, pair.base, pair.other, trials)
    found: Found = {}
    interval = not_rejected(swapped, shares, pair.difference)
    if interval is not None:
        found["interval"] = interval
    found["paired_randomisation"] = _test(swapped, np.abs(swapped), pair.difference)
    if margin is not None:
        losses = pair.sign * (measurement.compute(pair.base) - measurement.compute(pair.other))
        given_back = pair.sign * swapped + margin * shares
        found["non_inferiority"] = {
            "margin": margin,
            "p": _p_above(given_back, pair.sign * pair.difference + margin),
            "trials": trials,
            "largest_loss": float(losses.max()),
            "worst_unit": int(losses.argmax()) + 1,
        }
    return found


def _significantly_best(
    measurement: Measurement,
    statistics: dict[str, Statistics],
    trials: int,
) -> str | None:
    """The system with the best score, if it is better than each of the others at the 5% level."""
    scores = {name: measurement.score(name) for name in statistics}
    best = (max if measurement.higher_is_better else min)(scores, key=scores.__getitem__)
    for name, score in scores.items():
        if name == best:
            continue
        swapped, _ = _swapped(measurement, statistics[name], statistics[best], trials)
        if p_value(swapped, scores[best] - score) >= SIGNIFICANT:
            return None
    return best


def holm(values: Sequence[float]) -> list[float]:
    """The p-values of several systems, adjusted for their number by Holm's method."""
    counts = np.arange(len(values), 0, -1)
    adjusted = np.minimum(1, np.sort(values) * counts)
    ascending = np.maximum.accumulate(adjusted)
    ranks = np.argsort(np.argsort(values))
    return [float(ascending[rank]) for rank in ranks]


def _direction(difference: float) -> Direction:
    if abs(difference) <= _ROUNDING:
        return "even"
    return "better" if difference > 0 else "worse"


def _test(trials: Statistics, as_sacrebleu: Statistics, observed: float) -> Found:
    """The p-values of trials; ``of_sacrebleu``: those that sacreBLEU counts."""
    above = np.count_nonzero(as_sacrebleu > abs(observed))
    return {
        "p": p_value(trials, observed),
        "p_sacrebleu": float((above + 1) / (len(trials) + 1)),
        "trials": len(trials),
    }


def not_rejected(
    swapped: Statistics,
    shares: Statistics,
    observed: float,
) -> tuple[float, float] | None:
    """The differences that randomisation does not reject; None: it can reject none of them.

    Args:
        swapped: the difference in each trial.
        shares: how much of a true difference is in it, 1 to -1.
        observed: the difference as it is.
    """
    if not swapped.any():
        return 0.0, 0.0
    ends = []
    for side in (-1, 1):
        kept = 0.0
        step = max(float(swapped.std()), _ROUNDING)
        while not _rejects(swapped, shares, observed, observed + side * step):
            kept = step
            step *= 2
            if step > 1e6 * max(1.0, abs(observed)):
                return None
        for _ in range(20):
            middle = (kept + step) / 2
            if _rejects(swapped, shares, observed, observed + side * middle):
                step = middle
            else:
                kept = middle
        ends.append(observed + side * kept)
    # Where units do not differ at all, 0 alone may be kept beyond values that are not.
    if not _rejects(swapped, shares, observed, 0.0):
        ends.append(0.0)
    return min(ends), max(ends)


def _rejects(swapped: Statistics, shares: Statistics, observed: float, true: float) -> bool:
    """Whether randomisation rejects that the true difference is ``true``."""
    shifted = swapped - true * shares
    p = p_value(shifted, observed - true)
    return p <= SIGNIFICANT


def least_p(units: int, systems: int) -> float:
    """The smallest p-value that randomisation can give, adjusted for the number of systems."""
    return min(1.0, systems * 2.0 ** (1 - units))


def _detectable(changes: Statistics, units: int, systems: int) -> float:
    """The least difference that is found with :data:`POWER`, from differences of the bootstrap."""
    freedom = units - 1
    error = float(changes.std()) * np.sqrt(units / freedom)
    of_level = t.ppf(1 - SIGNIFICANT / 2 / systems, freedom)
    of_power = t.ppf(POWER, freedom)
    return float((of_level + of_power) * error)


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
    measurement: Measurement,
    base: Statistics,
    other: Statistics,
    trials: int,
) -> tuple[Statistics, Statistics]:
    """Approximate randomisation: units swapped between two systems at random.

    Returns:
        for each trial the difference of the scores of its two sides, and how much of the length of
        the reference the other system has on the first side, less that on the second one: 1 to -1.
    """
    sizes = base[:, 1]
    generator = np.random.default_rng(seed())
    chosen = generator.integers(2, size=(trials, len(base)), dtype=bool)
    shares = 2 * sizes / max(sizes.sum(), _ROUNDING)
    rows = np.column_stack([other - base, shares])
    parts = np.array_split(chosen, 1 + chosen.size // _AT_ONCE)
    change = np.concatenate([part @ rows for part in parts])
    moved = change[:, :-1]
    first = measurement.compute(other.sum(0) - moved)
    second = measurement.compute(base.sum(0) + moved)
    return first - second, 1 - change[:, -1]


def _confidence(trials: Statistics) -> Found:
    """The interval between the trials that sacreBLEU takes, too."""
    outside = len(trials) // 40
    ordered = np.sort(trials)
    low = float(ordered[outside])
    high = float(ordered[len(trials) - outside - 1])
    return {
        "interval": (low, high),
        "mean": float(ordered.mean()),
        "trials": len(trials),
        "level": 0.95,
        "radius": (high - low) / 2,
    }


def p_value(trials: NDArray[Any], observed: float) -> float:
    """Share of trials at least as far from zero as the observed value, which counts as one."""
    return _p_above(np.abs(trials), abs(observed))


def _p_above(trials: NDArray[Any], observed: float) -> float:
    """Share of trials that are at least the observed value, which counts as one."""
    extreme = np.count_nonzero(trials >= observed - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))
