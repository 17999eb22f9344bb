"""Choose between a model and models that were trained from it, with few errors.

Documents that stopped the training flatter the trained model, so other documents choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.significance import RANDOMISATION_TRIALS, SIGNIFICANT, resample

LEAST_DOCUMENTS = 20
"""With fewer documents, nothing can be chosen."""
STOPPING_SHARE = 3
"""One in three documents stops the training; the others choose."""


@dataclass(frozen=True)
class Verdict:
    """The comparison of a trained model with the baseline.

    Attributes:
        difference: its score minus the baseline's.
        p: of the one-sided test that it is better.
        interval: 95% interval of the difference, if any.
    """

    system: str
    difference: float
    p: float
    interval: tuple[float, float] | None
    documents: int

    @property
    def is_possible(self) -> bool:
        """Whether there are enough documents."""
        return self.documents >= LEAST_DOCUMENTS

    @property
    def replaces(self) -> bool:
        """Whether the trained model replaces the baseline."""
        return self.is_possible and self.p < SIGNIFICANT

    @property
    def answer(self) -> Literal["better", "worse", "undecided"]:
        """Result of the test."""
        if self.replaces:
            return "better"
        if self.is_possible and self.interval is not None and self.interval[1] < 0:
            return "worse"
        return "undecided"


def compare_candidates(
    measurement: Measurement,
    trials: int = RANDOMISATION_TRIALS,
) -> list[Verdict]:
    """Compare all models with the baseline, the first system."""
    # The margin is 0: a candidate rejects the hypothesis that it is at most as good.
    resampled = resample(measurement, bootstrap_trials=1, randomisation_trials=trials, margin=0.0)
    verdicts = []
    for system, comparison in resampled.comparisons.items():
        test = comparison.non_inferiority
        verdict = Verdict(
            system=system,
            difference=comparison.difference,
            p=1.0 if test is None else test.p,
            interval=comparison.interval,
            documents=resampled.units,
        )
        verdicts.append(verdict)
    return verdicts


def choose(baseline: str, verdicts: list[Verdict]) -> str:
    """Return the best system that replaces the baseline, or else the baseline."""
    better = [verdict for verdict in verdicts if verdict.replaces]
    if not better:
        return baseline
    return max(better, key=lambda verdict: verdict.difference).system
