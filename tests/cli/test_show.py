"""``gtrans show``: what a checkpoint was made from."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gtrans.checkpoints.fingerprint import STATE
from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


def shown(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``--json`` prints."""
    capsys.readouterr()
    assert main(["show", "--json", str(path)]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_checkpoint(tiny: TinyWorld, capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(tiny.checkpoints["document"], capsys)
    tensors = read_checkpoint(tiny.checkpoints["document"])["model"]
    assert found["path"] == str(tiny.checkpoints["document"]) and "note" not in found
    assert found["architecture"] == "gtransformer_tiny"
    assert found["parameters"] == sum({t.data_ptr(): t.numel() for t in tensors.values()}.values())
    assert found["languages"] == "en-de" and found["unit"] == "document"
    assert found["vocabulary"] == tensors["encoder.embed_tokens.weight"].size(0)
    codes = (tiny.data / "codes.bpe").read_text(encoding="utf-8").splitlines()
    assert found["preparation"]["BPE"]["merges"] == len(codes) - 1  # as many as were learnt
    assert found["training"]["updates"] == 12 and found["training"]["seed"] == 1
    assert found["provenance"]["training data"] == str(tiny.data)
    assert "average of" not in found
    assert main(["show", str(tiny.checkpoints["document"])]) == 0
    text = capsys.readouterr().out
    assert f"\nsha256: {found['sha256']}\n" in text


def test_an_average_says_of_what(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tiny.checkpoints["document"]
    state = read_checkpoint(first)
    state["optimizer_history"][-1]["num_updates"] += 1
    write_checkpoint(state, tmp_path / "next.pt")
    paths = [first, tmp_path / "next.pt"]
    mean = tmp_path / "mean.pt"
    assert main(["average", *map(str, paths), "--output", str(mean)]) == 0
    assert "average of" not in shown(paths[0], capsys)
    found = shown(mean, capsys)
    assert found["average of"] == [path.name for path in paths]
    # It has never been validated.
    assert "validation loss" not in found["training"]


def test_what_nobody_trained_has_no_settings_of_a_training(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A converted model has fairseq's defaults as options, with which nobody trained."""
    state = read_checkpoint(tiny.checkpoints["document"])
    state["optimizer_history"] = [{"num_updates": 0}]
    write_checkpoint(state, tmp_path / "converted.pt")
    assert shown(tmp_path / "converted.pt", capsys)["training"] == {"updates": 0}


def test_the_merges_that_were_learnt(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = read_checkpoint(tiny.checkpoints["document"])
    prepared = state["task_state"][STATE]["preparation"]
    record = json.loads(prepared["state"])
    learnt, record["bpe"]["merges"] = record["bpe"]["merges"], 30000
    prepared["state"] = json.dumps(record, sort_keys=True)
    write_checkpoint(state, tmp_path / "asked.pt")
    assert shown(tmp_path / "asked.pt", capsys)["preparation"]["BPE"]["merges"] == learnt


def test_a_folder_whose_name_is_not_utf8(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    path = Path(shutil.copy(tiny.checkpoints["document"], folder))
    assert main(["show", str(path)]) == 0
    assert "architecture: gtransformer_tiny" in capsys.readouterr().out


def test_fingerprints_say_what_belongs_together(
    tiny: TinyWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [shown(tiny.checkpoints[name], capsys) for name in ("document", "other", "sentence")]
    assert len({found["preparation"]["digest"] for found in models}) == 1
    assert models[0]["fingerprint"] == models[1]["fingerprint"] != models[2]["fingerprint"]
    assert len({found["provenance"]["digest of the data"] for found in models}) == 1
    # A run folder is shown by its last checkpoint.
    assert shown(tiny.checkpoints["document"].parent, capsys) == models[0]


def test_what_is_not_known_is_said(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = read_checkpoint(tiny.checkpoints["document"])
    del state["task_state"][STATE]
    write_checkpoint(state, tmp_path / "old.pt")
    capsys.readouterr()
    assert main(["show", str(tmp_path / "old.pt")]) == 0
    assert "it does not say which data" in capsys.readouterr().out
    (tmp_path / "text").write_text("no checkpoint\n")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("none", "there is no such checkpoint"),
        ("text", "not a readable checkpoint"),
        ("empty", "it holds no checkpoints (checkpoint*.pt)"),
    ):
        assert main(["show", str(tmp_path / name)]) == 1
        error = capsys.readouterr().err.strip()
        assert message in error and "\n" not in error
