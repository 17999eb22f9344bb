"""Measure how often `gtrans adapt` chooses a worse model, and how often it misses a better one.

The systems are made of real text: chats with customers (BConTrasT), each document of which is its
own reference. A sentence model has a share of its words wrong. A model that was trained from it has
other words wrong in half of the sentences, in some documents more and in others fewer; how many on
the whole decides how much better it really is. Each of its checkpoints differs from it in a few
sentences. The three best on the documents that stop the training make its translation, sentence by
sentence. The numbers of these changes were chosen so that the difference of two models varies as
in results/adapt.json: its standard error is 0.5 d-BLEU with 78 documents.

The rule of before takes the highest score on the documents that picked the checkpoints. The rule of
today is that of :mod:`gtrans.evaluation.choosing`. The table goes to
results/adapt-simulations.json:

    python scripts/benchmarks/adapt.py --data DATA [--runs 300]

`DATA` has `bcontrast/{train,dev,test}.de.gz`, one sentence per line, an empty line between
documents.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.choosing import STOPPING_SHARE, choose, compare_candidates
from gtrans.evaluation.metrics import Corpus, Measurement, Options, measure
from gtrans.evaluation.significance import holm, sum_by
from gtrans.lab.provenance import provenance
from gtrans.messages import with_schema
from gtrans.text.reader import read_documents

FILES = [f"bcontrast/{split}.de.gz" for split in ("train", "dev", "test")]
DOCUMENTS = (78, 20, 50, 150)
LEVELS = np.round(np.arange(0, 0.901, 0.05), 2)  # shares of wrong words of a sentence
VERSIONS = 3  # disturbed versions of every sentence at each level
USUAL, BY_SENTENCE, BY_DOCUMENT = 0.5, 0.2, 0.08  # wrong words of the sentence model: mean, spreads
CHANGED = 0.5  # share of the sentences that a trained model translates anew
UNEVEN = 0.045  # spread between documents of what a training changes
CHECKPOINTS, BEST = 10, 3
DIFFER = 0.25  # share of the sentences that a checkpoint translates in its own way
SPREAD = 0.7  # of the true differences of trained models
WORSE = -0.2  # a model is called worse if it truly loses more
TRIALS = 999
SHARES = (2, 3)  # one in so many documents stops the training
SCENES: dict[str, tuple[float, float] | None] = {
    "any, N(0, 0.7)": None,
    "both worse by 0.5": (-0.5, -0.5),
    "both better by 1": (1.0, 1.0),
    "one better by 1": (1.0, 0.0),
}
MODELS = ("continued", "document")
SENTENCE = "sentence"
Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass
class Bank:
    """Statistics of disturbed versions of every sentence.

    Attributes:
        metric: a measurement whose formula all others share.
        statistics: ``(levels, versions, sentences, columns)``.
        documents: ``(sentences,)`` the document of each sentence.
        slope: wrong words for one point of d-BLEU.
    """

    metric: Measurement
    statistics: NDArray[np.float32]
    documents: Numbers
    slope: float = 0.0

    def rows(self, rng: np.random.Generator, shares: Floats, sentences: Numbers) -> Floats:
        """Statistics of translations of sentences with these shares of wrong words."""
        steps = np.clip(shares, 0, LEVELS[-1]) / LEVELS[1]
        lower = np.floor(steps).astype(int)
        level = lower + (rng.random(len(steps)) < steps - lower)
        versions = rng.integers(VERSIONS, size=len(sentences))
        found: Floats = self.statistics[level, versions, sentences].astype(np.float64)
        return found

    def difficulty(self, rng: np.random.Generator, sentences: Numbers) -> Floats:
        """Shares of words that the sentence model has wrong."""
        of_document = rng.normal(0, BY_DOCUMENT, self.documents[-1] + 1)
        shares: Floats = rng.normal(USUAL, BY_SENTENCE, len(sentences))
        shares += of_document[self.documents[sentences]]
        return shares

    def calibrate(self, rng: np.random.Generator) -> None:
        """Find the slope, from the whole text with 5% more and fewer words wrong."""
        sentences = np.arange(len(self.documents))
        scores = []
        for more in (-0.05, 0.05):
            sums = np.zeros(self.statistics.shape[-1])
            for _ in range(8):
                base = self.difficulty(rng, sentences)
                base[rng.random(len(base)) < CHANGED] += more
                sums += self.rows(rng, base, sentences).sum(0)
            scores.append(float(self.metric.compute(sums)))
        self.slope = 0.1 / (scores[1] - scores[0])


def bleu(sums: Floats) -> Floats:
    """BLEU of sums of statistics ``(..., columns)``: sacreBLEU's, fast for many trials at once."""
    lengths, reference = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore"):  # few documents may have no 4-gram right
        precisions = np.log(sums[..., 2:6] / sums[..., 6:10]).mean(-1)
    scores: Floats = 100 * np.exp(np.minimum(0, 1 - reference / lengths) + precisions)
    return scores


