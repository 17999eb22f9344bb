"""Significance: p-values by hand, and how often they are wrong where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from gtrans.evaluation.metrics import Measurement, mean_of
from gtrans.evaluation.significance import Resample, Resampling, resample

Statistics = NDArray[np.float64]


def mean(
    values: dict[str, list[float]],
    higher_is_better: bool = True,
    documents: Sequence[int] | None = None,
) -> Measurement:
    """A metric whose corpus score is the mean of its segments.

    ``documents``: that of each segment.
    """
    rows = {name: np.array([[value, 1.0] for value in column]) for name, column in values.items()}
    units = len(next(iter(values.values())))
    return Measurement(
        "mean", "mean", "document" if documents is None else "sentence", higher_is_better, "", rows,
        np.array(range(units) if documents is None else documents),
        mean_of,
    )  # fmt: skip


def compare(measurement: Measurement, unit: Resample = "document") -> Resampling:
    return resample(
        measurement, unit, bootstrap_trials=500, randomisation_trials=1000, all_tests=True
    )


# --- by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_an_interval_stays_within_the_scale(unit: Resample) -> None:
    """Half of the drawn corpora are perfect: to both sides of the mean, 100 would be exceeded."""
    rows = {"x": [100.0] * 9 + [10.0], "y": [100.0] * 10, "z": [0.0] * 9 + [90.0]}
    for name, found in compare(mean(rows), unit).confidence.items():
        low, high = found.interval
        assert 0 <= low <= sum(rows[name]) / 10 <= high <= 100


def test_randomisation_approaches_the_exact_test() -> None:
    """Six documents can be swapped in 64 ways: all are tried here, most of them there."""
    a, b = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0], [4.0, 3.0, 4.5, 1.5, 4.0, 9.5]
    differences = np.array(b) - np.array(a)
    observed = abs(differences.mean())
    every = [abs((differences * signs).mean()) for signs in product([1, -1], repeat=6)]
    exact = np.mean([value >= observed - 1e-9 for value in every])
    found = resample(mean({"a": a, "b": b}), randomisation_trials=5000)
    test = found.comparisons["b"].paired_randomisation
    assert test.p == pytest.approx(exact, abs=0.02)


def test_the_same_translation_twice_is_no_discovery() -> None:
    values = [3.0, 1.0, 4.0, 1.0, 5.0]
    found = compare(mean({"a": values, "b": list(values)})).comparisons["b"]
    assert found.difference == 0
    assert found.interval == (0, 0)
    for test in (found.paired_bootstrap, found.paired_randomisation):
        assert test.p == 1
        assert test.p_sacrebleu == pytest.approx(1 / (test.trials + 1))  # what sacreBLEU says


def test_three_documents_prove_nothing() -> None:
    """Of the eight ways to swap them, two are as extreme: p is 1/4, whatever the difference."""
    found = compare(mean({"a": [0.0, 1.0, 0.0], "b": [90.0, 99.0, 91.0]})).comparisons["b"]
    assert found.paired_randomisation.p == pytest.approx(0.25, abs=0.04)
    assert found.paired_randomisation.p_sacrebleu < 0.01


@pytest.mark.parametrize("unit", ["document", "sentence"])
def test_one_unit_cannot_be_resampled(unit: Resample) -> None:
    found = compare(mean({"a": [1.0], "b": [2.0]}), unit)
    assert found.confidence == {}
    comparison = found.comparisons["b"]
    assert comparison.difference == 1
    assert comparison.interval is None
    assert comparison.paired_bootstrap is None and comparison.paired_randomisation is None


def test_non_inferiority_approaches_the_exact_test() -> None:
    """As above; one side only, and every document is given back its share of the margin."""
    a, b = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0], [2.5, 1.5, 3.0, 1.0, 4.0, 9.5]
    for margin in (0.0, 0.3, 0.9):
        shifted = np.array(b) - np.array(a) + margin
        every = [(shifted * signs).mean() for signs in product([1, -1], repeat=6)]
        exact = np.mean([value >= shifted.mean() - 1e-9 for value in every])
        measured = mean({"a": a, "b": b})
        found = resample(measured, randomisation_trials=5000, margin=margin).comparisons["b"]
        assert found.non_inferiority.p == pytest.approx(exact, abs=0.02)
        errors = mean({"a": [-it for it in a], "b": [-it for it in b]}, higher_is_better=False)
        same = resample(errors, randomisation_trials=5000, margin=margin).comparisons["b"]
        assert same.non_inferiority == found.non_inferiority


def test_a_document_is_given_back_as_much_as_it_has_of_the_sentences() -> None:
    """Documents of one and three sentences; the four ways to swap them are counted by hand."""
    a = [0.0, 0.0, 0.0, 0.0]
    b = [-2.0, 0.4, -0.2, 0.1]  # documents: -2, and 0.3 together; the mean is -0.425
    found = resample(
        mean({"a": a, "b": b}, documents=[0, 1, 1, 1]), randomisation_trials=4000, margin=0.6
    ).comparisons["b"]
    # With its share, 0.6 / 4 and 0.6 * 3 / 4: -0.5 + 0.15 and 0.075 + 0.45. Only the second one
    # is above 0, so of the sums 0.175, 0.875, -0.875 and -0.175 two are at least 0.175.
    assert found.non_inferiority.p == pytest.approx(0.5, abs=0.03)


def test_several_systems_are_each_compared_with_the_first() -> None:
    values = {"a": [1.0, 2, 3, 4, 5, 6, 7, 8], "b": [1.5, 1, 3.5, 4, 5, 6, 7, 9]}
    values["c"] = [value + 3 for value in values["a"]]
    together = compare(mean(values))
    assert list(together.confidence) == ["a", "b", "c"]
    assert list(together.comparisons) == ["b", "c"]
    for name in "bc":
        alone = compare(mean({"a": values["a"], name: values[name]})).comparisons[name]
        test = together.comparisons[name].paired_randomisation
        assert alone.paired_randomisation == replace(test, p_holm=None)
        assert alone.interval == together.comparisons[name].interval
    first, second = (it.paired_randomisation for it in together.comparisons.values())
    assert first.p > second.p
    assert second.p_holm == 2 * second.p  # the smaller of two, by Holm
    assert first.p_holm == first.p


def test_an_interval_excludes_0_where_the_test_rejects() -> None:
    """Both are one test, so that they agree; six units are the fewest that can reject."""
    rng = np.random.default_rng(5)
    for units, rejecting in ((5, 0), (8, 2), (30, 2)):
        rejected = 0
        for gain in (0.0, 0.2, 0.7):
            a = rng.normal(size=units)
            b = a + rng.normal(gain, 0.5, units)
            found = compare(mean({"a": a.tolist(), "b": b.tolist()})).comparisons["b"]
            if units < 6:
                assert found.interval is None
                continue
            low, high = found.interval
            assert low < found.difference < high
            assert (low > 0 or high < 0) == (found.p <= 0.05)
            rejected += found.p <= 0.05
        assert rejected <= rejecting


def test_the_least_difference_is_detected_in_four_of_five_corpora() -> None:
    rng = np.random.default_rng(6)
    noise = rng.normal(size=(200, 20))
    least = compare(mean({"a": [0.0] * 20, "b": noise[0].tolist()})).comparisons["b"].detectable
    assert least == pytest.approx(2.95 * noise[0].std(ddof=1) / 20**0.5, rel=0.1)
    true = 2.95 / 20**0.5
    found = [
        resample(
            mean({"a": [0.0] * 20, "b": (of + true).tolist()}), bootstrap_trials=40,
            randomisation_trials=400,
        ).comparisons["b"].p
        for of in noise
    ]  # fmt: skip
    assert 0.7 < np.mean(np.array(found) <= 0.05) < 0.9


def test_no_difference_is_detected_where_none_can_be() -> None:
    rng = np.random.default_rng(7)
    for units, others, some in ((5, 1, False), (6, 1, True), (6, 2, False), (7, 2, True)):
        rows = {f"{n}": rng.normal(size=units).tolist() for n in range(1 + others)}
        found = compare(mean(rows)).comparisons
        assert all((it.detectable is not None) == some for it in found.values())
    same = compare(mean({"a": [0.0, 1.0] * 9, "b": [0.0, 1.0] * 9})).comparisons["b"]
    assert same.detectable is None and same.interval == (0, 0)


def test_non_inferiority_weighs_documents_by_length_and_names_the_worst() -> None:
    """The long document loses; of a short one, as much would be less than the margin."""
    rows = {
        "a": np.array([[10.0, 10.0]] * 9 + [[910.0, 910.0]]),
        "b": np.array([[10.0, 10.0]] * 9 + [[819.0, 910.0]]),
    }
    measured = replace(mean({"a": [0.0] * 10}), statistics=rows)
    test = resample(measured, randomisation_trials=2000, margin=0.05).comparisons["b"]
    assert test.non_inferiority.p > 0.4
    assert test.non_inferiority.worst_unit == 10
    assert test.non_inferiority.largest_loss == pytest.approx(0.1)


# --- simulation --------------------------------------------------------------------------
#
# scripts/benchmarks/significance.py has all tests, on statistics of BLEU.


def rejected(runs: int, gain: float, unit: Resample) -> dict[str, float]:
    """Share of runs with p <= 0.05; systems are by chance better or worse at whole documents."""
    rng = np.random.default_rng(1)
    documents = np.repeat(np.arange(20), 6)
    found: dict[str, list[float]] = {"bootstrap": [], "randomisation": []}
    for _ in range(runs):
        whole = rng.normal(size=(2, 20))[:, documents] + rng.normal(0, 0.5, (2, len(documents)))
        rows = {"a": whole[0].tolist(), "b": (whole[1] + gain).tolist()}
        comparison = resample(
            mean(rows, documents=documents.tolist()), unit, bootstrap_trials=200,
            randomisation_trials=200, all_tests=True,
        ).comparisons["b"]  # fmt: skip
        found["bootstrap"].append(comparison.paired_bootstrap.p)
        found["randomisation"].append(comparison.paired_randomisation.p)
    return {name: float(np.mean(np.array(ps) <= 0.05)) for name, ps in found.items()}


def test_equal_systems_are_seldom_and_different_ones_mostly_told_apart() -> None:
    equal = rejected(200, 0.0, "document")
    assert equal["randomisation"] <= 0.096  # 5% of 200 runs, plus three standard errors
    assert rejected(200, 0.0, "sentence")["randomisation"] > 0.2  # they are not independent
    different = rejected(50, 1.5, "document")
    assert min(different.values()) >= 0.9
