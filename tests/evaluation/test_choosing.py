"""A trained model replaces the baseline only if other documents show that it is better."""

from __future__ import annotations

import numpy as np
import pytest

from gtrans.evaluation.choosing import choose, compare_candidates
from gtrans.evaluation.metrics import Measurement, mean_of


def measurement(gains: dict[str, float], documents: int, spread: float = 1.0) -> Measurement:
    """Systems whose score is a mean over documents, which differ by ``gains`` from the first."""
    rng = np.random.default_rng(3)
    base = rng.normal(20, 5, documents)
    statistics = {"sentence": np.column_stack([base, np.ones(documents)])}
    for name, gain in gains.items():
        change = rng.normal(0, spread, documents)
        values = base + change - change.mean() + gain
        statistics[name] = np.column_stack([values, np.ones(documents)])
    return Measurement(
        "d_bleu", "d-BLEU", "document", True, "", statistics, np.arange(documents), mean_of
    )


@pytest.mark.parametrize(
    ("gains", "documents", "chosen", "answers"),
    [
        ({"continued": 0.0, "document": 0.1}, 52, "sentence", ["undecided", "undecided"]),
        ({"continued": 0.0, "document": 1.0}, 52, "document", ["undecided", "better"]),
        ({"continued": 1.2, "document": 1.0}, 52, "continued", ["better", "better"]),
        ({"continued": -1.0, "document": -0.1}, 52, "sentence", ["worse", "undecided"]),
        ({"continued": 5.0, "document": 9.0}, 19, "sentence", ["undecided", "undecided"]),
        ({"continued": 0.0, "document": 9.0}, 20, "document", ["undecided", "better"]),
        ({"continued": 1.0, "document": 9.0}, 1, "sentence", ["undecided", "undecided"]),
    ],
)
def test_choice(gains: dict[str, float], documents: int, chosen: str, answers: list[str]) -> None:
    verdicts = compare_candidates(measurement(gains, documents))
    assert choose("sentence", verdicts) == chosen
    assert [verdict.answer for verdict in verdicts] == answers
    for verdict in verdicts:
        assert verdict.difference == pytest.approx(gains[verdict.system])


def test_equal_translations_are_undecided() -> None:
    (verdict,) = compare_candidates(measurement({"document": 0.0}, 30, spread=0.0))
    assert verdict.p == 1 and verdict.answer == "undecided"
