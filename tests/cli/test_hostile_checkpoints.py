"""Checkpoints of harmless but wrong contents: one line and a status, from every command."""

from __future__ import annotations

import json
import pickle
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.hostile import CONTENTS, MODELS, Damage, damaged
from support.runs import refusal, train
from support.suites import one_in
from support.tiny_models import TinyWorld

from gtrans.cli import main

Argv = Callable[[TinyWorld, Path, Path], list[str]]

# What reads a checkpoint, without and with its data folder.
MODEL_COMMANDS: dict[str, Argv] = {
    "translate": lambda world, path, out: [
        *("translate", "--path", str(path), "--input", str(world.text / "test.en")),
        *("--output", str(out)),
    ],
    "contrast": lambda world, path, out: [
        *("contrast", "--path", str(path), "--data", str(world.data)),
        *("--set", *map(str, sorted((world.text / "contrastive").glob("*.jsonl"))[:1])),
    ],
    "cxmi": lambda world, path, out: [
        *("cxmi", "--path", str(path), "--src", str(world.text / "test.en")),
        *("--ref", str(world.text / "test.de"), "--output", str(out)),
    ],
    "convert": lambda world, path, out: [
        *("convert", "--from", "gtrans", "--extend-positions", "2000", str(path), str(out)),
    ],
}
COMMANDS: dict[str, Argv] = {
    **MODEL_COMMANDS,
    "show": lambda world, path, out: ["show", str(path)],
    "average": lambda world, path, out: [
        *("average", str(world.checkpoints["document"]), str(path), "--output", str(out)),
    ],
}


# Commands that change parameters, whatever the options say.
_OF_PARAMETERS = ("convert", "average")


@pytest.fixture(scope="module")
def state(tiny: TinyWorld) -> Callable[[], dict[str, Any]]:
    """What a whole checkpoint holds."""
    return lambda: torch.load(tiny.checkpoints["document"], weights_only=True)


@pytest.fixture(params=["two", pytest.param("all", marks=pytest.mark.long)])
def chosen(request: pytest.FixtureRequest) -> Callable[[dict[str, Argv], str], dict[str, Argv]]:
    """All commands, or two of them for each damage: others for another damage."""

    def choose(commands: dict[str, Argv], damage: str) -> dict[str, Argv]:
        if request.param == "all":
            return commands
        first, other = divmod(zlib.crc32(damage.encode()), len(commands))
        names = list(commands)
        return {names[n % len(names)]: commands[names[n % len(names)]] for n in (first, other)}

    return choose


