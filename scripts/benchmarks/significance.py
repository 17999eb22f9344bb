"""Simulate how often every printed test errs where the truth is known.

Two systems have equal quality, but each is by chance better or worse at a whole document, as real
systems are; in contrastive sets a film decides once for all its items. A test at 5% should find a
difference in 5% of the runs. The table goes to results/evaluation-simulations.json:

    python scripts/benchmarks/significance.py [--runs 400]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.contrastive.accuracy import Change, Gain
from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.significance import Found, p_of, resample
from gtrans.lab.provenance import provenance
from gtrans.messages import of_form

DOCUMENTS = (8, 20, 50)
TRIALS, ITEMS, OTHERS = 500, 20, 3  # of resampling; of a film; systems beside the baseline
ITEM_RUNS = 10  # runs of the tests of items, which are fast, for each run of those of scores
# Systems beside one of the baseline's quality: how they lose.
LOSSES = {"every document": {"loss": 0.02}, "4% of the documents": {"failing": 0.04}}
Floats = NDArray[np.float64]


def error_rates(
    rng: np.random.Generator, difficulty: Floats, loss: float = 0, failing: float = 0
) -> Floats:
    """``(documents,)`` of a system with a loss at every document, or that fails badly at a few."""
    fails = failing > 0 and rng.random(len(difficulty)) < failing
    return np.where(fails, 0.9, difficulty + rng.normal(0, 0.04, len(difficulty)) + loss)


def bleu(sums: Floats) -> Floats:
    """BLEU of many corpora at a time, from the statistics of :mod:`gtrans.evaluation.metrics`."""
    precisions = np.log(np.maximum(sums[..., 2:6], 0.5) / np.maximum(sums[..., 6:], 1))
    brevity = np.minimum(0, 1 - sums[..., 1] / np.maximum(sums[..., 0], 1))
    scores: Floats = 100 * np.exp(brevity + precisions.mean(-1))
    return scores


def measured(rng: np.random.Generator, documents: int, *losses: dict[str, float]) -> Measurement:
    """s-BLEU of systems on documents of 4 to 11 sentences, as statistics of sentences."""
    difficulty = rng.uniform(0.25, 0.45, documents)
    numbers = np.repeat(np.arange(documents), rng.integers(4, 12, documents))
    lengths = rng.integers(6, 25, len(numbers))
    rows = {}
    for system, loss in enumerate(losses):
        statistics = np.zeros((len(numbers), 10))
        statistics[:, :2] = lengths[:, None]
        # Right words of each sentence; n-grams of right words are right.
        drawn = rng.random((len(numbers), 25))
        right = drawn > error_rates(rng, difficulty, **loss)[numbers][:, None]
        right &= np.arange(25) < lengths[:, None]
        for order in range(4):
            run = np.all([right[:, n : 25 - order + n] for n in range(order + 1)], axis=0)
            statistics[:, 2 + order], statistics[:, 6 + order] = run.sum(1), lengths - order
        rows[f"system {system}"] = statistics
    return Measurement("s_bleu", "s-BLEU", "sentence", True, "", rows, numbers, bleu)


def compared(measurement: Measurement, margin: float | None = None) -> list[Found]:
    """The systems compared with the first one, by all tests."""
    result = resample(
        measurement, bootstrap_trials=TRIALS, randomisation_trials=TRIALS, margin=margin,
        all_tests=True,
    )  # fmt: skip
    return list(result.comparisons.values())


def excludes_0(interval: tuple[float, float] | None) -> bool:
    """Whether an interval says that there is a difference."""
    return interval is not None and not interval[0] <= 0 <= interval[1]


def score_tests(
    rng: np.random.Generator, documents: int, margins: dict[str, float]
) -> dict[str, bool]:
    """Which tests of ``gtrans score`` reject in one run; the losses are those of the margins."""
    several = compared(measured(rng, documents, *[{}] * (1 + OTHERS)))
    first = several[0]
    findings = {
        "p rand": first["paired_randomisation"]["p"] <= 0.05,
        "interval of the change excludes 0": excludes_0(first.get("interval")),
        f"p Holm, any of {OTHERS} systems": any(p_of(comparison) <= 0.05 for comparison in several),
        "p boot (--all-tests)": first["paired_bootstrap"]["p"] <= 0.05,
    }
    for name, margin in margins.items():
        (test,) = compared(measured(rng, documents, {}, LOSSES[name]), margin)
        findings[f"p non-inf, loss of the margin by {name}"] = test["non_inferiority"]["p"] <= 0.05
    return findings


def item_tests(rng: np.random.Generator, documents: int, half: bool = False) -> dict[str, bool]:
    """Which tests of ``contrast`` and ``score --ctxpro`` reject in one run, on clustered items.

    ``half``: the first film has half of them.
    """
    sizes = rng.integers(ITEMS // 2, 2 * ITEMS, documents)
    sizes[0] = sizes[1:].sum() if half else sizes[0]
    films = tuple(np.repeat([f"film {n}" for n in range(documents)], sizes).tolist())
    first, second = (np.repeat(rng.random(documents) < 0.5, sizes).astype(int) for _ in range(2))
    changes = tuple((second - first).tolist())
    by_film, by_item = Change(changes, films), Change(changes, ("",) * len(films))
    gains = np.repeat(rng.normal(0, 1, documents), sizes) + rng.normal(0, 0.3, len(films))
    findings = {
        "contrast, p (documents flipped)": by_film.p_value <= 0.05,
        "contrast, interval of the difference excludes 0": excludes_0(by_film.interval),
        "contrast, interval of the margin excludes 0":
            excludes_0(Gain(tuple(gains.tolist()), films).interval),
        "contrast, p (McNemar; the set names no documents)": by_item.p_value <= 0.05,
    }  # fmt: skip
    suffix = "; half of the items in one film" if half else ""
    return {name + suffix: finding for name, finding in findings.items()}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--output", default="results/evaluation-simulations.json")
    args = parser.parse_args()
    margins = {}
    for name, loss in LOSSES.items():  # the true one, of a large corpus
        whole = measured(np.random.default_rng(0), 4000, {}, loss)
        margins[name] = whole.score("system 0") - whole.score("system 1")
    runs = {"gtrans score": args.runs, "gtrans contrast": ITEM_RUNS * args.runs}
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    simulations: list[Any] = [
        partial(score_tests, margins=margins), item_tests, partial(item_tests, half=True),
    ]  # fmt: skip
    for number, simulate in enumerate(simulations):
        for documents in map(str, DOCUMENTS):
            rng = np.random.default_rng([int(documents), number])
            for _ in range(runs["gtrans contrast" if number else "gtrans score"]):
                for name, significant in simulate(rng, int(documents)).items():
                    counts[name][documents] = counts[name].get(documents, 0) + significant
    shares = {}
    for name, row in counts.items():
        total = runs["gtrans contrast" if name.startswith("contrast") else "gtrans score"]
        shares[name] = {documents: round(count / total, 4) for documents, count in row.items()}
        print(f"{name:60}", *(f"{share:6.1%}" for share in shares[name].values()))
    content = of_form("simulations", {
        "versions": provenance(), "nominal": 0.05, "runs": runs,
        "standard_error": {name: round((0.05 * 0.95 / n) ** 0.5, 4) for name, n in runs.items()},
        "margins": {name: round(margin, 3) for name, margin in margins.items()},
        "share_of_runs_by_documents": shares,
    })  # fmt: skip
    Path(args.output).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
