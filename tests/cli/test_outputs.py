"""What a command reads it never overwrites, and a disk that fails is one line."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gtrans.cli import main
from gtrans.translating import translator

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld


@pytest.fixture
def place(tiny: TinyWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the data folder, a model and texts, and links to them."""
    shutil.copytree(tiny.data, tmp_path / "data")
    (tmp_path / "run").mkdir()
    shutil.copy(tiny.checkpoints["document"], tmp_path / "run" / "model.pt")
    for lang in ("en", "de"):
        shutil.copy(tiny.text / f"test.{lang}", tmp_path / f"test.{lang}")
    (tmp_path / "link.pt").symlink_to("run/model.pt")
    (tmp_path / "hard.pt").hardlink_to(tmp_path / "run" / "model.pt")
    (tmp_path / "data.link").symlink_to("data")
    (tmp_path / "plot.png").hardlink_to(tmp_path / "run" / "model.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


SCORED = ("--path", "run/model.pt", "--data", "data", "--src", "test.en", "--ref", "test.de")
CONVERT = ("convert", "--from", "g-transformer", "--data", "data", "run/model.pt")


@pytest.mark.parametrize(
    "command",
    [
        ("average", "run/model.pt", "run/model.pt", "--output", "run/model.pt"),
        ("average", "run/model.pt", "--output", "link.pt"),
        ("average", "run/model.pt", "--output", "hard.pt"),
        (*CONVERT, "run/model.pt"),
        (*CONVERT, "link.pt"),
        (*CONVERT, "data/dict.en.txt"),
        (*CONVERT, "data.link/prepare.json"),
        ("trim-vocab", "--data", "data", "--out", "data", "run/model.pt"),
        ("trim-vocab", "--data", "data", "--out", "data.link", "run/model.pt"),
        ("trim-vocab", "--data", "data", "--out", "run", "run/model.pt"),
        ("cxmi", *SCORED, "--output", "test.en"),
        ("cxmi", *SCORED, "--output", "link.pt"),
        ("cxmi", *SCORED, "--output", "data/codes.bpe"),
        ("contrast", "--path", "run/model.pt", "--set", "set.jsonl", "--output", "link.pt"),
        ("contrast", "--path", "run/model.pt", "--set", ".", "--output", "test.de"),
        (
            *("contrast", "--path", "run/model.pt", "--set", "x", "--scores", "test.en"),
            *("--output", "test.en"),
        ),
    ],
)
def test_an_input_is_never_the_output(
    place: Path, capsys: pytest.CaptureFixture[str], command: Sequence[str]
):
    before = contents(place)
    assert main(command) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("gtrans: error: ") and "is the input" in line
    assert contents(place) == before


def test_the_text_that_data_were_prepared_from_is_never_the_output(
    place: Path, tiny: TinyWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tiny.text / "test.en"
    before = text.read_bytes()
    command = ["translate", "--path", "run/model.pt", "--data", "data", "--input", "test.de"]
    assert main([*command, "--output", str(text), "--force"]) == 1
    assert f"is the input '{text.resolve()}'" in capsys.readouterr().err.splitlines()[-1]
    assert text.read_bytes() == before


def test_a_checkpoint_that_is_replaced_while_it_is_read(
    tiny: TinyWorld,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The record would name a model that did not make the translation."""
    path = Path(shutil.copy(tiny.checkpoints["document"], tmp_path / "best.pt"))
    load = translator.load_models

    def load_and_replace(*arguments, **named):
        loaded = load(*arguments, **named)
        shutil.copy(tiny.checkpoints["other"], path)
        return loaded

    monkeypatch.setattr(translator, "load_models", load_and_replace)
    source = str(tiny.text / "test.en")
    command = ["translate", "--path", str(path), "--input", source, "--output"]
    assert main([*command, str(tmp_path / "out")]) == 1
    assert "was replaced while it was read" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
