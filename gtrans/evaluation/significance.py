"""Significance tests: is the difference between two systems more than chance?

Sentences of one document are not independent, so whole documents are drawn or swapped.

*Paired approximate randomisation* is the test: two-sided, adjusted for the number of systems by
Holm's method. The 95% interval contains the differences that the test does not reject.

*Non-inferiority*: the null hypothesis is a loss of the margin or more. Every unit gets its share of
the margin back, then units are swapped; p is one-sided.

sacreBLEU's ``PairedTest`` draws the same random numbers; ``p_sacrebleu`` is its p-value.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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
"""With fewer units, the bootstrap's interval is often too narrow."""
FEW_FOR_NON_INFERIORITY = 200
"""With fewer units, the test of non-inferiority often misses a few bad failures."""
_ROUNDING = 1e-9  # smaller differences between scores are rounding errors
_AT_ONCE = 20_000_000  # units of trials in memory


JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Resampling:
    """Confidence intervals and comparisons of one metric, as JSON objects.

    Attributes:
        unit: ``document``, or the unit of the metric's segments.
        units: their number; 0: nothing was resampled.
        confidence: by system, the bootstrap's ``interval``, ``mean`` and ``radius``.
        comparisons: by system, with the first as baseline: ``difference``, ``direction``,
            ``interval`` (of at least 6 units), the least ``detectable`` difference, and tests.
            ``paired_randomisation`` and ``paired_bootstrap`` have ``p`` and ``p_sacrebleu``, the
            former ``p_holm`` with several systems; ``non_inferiority`` has a one-sided ``p``, and
            the ``largest_loss`` of a unit, numbered from 1.
        best: the system that is significantly better than every other.
    """

    unit: str
    units: int
    confidence: dict[str, JsonObject]
    comparisons: dict[str, JsonObject]
    best: str | None = None


def p_of(comparison: JsonObject) -> float:
    """Return the p-value of randomisation, adjusted for several systems; 1 without a test."""
    test = comparison.get("paired_randomisation", {})
    return float(test.get("p_holm", test.get("p", 1)))


def seed() -> int | None:
    """Return the seed of all resampling, ``SACREBLEU_SEED``; None: another in every call."""
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
    """Compute confidence intervals of all systems, and compare each system with the first.

    Args:
        unit: ``sentence``: the segments of the metric, as in ``sacrebleu --paired-bs``; ``none``:
            differences alone.
        margin: points of the score for the test of non-inferiority, if any.
        all_tests: also the paired bootstrap.
    """
    grouped = unit == "document" and measurement.unit != "document"
    statistics = dict(measurement.statistics)
    if grouped:
        for name, values in statistics.items():
            statistics[name] = sum_by(measurement.documents, values)
    baseline, *others = statistics
    units = len(statistics[baseline])
    resampled = "document" if grouped else measurement.unit
    about: JsonObject = {}
    drawn: dict[str, Statistics] = {}
    if unit != "none" and units > 1:
        about = {"resampled": resampled, "units": units}
        times = _drawn(units, bootstrap_trials)
        for name, rows in statistics.items():
            drawn[name] = measurement.compute(times @ rows)
    confidence = {}
    seed_text = str(seed()).lower()
    for name, scores in drawn.items():
        confidence[name] = _confidence(scores) | about | {"seed": seed_text}
    comparisons = {}
    for name in others:
        comparison = about | _difference(measurement, baseline, name)
        comparisons[name] = comparison
        if not drawn:
            continue
        difference = comparison["difference"]
        pair = _Pair(measurement, statistics[baseline], statistics[name], difference)
        comparison |= _randomisation_tests(pair, randomisation_trials, margin)
        changes = drawn[name] - drawn[baseline]
        if changes.any() and least_p(units, len(others)) <= SIGNIFICANT:
            comparison["detectable"] = _detectable(changes, units, len(others))
        if all_tests:
            comparison["paired_bootstrap"] = _paired_bootstrap(changes, difference)
    best = None
    if drawn and len(others) > 1:
        _add_holm(comparisons)
    if drawn and others and not measurement.neutral:
        best = _significantly_best(measurement, statistics, randomisation_trials)
    if unit == "none":
        units = 0
    return Resampling(resampled, units, confidence, comparisons, best)


def _add_holm(comparisons: Mapping[str, JsonObject]) -> None:
    tests = [comparison["paired_randomisation"] for comparison in comparisons.values()]
    adjusted = holm([test["p"] for test in tests])
    for test, p in zip(tests, adjusted, strict=True):
        test["p_holm"] = p


def _paired_bootstrap(changes: Statistics, difference: float) -> JsonObject:
    distances = np.abs(changes)
    return _test(
        changes - changes.mean(),
        as_sacrebleu=distances - distances.mean(),
        observed=difference,
    )


def _difference(measurement: Measurement, baseline: str, name: str) -> JsonObject:
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
    measurement: Measurement
    base: Statistics
    other: Statistics
    difference: float

    @property
    def sign(self) -> int:
        return 1 if self.measurement.higher_is_better else -1


def _randomisation_tests(pair: _Pair, trials: int, margin: float | None) -> JsonObject:
    measurement = pair.measurement
    swapped, shares = _swapped(measurement, pair.base, pair.other, trials)
    tests: JsonObject = {}
    interval = not_rejected(swapped, shares, pair.difference)
    if interval is not None:
        tests["interval"] = interval
    tests["paired_randomisation"] = _test(swapped, np.abs(swapped), pair.difference)
    if margin is not None:
        changes = measurement.compute(pair.base) - measurement.compute(pair.other)
        losses = pair.sign * changes
        given_back = pair.sign * swapped + margin * shares
        observed = pair.sign * pair.difference + margin
        tests["non_inferiority"] = {
            "margin": margin,
            "p": _p_above(given_back, observed),
            "trials": trials,
            "largest_loss": float(losses.max()),
            "worst_unit": int(losses.argmax()) + 1,
        }
    return tests


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
        swapped, _ = _swapped(measurement, statistics[name], statistics[best], trials)
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


def _test(trials: Statistics, as_sacrebleu: Statistics, observed: float) -> JsonObject:
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
    """Return the interval of differences that randomisation does not reject; None: all of them.

    Args:
        swapped: the difference in each trial.
        shares: the share of a true difference in each trial, -1 to 1.
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
    """Return the smallest p-value that randomisation can give, adjusted for the systems."""
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


def _swapped(
    measurement: Measurement,
    base: Statistics,
    other: Statistics,
    trials: int,
) -> tuple[Statistics, Statistics]:
    """Return the difference in each trial of swapped units, and the share of a true difference.

    Units have shares by their reference length; a trial's share is from -1 (all swapped) to 1.
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


def _confidence(trials: Statistics) -> JsonObject:
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
    """Return the two-sided p-value; the observed value counts as a trial."""
    return _p_above(np.abs(trials), abs(observed))


def _p_above(trials: NDArray[Any], observed: float) -> float:
    extreme = np.count_nonzero(trials >= observed - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))
