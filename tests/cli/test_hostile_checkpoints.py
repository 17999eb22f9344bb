"""Checkpoints of harmless but wrong contents: one line and a status, from every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import refusal, train
from support.suites import one_in
from support.tiny_models import TinyWorld

from gtrans.cli import main

State = dict[str, Any]
Damage = Callable[[State], object]
TABLE, LAYER = "encoder.embed_tokens.weight", "encoder.layers.0.fc1.weight"

# The words after the checkpoint of each command that reads one.
COMMANDS: dict[str, str] = {
    "translate": "translate --path {path} --input {text}/test.en --output {out}",
    "contrast": "contrast --path {path} --data {data} --set {text}/contrastive/pronoun.jsonl",
    "cxmi": "cxmi --path {path} --src {text}/test.en --ref {text}/test.de --output {out}",
    "trim-vocab": "trim-vocab --data {data} --out {out} {path}",
    "show": "show {path}",
    "average": "average {whole} {path} --output {out}",
}
BUILD_A_MODEL = ("translate", "contrast", "cxmi")


def entry(name: str, value: object) -> Damage:
    """Another value for an entry of the file, such as ``cfg`` or ``cfg.model``."""

    def change(state: State) -> None:
        *groups, last = name.split(".")
        for group in groups:
            state = state[group]
        state[last] = value

    return change


def parameter(change: Callable[[torch.Tensor], object], name: str = TABLE) -> Damage:
    """Another value for one parameter, made from the right one."""
    return lambda state: state["model"].update({name: change(state["model"][name])})


def without_number(right: torch.Tensor) -> torch.Tensor:
    wrong = right.clone()
    wrong[3, 1] = float("nan")
    return wrong


# A damage, a part of what is said of it, and the commands that must see it.
DAMAGES: dict[str, tuple[Damage, str, tuple[str, ...]]] = {
    "not a number": (parameter(without_number), f"{TABLE} holds NaN", tuple(COMMANDS)),
    "no model": (entry("model", [1, 2]), "holds no model", ("translate", "trim-vocab")),
    "cfg a list": (entry("cfg", ["model"]), "its contents are damaged", tuple(COMMANDS)),
    "fingerprint a list": (
        entry("task_state.fingerprint", [1]), "its fingerprint is damaged", ("translate", "average")
    ),
    "languages that leave a folder": (
        entry("task_state.fingerprint.languages", ["../../x", "de"]), "its fingerprint is damaged",
        ("translate", "show"),
    ),
    "files that leave a folder": (
        entry("task_state.fingerprint.preparation.files", {"../x": torch.zeros(1)}),
        "its fingerprint is damaged", ("translate",),
    ),
    "an unknown model": (entry("cfg.model._name", "mars"), "knows no model", BUILD_A_MODEL),
    "another shape": (parameter(lambda it: it[:1], LAYER), "has the shape (1, ", ("contrast",)),
    "integers": (parameter(torch.Tensor.long, LAYER), "the type torch.int64", ("translate",)),
    "no numbers": (
        parameter(lambda it: it.to("meta")), "does not hold all of its numbers", tuple(COMMANDS)
    ),
    "numbers that stand for many": (
        parameter(lambda it: torch.zeros(1).expand(it.shape)), "does not hold all of its numbers",
        tuple(COMMANDS),
    ),
    "a parameter too few": (
        lambda state: state["model"].pop("decoder.layers.1.fc2.bias"), "it lacks", ("translate",)
    ),
    "a parameter too many": (
        lambda state: state["model"].update({"encoder.x": torch.ones(2)}), "not have encoder.x",
        ("cxmi",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def state(tiny: TinyWorld) -> Callable[[], State]:
    """What a whole checkpoint holds."""
    return lambda: torch.load(tiny.checkpoints["document"], weights_only=True)


@pytest.fixture
def refused(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """Every command ends with one line that names the file, and writes nothing."""
    path, out = tmp_path / "checkpoint.pt", tmp_path / "out"
    places = {
        "path": path, "out": out, "text": tiny.text, "data": tiny.data,
        "whole": tiny.checkpoints["document"],
    }  # fmt: skip

    def check(commands: tuple[str, ...], message: str) -> None:
        for name in commands:
            capsys.readouterr()
            assert main(COMMANDS[name].format(**places).split()) == 1, name
            said = capsys.readouterr()
            assert said.err.startswith("gtrans: error: ") and said.err.count("\n") == 1, said.err
            assert message in said.err and str(path) in said.err, (name, said.err)
            assert not said.out and not out.exists(), name

    return check


@pytest.mark.parametrize("name", one_in(2, DAMAGES))
def test_contents(name: str, refused: Any, state: Callable[[], State], tmp_path: Path) -> None:
    damage, message, commands = DAMAGES[name]
    damage(broken := state())
    torch.save(broken, tmp_path / "checkpoint.pt")
    refused(commands, message)


@pytest.mark.parametrize(
    "damage",
    [
        lambda state: state["extra_state"]["run_state"].pop("workers"),
        lambda state: state["last_optimizer_state"].update(param_groups=[]),
        DAMAGES["not a number"][0],
    ],
    ids=["no workers", "another optimizer", "not a number"],
)
def test_a_run_does_not_go_on(
    damage: Damage, tiny: TinyWorld, state: Callable[[], State], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint_last.pt"
    damage(broken := state())
    torch.save(broken, path)
    before = path.read_bytes()
    options = ("--max-tokens", "1024", "--seed", "1")
    assert str(path) in refusal(train(tiny.run, tiny.data, tmp_path, *options, updates=13))
    assert path.read_bytes() == before


def test_finite_parameters_with_scores_that_are_not(
    state: Callable[[], State], refused: Any, tmp_path: Path
) -> None:
    """Parameters that are so large that the model computes NaN."""
    huge = state()
    for tensor in huge["model"].values():
        tensor.fill_(3e38)
    torch.save(huge, tmp_path / "checkpoint.pt")
    refused(BUILD_A_MODEL, "probabilities are not finite (NaN)")


@pytest.mark.long
@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("--init-from", ("not a number", "fingerprint a list", "another shape")),
        ("--restore-file", ("not a number", "another shape")),
        ("--finetune-from-model", ("not a number", "a parameter too few")),
    ],
)
def test_training_does_not_start(
    flag: str, names: tuple[str, ...], tiny: TinyWorld, state: Callable[[], State], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.pt"
    for name in names:
        damage, message, _ = DAMAGES[name]
        damage(broken := state())
        torch.save(broken, path)
        line = refusal(train(tiny.run, tiny.data, tmp_path / "run", flag, path, updates=13))
        assert str(path) in line, (name, line)
        assert message.split()[0] in line or flag == "--init-from", (name, line)
        assert not list((tmp_path / "run").glob("*.pt")), name


@pytest.mark.long
@pytest.mark.parametrize("command", ["generate", "validate", "interactive"])
def test_stock_commands(
    command: str, tiny: TinyWorld, state: Callable[[], State], tmp_path: Path
) -> None:
    path = tmp_path / "checkpoint.pt"
    options: tuple[Any, ...]
    options = ("--user-dir", "gtrans", "--task", "document_translation", "--path", path, "--cpu")
    options += () if command == "interactive" else ("--max-tokens", "999")
    DAMAGES["not a number"][0](broken := state())
    torch.save(broken, path)
    line = refusal(tiny.run(command, tiny.data, *options, stdin="a\n\n"))
    assert line.startswith("the checkpoint: ") and "holds NaN or infinite numbers" in line
