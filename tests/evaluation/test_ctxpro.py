"""``gtrans score --ctxpro``: the expected word in the last sentence, counted again by hand."""

from __future__ import annotations

import csv
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main
from gtrans.evaluation.ctxpro import is_right, read_examples

EXAMPLES = [("DO.ELL", "glaube"), ("DO.ELL", "Geht's"), ("FORM", "sie"), ("FORM", "zu Haus")]
FIRST = [["Ja.", "Das glaube ich."], ["Geht’s?"], ["Ich sehe Sie!"], ["So.", "Er ist zu, Haus."]]
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
        # punctuation is taken out of the translation only, so this form can never be there
        ("Geht's?", "geht's", False),
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
    systems = score(capsys, *files, "--hyp", *hypotheses)["systems"]
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
    assert (comparison["sign_test"]["better"], comparison["sign_test"]["worse"]) == (0, 3)
    latex, table = tmp_path / "t.tex", tmp_path / "t.csv"
    tables = ["--latex", str(latex), "--csv", str(table)]
    assert main(["score", *files, "--hyp", *hypotheses, "--details", *tables]) == 0
    assert "FORM" in capsys.readouterr().out
    assert r"first & \textbf{75.00} \\" in latex.read_text().splitlines()
    with table.open(newline="") as file:
        rows = {row["system"]: row for row in csv.DictReader(file)}
    assert rows["second"]["difference"] == "-75.0"
    assert rows["second"]["sign_direction"] == "worse"


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
    assert "bad.json:2" in error
    assert "'expected'" in error
    (tmp_path / "none.json").write_text("[]")
    assert "no examples" in refusal(
        "--ctxpro", str(tmp_path / "none.json"), "--hyp", str(tmp_path / "first")
    )


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
