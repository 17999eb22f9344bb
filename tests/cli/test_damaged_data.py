"""A data folder that was damaged is one line in every command that reads it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


def another_word(data: Path) -> None:
    """Only the record of the preparation knows that it is another one."""
    ids = np.fromfile(data / f"{SIDE}.bin", np.uint16)
    ids[0] = ids[0] + 1 if ids[0] == 4 else 4
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
    patience = ("--patience", "1", "--train-subset", "valid")
    assert message in refusal(train(tiny.run, data, tmp_path / "run", *patience, updates=1))
    assert not (tmp_path / "run").exists() or not list((tmp_path / "run").glob("*.pt"))


def test_what_only_the_record_knows(
    tiny: TinyWorld, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`gtrans show` compares all files, a training those that it reads."""
    another_word(data)
    message = f"{SIDE}.bin: it is not the file that `gtrans prepare` wrote"
    assert main(["show", str(data)]) == 1
    assert message in capsys.readouterr().err
    done = train(tiny.run, data, tmp_path / "run", "--train-subset", "valid", updates=1)
    assert message in refusal(done)
    of_another_program(data)
    done = train(tiny.run, data, tmp_path / "run", "--train-subset", "valid", updates=1)
    assert done.status == 0, done.stderr


# ---- prepare.json ------------------------------------------------------------------------------


def entry(*path: str, to: Any) -> Callable[[Any], Any]:
    def change(state: Any) -> Any:
        place = state
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = to
        return state

    return change


STATES: dict[str, Callable[[Any], Any]] = {
    "not an object": lambda state: [state],
    "'source_lang'": entry("source_lang", to=7),
    "'target_lang'": entry("target_lang", to="../de"),
    "its entry 'bpe'": entry("bpe", to=None),
    "is not a file name": entry("files", "codes", to="/etc/passwd"),
    "can have written '../x'": entry("finished", "binarise", "outputs", to={"../x": 1}),
}


def test_a_damaged_prepare_json(
    tiny: TinyWorld, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (data / "prepare.json").read_text()
    text = {name: json.dumps(change(json.loads(whole))) for name, change in STATES.items()}
    text |= {"not JSON": whole[:-3], "not UTF-8": "\udcff"}
    prefix = str(tiny.text / "test")
    prepare = ["prepare", "--source-lang", "en", "--target-lang", "de", "--train", prefix]
    commands = [
        ["show", str(data)],
        [*prepare, "--out", str(data)],
        ["score", "--hyp", f"{prefix}.de", "--ref", f"{prefix}.de", "--data", str(data)],
    ]
    for message, state in text.items():
        (data / "prepare.json").write_text(state, errors="surrogateescape")
        for command in commands:
            assert main(command) == 1
            line = capsys.readouterr().err.splitlines()[-1]
            assert line.startswith("gtrans: error: ") and message in line
    model = ("--path", tiny.checkpoints["document"], "--gen-subset", "test", "--cpu")
    assert "not UTF-8" in refusal(tiny.run("generate", data, *PLUGIN, *model))


def test_a_damaged_dictionary_is_not_reused(
    tiny: TinyWorld, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dictionary = data / "dict.de.txt"
    dictionary.write_bytes(2 * dictionary.read_bytes())
    out = tmp_path / "new"
    words = ["prepare", "--source-lang", "en", "--target-lang", "de", "--reuse", str(data)]
    assert main([*words, "--test", str(tiny.text / "test"), "--out", str(out)]) == 1
    assert f"{dictionary}:" in (said := capsys.readouterr().err) and "Duplicate word" in said
    assert not out.exists()
