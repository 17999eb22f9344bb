"""COMET, Doc-COMET and BlonDe: texts out, scores in, stale ones refused."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gtrans.cli import main

SOURCE = "One.\nTwo.\nThree.\nFour.\n\nFive.\nSix.\n"
REFERENCE = "Eins.\nZwei.\nDrei.\nVier.\n\nFünf.\nSechs.\n"
SYSTEM = "eins\nzwei\n\nvier\n\nfünf\nsechs\n"
LINES = ["eins", "zwei", "", "vier", "fünf", "sechs"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for name, content in [("src", SOURCE), ("ref", REFERENCE), ("a", SYSTEM), ("b", REFERENCE)]:
        (tmp_path / name).write_text(content, encoding="utf-8")
    names = ["--hyp", tmp_path / "a", tmp_path / "b", "--ref", tmp_path / "ref"]
    names += ["--external-dir", tmp_path / "out", "--metrics", "s_bleu"]
    return [str(name) for name in names]


def read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def score(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["score", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["score", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def comet_result(folder: Path, scores: list[float]) -> dict[str, Any]:
    """What ``comet-score --to_json`` writes for system a, and perfect scores for b."""
    columns = [read(folder / name) for name in ("src.txt", "ref.txt", "hyp.a.txt", "hyp.b.txt")]

    def entries(hypotheses: list[str], values: list[float]) -> list[dict[str, Any]]:
        return [
            {"src": src, "mt": mt, "ref": ref, "COMET": value}
            for src, ref, mt, value in zip(*columns[:2], hypotheses, values, strict=True)
        ]

    result = {
        "hyp.a.txt": entries(columns[2], scores),
        "hyp.b.txt": entries(columns[3], [1.0] * 6),
    }
    (folder / "scores.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def test_comet(tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "--src" in refusal(capsys, *files, "--comet")
    arguments = [*files, "--src", str(tmp_path / "src"), "--comet"]
    pending = score(capsys, *arguments)["not_scored_yet"]["comet"]
    folder = tmp_path / "out" / "comet" / "Unbabel_wmt22-comet-da"
    assert pending["folder"] == str(folder)
    assert pending["commands"] == [
        "comet-score -s src.txt -t hyp.a.txt hyp.b.txt -r ref.txt "
        "--model Unbabel/wmt22-comet-da --to_json scores.json"
    ]
    assert "pip install 'unbabel-comet" in pending["install"][1]
    assert read(folder / "hyp.a.txt") == LINES
    assert read(folder / "src.txt") == ["One.", "Two.", "Three.", "Four.", "Five.", "Six."]
    assert main(["score", *arguments]) == 0
    assert "    cd " + str(folder) in capsys.readouterr().out

    result = comet_result(folder, [0.9, 0.8, 0.1, 0.7, 0.6, 0.5])
    report = score(capsys, *arguments)
    assert "not_scored_yet" not in report
    entry = report["systems"]["a"]["comet"]
    assert entry["score"] == pytest.approx(0.6)
    assert entry["signature"] == "model:Unbabel/wmt22-comet-da|aggregate:mean|unit:sentence"
    assert entry["confidence"]["units"] == 2
    other = report["systems"]["b"]["comet"]["comparison"]
    assert other["difference"] == pytest.approx(0.4)
    assert other["sign_test"]["better"] == 6

    result["hyp.a.txt"][4]["mt"] = "an older translation"
    (folder / "scores.json").write_text(json.dumps(result))
    error = refusal(capsys, *arguments)
    assert "it lacks line 5 of hyp.a.txt" in error
    (folder / "scores.json").write_text("{")
    assert ": not JSON" in refusal(capsys, *arguments)
    (folder / "scores.json").write_text("{}")
    assert "has no scores of hyp.a.txt" in refusal(capsys, *arguments)


def test_doc_comet_reads_context_inside_the_document(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*files, "--src", str(tmp_path / "src"), "--doc-comet", "--comet-model", "m"]
    pending = score(capsys, *arguments)["not_scored_yet"]["doc_comet"]
    assert pending["commands"][0].endswith("--model m --enable-context --to_json scores.json")
    folder = tmp_path / "out" / "doc-comet" / "m"
    assert read(folder / "src.txt") == [
        "One.",
        "One. </s> Two.",
        "One. </s> Two. </s> Three.",
        "Two. </s> Three. </s> Four.",
        "Five.",
        "Five. </s> Six.",
    ]
    # The context of a translation is the reference's.
    assert read(folder / "hyp.a.txt")[1:4] == [
        "Eins. </s> zwei",
        "Eins. </s> Zwei. </s> ",
        "Zwei. </s> Drei. </s> vier",
    ]
    comet_result(folder, [0.5] * 6)
    entry = score(capsys, *arguments)["systems"]["a"]["doc_comet"]
    assert entry["score"] == 0.5
    assert "|context:2,reference|" in entry["signature"]


FAKE_BLONDE = """
class BLONDE:
    def __init__(self, references): self.references = references[0]
    def corpus_score(self, system):
        result = type("Score", (), {})()
        right = sum(a == b for a, b in zip(system, self.references))
        result.F1 = result.recall = result.precision = right / len(system)
        return result
"""


def test_blonde(tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The program that is written runs, with something in the place of blonde."""
    arguments = [*files, "--blonde"]
    assert "English only" in refusal(capsys, *arguments, "--target-lang", "de")
    pending = score(capsys, *arguments)["not_scored_yet"]["blonde"]
    folder = Path(pending["folder"])
    (tmp_path / "blonde.py").write_text(FAKE_BLONDE)
    subprocess.run(
        [sys.executable, *pending["commands"][0].split()[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        check=True,
    )
    report = score(capsys, *arguments)
    assert report["systems"]["b"]["blonde"] == {"score": 100, "recall": 100, "precision": 100}
    assert report["systems"]["a"]["blonde"]["score"] == 0
    result = json.loads((folder / "scores.json").read_text())
    result["texts"] = hashlib.sha256(b"other").hexdigest()
    (folder / "scores.json").write_text(json.dumps(result))
    assert "scores of other texts" in refusal(capsys, *arguments)
