"""Simulate how often every printed test errs where the truth is known.

Two systems have equal quality, but each is by chance better or worse at a whole document, as real
systems are; in contrastive sets a film decides once for all its items. A test at 5% should find a
difference in 5% of the runs. The table goes to docs/evaluation-simulations.json:

    python scripts/benchmarks/significance.py [--runs 400]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.contrastive.accuracy import Change, Gain
from gtrans.evaluation.metrics import Measurement
from gtrans.evaluation.significance import Found, p_of, resample
from gtrans.lab.provenance import provenance

DOCUMENTS = (8, 20, 50)
SCATTER, LOSS, FAILING = 0.04, 0.02, 0.04  # of error rates; share of documents that fail badly
TRIALS, ITEMS, OTHERS = 500, 20, 3  # of resampling; of a film; systems beside the baseline
ITEM_RUNS = 10  # runs of the tests of items for each run of those of scores
Errors = Callable[[np.random.Generator, NDArray[np.float64]], NDArray[np.float64]]
Rates = dict[str, bool]
Simulation = Callable[[np.random.Generator, int], Rates]


def equal(rng: np.random.Generator, difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Error rates of a system of the baseline's quality, (documents,)."""
    return difficulty + rng.normal(0, SCATTER, len(difficulty))


def worse(rng: np.random.Generator, difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those of a system that is a little worse at every document."""
    return equal(rng, difficulty) + LOSS


def failing(rng: np.random.Generator, difficulty: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those of a system that fails badly at a few documents."""
    fails = rng.random(len(difficulty)) < FAILING
    return np.where(fails, 0.9, equal(rng, difficulty))


def bleu(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """BLEU of many corpora at a time, from the statistics of :mod:`gtrans.evaluation.metrics`."""
    precisions = np.log(np.maximum(sums[..., 2:6], 0.5) / np.maximum(sums[..., 6:], 1))
    brevity = np.minimum(0, 1 - sums[..., 1] / np.maximum(sums[..., 0], 1))
    scores: NDArray[np.float64] = 100 * np.exp(brevity + precisions.mean(-1))
    return scores


def measured(rng: np.random.Generator, documents: int, *systems: Errors) -> Measurement:
    """s-BLEU of the systems on documents of 4 to 11 sentences, as statistics of sentences."""
    difficulty = rng.uniform(0.25, 0.45, documents)
    numbers = np.repeat(np.arange(documents), rng.integers(4, 12, documents))
    lengths = rng.integers(6, 25, len(numbers))
    rows = {}
    for number, errors in enumerate(systems):
        found = np.zeros((len(numbers), 10))
        found[:, :2] = lengths[:, None]
        right = rng.random((len(numbers), 25)) > errors(rng, difficulty)[numbers][:, None]
        right &= np.arange(25) < lengths[:, None]
        for order in range(4):
            run = np.all([right[:, n : 25 - order + n] for n in range(order + 1)], axis=0)
            found[:, 2 + order], found[:, 6 + order] = run.sum(1), lengths - order
        rows[f"system {number}"] = found
    return Measurement("s_bleu", "s-BLEU", "sentence", True, "", rows, numbers, bleu)


def compared(measurement: Measurement, margin: float | None = None) -> list[Found]:
    """The systems compared with the first one, by all tests."""
    found = resample(
        measurement, bootstrap_trials=TRIALS, randomisation_trials=TRIALS, margin=margin,
        all_tests=True,
    )  # fmt: skip
    return list(found.comparisons.values())


def true_loss(errors: Errors) -> float:
    """The loss of a system in a large corpus, its margin."""
    whole = measured(np.random.default_rng(0), 4000, equal, errors)
    return whole.score("system 0") - whole.score("system 1")


def excludes_0(interval: tuple[float, float] | None) -> bool:
    """Whether an interval says that there is a difference."""
    return interval is not None and not interval[0] <= 0 <= interval[1]


def of_scores(rng: np.random.Generator, documents: int, margins: dict[str, float]) -> Rates:
    """One run of the tests of ``gtrans score``."""
    systems = [equal] * (1 + OTHERS)
    several = compared(measured(rng, documents, *systems))
    one = several[0]
    found = {
        "p rand": one["paired_randomisation"]["p"] <= 0.05,
        "interval of the change excludes 0": excludes_0(one.get("interval")),
        f"p Holm, any of {OTHERS} systems": any(p_of(it) <= 0.05 for it in several),
        "p boot (--all-tests)": one["paired_bootstrap"]["p"] <= 0.05,
        "p sign (--all-tests)": one["sign_test"]["p"] <= 0.05,
    }
    for name, errors in (("every document", worse), ("4% of the documents", failing)):
        (test,) = compared(measured(rng, documents, equal, errors), margins[name])
        found[f"p non-inf, loss of the margin by {name}"] = test["non_inferiority"]["p"] <= 0.05
    return found


def of_items(rng: np.random.Generator, documents: int) -> Rates:
    """One run of the tests of ``gtrans contrast`` and ``score --ctxpro``, on clustered items."""
    sizes = rng.integers(ITEMS // 2, 2 * ITEMS, documents)
    films = tuple(np.repeat([f"film {n}" for n in range(documents)], sizes).tolist())
    one, other = (np.repeat(rng.random(documents) < 0.5, sizes).astype(int) for _ in range(2))
    changes = tuple((other - one).tolist())
    by_film, by_item = Change(changes, films), Change(changes, ("",) * len(films))
    gains = np.repeat(rng.normal(0, 1, documents), sizes) + rng.normal(0, 0.3, len(films))
    margin = Gain(tuple(gains.tolist()), films)
    return {
        "contrast, p (documents flipped)": by_film.p_value <= 0.05,
        "contrast, interval of the difference excludes 0": excludes_0(by_film.interval),
        "contrast, interval of the margin excludes 0": excludes_0(margin.interval),
        "contrast, p (McNemar; the set names no documents)": by_item.p_value <= 0.05,
    }


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--output", default="docs/evaluation-simulations.json")
    args = parser.parse_args()
    margins = {"every document": true_loss(worse), "4% of the documents": true_loss(failing)}
    table: dict[str, dict[int, float]] = {}
    # Tests of items are fast, so that more runs show an error of a percent.
    kinds: list[tuple[int, Simulation]] = [
        (args.runs, partial(of_scores, margins=margins)),
        (ITEM_RUNS * args.runs, of_items),
    ]
    for number, (runs, simulate) in enumerate(kinds):
        for documents in DOCUMENTS:
            rng = np.random.default_rng([documents, number])
            for _ in range(runs):
                for name, found in simulate(rng, documents).items():
                    row = table.setdefault(name, {})
                    row[documents] = row.get(documents, 0) + found / runs
    for name, row in table.items():
        print(f"{name:60}", *(f"{100 * share:5.1f}%" for share in row.values()))
    content = {
        "schema": "gtrans.simulations/1", "versions": provenance(),
        "nominal": 0.05,
        "runs": {"gtrans score": args.runs, "gtrans contrast": ITEM_RUNS * args.runs},
        "standard_error": {
            "gtrans score": round((0.05 * 0.95 / args.runs) ** 0.5, 4),
            "gtrans contrast": round((0.05 * 0.95 / args.runs / ITEM_RUNS) ** 0.5, 4),
        },
        "margins": {name: round(margin, 3) for name, margin in margins.items()},
        "share_of_runs_by_documents": {
            name: {str(n): round(share, 4) for n, share in row.items()}
            for name, row in table.items()
        },
    }  # fmt: skip
    Path(args.output).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
