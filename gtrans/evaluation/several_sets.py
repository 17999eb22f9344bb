"""The mean of a score over several test sets, with its 95% interval and a test of its difference.

Sentences are drawn and swapped in every test set by itself; a trial of the mean is the mean of the
trials with one number. So a long test set counts no more than a short one, as in the mean itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    number: int,
    bootstrap_trials: int = BOOTSTRAP_TRIALS,
    randomisation_trials: int = RANDOMISATION_TRIALS,
) -> SetScore:
    """Score and trials of a system on a test set.

    Args:
        measurement: one metric on the systems.
        system: one of them.
        baseline: another one, or None.
        number: of the test set among all; each has trials of its own.
        bootstrap_trials: number of resampled test sets.
        randomisation_trials: number of trials of approximate randomisation.
    """
    own = measurement.statistics[system]
    count = len(own)
    random = np.random.default_rng(None if seed() == "none" else [int(seed()), number])
    drawn = _scores(
        measurement,
        own,
        bootstrap_trials,
        lambda trials: random.multinomial(count, np.full(count, 1 / count), size=trials),
    )
    score = measurement.score(system)
    if baseline is None:
        return SetScore(score, drawn)
    other = measurement.statistics[baseline]
    # The system with some sentences of the baseline, and the baseline with those of the system.
    both = np.concatenate([own, other], axis=1)
    exchanged = np.concatenate([other, own], axis=1)
    width = own.shape[1]
    swapped: list[float] = []
    for start in range(0, randomisation_trials, _AT_ONCE):
        size = min(_AT_ONCE, randomisation_trials - start)
        swaps = random.integers(0, 2, size=(size, count)).astype(np.float64)
        sums = both.sum(0) + swaps @ (exchanged - both)
        swapped += [
            measurement.compute(row[:width].tolist()) - measurement.compute(row[width:].tolist())
            for row in sums
        ]
    return SetScore(score, drawn, score - measurement.score(baseline), np.array(swapped))


def _scores(
    measurement: Measurement,
    statistics: Statistics,
    trials: int,
    weights: Callable[[int], NDArray[Any]],
) -> NDArray[Any]:
    """The score of every trial, in which a segment counts as often as ``weights`` says."""
    found: list[float] = []
    for start in range(0, trials, _AT_ONCE):
        sums = weights(min(_AT_ONCE, trials - start)).astype(np.float64) @ statistics
        found += [measurement.compute(row.tolist()) for row in sums]
    return np.array(found)


def mean_of(sets: Sequence[SetScore]) -> MeanScore:
    """The mean of a system over test sets; of a single one, its own score."""
    drawn = np.mean([it.drawn for it in sets], axis=0)
    low, high = np.percentile(drawn, [2.5, 97.5])
    # As sacreBLEU has it: as far to both sides of the mean of the trials.
    middle, radius = float(drawn.mean()), float(high - low) / 2
    differences = [it.difference for it in sets if it.difference is not None]
    swapped = [it.swapped for it in sets if it.swapped is not None]
    p = p_value(np.mean(swapped, axis=0), float(np.mean(differences))) if swapped else None
    score = float(np.mean([it.score for it in sets]))
    return MeanScore(score, (middle - radius, middle + radius), p)
