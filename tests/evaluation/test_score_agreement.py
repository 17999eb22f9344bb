"""Scores, signatures and tests against sacreBLEU, and of several references."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest
from support.score_corpus import CHUNKS, HYPOTHESES, REFERENCES, text, write
from support.suites import one_in

from gtrans.cli import main
from gtrans.evaluation.metrics import METRICS, Corpus, Documents, Options, Statistics, measure
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
    """Chunks: a document in two."""
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
    "d_bleu_chunk": BLEU,
    "chrf": CHRF,
    "chrf_pp": lambda **options: CHRF(word_order=2, **options),
    "ter": lambda **options: TER(),
}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("options", [Options(), Options(tokenize="intl", lowercase=True)])
@pytest.mark.parametrize("key", one_in(2, DIRECT))
def test_scores_and_signatures_are_sacrebleus(
    key: str, options: Options, count: int, references: list[list[str]], systems: dict[str, Any]
) -> None:
    """Of one or several references."""
    few = 12 if key == "ter" else len(references)  # sacreBLEU's TER is slow
    references = references[:few]
    systems = {name: documents[:few] for name, documents in systems.items()}
    others = [
        [[text or "the" for text in document] for document in noisy(references, 0.4, seed)]
        for seed in range(3, 2 + count)
    ]
    corpus = Corpus(references, halves(references), "half", others=others)
    found = measure(corpus, systems, [key], options)[key]
    unit = METRICS[key].unit
    told: dict[str, Any] = {"lowercase": options.lowercase}
    if "bleu" in key:
        told["tokenize"] = options.tokenize
    for name, documents in systems.items():
        metric = DIRECT[key](**told)
        of_references = [segments(one, unit) for one in (references, *others)]
        direct = metric.corpus_score(segments(documents, unit), of_references)
        assert found.score(name) == direct.score and f"nrefs:{count}|" in found.signature
        name_of_unit = "half" if unit == "chunk" else unit
        assert found.signature == f"{metric.get_signature()}|unit:{name_of_unit}"


@pytest.mark.parametrize("key", one_in(2, ["s_bleu", "d_bleu", "chrf_pp", "ter"]))
@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_resampled_segments_are_sacrebleus(
    kind: str, key: str, references: list[list[str]], systems: dict[str, Any]
) -> None:
    """The p-value that sacreBLEU gives for the metric's own segments, and its interval."""
    measurement = measure(Corpus(references, halves(references)), systems, [key])[key]
    found = resample(
        measurement,
        "sentence",
        bootstrap_trials=200,
        randomisation_trials=300,
        all_tests=True,
    )
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
    test = comparison.paired_bootstrap if kind == "bs" else comparison.paired_randomisation
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

    def compute(sums: Statistics) -> Statistics:
        measured.append(measurement.compute(sums))
        return measured[-1]

    resample(replace(measurement, compute=compute), bootstrap_trials=200, randomisation_trials=1)
    drawn = next(values for values in measured if values.ndim)
    assert drawn[:5] == pytest.approx(scores, abs=1e-9)


# --- several references ---------------------------------------------------------------------------

OTHERS = [
    [["A cat was sitting on a mat.", "It was all black.", "It ran to the old garden then."],
     ["One dog saw a cat in the garden.", "The whole day long it barked at a cat."]],
    [["The cat sat there.", "He was black.", "Then it ran off."],
     ["A dog met the cat.", "It barked a lot."]],
]  # fmt: skip


def test_meteor_takes_the_best_reference_of_each_sentence() -> None:
    def of(*references: Documents) -> list[float]:
        corpus = Corpus(references[0], CHUNKS, others=references[1:])
        found = measure(corpus, {"x": HYPOTHESES}, ["meteor"])["meteor"]
        return [float(row[0]) for row in found.statistics["x"]]

    alone = [of(REFERENCES), *(of(one) for one in OTHERS)]
    assert of(REFERENCES, *OTHERS) == [max(scores) for scores in zip(*alone, strict=True)]


def test_the_command_reads_several_references(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hyp = write(tmp_path / "hyp", text(HYPOTHESES))
    refs = [write(tmp_path / f"ref{n}", text(one)) for n, one in enumerate([REFERENCES, *OTHERS])]
    same = ["--hyp", hyp, "--src", refs[0], "--json"]
    assert main(["score", *same, "--ref", *refs]) == 0
    report = json.loads(capsys.readouterr().out)
    streams = [[s for d in one for s in d] for one in [REFERENCES, *OTHERS]]
    flat = [s for d in HYPOTHESES for s in d]
    report = report["systems"]["hyp"] | report if "systems" in report else report
    assert report["s_bleu"]["score"] == BLEU(force=True).corpus_score(flat, streams).score
    assert report["ter"]["score"] == TER().corpus_score(flat, streams).score
    assert report["references"] == 3
    assert main(["score", *same, "--ref", refs[0], "--ref", refs[1]]) == 0
    assert json.loads(capsys.readouterr().out)["references"] == 2
    write(tmp_path / "ref2", text([REFERENCES[0], REFERENCES[1][:1]]))
    assert main(["score", *same, "--ref", *refs]) == 1
    assert "both sides need the same sentences" in capsys.readouterr().err


def test_characters_of_all_references_are_words() -> None:
    references = [[["我今天在家里看书。"]], [["今天我在家读书。"]]]
    system = [["我今天在家读书。"]]
    corpus = Corpus(references[0], [[range(1)]], others=references[1:])
    options = Options(target_lang="zh", without_spaces=True)
    found = measure(corpus, {"x": system}, ["ter", "s_bleu", "chrf"], options)
    alone = Corpus(references[1], [[range(1)]])
    only = measure(alone, {"x": system}, ["chrf"], options)
    assert found["chrf"].score("x") == only["chrf"].score("x")  # chrF takes the best reference
    spaced = [" ".join(text) for [[text]] in references]
    expected = TER(normalized=True, asian_support=True).corpus_score(
        [" ".join(system[0][0])], [[one] for one in spaced]
    )
    assert found["ter"].score("x") == expected.score


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
