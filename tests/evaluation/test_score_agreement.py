"""Scores, signatures and tests against sacreBLEU, called directly on the same text."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from support.suites import one_in

from gtrans.cli import main
from gtrans.evaluation.metrics import METRICS, Documents, Options
from gtrans.evaluation.scores import Corpus, measure
from gtrans.evaluation.significance import resample
from gtrans.text.reader import read_documents

WORDS = ["the", "a", "cat", "dog", "house", "ran", "saw", "under", "Anna", "it", "was", ",", "."]


def noisy(documents: Documents, share: float, seed: int) -> list[list[str]]:
    """The documents with some words replaced, lost or doubled; a few sentences are empty."""
    rng = random.Random(seed)

    def sentence(text: str) -> str:
        words = []
        for word in text.split():
            fate = rng.random() / share
            if fate > 1:
                words.append(word)
            elif fate > 0.3:
                words += [rng.choice(WORDS)] * rng.choice([1, 1, 2])
        return "" if rng.random() < 0.02 else " ".join(words)

    return [[sentence(text) for text in document] for document in documents]


@pytest.fixture(scope="module")
def references() -> list[list[str]]:
    rng = random.Random(7)
    return [
        [" ".join(rng.choices(WORDS, k=rng.randint(1, 25))) for _ in range(rng.randint(1, 12))]
        for _ in range(40)
    ]


@pytest.fixture(scope="module")
def systems(references: list[list[str]]) -> dict[str, list[list[str]]]:
    return {"base": noisy(references, 0.3, 1), "more": noisy(references, 0.5, 2)}


def halves(documents: Documents) -> list[list[range]]:
    """Instances: a document in two."""
    cut = [len(document) // 2 for document in documents]
    return [
        [span for span in (range(at), range(at, len(document))) if span]
        for document, at in zip(documents, cut, strict=True)
    ]


def segments(documents: Documents, unit: str) -> list[str]:
    if unit == "sentence":
        return [sentence for document in documents for sentence in document]
    if unit == "document":
        return [" ".join(filter(None, document)) for document in documents]
    return [
        " ".join(filter(None, document[span.start : span.stop]))
        for document, spans in zip(documents, halves(documents), strict=True)
        for span in spans
    ]


DIRECT = {
    "s_bleu": BLEU,
    "d_bleu": BLEU,
    "d_bleu_instance": BLEU,
    "chrf": CHRF,
    "chrf_pp": lambda **options: CHRF(word_order=2, **options),
    "d_chrf_pp": lambda **options: CHRF(word_order=2, **options),
    "ter": lambda **options: TER(),
}


@pytest.mark.parametrize("options", [Options(), Options(tokenize="intl", lowercase=True)])
@pytest.mark.parametrize("key", one_in(2, DIRECT))
def test_scores_and_signatures_are_sacrebleus(
    key: str, options: Options, references: list[list[str]], systems: dict[str, Any]
) -> None:
    found = measure(Corpus(references, halves(references), "half"), systems, [key], options)[key]
    unit = METRICS[key].unit
    told: dict[str, Any] = {"lowercase": options.lowercase}
    if "bleu" in key:
        told["tokenize"] = options.tokenize
    for name, documents in systems.items():
        metric = DIRECT[key](**told)
        direct = metric.corpus_score(segments(documents, unit), [segments(references, unit)])
        assert found.score(name) == direct.score
        name_of_unit = "half" if unit == "instance" else unit
        assert found.signature == f"{metric.get_signature()}|unit:{name_of_unit}"


def test_the_command_prints_what_the_sacrebleu_command_prints(
    tmp_path: Path,
    references: list[list[str]],
    systems: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = {}
    for name, documents in {"ref": references, **systems}.items():
        files[name] = tmp_path / name
        files[name].write_text("\n\n".join("\n".join(document) for document in documents) + "\n")
        (tmp_path / f"{name}.flat").write_text("\n".join(segments(documents, "sentence")) + "\n")
    assert main(["score", "--hyp", str(files["base"]), "--ref", str(files["ref"]), "--json"]) == 0
    (ours,) = json.loads(capsys.readouterr().out)["systems"].values()
    command = [sys.executable, "-m", "sacrebleu", str(tmp_path / "ref.flat"), "-i"]
    command += [str(tmp_path / "base.flat"), "-m", "bleu", "chrf", "ter", "-w", "14"]
    done = subprocess.run(
        [*command, "--chrf-word-order", "2"], capture_output=True, text=True, check=True
    )
    theirs = {entry["name"]: entry for entry in json.loads(done.stdout)}
    for key, name in [("s_bleu", "BLEU"), ("chrf_pp", "chrF2++"), ("ter", "TER")]:
        assert ours[key]["score"] == pytest.approx(theirs[name]["score"], abs=1e-12)
        assert ours[key]["signature"] == theirs[name]["signature"] + "|unit:sentence"


@pytest.mark.parametrize("key", one_in(2, ["s_bleu", "d_bleu", "chrf_pp", "ter"]))
@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_resampled_segments_are_sacrebleus(
    kind: str, key: str, references: list[list[str]], systems: dict[str, Any]
) -> None:
    """The p-value that sacreBLEU gives for the metric's own segments, and its interval."""
    measurement = measure(Corpus(references, halves(references)), systems, [key])[key]
    found = resample(measurement, "sentence", bootstrap_trials=200, randomisation_trials=300)
    unit = METRICS[key].unit
    trials = 200 if kind == "bs" else 300
    _, results = PairedTest(
        [(name, segments(documents, unit)) for name, documents in systems.items()],
        {"metric": DIRECT[key]()},
        [segments(references, unit)],
        test_type=kind,
        n_samples=trials,
    )()
    base, more = next(column for name, column in results.items() if name != "System")
    comparison = found.comparisons["more"]
    test = comparison.bootstrap if kind == "bs" else comparison.randomisation
    assert test is not None
    assert test.p_sacrebleu == more.p_value
    assert comparison.difference == more.score - base.score
    if kind == "bs":
        for name, result in (("base", base), ("more", more)):
            assert found.confidence[name].mean == pytest.approx(result.mean, abs=1e-3)
            assert found.confidence[name].radius == pytest.approx(result.ci, abs=1e-3)


