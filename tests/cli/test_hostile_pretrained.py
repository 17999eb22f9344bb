"""Folders of Hugging Face that are damaged or bring code."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gtrans.cli import main

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
Change = Callable[[Path], object]


def index(content: object) -> Change:
    def apply(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "part.safetensors")
        (folder / INDEX).write_text(json.dumps(content))

    return apply


def test_code_of_a_bert_is_not_run_by_prepare(
    bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nor is anybody asked; the standard input would say yes."""
    folder = shutil.copytree(bert, tmp_path / "bert")
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'done')!r}).touch()\n"
        "from transformers import PretrainedConfig\nclass Mine(PretrainedConfig): pass\n"
    )
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("a\n")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    command = ["prepare", "--source-lang", "en", "--target-lang", "de", "--bert", str(folder)]
    paths = ["--train", str(tmp_path / "train"), "--out", str(tmp_path / "out")]
    assert main([*command, *paths]) == 1
    streams = capsys.readouterr()
    assert f"gtrans: error: {folder}: refused, because it brings code of its own" in streams.err
    assert not (tmp_path / "done").exists() and "y/N" not in streams.out + streams.err
