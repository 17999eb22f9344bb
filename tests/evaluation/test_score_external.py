"""COMET and Doc-COMET: texts out, scores in, stale ones refused."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.score_tools import LINES, SOURCE, SYSTEM, read, refusal, score, write_files

from gtrans.cli import main


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    return write_files(tmp_path)


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
    result["hyp.a.txt"][4]["mt"] = LINES[4]
    for side in ("src", "ref"):
        was, result["hyp.b.txt"][2][side] = result["hyp.b.txt"][2][side], "another text"
        (folder / "scores.json").write_text(json.dumps(result))
        assert f"it lacks line 3 of {side}.txt" in refusal(capsys, *arguments)
        result["hyp.b.txt"][2][side] = was
    (folder / "scores.json").write_text("{")
    assert ": not JSON" in refusal(capsys, *arguments)
    (folder / "scores.json").write_text("{}")
    assert "has no scores of hyp.a.txt" in refusal(capsys, *arguments)


FAKE_COMET = """
class Encoder:
    max_positions = 14
    class tokenizer:
        sep_token = "</s>"
        def __call__(self, text):
            return {"input_ids": [0, *text.split(), 2]}
    tokenizer = tokenizer()

class Model:
    encoder, use_context = Encoder(), False
    def __init__(self, name): self.name = name
    def requires_references(self): return "own" not in self.name and "qe" not in self.name
    def eval(self): pass
    def enable_context(self): self.use_context = "kiwi" not in self.name
    def predict(self, samples, batch_size, gpus):
        assert self.use_context and gpus == 0
        self.seen = samples
        print(samples)
        result = type("Prediction", (), {})()
        result.scores = [len(sample["mt"].split()) / 10 for sample in samples]
        return result

def download_model(name): return name
def load_from_checkpoint(name): return Model(name)
"""
FAKE_TORCH = """
class cuda:
    def device_count(): return 0