def refused(
    tiny: TinyWorld,
    commands: dict[str, Argv],
    path: Path,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every command ends with one line that names the file, and writes nothing."""
    out = path.with_name("out")
    for name, argv in commands.items():
        capsys.readouterr()
        assert main(argv(tiny, path, out)) == 1, name
        streams = capsys.readouterr()
        assert streams.err.startswith("gtrans: error: "), (name, streams.err)
        assert streams.err.count("\n") == 1, (name, streams.err)
        assert message in streams.err and str(path) in streams.err, (name, streams.err)
        assert "\x1b" not in streams.err and not streams.out, name
        assert not out.exists(), name


OF_IDENTITY = {
    "identity a list", "identity without vocabulary", "words that are no text",
    "a vocabulary of another size", "languages that leave a folder",
}  # fmt: skip


@pytest.mark.parametrize("name", one_in(3, CONTENTS))
def test_contents(
    name: str,
    chosen: Callable[[dict[str, Argv], str], dict[str, Argv]],
    tiny: TinyWorld,
    state: Callable[[], dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage, message = CONTENTS[name]
    path = tmp_path / "checkpoint.pt"
    torch.save(damaged(state(), damage), path)
    commands = COMMANDS
    if name in OF_IDENTITY:  # of which this conversion reads nothing
        commands = {name: argv for name, argv in COMMANDS.items() if name != "convert"}
    refused(tiny, chosen(commands, name), path, message, capsys)


@pytest.mark.parametrize("name", one_in(3, MODELS))
def test_models_that_their_options_do_not_describe(
    name: str,
    chosen: Callable[[dict[str, Argv], str], dict[str, Argv]],
    tiny: TinyWorld,
    state: Callable[[], dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No model of the size that the options claim is built."""
    damage, message = MODELS[name]
    path = tmp_path / "checkpoint.pt"
    torch.save(damaged(state(), damage), path)
    # `gtrans show` builds no model, but would repeat what is not so.
    commands = {name: argv for name, argv in COMMANDS.items() if name not in _OF_PARAMETERS}
    refused(tiny, chosen(commands, name), path, message, capsys)


def files() -> dict[str, tuple[Callable[[bytes], bytes], str]]:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return print, ("run",)

    return {
        "half of it": (lambda whole: whole[: len(whole) // 2], "not a readable checkpoint"),
        "without its end": (lambda whole: whole[:-9], "not a readable checkpoint"),
        "empty": (lambda whole: b"", "not a readable checkpoint"),
        "one byte": (lambda whole: b"x", "not a readable checkpoint (torch.save has not written"),
        "text": (lambda whole: b"hello\n" * 99, "not a readable checkpoint"),
        "a pickle": (lambda whole: pickle.dumps({"model": {"x": 1}}), "not a readable checkpoint"),
        "a pickle of code": (lambda whole: pickle.dumps(Code(), 2), "print"),
        "an archive": (lambda whole: b"PK\x05\x06" + bytes(18), "not a readable checkpoint"),
    }


@pytest.mark.parametrize("name", files())
def test_files(
    name: str, tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = files()[name]
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(change(tiny.checkpoints["document"].read_bytes()))
    if name not in ("empty", "one byte", "text", "a pickle", "an archive"):
        refused(tiny, COMMANDS, path, message, capsys)
        return
    # `gtrans show` takes any file, and says what this one is not
    refused(tiny, {"show": COMMANDS["show"]}, path, "neither a checkpoint nor", capsys)
    commands = {name: argv for name, argv in COMMANDS.items() if name != "show"}
    refused(tiny, commands, path, message, capsys)


def test_an_archive_that_unpacks_to_more(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checkpoint.pt"
    with (
        zipfile.ZipFile(tiny.checkpoints["document"]) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    refused(tiny, COMMANDS, path, "is compressed", capsys)


def test_weights_that_do_not_have_their_checksum(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "checkpoint.pt"
    contents = bytearray(tiny.checkpoints["document"].read_bytes())
    with zipfile.ZipFile(tiny.checkpoints["document"]) as archive:
        weights = [part for part in archive.infolist() if "/data/" in part.filename]
        largest = max(weights, key=lambda part: part.file_size)
    contents[largest.header_offset + largest.file_size // 2] ^= 1
    path.write_bytes(contents)
    refused(tiny, COMMANDS, path, "damaged, the checksum of its part", capsys)


def test_a_folder(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "checkpoint.pt"
    path.mkdir()
    commands = {name: argv for name, argv in COMMANDS.items() if name != "show"}
    refused(tiny, commands, path, str(path), capsys)


def test_trim_vocab(
    tiny: TinyWorld,
    state: Callable[[], dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, path = tmp_path / "data", tmp_path / "checkpoints" / "checkpoint.pt"
    data.mkdir()
    path.parent.mkdir()
    languages = {"source_lang": "en", "target_lang": "de"}
    prepared = {"format": 1, "pieces": "sentencepiece", **languages}
    (data / "prepare.json").write_text(json.dumps(prepared))
    (data / "dict.en.txt").write_text("a 1\n")
    commands: dict[str, Argv] = {
        "trim-vocab": lambda world, path, out: [
            *("trim-vocab", "--data", str(data), "--out", str(out), str(path)),
        ]
    }
    for name in ("sparse", "not a number", "identity a list", "cfg a list"):
        damage, message = CONTENTS[name]
        torch.save(damaged(state(), damage), path)
        refused(tiny, commands, path, message, capsys)


_STARTS = {
    "--init-from": ("not a number", "nested", "identity a list", "another shape", "integers"),
    "--restore-file": ("not a number", "another shape"),
    "--finetune-from-model": ("not a number", "sparse", "a parameter too few"),
}


@pytest.mark.long
@pytest.mark.parametrize("flag", _STARTS)
def test_training_does_not_start(
    flag: str, tiny: TinyWorld, state: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    for name in _STARTS[flag]:
        damage, message = {**CONTENTS, **MODELS}[name]
        path = tmp_path / "checkpoint.pt"
        torch.save(damaged(state(), damage), path)
        done = train(tiny.run, tiny.data, tmp_path / "run", flag, path, updates=13)
        line = refusal(done)
        assert str(path) in line, (name, line)
        assert message.split()[0] in line or flag == "--init-from", (name, line)
        assert not list((tmp_path / "run").glob("*.pt")), name


_RESUMED: dict[str, Damage] = {
    "no workers": lambda state: state["extra_state"]["run_state"].pop("workers"),
    "an optimizer that is a text": lambda state: state.update(last_optimizer_state="x"),
    "another optimizer": lambda state: state["last_optimizer_state"].update(param_groups=[]),
    "a run of numbers": lambda state: state["task_state"].update(run={"data": 3}),
    "batches in words": lambda state: state["cfg"]["optimization"].update(update_freq="many"),
    "not a number": CONTENTS["not a number"][0],
}


@pytest.mark.parametrize("name", one_in(2, _RESUMED))
def test_a_run_does_not_go_on(
    name: str, tiny: TinyWorld, state: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint_last.pt"
    torch.save(damaged(state(), _RESUMED[name]), path)
    before = path.read_bytes()
    options = ("--max-tokens", "1024", "--seed", "1")
    line = refusal(train(tiny.run, tiny.data, tmp_path, *options, updates=13))
    assert str(path) in line, line
    assert path.read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("command", ["generate", "validate", "interactive"])
def test_stock_commands(
    command: str, tiny: TinyWorld, state: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.pt"
    plugin = ("--user-dir", "gtrans", "--task", "document_translation", "--path", path, "--cpu")
    split = () if command == "interactive" else ("--max-tokens", "999")
    subset = {"generate": ("--gen-subset", "test"), "validate": ("--valid-subset", "test")}
    options = (tiny.data, *plugin, *split, *subset.get(command, ()), "--num-workers", "0")
    for name in ("not a number", "width 10^9", "no options"):
        damage, _ = {**CONTENTS, **MODELS}[name]
        torch.save(damaged(state(), damage), path)
        assert str(path) in refusal(tiny.run(command, *options, stdin="a\n\n")), name
    path.unlink()
    assert "there is no such checkpoint" in refusal(tiny.run(command, *options, stdin="a\n\n"))


def test_finite_parameters_with_scores_that_are_not(
    tiny: TinyWorld,
    state: Callable[[], dict[str, Any]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Parameters that are so large that the model computes NaN."""
    path = tmp_path / "checkpoint.pt"
    huge = state()
    for tensor in huge["model"].values():
        tensor.fill_(3e38)
    torch.save(huge, path)
    for argv in (MODEL_COMMANDS[name] for name in ("translate", "contrast", "cxmi")):
        capsys.readouterr()
        assert main(argv(tiny, path, tmp_path / "out")) == 1
        streams = capsys.readouterr()
        assert f"{path}: probabilities are not finite (NaN)" in streams.err
        assert "Traceback" not in streams.err and not streams.out
