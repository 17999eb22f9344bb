"""A data folder that was damaged is one line in every command that reads it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.runs import PLUGIN, refusal, train

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

SIDE = "valid.en-de.de"


@pytest.fixture
def data(tiny: TinyWorld, tmp_path: Path) -> Path:
    return shutil.copytree(tiny.data, tmp_path / "data")


def test_every_command_refuses(tiny: TinyWorld, data: Path, tmp_path: Path) -> None:
    ids = np.fromfile(data / f"{SIDE}.bin", np.uint16)
    ids[0] = 65_000
    ids.tofile(data / f"{SIDE}.bin")
    message = f"{SIDE}: line 1 has the id 65000"
    subset = ("--gen-subset", "valid", "--path", tiny.checkpoints["document"], "--cpu")
    assert message in refusal(tiny.run("generate", data, *PLUGIN, *subset))
    # This compares the digest of the file, which also tells of a word replaced by another.
    changed = f"{SIDE}.bin: it is not the file that `gtrans prepare` wrote"
    patience = ("--patience", "1", "--train-subset", "valid")
    assert changed in refusal(train(tiny.run, data, tmp_path / "run", *patience, updates=1))
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


@pytest.mark.parametrize("name", ["codes.bpe", "truecase.en"])
def test_training_refuses_files_of_another_preparation(
    name: str, tiny: TinyWorld, data: Path, tmp_path: Path
) -> None:
    """The checkpoint would carry them, and translate with wrong subwords."""
    lines = (data / name).read_text(encoding="utf-8").splitlines(keepends=True)
    (data / name).write_text("".join([*lines[:1], *reversed(lines[1:])]), encoding="utf-8")
    changed = f"{name}: it is not the file that `gtrans prepare` wrote"
    assert changed in refusal(train(tiny.run, data, tmp_path / "run", updates=1))
    assert not list((tmp_path / "run").glob("*.pt"))


def test_parts_of_the_training_text_are_not_left_out(
    tiny: TinyWorld, data: Path, tmp_path: Path
) -> None:
    """Those of `fairseq-preprocess --trainpref ONE,OTHER`."""
    shutil.copy(data / "train.en-de.en.idx", data / "train1.en-de.en.idx")
    message = "the split 'train' has parts (train1), which are not joined"
    assert message in refusal(train(tiny.run, data, tmp_path / "run", updates=1))