"""


def call_doc_comet(tmp_path: Path, pending: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run the program that was written, with something in the place of COMET."""
    (tmp_path / "comet.py").write_text(FAKE_COMET)
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    return subprocess.run(
        [sys.executable, *pending["commands"][0].split()[1:]],
        cwd=pending["folder"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )


def run_doc_comet(tmp_path: Path, pending: dict[str, Any]) -> list[dict[str, str]]:
    """What the program has read."""
    done = call_doc_comet(tmp_path, pending)
    assert done.returncode == 0, done.stderr
    first, _ = done.stdout.splitlines()
    return list(ast.literal_eval(first))


def test_doc_comet_reads_context_inside_the_document(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*files, "--src", str(tmp_path / "src"), "--doc-comet", "--comet-model", "m"]
    pending = score(capsys, *arguments)["not_scored_yet"]["doc_comet"]
    assert pending["folder"] == str(tmp_path / "out" / "doc-comet" / "m")
    assert "unbabel-comet>=2.2.3" in pending["install"][1]  # the first with enable_context
    samples = run_doc_comet(tmp_path, pending)
    assert [sample["src"] for sample in samples] == [
        "One.",
        "One. </s> Two.",
        "One. </s> Two. </s> Three.",
        "Two. </s> Three. </s> Four.",
        "Five.",
        "Five. </s> Six.",
    ]
    # The context of a translation is the reference's.
    assert [sample["mt"] for sample in samples][1:4] == [
        "Eins. </s> zwei",
        "Eins. </s> Zwei. </s> ",
        "Zwei. </s> Drei. </s> vier",
    ]
    assert samples[3]["ref"] == "Zwei. </s> Drei. </s> Vier."
    entry = score(capsys, *arguments)["systems"]["a"]["doc_comet"]
    assert entry["score"] == pytest.approx((1 + 3 + 4 + 5 + 1 + 3) / 60)
    assert entry["signature"] == "model:m|context:2,reference|aggregate:mean|unit:sentence"
    assert "comparison" in score(capsys, *arguments)["systems"]["b"]["doc_comet"]
    (tmp_path / "a").write_text(SYSTEM.replace("eins", "neu"))
    assert "scores of other texts; run doc_comet.py again" in refusal(capsys, *arguments)


def test_without_a_reference_the_context_of_a_translation_is_its_own(
    tmp_path: Path,
    files: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hyp = files[: files.index("--ref")]
    arguments = [*hyp, "--external-dir", str(tmp_path / "out"), "--src", str(tmp_path / "src")]
    arguments += ["--doc-comet", "--comet-model", "Unbabel/wmt20-comet-qe-da"]
    pending = score(capsys, *arguments)["not_scored_yet"]["doc_comet_qe"]
    samples = run_doc_comet(tmp_path, pending)
    assert samples[3] == {"src": "Two. </s> Three. </s> Four.", "mt": "zwei </s>  </s> vier"}
    entry = score(capsys, *arguments)["systems"]["a"]["doc_comet_qe"]
    assert "|reference:none|context:2,own|" in entry["signature"]
    kiwi = "Unbabel/wmt22-cometkiwi-da"
    assert "kiwi-da cannot read context" in refusal(capsys, *arguments[:-1], kiwi)
    assert "needs the reference" in refusal(capsys, *arguments[:-1], "Unbabel/wmt22-comet-da")
    pending = score(capsys, *arguments[:-3], "--comet", "--comet-model", kiwi)["not_scored_yet"]
    assert pending["comet_qe"]["commands"] == [
        "comet-score -s src.txt -t hyp.a.txt hyp.b.txt --model Unbabel/wmt22-cometkiwi-da "
        "--to_json scores.json"
    ]
    # A checkpoint in the layout of COMET's own downloads; the commands run in another folder.
    checkpoint = tmp_path / "wmt20-comet_qe-da" / "checkpoints" / "model.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_text("")
    monkeypatch.chdir(tmp_path)
    path = str(checkpoint.relative_to(tmp_path))
    pending = score(capsys, *arguments[:-3], "--comet", "--comet-model", path)["not_scored_yet"]
    assert f"--model {checkpoint} " in pending["comet_qe"]["commands"][0]
    both = ["--comet-model", kiwi, "Unbabel/wmt20-comet-qe-da"]
    assert "one with a reference and one without" in refusal(
        capsys, *arguments[:-3], *both, "--comet"
    )


def test_the_scored_sentence_is_never_cut_off(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The encoder of the fake model reads 12 tokens: the oldest context is left out."""
    (tmp_path / "src").write_text(SOURCE.replace("Two.", "Two " * 9))
    arguments = [*files, "--src", str(tmp_path / "src"), "--doc-comet", "--comet-model", "m"]
    pending = score(capsys, *arguments)["not_scored_yet"]["doc_comet"]
    samples = run_doc_comet(tmp_path, pending)
    assert [sample["src"].count("</s>") for sample in samples] == [0, 0, 0, 1, 0, 1]
    assert [sample["mt"].count("</s>") for sample in samples] == [0, 0, 0, 1, 0, 1]
    entry = score(capsys, *arguments)["systems"]["a"]["doc_comet"]
    assert "|shortened:3|" in entry["signature"]


def test_a_model_that_reads_no_reference_is_never_given_one(
    tmp_path: Path, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [*files, "--src", str(tmp_path / "src"), "--doc-comet", "--comet-model"]
    pending = score(capsys, *arguments, "our-own")["not_scored_yet"]["doc_comet"]
    done = call_doc_comet(tmp_path, pending)
    assert done.returncode != 0 and not Path(pending["folder"], "scores.json").exists()
    assert done.stderr == "our-own needs no reference; give --comet-without-reference\n"
    refused = score(capsys, *arguments, "m", "--comet-without-reference")["not_scored_yet"]
    assert "m needs a reference" in call_doc_comet(tmp_path, refused["doc_comet_qe"]).stderr
