"""Measure how often every printed test errs where the truth is known.

Scores: two systems of equal quality are made of real text. They are the second human reference of
generaltest2022 English-German, scored by the first one; in each document 2 or 12% of the words of a
system are replaced by other words of the text, by the toss of a coin, as real systems are better
or worse at whole documents. A test at 5% should find a difference in 5% of the runs. Documents are
drawn with replacement. The systems of the test of non-inferiority are worse than the baseline by
exactly the margin: at every document, or by failing at 4% of the documents.

Contrastive sets: a film decides once for all its items.

The table goes to results/evaluation-simulations.json:

    python scripts/benchmarks/significance.py --data DATA [--runs 1000]

`DATA` has `newstest/generaltest2022.refA.de.gz` and `.refB.de.gz`, one sentence per line, an empty
line between documents.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.contrastive.accuracy import Change, Gain
from gtrans.evaluation.metrics import Corpus, Documents, Measurement, Options, measure
from gtrans.evaluation.significance import (
    Comparison,
    NonInferiority,
    PairedTest,
    resample,
    sum_by,
)
from gtrans.lab.provenance import provenance
from gtrans.messages import with_schema
from gtrans.text.reader import read_documents

DOCUMENTS = (8, 20, 50, 184)  # 184: as many as the test set has
TRIALS, ITEMS, OTHERS = 500, 20, 3  # of resampling; of a film; systems beside the baseline
ITEM_RUNS = 4  # runs of the tests of items, which are fast, for each run of those of scores
ITEM_DOCUMENTS = DOCUMENTS[:3]
REFERENCE, SECOND = (f"newstest/generaltest2022.ref{name}.de.gz" for name in "AB")
METRICS = ("s_bleu", "chrf")
USUAL = (0.02, 0.12)  # shares of disturbed words of a document, equally probable
MORE = 0.04  # share of words that a system has wrong beside, if it is worse at every document
FAILED = 0.9  # share of disturbed words of a document at which a system fails
FAILING = 0.04  # share of documents at which the failing system fails
VERSIONS = 20  # disturbed versions of every document
ALIKE = "systems alike"  # both have 2% at the same documents, and 12% at the others
LOSSES = ("every document", "4% of the documents", f"4% of the documents, {ALIKE}")
Floats = NDArray[np.float64]


# --- scores of real text --------------------------------------------------------------------------


@dataclass(frozen=True)
class Bank:
    """Statistics of disturbed versions of every document.

    Attributes:
        metric: a measurement whose unit and formula all others share.
        statistics: by share of disturbed words, ``(versions, documents, columns)``.
    """

    metric: Measurement
    statistics: dict[float, Floats]

    def draw(
        self, rng: np.random.Generator, documents: NDArray[np.int64], shares: Floats, loss: str
    ) -> Floats:
        """Statistics of one system, ``(documents, columns)``; the loss is one of :data:`LOSSES`."""
        rows = []
        for document, share in zip(documents, shares, strict=True):
            if loss == LOSSES[0]:
                share = share + MORE
            elif loss in LOSSES and rng.random() < FAILING:
                share = FAILED
            version = rng.integers(VERSIONS)
            rows.append(self.statistics[round(float(share), 2)][version, document])
        return np.array(rows)

    def expected(self, loss: str = "") -> float:
        """The score of a system on the whole text, the mean over all that chance may do."""
        more = MORE if loss == LOSSES[0] else 0
        usual = [self.statistics[round(share + more, 2)].mean(0) for share in USUAL]
        statistics = np.mean(usual, axis=0)
        if loss in LOSSES[1:]:
            failed = self.statistics[FAILED].mean(0)
            statistics = (1 - FAILING) * statistics + FAILING * failed
        return float(self.metric.compute(statistics.sum(0)))

    def measured(self, rng: np.random.Generator, documents: int, losses: list[str]) -> Measurement:
        """Systems on documents drawn with replacement; no loss: as good as the first one."""
        total = len(self.statistics[FAILED][0])
        chosen = rng.integers(total, size=documents)
        shares = rng.choice(USUAL, size=documents)
        rows = {}
        for number, loss in enumerate(losses):
            if ALIKE not in losses[-1]:
                shares = rng.choice(USUAL, size=documents)
            rows[f"system {number}"] = self.draw(rng, chosen, shares, loss)
        metric = self.metric
        return Measurement(
            metric.key,
            metric.label,
            "document",
            metric.higher_is_better,
            metric.signature,
            rows,
            np.arange(documents),
            metric.compute,
        )


def disturbed(documents: Documents, share: float, rng: np.random.Generator) -> Documents:
    """A copy with a share of its words replaced by other words of the text."""
    words = [word for document in documents for line in document for word in line.split()]
    copy = []
    for document in documents:
        lines = []
        for line in document:
            old = line.split()
            replaced = rng.random(len(old)) < share
            new = rng.integers(len(words), size=len(old))
            pairs = zip(old, replaced, new, strict=True)
            lines.append(" ".join(words[at] if other else word for word, other, at in pairs))
        copy.append(lines)
    return copy


def banks(data: Path) -> dict[str, Bank]:
    """The statistics of each metric."""
    reference, second = read_documents(data / REFERENCE), read_documents(data / SECOND)
    rng = np.random.default_rng(0)
    collected: dict[str, dict[float, list[Floats]]] = {key: defaultdict(list) for key in METRICS}
    options = Options(target_lang="de")
    # No metric here has chunks, so each document is one.
    corpus = Corpus(reference, [[range(len(document))] for document in reference])
    worse = [round(share + MORE, 2) for share in USUAL]
    for share in [*USUAL, *worse, FAILED]:
        for _ in range(VERSIONS):
            system = {"": disturbed(second, share, rng)}
            found = measure(corpus, system, METRICS, options)
            for key, metric in found.items():
                sums = sum_by(metric.documents, metric.statistics[""])
                collected[key][share].append(sums)
    filled = {}
    for key, by_share in collected.items():
        stacked = {share: np.stack(versions) for share, versions in by_share.items()}
        filled[key] = Bank(found[key], stacked)
    return filled


def compared(measurement: Measurement, margin: float | None = None) -> list[Comparison]:
    """The systems compared with the first one, by all tests."""
    result = resample(
        measurement,
        bootstrap_trials=TRIALS,
        randomisation_trials=TRIALS,
        margin=margin,
        all_tests=True,
    )
    return list(result.comparisons.values())


def rejects(test: PairedTest | NonInferiority | None) -> bool:
    """Whether a test was made and finds a difference."""
    return test is not None and test.p <= 0.05


def excludes_0(interval: tuple[float, float] | None) -> bool:
    """Whether an interval says that there is a difference."""
    return interval is not None and not interval[0] <= 0 <= interval[1]


def score_tests(
    rng: np.random.Generator, documents: int, bank: Bank, margins: dict[str, float]
) -> dict[str, bool]:
    """Which tests of ``gtrans score`` reject in one run; the losses are those of the margins."""
    several = compared(bank.measured(rng, documents, [""] * (1 + OTHERS)))
    first = several[0]
    findings = {
        "p rand": rejects(first.paired_randomisation),
        "interval of the change excludes 0": excludes_0(first.interval),
        f"p Holm, any of {OTHERS} systems": any(comparison.p <= 0.05 for comparison in several),
        "p boot (--all-tests)": rejects(first.paired_bootstrap),
    }
    for name, margin in margins.items():
        (test,) = compared(bank.measured(rng, documents, ["", name]), margin)
        findings[f"p non-inf, loss of the margin by {name}"] = rejects(test.non_inferiority)
    label = bank.metric.label
    return {f"{label}, {name}": finding for name, finding in findings.items()}


# --- contrastive items ----------------------------------------------------------------------------


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
    margin = Gain(tuple(gains.tolist()), films)
    findings = {
        "contrast, p (documents flipped)": by_film.p_value <= 0.05,
        "contrast, interval of the difference excludes 0": excludes_0(by_film.interval),
        "contrast, interval of the margin excludes 0": excludes_0(margin.interval),
        "contrast, p (McNemar; the set names no documents)": by_item.p_value <= 0.05,
    }
    suffix = "; half of the items in one film" if half else ""
    return {name + suffix: finding for name, finding in findings.items()}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--output", default="results/evaluation-simulations.json")
    args = parser.parse_args()
    runs = {"gtrans score": args.runs, "gtrans contrast": ITEM_RUNS * args.runs}
    margins: dict[str, dict[str, float]] = {}
    simulations: list[Any] = []
    for bank in banks(args.data).values():
        losses = {name: bank.expected() - bank.expected(name) for name in LOSSES}
        margins[bank.metric.label] = losses
        simulations.append(partial(score_tests, bank=bank, margins=losses))
    simulations += [item_tests, partial(item_tests, half=True)]
    counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for number, simulate in enumerate(simulations):
        of_items = number >= len(METRICS)
        for documents in ITEM_DOCUMENTS if of_items else DOCUMENTS:
            rng = np.random.default_rng([documents, number])
            for _ in range(runs["gtrans contrast" if of_items else "gtrans score"]):
                for name, significant in simulate(rng, documents).items():
                    row = counts[name]
                    row[str(documents)] = row.get(str(documents), 0) + significant
    shares = {}
    for name, row in counts.items():
        total = runs["gtrans contrast" if name.startswith("contrast") else "gtrans score"]
        shares[name] = {documents: round(count / total, 4) for documents, count in row.items()}
        print(f"{name:80}", *(f"{share:6.1%}" for share in shares[name].values()))
    rounded = {}
    for label, losses in margins.items():
        rounded[label] = {name: round(margin, 3) for name, margin in losses.items()}
    content = {
        "versions": provenance(),
        "command": "python scripts/benchmarks/significance.py --data DATA",
        "text": {name: digest(args.data / name) for name in (REFERENCE, SECOND)},
        "nominal": 0.05,
        "runs": runs,
        "standard_error": {name: round((0.05 * 0.95 / n) ** 0.5, 4) for name, n in runs.items()},
        "margins": rounded,
        "share_of_runs_by_documents": shares,
    }
    text = json.dumps(with_schema("simulations", content), indent=1)
    Path(args.output).write_text(text + "\n", encoding="utf-8")


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