def test_resampled_documents_of_s_bleu_are_sums_of_their_sentences(
    references: list[list[str]], systems: dict[str, Any]
) -> None:
    """The corpus score stays; a resampled corpus is made of whole documents."""
    measurement = measure(Corpus(references, halves(references)), systems, ["s_bleu"])["s_bleu"]
    found = resample(measurement, bootstrap_trials=200, randomisation_trials=300)
    assert (found.unit, found.units) == ("document", 40)
    # by hand: the same draws, each corpus built from its sentences and scored by sacreBLEU
    rng = np.random.default_rng(12345)
    scores = []
    for drawn in rng.choice(40, size=(200, 40), replace=True)[:5]:
        hyp = [sentence for index in drawn for sentence in systems["base"][index]]
        ref = [sentence for index in drawn for sentence in references[index]]
        scores.append(BLEU().corpus_score(hyp, [ref]).score)
    measured = []

    def compute(sums: list[float]) -> float:
        measured.append(measurement.compute(sums))
        return measured[-1]

    resample(replace(measurement, compute=compute), bootstrap_trials=200, randomisation_trials=1)
    assert measured[1:6] == pytest.approx(scores, abs=1e-9)


@pytest.mark.long
def test_agreement_on_real_text(real_data: Path) -> None:
    """Two human translations of newstest2021, every metric."""
    references = read_documents(real_data / "newstest" / "newstest2021.refA.de.gz")
    other = read_documents(real_data / "newstest" / "newstest2021.refC.de.gz")
    corpus = Corpus(references, halves(references))
    found = measure(corpus, {"C": other}, list(DIRECT), Options(target_lang="de"))
    for key, measurement in found.items():
        unit = METRICS[key].unit
        direct = DIRECT[key]().corpus_score(segments(other, unit), [segments(references, unit)])
        assert measurement.score("C") == direct.score
