"""Folders of Hugging Face that are damaged or bring code."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.pretrained_models import hugging_face_model, write_dictionaries

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.modules.bert import load_bert

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
Change = Callable[[Path], object]


def one_line(error: str, message: str) -> None:
    assert error.startswith("gtrans: error: ") and error.count("\n") == 1, error
    assert message in error, error


def tensors(change: Callable[[dict[str, Any]], object], binary: bool = False) -> Change:
    """Change the tensors of a folder; ``binary``: into a pytorch_model.bin."""

    def apply(folder: Path) -> None:
        state: dict[str, Any] = load_file(folder / WEIGHTS)
        (folder / WEIGHTS).unlink()
        change(state)
        if binary:
            torch.save(state, folder / "pytorch_model.bin")
        else:
            save_file(state, folder / WEIGHTS, {"format": "pt"})

    return apply


def index(content: object) -> Change:
    def apply(folder: Path) -> None:
        (folder / WEIGHTS).rename(folder / "part.safetensors")
        (folder / INDEX).write_text(json.dumps(content))

    return apply


def first(state: dict[str, Any]) -> str:
    return next(name for name in state if state[name].dim() == 2)


def nan(state: dict[str, Any]) -> None:
    state[first(state)][0, 0] = float("nan")


DAMAGES: dict[str, tuple[Change, str]] = {
    "not a number": (tensors(nan), "holds NaN"),
    "a list": (tensors(lambda s: s.update(x=[1]), binary=True), "its bin content is damaged"),
    "a missing shard": (index({"weight_map": {"x": "no.safetensors"}}), "'no.safetensors' is miss"),
    "a tensor in no shard": (index({"weight_map": {"x": "part.safetensors"}}), "its files lack x"),
    "an empty file": (lambda folder: (folder / WEIGHTS).write_bytes(b""), "safetensors"),
}  # fmt: skip


@pytest.fixture(scope="module")
def mbart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An mBART of Hugging Face, and its data folder."""
    folder = tmp_path_factory.mktemp("mbart")
    data = write_dictionaries(folder / "data")
    hugging_face_model("mbart", folder / "model", data)
    return folder / "model", data


@pytest.mark.parametrize("name", DAMAGES)
def test_weights(
    name: str,
    mbart: tuple[Path, Path],
    bert: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of an mBART that is converted, and of a BERT that is loaded."""
    change, message = DAMAGES[name]
    folder, out = shutil.copytree(mbart[0], tmp_path / "mbart"), tmp_path / "out.pt"
    change(folder)
    languages = ("--source-lang", "en", "--target-lang", "de")
    command = ["convert", "--from", "huggingface", *languages, "--data", str(mbart[1])]
    assert main([*command, str(folder), str(out)]) == 1
    one_line(capsys.readouterr().err, message)
    assert not out.exists()
    if name == "a list":  # under a name that no BERT has, it is left out
        return
    folder = shutil.copytree(bert, tmp_path / "bert")
    change(folder)
    with pytest.raises(GtransError, match=str(folder)) as raised:
        load_bert(str(folder))
    assert "\n" not in str(raised.value)


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
    assert f"gtrans: error: {folder}: cannot load this BERT" in streams.err
    assert not (tmp_path / "done").exists() and "y/N" not in streams.out + streams.err