def disturbed(lines: list[list[str]], share: float, rng: np.random.Generator) -> list[str]:
    """A copy of sentences with a share of their words replaced by other words of the text."""
    words = [word for line in lines for word in line]
    copy = []
    for line in lines:
        replaced = rng.random(len(line)) < share
        new = rng.integers(len(words), size=len(line))
        pairs = zip(line, replaced, new, strict=True)
        copy.append(" ".join(words[at] if other else word for word, other, at in pairs))
    return copy


def fill(data: Path, rng: np.random.Generator) -> Bank:
    """The bank of all documents in ``data``."""
    documents = [document for name in FILES for document in read_documents(data / name)]
    numbers = [number for number, document in enumerate(documents) for _ in document]
    lines = [line for document in documents for line in document]
    words = [line.split() for line in lines]
    corpus = Corpus([lines], [[range(len(lines))]])
    by_level = []
    for share in LEVELS:
        versions = []
        for _ in range(VERSIONS):
            system = {"": [disturbed(words, float(share), rng)]}
            metric = measure(corpus, system, ["s_bleu"], Options(target_lang="de"))["s_bleu"]
            versions.append(metric.statistics[""].astype(np.float32))
        by_level.append(np.stack(versions))
    sums = metric.statistics[""].sum(0)
    assert np.isclose(bleu(sums), metric.compute(sums))
    bank = Bank(replace(metric, compute=bleu), np.stack(by_level), np.array(numbers))
    bank.calibrate(rng)
    return bank


@dataclass(frozen=True)
class Development:
    """A development set, the documents of which one in ``every`` stops the training; 1: all."""

    bank: Bank
    documents: Numbers
    every: int

    def part(self, statistics: dict[str, Floats], stops: bool) -> Measurement:
        """All systems on the documents that stop the training, or on the others."""
        total = int(self.documents[-1]) + 1
        chosen = np.arange(total) % self.every == 0
        rows = {}
        for name, values in statistics.items():
            rows[name] = sum_by(self.documents, values)[chosen == stops]
        numbers = np.arange(len(rows[SENTENCE]))
        return replace(self.bank.metric, unit="document", statistics=rows, documents=numbers)

    def averaged(self, rng: np.random.Generator, checkpoints: Floats) -> Floats:
        """Statistics of the average of the checkpoints that are best where the training stops."""
        total = int(self.documents[-1]) + 1
        stops = (np.arange(total) % self.every == 0)[self.documents]
        scores = self.bank.metric.compute(checkpoints[:, stops].sum(1))
        best = np.argsort(scores)[-BEST:]
        chosen = rng.choice(best, checkpoints.shape[1])
        average: Floats = checkpoints[chosen, np.arange(checkpoints.shape[1])]
        return average


@dataclass(frozen=True)
class Outcome:
    """The choice in one run: whether a model replaced the sentence model, and what it truly gains.

    Attributes:
        gain: true gain of the chosen model; 0 for the sentence model.
        replaced: whether a trained model was chosen.
        overstated: the printed gain less the true one.
    """

    gain: float
    replaced: bool
    overstated: float


