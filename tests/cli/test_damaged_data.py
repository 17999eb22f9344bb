"""A data folder that was damaged is one line in every command that reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from support.runs import PLUGIN, refusal, train

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

Damage = Callable[[Path], None]
SIDE = "valid.en-de.de"


@pytest.fixture
def data(tiny: TinyWorld, tmp_path: Path) -> Path:
    return shutil.copytree(tiny.data, tmp_path / "data")


def of_another_program(data: Path) -> None:
    """No record says what the files must be."""
    (data / "prepare.json").unlink()


def cut_off(data: Path) -> None:
    file = data / f"{SIDE}.bin"
    file.write_bytes(file.read_bytes()[:-3])


def unknown_id(data: Path) -> None:
    ids = np.fromfile(data / f"{SIDE}.bin", np.uint16)
    ids[0] = 65_000
    ids.tofile(data / f"{SIDE}.bin")


def no_boundaries(data: Path) -> None:
    of_another_program(data)
    for kind in ("bin", "idx"):
        shutil.copy(data / f"test.en-de.de.{kind}", data / f"{SIDE}.{kind}")


def no_count(data: Path) -> None:
    of_another_program(data)
    file = data / "dict.de.txt"
    file.write_bytes(file.read_bytes().replace(b" ", b"", 1))


DAMAGES: dict[str, tuple[Damage, str]] = {
    "cut off": (cut_off, f"{SIDE}.bin: it is not the file that `gtrans prepare` wrote"),
    "an unknown id": (unknown_id, f"{SIDE}: line 1 has the symbol 65000"),
    "other documents": (no_boundaries, "valid.en-de: "),
    "no count": (no_count, "dict.de.txt: not a dictionary (ValueError: "),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_validation_refuses(damage: str, tiny: TinyWorld, data: Path) -> None:
    damaged, message = DAMAGES[damage]
    damaged(data)
    model = ("--path", tiny.checkpoints["document"], "--cpu", "--num-workers", "0")
    done = tiny.run("validate", data, *PLUGIN, *model, "--batch-size", "2")
    assert message in refusal(done)


def test_other_commands_refuse(
    tiny: TinyWorld, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged, message = DAMAGES["an unknown id"]
    damaged(data)
    model = ("--path", str(tiny.checkpoints["document"]), "--data", str(data))
    output = tmp_path / "out"
    assert main(["translate", *model, "--split", "valid", "--output", str(output), "--cpu"]) == 1
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not output.exists()
    subset = ("--gen-subset", "valid", "--path", tiny.checkpoints["document"], "--cpu")
    assert message in refusal(tiny.run("generate", data, *PLUGIN, *subset))
    # These two compare the digest of the file, which also tells of a word replaced by another.
    changed = f"{SIDE}.bin: it is not the file that `gtrans prepare` wrote"
    assert main(["show", str(data)]) == 1
    assert changed in capsys.readouterr().err
    patience = ("--patience", "1", "--train-subset", "valid")
    assert changed in refusal(train(tiny.run, data, tmp_path / "run", *patience, updates=1))
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))
