"""The mean of a score over several test sets, with its 95% interval and a test of its difference.

Test sets of several languages are often translations of the same sentences, and those of a pair
of languages are the same in both directions. So a *unit*, all that is one sentence in whatever
set, is drawn and swapped as a whole: it has the same lot in every set. A trial of the mean is the
mean of the trials with one number, so a long test set counts no more than a short one.

How often a unit is drawn is a Poisson number, so that a set's lots do not depend on what else is
drawn (the Poisson bootstrap of Hanley & MacGibbon 2006); a system and a baseline are swapped for
each unit with probability 1/2, as in approximate randomisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.scores import Measurement, Statistics
from gtrans.evaluation.significance import (
    BOOTSTRAP_TRIALS,
    RANDOMISATION_TRIALS,
    p_value,
    seed,
)

_AT_ONCE = 250


@dataclass(frozen=True)
class SetScore:
    """A system on one test set.

    Attributes:
        score: its score.
        drawn: that of every trial of the bootstrap, (trials,).
        difference: the score minus the baseline's; None: there is no baseline.
        swapped: the same in every trial of approximate randomisation, (trials,).
    """

    score: float
    drawn: NDArray[Any]
    difference: float | None = None
    swapped: NDArray[Any] | None = None


@dataclass(frozen=True)
class MeanScore:
    """The mean over test sets; ``p``: of the difference from the baseline, if there is one."""

    score: float
    interval: tuple[float, float]
    p: float | None


def on_set(
    measurement: Measurement,
    system: str,
    baseline: str | None,
    units: Sequence[str],
    bootstrap_trials: int = BOOTSTRAP_TRIALS,
    randomisation_trials: int = RANDOMISATION_TRIALS,
) -> SetScore:
    """Score and trials of a system on a test set.

    Args:
        measurement: one metric on the systems.
        system: one of them.
        baseline: another one, or None.
        units: the name of the unit of each segment; a unit has the same name in all sets.
        bootstrap_trials: number of resampled test sets.
        randomisation_trials: number of trials of approximate randomisation.
    """
    names, of_segment = np.unique(np.asarray(units), return_inverse=True)

    def by_unit(name: str) -> Statistics:
        statistics = measurement.statistics[name]
        sums = np.zeros((len(names), statistics.shape[1]))
        np.add.at(sums, of_segment, statistics)
        return sums

    lots = [_random(str(name)) for name in names]
    times = np.stack([lot.poisson(1.0, bootstrap_trials) for lot in lots], axis=1)
    own = by_unit(system)
    drawn = _scores(measurement, np.zeros(own.shape[1]), times, own)
    score = measurement.score(system)
    if baseline is None:
        return SetScore(score, drawn)
    swaps = np.stack([lot.integers(0, 2, randomisation_trials, np.int8) for lot in lots], axis=1)
    other = by_unit(baseline)
    # The system with some units of the baseline, and the baseline with those of the system.
    exchanged = other - own
    system_scores = _scores(measurement, own.sum(0), swaps, exchanged)
    baseline_scores = _scores(measurement, other.sum(0), swaps, -exchanged)
    difference = score - measurement.score(baseline)
    return SetScore(score, drawn, difference, system_scores - baseline_scores)


def _random(unit: str) -> np.random.Generator:
    """Random numbers of a unit, the same in all sets."""
    words = seed() if seed() != "none" else _of_this_process()
    key = int.from_bytes(blake2b(f"{words} {unit}".encode(), digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key))


@cache
def _of_this_process() -> str:
    return token_hex(16)


def _scores(
    measurement: Measurement, base: Statistics, weights: NDArray[Any], statistics: Statistics
) -> NDArray[Any]:
    """The score of every trial: of ``base`` and so often (trials, units) the ``statistics``."""
    found: list[float] = []
    for start in range(0, len(weights), _AT_ONCE):
        sums = base + weights[start : start + _AT_ONCE].astype(np.float64) @ statistics
        found += [measurement.compute(row.tolist()) for row in sums]
    return np.array(found)


def mean_of(sets: Sequence[SetScore]) -> MeanScore:
    """The mean of a system over test sets; of a single one, its own score."""
    drawn = np.mean([it.drawn for it in sets], axis=0)
    low, high = np.percentile(drawn, [2.5, 97.5])
    differences = [it.difference for it in sets if it.difference is not None]
    swapped = [it.swapped for it in sets if it.swapped is not None]
    p = p_value(np.mean(swapped, axis=0), float(np.mean(differences))) if swapped else None
    score = float(np.mean([it.score for it in sets]))
    return MeanScore(score, (float(low), float(high)), p)