def run(rng: np.random.Generator, bank: Bank, total: int, truth: Floats) -> dict[str, Outcome]:
    """One adaptation with ``total`` development documents, chosen by each rule."""
    last = int(bank.documents[-1])
    picked = rng.choice(last + 1, total, replace=False)
    places = [np.flatnonzero(bank.documents == number) for number in picked]
    sentences = np.concatenate(places)
    documents = np.repeat(np.arange(total), [len(place) for place in places])
    base = bank.difficulty(rng, sentences)
    statistics = {SENTENCE: bank.rows(rng, base, sentences)}
    checkpoints = {}
    for model, gain in zip(MODELS, truth, strict=True):
        changed = rng.random(len(base)) < CHANGED
        shares = base + bank.slope * gain + rng.normal(0, UNEVEN, total)[documents]
        common = statistics[SENTENCE].copy()
        common[changed] = bank.rows(rng, shares[changed], sentences[changed])
        saved = np.repeat(common[None], CHECKPOINTS, 0)
        for checkpoint in saved:
            own = changed & (rng.random(len(base)) < DIFFER / CHANGED)
            checkpoint[own] = bank.rows(rng, shares[own], sentences[own])
        checkpoints[model] = saved
    outcomes = {}
    for every in (1, *SHARES):
        development = Development(bank, documents, every)
        for model, saved in checkpoints.items():
            statistics[model] = development.averaged(rng, saved)
        stopping = development.part(statistics, True)
        candidate = max(MODELS, key=stopping.score)
        gains = dict(zip(MODELS, truth, strict=True))
        if every == 1:
            change = stopping.score(candidate) - stopping.score(SENTENCE)
            outcomes["before"] = _outcome(gains[candidate], change, change > 0)
            continue
        verdicts = compare_candidates(development.part(statistics, False), TRIALS)
        by_name = {verdict.system: verdict for verdict in verdicts}
        best = max(verdicts, key=lambda verdict: verdict.difference)
        adjusted = holm([verdict.p for verdict in verdicts])[verdicts.index(best)]
        choices = {
            "each tested": choose(SENTENCE, verdicts),
            "both tested, Holm": best.system if best.replaces and adjusted < 0.05 else SENTENCE,
            "the best of these tested": candidate if by_name[candidate].replaces else SENTENCE,
        }
        for rule, chosen in choices.items():
            change = by_name[chosen].difference if chosen in by_name else 0.0
            replaced = chosen != SENTENCE
            outcomes[f"1/{every} stops, {rule}"] = _outcome(gains.get(chosen, 0), change, replaced)
    return outcomes


def _outcome(gain: float, change: float, replaced: bool) -> Outcome:
    if not replaced:
        return Outcome(0.0, False, 0.0)
    return Outcome(gain, True, change - gain)


def summary(outcomes: list[Outcome]) -> dict[str, float]:
    """The rates of some runs."""
    replaced = [outcome for outcome in outcomes if outcome.replaced]
    worse = [outcome for outcome in replaced if outcome.gain < WORSE]
    found = {
        "replaced": len(replaced) / len(outcomes),
        "worse_chosen": len(worse) / len(outcomes),
        "mean_gain": float(np.mean([outcome.gain for outcome in outcomes])),
        "overstated": float(np.mean([outcome.overstated for outcome in replaced] or [0.0])),
    }
    return {name: round(value, 4) for name, value in found.items()}


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--output", default="results/adapt-simulations.json")
    args = parser.parse_args()
    bank = fill(args.data, np.random.default_rng(0))
    rows: list[dict[str, Any]] = []
    for total in DOCUMENTS:
        for scene, gains in SCENES.items():
            rng = np.random.default_rng(total)
            collected: dict[str, list[Outcome]] = {}
            for _ in range(args.runs):
                truth = rng.normal(0, SPREAD, 2) if gains is None else np.array(gains)
                for rule, outcome in run(rng, bank, total, truth).items():
                    collected.setdefault(rule, []).append(outcome)
            for rule, outcomes in collected.items():
                row = {"documents": total, "truth": scene, "rule": rule, **summary(outcomes)}
                rows.append(row)
                print(*row.values(), sep="\t", flush=True)
    content = {
        "versions": provenance(),
        "command": "python scripts/benchmarks/adapt.py --data DATA",
        "runs": args.runs,
        "stopping_share": STOPPING_SHARE,
        "rows": rows,
    }
    text = json.dumps(with_schema("adapt-simulations", content), indent=1)
    Path(args.output).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
