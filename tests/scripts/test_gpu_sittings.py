"""The scripts for a GPU that is lent for minutes, at toy size on the CPU."""

from __future__ import annotations

import gzip
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.folders import REPO, SCRIPTS

from gtrans.lab.logs import Record, TrainingHistory


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``scripts/gpu_result.py``."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("gpu_result")


def test_the_speed_of_later_updates_fills_the_time(script: Any) -> None:
    """The first updates have new shapes, and are slower."""
    history = TrainingHistory(Path("train.log"))
    speeds = (1.0, 2.0, 9.0, 11.0)
    history.inner = [Record(20 * n, {"ups": speed}) for n, speed in enumerate(speeds, 1)]
    assert script.updates_in(history, 270) == 2700
    history.inner = [Record(1, {"ups": 0.0})]
    history.epochs = [Record(2, {"ups": 3.0})]
    assert script.updates_in(history, 10) == 30


def test_documents_of_several_corpora_stand_apart(script: Any, tmp_path: Path) -> None:
    sources = []
    for name, text in (("a", "1\n2\n\n3\n"), ("b", "4\n\n5\n6\n")):
        sources.append(tmp_path / f"{name}.gz")
        sources[-1].write_bytes(gzip.compress(text.encode()))
    joined = tmp_path / "joined"
    assert script.join_texts(sources, joined, None) == 4
    assert joined.read_text() == "1\n2\n\n3\n\n4\n\n5\n6\n"
    assert script.join_texts(sources, joined, 1) == 2


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        ("gpu_result", ["pack", "--pack", "p.tar.xz"], "pack needs `--data`"),
        ("gpu_result", ["translate"], "translate needs `--out`"),
        ("gpu_decoding", ["prepare"], "prepare needs `--before`"),
        ("gpu_decoding", ["measure", "--out", "o", "--work", "w"], "comes first"),
    ],
)
def test_what_is_missing_is_named(
    name: str, words: list[str], message: str, tmp_path: Path
) -> None:
    command = [sys.executable, SCRIPTS / f"{name}.py", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode and message in done.stderr.splitlines()[-1]


@pytest.mark.long
def test_a_result_from_pack_to_scores(script: Any, tmp_path: Path) -> None:
    text = [f"the {noun} is {number} ." for number in range(40) for noun in ("lamp", "bag", "cup")]
    documents = "\n\n".join("\n".join(text[n : n + 4]) for n in range(0, len(text), 4)) + "\n"
    splits = [f"{name}/{split}" for name in script.JUDGED for split in ("dev", "test")]
    for name in (*script.TRAINED, *splits):
        for lang in script.LANGUAGES:
            path = tmp_path / "data" / f"{name}.{lang}.gz"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(gzip.compress(documents.encode()))

    def run(*words: str) -> None:
        command = [sys.executable, SCRIPTS / "gpu_result.py", *words, "--work", tmp_path / "work"]
        subprocess.run(command, cwd=REPO, check=True)

    pack, out = str(tmp_path / "pack.tar.xz"), str(tmp_path / "out")
    data = str(tmp_path / "data")
    run("pack", "--data", data, "--pack", pack, "--documents", "4", "--merges", "50")
    run("train", "--pack", pack, "--out", out, "--cpu", "--seconds", "20", "--further", "10")
    run("translate", "--out", out, "--cpu")
    steps = json.loads((tmp_path / "out" / "results.json").read_text("utf-8"))["steps"]
    assert set(script.MODELS) < set(steps) and "--max-update" in steps["sentence"]["command"]
    for split in script.SETS:
        assert set(steps[f"{split}, scores"]["scores"]) == set(script.MODELS)
        assert "gtransformer" in (tmp_path / "out" / f"{split}.segments.tsv").read_text("utf-8")
