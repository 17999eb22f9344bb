"""Several references: agreement with sacreBLEU, on every unit, and what reads only one."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from support.score_corpus import HYPOTHESES, INSTANCES, REFERENCES, text, write

from gtrans.cli import main
from gtrans.evaluation.metrics import METRICS, Documents, Options
from gtrans.evaluation.scores import Corpus, measure

WORDS = ["the", "a", "cat", "dog", "house", "ran", "saw", "under", "Anna", "it", "was", ",", "."]
OTHERS = [
    [["A cat was sitting on a mat.", "It was all black.", "It ran to the old garden then."],
     ["One dog saw a cat in the garden.", "The whole day long it barked at a cat."]],
    [["The cat sat there.", "He was black.", "Then it ran off."],
     ["A dog met the cat.", "It barked a lot."]],
]  # fmt: skip
DIRECT = {
    "s_bleu": BLEU(force=True),
    "d_bleu": BLEU(force=True),
    "d_bleu_instance": BLEU(force=True),
    "chrf": CHRF(),
    "chrf_pp": CHRF(word_order=2),
    "d_chrf_pp": CHRF(word_order=2),
    "ter": TER(),
}


def segments(documents: Documents, instances: list[list[range]], unit: str) -> list[str]:
    """One text per segment, joined as a user would."""
    spans = {
        "sentence": [[range(i, i + 1) for i in range(len(d))] for d in documents],
        "document": [[range(len(d))] for d in documents],
        "instance": instances,
    }[unit]
    return [
        " ".join(filter(None, (document[i] for i in span)))
        for document, of_document in zip(documents, spans, strict=True)
        for span in of_document
    ]


@pytest.mark.parametrize("references", [2, 3])
@pytest.mark.parametrize("lowercase", [False, True])
def test_scores_with_several_references_are_those_of_sacrebleu(
    references: int, lowercase: bool
) -> None:
    rng = random.Random(references)
    sizes = [rng.randint(1, 6) for _ in range(12)]

    def documents() -> list[list[str]]:
        return [
            [" ".join(rng.choices(WORDS, k=rng.randint(1, 15))) for _ in range(n)] for n in sizes
        ]

    all_references = [documents() for _ in range(references)]
    system = documents()
    halves = [[s for s in (range(n // 2), range(n // 2, n)) if s] for n in sizes]
    corpus = Corpus(all_references[0], halves, others=all_references[1:])
    found = measure(corpus, {"x": system}, list(METRICS), Options(lowercase=lowercase))
    for key, metric in DIRECT.items():
        unit = METRICS[key].unit
        if lowercase:
            if isinstance(metric, TER):
                continue  # it ignores case anyway
            metric = type(metric)(lowercase=True, **({"force": True} if "bleu" in key else {
                "word_order": metric.word_order}))  # fmt: skip
        expected = metric.corpus_score(
            segments(system, halves, unit),
            [segments(one, halves, unit) for one in all_references],
        )
        assert found[key].score("x") == expected.score
        assert found[key].signature == f"{metric.get_signature()}|unit:{unit}"
        assert f"nrefs:{references}|" in found[key].signature


def test_meteor_takes_the_best_reference_of_each_sentence() -> None:
    def of(*references: Documents) -> list[float]:
        corpus = Corpus(references[0], INSTANCES, others=references[1:])
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


def test_references_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="do not have the same sentences"):
        Corpus(REFERENCES, INSTANCES, others=[REFERENCES[:1]])


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


def test_buckets_of_length_do_not_depend_on_the_order_of_systems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = write(tmp_path / "long", "a b c d e f\na b c d\n")
    short = write(tmp_path / "short", "a b\na b c d\n")
    found = []
    for systems in ([long, short], [short, long]):
        arguments = ["--hyp", *systems, "--ref", long, short, "--resample", "none", "--json"]
        assert main(["score", *arguments, "--metrics", "s_bleu", "--sentence-lengths", "4"]) == 0
        found.append(json.loads(capsys.readouterr().out)["by_sentence_length"])
    assert [bucket["sentences"] for bucket in found[0]] == [1, 1]
    assert found[0] == found[1]
