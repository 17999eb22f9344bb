"""Columns of ``gtrans score`` that the lab adds: ctxpro and lexical consistency."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from sacrebleu.metrics import BLEU
from support.score_corpus import text, write

from gtrans.cli import main
from gtrans.lab.ctxpro import is_right, read_examples
from gtrans.lab.lexical_consistency import Consistency, ConsistencyJudge, signature

EXAMPLES = [("DO.ELL", "glaube"), ("DO.ELL", "Geht's"), ("FORM", "sie"), ("FORM", "zu Haus")]
FIRST = [["Ja.", "Das glaube ich."], ["Es geht?"], ["Ich sehe Sie!"], ["So.", "Er ist zu, Haus."]]
SECOND = [["Das glaube ich.", "Ja."], ["Gehts"], ["Siehe da."], ["Er ist zu Hause."]]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    entries = [{"rule": rule, "expected": expected} for rule, expected in EXAMPLES]
    with gzip.open(tmp_path / "set.json.gz", "wt", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
    for name, system in (("first", FIRST), ("second", SECOND)):
        text = "\n\n".join("\n".join(document) for document in system)
        (tmp_path / name).write_text(text + "\n", encoding="utf-8")
        lines = "".join("<eos> ".join(document) + "\n" for document in system)
        (tmp_path / f"{name}.lines").write_text(lines, encoding="utf-8")
        rows = [
            json.dumps({"doc_id": str(number), "translation": sentence}) + "\n"
            for number, document in enumerate(system)
            for sentence in document
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    return ["--ctxpro", str(tmp_path / "set.json.gz")]


def score(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["score", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("sentence", "expected", "right"),
    [
        ("Das GLAUBE ich.", "glaube", True),
        ("Das glaubte ich.", "glaube", False),
        ("Geht's?", "gehts", True),
        # punctuation is taken out of the translation only, but for apostrophes
        ("Geht’s?", "geht's", True),
        ("Il l'aime.", "l'", True),
        ("Il aime.", "l'", False),
        ("Qu'elle vienne !", "qu'il", False),
        ("«Sie»", "sie", False),
        ("", "sie", False),
    ],
)
def test_the_rule(sentence: str, expected: str, right: bool) -> None:
    assert is_right(sentence, expected) is right


@pytest.mark.parametrize("layout", ["", ".lines", ".jsonl"])
def test_accuracy_by_rule_with_interval_and_paired_tests(
    files: list[str], layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hypotheses = [f"{name}={tmp_path / name}{layout}" for name in ("first", "second")]
    systems = score(capsys, *files, "--hyp", *hypotheses, "--all-tests")["systems"]
    first, second = (systems[name]["ctxpro"] for name in ("first", "second"))
    assert (first["score"], second["score"]) == (75, 0)
    assert first["rules"] == {
        "DO.ELL": {"score": 50, "right": 1, "examples": 2},
        "FORM": {"score": 100, "right": 2, "examples": 2},
    }
    low, high = first["confidence"]["interval"]
    assert low < 75 < high
    comparison = second["comparison"]
    assert comparison["difference"] == -75
    assert comparison["paired_randomisation"]["p"] > 0.05
    latex, table = tmp_path / "t.tex", tmp_path / "t.csv"
    tables = ["--latex", str(latex), "--csv", str(table), "--all-tests"]
    assert main(["score", *files, "--hyp", *hypotheses, "--details", *tables]) == 0
    assert "FORM" in capsys.readouterr().out
    assert r"first & 75.00 \\" in latex.read_text().splitlines()
    with table.open(newline="") as file:
        rows = {row["system"]: row for row in csv.DictReader(file)}
    assert rows["second"]["difference"] == "-75.0"


def test_beside_other_scores(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    systems = [str(tmp_path / "first"), "--ref", str(tmp_path / "first")]
    arguments = [*files, "--hyp", *systems, "--metrics", "s_bleu"]
    scores = tmp_path / "scores"
    scores.write_text("1\n2\n3\n4\n")
    entry = score(capsys, *arguments, "--segment-scores", f"own={scores}")["systems"]["first"]
    assert {key: found["score"] for key, found in entry.items()} == {
        "ctxpro": 75,
        "s_bleu": pytest.approx(100),
        "own": 2.5,
    }
    assert all("interval" in found["confidence"] for found in entry.values())
    entry = score(capsys, *arguments, "--resegment")["systems"]["first"]
    assert entry["ctxpro"]["score"] == 75
    assert "resegment" in entry["s_bleu"]["signature"]
    assert "resegment" not in entry["ctxpro"]["signature"]  # it looks into the file itself
    assert main(["score", *arguments, "--segment-scores", f"ctxpro={scores}"]) == 1
    assert "a score 'ctxpro' of its own" in capsys.readouterr().err


def test_mistakes_are_one_line(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*arguments: str) -> str:
        assert main(["score", *arguments]) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    (tmp_path / "short").write_text("Eins.\nZwei.\n\nDrei.\n\n")
    assert "--ref is missing" in refusal(*files, "--hyp", str(tmp_path / "first"), "--comet")
    set_file = files[-1]
    assert set_file in refusal(*files, "--hyp", str(tmp_path / "first"), "--csv", set_file)
    error = refusal(*files, "--hyp", str(tmp_path / "short"))
    assert re.search("short has 2 documents .* has 4 examples", error)
    (tmp_path / "bad.json").write_text('[\n{"rule": "A"}]')
    error = refusal("--ctxpro", str(tmp_path / "bad.json"), "--hyp", str(tmp_path / "first"))
    assert "bad.json: item 1" in error
    assert "'expected'" in error
    (tmp_path / "none.json").write_text("[]")
    assert "no examples" in refusal(
        "--ctxpro", str(tmp_path / "none.json"), "--hyp", str(tmp_path / "first")
    )


# --- lexical consistency -------------------------------------------------------------------------

SOURCES = [
    ["the bank opened .", "a bank closed .", "no bank stayed ."],
    ["the river rose .", "that river fell ."],
]
TARGETS = [
    ["die Bank öffnete .", "eine Bank schloss .", "keine Bank blieb ."],
    ["der Fluss stieg .", "dieser Fluss sank ."],
]
VARIED = [[*TARGETS[0][:2], "keine Sparkasse blieb ."], TARGETS[1]]


def judge(translations: list[list[str]], lang: str = "") -> Consistency:
    return ConsistencyJudge(SOURCES, TARGETS, BLEU().tokenizer, lang).judge(translations)


def test_consistency_by_hand() -> None:
    # "bank" in three sentences has three pairs, "river" one.
    assert judge(TARGETS) == Consistency((3, 1), (3, 1), (3, 1))
    # The third sentence has another word: one pair of "bank" is left. It is the only
    # word of its sentence that nothing else explains, so it counts as a translation.
    assert judge(VARIED) == Consistency((1, 1), (1, 1), (3, 1))
    assert judge(VARIED).score == 50
    empty = judge([["" for _ in document] for document in TARGETS])
    assert empty == Consistency((0, 0), (0, 0), (0, 0)) and empty.score is None


def test_what_is_consistent_but_not_in_the_reference_gains_nothing() -> None:
    """One sentence everywhere, and the untranslated source, which has "bank" for "Bank"."""
    one = [["immer dasselbe Wort ." for _ in document] for document in SOURCES]
    for translation, shared in ((one, (0, 0)), (SOURCES, (3, 0))):
        found = judge(translation)
        assert sum(found.consistent) == sum(found.pairs) > 0
        assert found.shared == shared


def test_inflected_forms_are_the_same_where_the_language_has_a_stemmer() -> None:
    inflected = [TARGETS[0], ["der Fluss stieg .", "dieses Flusses Pegel sank ."]]
    assert (judge(inflected).score, judge(inflected, "de").score) == (75, 100)
    assert "|stem:snowball-german|" in signature("13a", "de")
    assert "|stem:no|" in signature("13a", "xx")


@pytest.mark.parametrize(
    ("document", "pairs"),
    [
        ([["an ox ate .", "an ox ran ."]], 0),  # short
        ([["bank bank ."], ["bank ."]], 0),  # twice in a sentence, but once in a document
        ([[f"which word{i} ." for i in range(11)]], 0),  # frequent
        ([[f"which word{i} ." for i in range(10)]], 45),
    ],
)
def test_what_is_a_term(document: list[list[str]], pairs: int) -> None:
    found = ConsistencyJudge(document, document, BLEU().tokenizer).judge(document)
    assert sum(found.pairs) == pairs


def test_the_column_has_intervals_and_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ref, src = write(tmp_path / "r", text(TARGETS)), write(tmp_path / "s", text(SOURCES))
    table = tmp_path / "t.csv"
    hyps = ["--hyp", f"same={ref}", f"varied={write(tmp_path / 'v', text(VARIED))}"]
    arguments = ["score", *hyps, "--ref", ref, "--metrics", "s_bleu", "--lexical-consistency"]
    assert main(arguments) == 1
    assert "--lexical-consistency needs --src" in capsys.readouterr().err
    arguments += ["--src", src, "--csv", str(table)]
    assert main(arguments) == 0
    assert "lexical consistency " not in capsys.readouterr().out.split("note:")[0].split("\n\n")[0]
    assert main([*arguments, "--details"]) == 0
    out = capsys.readouterr().out
    rows = [re.split(r"  +", line.strip()) for line in out.splitlines()]
    assert next(row[3] for row in rows if row[:2] == ["varied", "50.00"]) == "-50.00"
    assert "note: lexical consistency of the reference: 100.00" in out
    assert main([*arguments, "--non-inferior", "lexical_consistency=60", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["systems"]["varied"]["lexical_consistency"]
    assert entry["score"] == 50 and (entry["consistent"], entry["pairs"]) == (2, 4)
    # Of two drawn documents: a quarter have 1 of 3 pairs, half 2 of 4, a quarter all.
    assert entry["confidence"]["interval"] == pytest.approx([100 / 3, 100])
    assert entry["comparison"]["difference"] == -50
    assert entry["comparison"]["direction"] == "even"  # more is not always better
    assert entry["comparison"]["non_inferiority"]["margin"] == 60
    with table.open(newline="") as file:
        by_key = {(row["system"], row["metric"]): row for row in csv.DictReader(file)}
    p = entry["comparison"]["paired_randomisation"]["p"]
    assert by_key["varied", "lexical_consistency"]["p_randomisation"] == str(p)


def test_consistency_needs_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chinese = write(tmp_path / "zh", "银行今天开门了。\n银行明天关门。\n我们去银行。\n")
    japanese = write(tmp_path / "ja", "銀行はきょう開いた。\n銀行はあした閉まる。\n銀行へ行く。\n")
    ref = write(tmp_path / "ref", "The bank opened.\nThe bank closes.\nWe go to the bank.\n")
    asked = ("--target-lang", "en", "--resample", "none", "--metrics", "s_bleu")
    asked = ("--hyp", ref, "--ref", ref, *asked, "--lexical-consistency")
    report = score(capsys, *asked, "--src", japanese)
    assert list(report["systems"]["ref"]) == ["s_bleu"]
    assert report["notes"] == [
        "no lexical consistency: the source is written without spaces between words"
    ]
    report = score(capsys, *asked, "--src", chinese)
    entry = report["systems"]["ref"]["lexical_consistency"]
    assert "term:2+letters" in entry["signature"] and "|source:jieba|" in entry["signature"]
    assert (entry["score"], entry["pairs"]) == (100, 3)  # the bank, in three sentences


def test_the_published_sets_are_read_and_their_references_are_right(real_data: Path) -> None:
    folder = real_data / "contrastive" / "ctxpro"
    for path in sorted((folder / "evalsets").glob("*.json.gz")):
        examples = read_examples(path)
        with gzip.open(path, "rt", encoding="utf-8") as file:
            entries = json.load(file)
        inputs = folder / "inputs" / path.name.replace(".json.gz", ".gz")
        with gzip.open(inputs, "rt", encoding="utf-8") as file:
            assert len(examples) == len(entries) == sum(1 for _ in file)
        right = [
            is_right(entry["ref segment"], example.expected)
            for entry, example in zip(entries, examples, strict=True)
        ]
        assert sum(right) / len(right) > 0.97
