"""``gtrans show``: what a checkpoint, a folder or a translation was made from."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gtrans.checkpoints.identity import STATE
from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.cli import main
from gtrans.decoding.options import MAX_TOKENS

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
    assert found["kind"] == "checkpoint" and "note" not in found
    assert found["architecture"] == "gtransformer_tiny"
    assert found["parameters"] == sum({t.data_ptr(): t.numel() for t in tensors.values()}.values())
    assert found["languages"] == "en-de" and found["unit"] == "document"
    assert found["vocabulary"] == tensors["encoder.embed_tokens.weight"].size(0)
    assert found["preparation"]["BPE"]["merges"] == 300
    assert found["training"]["updates"] == 12 and found["training"]["seed"] == 1
    assert found["provenance"]["training data"] == str(tiny.data)
    assert "average of" not in found
    assert main(["show", str(tiny.checkpoints["document"])]) == 0
    text = capsys.readouterr().out
    assert f"  sha256: {found['sha256']}\n" in text


def test_an_average_says_of_what(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tiny.checkpoints[name] for name in ("document", "other")]
    mean = tmp_path / "mean.pt"
    assert main(["average", *map(str, paths), "--output", str(mean)]) == 0
    assert "average of" not in shown(paths[0], capsys)
    found = shown(mean, capsys)
    assert found["average of"] == [path.name for path in paths]
    # It has never been validated.
    assert "validation loss" not in found["training"]


def test_identities_say_what_belongs_together(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = [shown(tiny.checkpoints[name], capsys) for name in ("document", "other", "sentence")]
    data = shown(tiny.data, capsys)
    assert data["kind"] == "prepared folder"
    name = "fingerprint of the vocabulary"
    assert {found[name] for found in models} == {data[name]}
    assert all(found["preparation"] == data["preparation"] for found in models)
    assert models[0]["fingerprint"] == models[1]["fingerprint"] != models[2]["fingerprint"]
    runs = [found["provenance"]["fingerprint of the data"] for found in models]
    assert len(set(runs)) == 1
    moved = shown(shutil.copytree(tiny.data, tmp_path / "moved"), capsys)
    assert {**moved, "path": ""} == {**data, "path": ""}
    test = (tiny.text / "test.en").read_text("utf-8").strip()
    sentences = len([line for line in test.split("\n") if line])
    documents = test.count("\n\n") + 1
    assert data["splits"]["test"] == f"{sentences} sentences in {documents} documents"


def test_a_run_folder_and_an_unfinished_preparation(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shown(tiny.checkpoints["document"].parent, capsys)
    checkpoint = shown(tiny.checkpoints["document"], capsys)
    assert run["kind"] == "run folder" and run["checkpoints"] == ["checkpoint_last.pt"]
    assert run["sha256"] == checkpoint["sha256"]
    folder = shutil.copytree(tiny.data, tmp_path / "begun")
    state = json.loads((folder / "prepare.json").read_text())
    del state["finished"]["binarise"]
    (folder / "prepare.json").write_text(json.dumps(state))
    assert "not finished" in shown(folder, capsys)["note"]


def test_a_translation(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, path = tmp_path / "out.de", tiny.checkpoints["document"]
    files = ["--path", str(path), "--input", str(tiny.text / "test.en"), "--output", str(output)]
    assert main(["translate", *files, "--max-len-a", "0", "--max-len-b", "3", "--cpu"]) == 0
    found = shown(output, capsys)
    assert found["kind"] == "translation"
    assert found["provenance"]["checkpoints"] == [shown(path, capsys)["sha256"]]
    prepared = shown(tiny.data, capsys)["preparation"]["fingerprint"]
    assert found["provenance"]["preparation"] == prepared
    record = tmp_path / "out.de.made.json"
    whole = record.read_text()
    record.write_text(whole.replace(f'"max_tokens": {MAX_TOKENS}', '"max_tokens": 9'))
    assert main(["show", str(output)]) == 1
    record.write_text(whole)
    output.write_text("something else\n", encoding="utf-8")
    assert main(["show", str(output)]) == 1
    assert "was changed after `gtrans translate` wrote it" in capsys.readouterr().err


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
        ("none", "there is no such file or folder"),
        ("text", "neither a checkpoint nor a translation with its record"),
        ("empty", "it holds neither a preparation"),
    ):
        assert main(["show", str(tmp_path / name)]) == 1
        error = capsys.readouterr().err.strip()
        assert message in error and "\n" not in error
