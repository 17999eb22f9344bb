"""Is the difference between two systems more than chance?

Sentences of one document are not independent: a system that gets a document's topic
right gets many of its sentences right. So documents are drawn, or swapped, whole. The
resampling is sacreBLEU's ``PairedTest``; its segments must be what is resampled, which
for d-BLEU are documents anyhow. For a score over sentences or instances the statistics
of a document's segments are added up first: the corpus score stays the same to the last
digit, and a resampled corpus then consists of whole documents.

Two p-values are given. sacreBLEU's own counts only trials *above* the observed
difference, so that two equal translations differ with p = 1/(trials + 1), and so do two
systems on three documents, of which there are but eight ways to swap; and its paired
bootstrap compares both tails with one, which rejects twice as often as it says. Ours
takes the same trials and counts those *at least* as large as the observed difference,
in both directions (for the bootstrap, around its mean).

Further: the sign test of Collins et al. (2005), used by Bao et al. (2021).
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

from gtrans.evaluation.scores import Measurement, Rows

Resample = Literal["document", "sentence", "none"]
BOOTSTRAP_TRIALS = 1000
RANDOMISATION_TRIALS = 10_000
# Two scores whose difference is smaller are the same but for rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Confidence:
    """A 95% interval by bootstrap, as sacreBLEU gives it: ``mean`` plus or minus ``radius``."""

    mean: float
    radius: float
    trials: int

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.mean - self.radius, self.mean + self.radius


@dataclass(frozen=True)
class PairedResult:
    """One resampling test: ours, and what sacreBLEU makes of the same trials."""

    p: float
    p_sacrebleu: float
    trials: int


@dataclass(frozen=True)
class SignTest:
    """Segments whose exchange makes the baseline better, worse, or neither."""

    better: int
    worse: int
    equal: int
    p: float


@dataclass(frozen=True)
class Comparison:
    """A system against the baseline.

    Attributes:
        difference: the system's score minus the baseline's.
        interval: 95% of the bootstrap's differences; None where nothing was resampled.
        bootstrap: paired bootstrap; None where nothing was resampled.
        randomisation: paired approximate randomisation; likewise.
        sign_test: over the metric's segments.
    """

    difference: float
    interval: tuple[float, float] | None
    bootstrap: PairedResult | None
    randomisation: PairedResult | None
    sign_test: SignTest


@dataclass(frozen=True)
class Resampling:
    """Confidence and comparisons of one metric.

    Attributes:
        unit: what was resampled: ``document``, or the metric's own segment.
        units: how many of them there are.
        confidence: by system; empty if there are too few units.
        comparisons: by system, without the first one, which is the baseline.
    """

    unit: str
    units: int
    confidence: dict[str, Confidence]
    comparisons: dict[str, Comparison]


class _Trials(Metric):
    """A metric for ``PairedTest`` whose hypotheses are rows of statistics already.

    It keeps the score of every trial, in order: ``PairedTest`` tells only its p-value.
    """

    def __init__(self, measurement: Measurement) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._compute = measurement.compute
        self.num_refs = 1
        self.scores: list[float] = []

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return hypotheses

    def _aggregate_and_compute(self, stats: Any) -> Any:
        return self._compute_score_from_stats(stats.sum(0))

    def _compute_score_from_stats(self, stats: Any) -> Any:
        value = self._compute([float(column) for column in stats])
        self.scores.append(value)
        return _Value(value)

    # Abstract in sacreBLEU; its tests call none of them, for statistics come ready-made.

    def _preprocess_segment(self, sent: str) -> str:
        raise NotImplementedError

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _compute_segment_statistics(self, hypothesis: str, ref_kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class _Value:
    """As much of a sacreBLEU score as ``PairedTest`` looks at."""

    score: float
    name: str = "score"


def seed() -> str:
    """The seed of all resampling, as sacreBLEU takes it from the environment."""
    return os.environ.get("SACREBLEU_SEED", "12345").lower()


def resample(
    measurement: Measurement,
    unit: Resample = "document",
    *,
    bootstrap_trials: int = BOOTSTRAP_TRIALS,
    randomisation_trials: int = RANDOMISATION_TRIALS,
) -> Resampling:
    """Confidence intervals of all systems, and the first one against each other one.

    Args:
        measurement: one metric on all systems.
        unit: what is drawn and swapped whole. ``sentence`` means the metric's own
            segment, as ``sacrebleu --paired-bs`` has it; ``none`` leaves the sign test.
        bootstrap_trials: resampled corpora of the bootstrap.
        randomisation_trials: those of approximate randomisation.

    Returns:
        Without confidence, bootstrap and randomisation where there is only one unit: it
        cannot be resampled.
    """
    grouped = unit == "document" and measurement.unit != "document"
    rows = {
        name: _sum_by_document(values, measurement.documents) if grouped else values
        for name, values in measurement.rows.items()
    }
    baseline, *others = rows
    units = len(rows[baseline])
    confidence: dict[str, Confidence] = {}
    paired: dict[str, tuple[tuple[float, float], PairedResult, PairedResult]] = {}
    if unit != "none" and units > 1:
        confidence, paired = _paired_tests(
            measurement, rows, bootstrap_trials, randomisation_trials
        )
    comparisons = {}
    for name in others:
        interval, bootstrap, randomisation = paired.get(name, (None, None, None))
        comparisons[name] = Comparison(
            difference=measurement.score(name) - measurement.score(baseline),
            interval=interval,
            bootstrap=bootstrap,
            randomisation=randomisation,
            sign_test=sign_test(measurement, baseline, name),
        )
    return Resampling("document" if grouped else measurement.unit, units, confidence, comparisons)


def _sum_by_document(rows: Rows, documents: NDArray[np.int64]) -> Rows:
    sums = np.zeros((documents[-1] + 1, rows.shape[1]))
    np.add.at(sums, documents, rows)
    return sums


def _paired_tests(
    measurement: Measurement, rows: dict[str, Rows], bootstrap_trials: int, swap_trials: int
) -> tuple[
    dict[str, Confidence], dict[str, tuple[tuple[float, float], PairedResult, PairedResult]]
]:
    """Both tests of ``PairedTest``, with our p-values beside its own."""
    baseline, *others = rows
    drawn, drawn_results = _paired_test("bs", measurement, rows, bootstrap_trials)
    confidence = {
        name: Confidence(float(result.mean), float(result.ci), bootstrap_trials)
        for name, result in drawn_results.items()
    }
    if not others:
        return confidence, {}
    swapped, swapped_results = _paired_test("ar", measurement, rows, swap_trials)
    # Each test first computes the baseline (the bootstrap with its trials), then for every
    # other system its score, the trials of one side and those of the other.
    drawn_scores, swapped_scores = drawn[1 + bootstrap_trials :], swapped[1:]
    paired = {}
    for name in others:
        observed = measurement.score(name) - measurement.score(baseline)
        of_baseline, of_system, drawn_scores = _take(drawn_scores, bootstrap_trials)
        differences = of_system - of_baseline
        low, high = np.percentile(differences, [2.5, 97.5])
        bootstrap = PairedResult(
            _p_value(differences - differences.mean(), observed),
            float(drawn_results[name].p_value),
            bootstrap_trials,
        )
        one, other, swapped_scores = _take(swapped_scores, swap_trials)
        randomisation = PairedResult(
            _p_value(one - other, observed),
            float(swapped_results[name].p_value),
            swap_trials,
        )
        paired[name] = (float(low), float(high)), bootstrap, randomisation
    return confidence, paired


def _paired_test(
    kind: str, measurement: Measurement, rows: dict[str, Rows], trials: int
) -> tuple[NDArray[Any], dict[str, Any]]:
    """Every score that sacreBLEU's test computes, in order, and its result by system."""
    metric = _Trials(measurement)
    systems: Any = list(rows.items())
    _, results = PairedTest(systems, {"": metric}, None, test_type=kind, n_samples=trials)()
    return np.array(metric.scores), dict(zip(rows, results["score"], strict=True))


def _take(scores: NDArray[Any], trials: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The two runs of trials after a system's own score, and what comes after them."""
    return scores[1 : 1 + trials], scores[1 + trials : 1 + 2 * trials], scores[1 + 2 * trials :]


def _p_value(trials: NDArray[Any], observed: float) -> float:
    """Share of trials at least as far from zero as what was observed, itself included."""
    extreme = np.count_nonzero(np.abs(trials) >= abs(observed) - _ROUNDING)
    return float((extreme + 1) / (len(trials) + 1))


def sign_test(measurement: Measurement, baseline: str, system: str) -> SignTest:
    """The sign test of Collins et al. (2005), two-sided.

    A corpus score has no values for single segments. So each segment of the baseline is
    exchanged for the system's, one at a time, and the corpus score goes up, down or
    neither. Under the null hypothesis up and down are equally probable; segments that
    change nothing do not count.
    """
    old, new = measurement.rows[baseline], measurement.rows[system]
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
