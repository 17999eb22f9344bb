"""Models that read windows, through the commands that users type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.runs import PLUGIN, TRAINING
from support.suites import others_long

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import Finished, TinyWorld


SETTINGS = (
    *(*PLUGIN, *TRAINING, "--warmup-updates", "1", "--lr-scheduler", "inverse_sqrt"),
    *("--max-tokens", "1024"),
)
MODELS: dict[str, tuple[str, ...]] = {
    "flat": ("--arch", "flat_transformer_tiny"),
    "2-to-2": ("--arch", "concat_transformer_tiny"),
    "3-to-1": (
        *("--arch", "concat_transformer_tiny", "--context-sides", "source"),
        *("--context-before", "2"),
    ),
}
SEARCH = ("--beam", "2", "--max-len-a", "0", "--max-len-b", "8", "--cpu")


def train(tiny: TinyWorld, folder: Path, *options: Any, updates: int = 4) -> Finished:
    return tiny.run(
        "train", tiny.data, *SETTINGS, "--max-update", str(updates), "--save-dir", folder, *options,
    )  # fmt: skip


@dataclass(frozen=True)
class Trained:
    """Checkpoints of :data:`MODELS`, and what training printed."""

    checkpoints: dict[str, Path]
    logs: dict[str, str]


@pytest.fixture(scope="module")
def trained(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """All started from the sentence model, for a few updates."""
    checkpoints, logs = {}, {}
    for name, options in MODELS.items():
        folder = tmp_path_factory.mktemp(name)
        start = ("--init-from", tiny.checkpoints["sentence"])
        done = train(tiny, folder, *options, *start, "--disable-validation")
        assert done.status == 0, done.stderr
        checkpoints[name], logs[name] = folder / "checkpoint_last.pt", done.stderr
    return Trained(checkpoints, logs)


def generated(tiny: TinyWorld, path: Path) -> Finished:
    return tiny.run.succeed(
        "generate", tiny.data, *PLUGIN, "--path", path, *SEARCH, "--max-tokens", "4000",
    )  # fmt: skip


def translation(tiny: TinyWorld, path: Path, out: Path, *options: str) -> list[str]:
    argv = [
        "translate", "--path", str(path), "--data", str(tiny.data), "--input",
        str(tiny.text / "test.en"), "--output", str(out), *SEARCH, "--max-tokens", "4000",
    ]  # fmt: skip
    assert main([*argv, *options]) == 0
    return out.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", others_long(MODELS, ["2-to-2"]))
def test_all_commands_give_the_same_translation(
    name: str, tiny: TinyWorld, trained: Trained, tmp_path: Path
) -> None:
    path = trained.checkpoints[name]
    lines = translation(tiny, path, tmp_path / "text.de")
    source = (tiny.text / "test.en").read_text(encoding="utf-8").splitlines()
    assert [line == "" for line in lines] == [line == "" for line in source]
    printed = dict(generated(tiny, path).lines("H"))
    assert sorted(printed) == list(range(sum(map(len, tiny.source()))))
    documents = iter([*tiny.subwords("en"), ""])
    subwords = [next(documents) if line else "" for line in source]
    interactive = tiny.run.succeed(
        "interactive", tiny.data, *PLUGIN, "--path", path, *SEARCH,
        stdin="\n".join(subwords) + "\n\n",
    )  # fmt: skip
    by_line = dict(interactive.lines("H"))
    numbers = [number for number, line in enumerate(source) if line]
    assert [by_line[number] for number in numbers] == [printed[n] for n in range(len(numbers))]


def test_a_limit_of_chunks_is_said_to_have_no_effect_on_windows(
    tiny: TinyWorld, trained: Trained, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {}
    for limit in ((), ("--max-doc-tokens", "64")):
        out = tmp_path / str(len(limit))
        translation(tiny, trained.checkpoints["flat"], out, *limit)
        said[limit] = "no effect: the model sees the unit window" in capsys.readouterr().err
    assert list(said.values()) == [False, True]
    assert (tmp_path / "0").read_bytes() == (tmp_path / "2").read_bytes()


def test_the_size_of_the_window_is_the_models(tiny: TinyWorld, trained: Trained) -> None:
    import torch

    sizes = {}
    for name, path in trained.checkpoints.items():
        cfg = torch.load(path, weights_only=False)["cfg"]["model"]
        sizes[name] = cfg["context_before"], cfg["context_after"], cfg["context_sides"]
    assert sizes == {"flat": (1, 1, "source"), "2-to-2": (1, 0, "both"), "3-to-1": (2, 0, "source")}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("flat", ("--context-kind", "fixed"), "`--context-kind fixed` needs `--context-sentence"),
        ("flat", ("--context-sentence", "the man"), "`--context-sentence` is for `--context-kind"),
        (
            "flat",
            ("--context-kind", "fixed", "--context-sentence", "the qqq"),
            "`--context-sentence`: 'qqq' is not in the dictionary of the source",
        ),
        ("flat", ("--context-kind", "random"), "give a data folder that has the split 'train'"),
        ("2-to-2", ("--context-kind", "random"), "`--context-kind random` replaces source sent"),
        ("sentence", ("--context-kind", "none"), "`--context-kind none` is for the unit window"),
    ],
)
def test_contexts_that_cannot_be(
    name: str, options: tuple[str, ...], message: str, tiny: TinyWorld, trained: Trained,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = {**tiny.checkpoints, **trained.checkpoints}[name]
    argv = [
        "translate", "--path", str(path), "--input", str(tiny.text / "test.en"),
        "--output", str(tmp_path / "out.de"), "--cpu", *options,
    ]  # fmt: skip
    assert main(argv) == 1
    assert message in capsys.readouterr().err.strip().splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--unit", "sentence", "--context-kind", "random"), "is for the unit window, but this"),
        (("--flat-bottom-layers", "3"), "`--flat-bottom-layers` must be between 0 and the 2"),
        (("--context-before", "-1"), "`--context-before` must be at least 0, but is -1."),
    ],
)
def test_options_that_cannot_be(
    options: tuple[str, ...], message: str, tiny: TinyWorld, tmp_path: Path
) -> None:
    done = train(tiny, tmp_path / "no", *MODELS["flat"], *options)
    assert done.status != 0
    assert message in done.stderr.strip().splitlines()[-1]


@pytest.mark.long
def test_random_context_in_training_validation_and_after_a_stop(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words are the same in every run: in a resumed one, and where a process
    of its own (``--num-workers 1``) makes the examples of all epochs."""
    import torch

    random = ("--context-kind", "random")
    options = (*MODELS["flat"], *random, "--log-format", "json", "--max-tokens", "8000")
    found = []
    for name, parts, workers in (("whole", (6,), 0), ("parts", (3, 6), 0), ("worker", (6,), 1)):
        for updates in parts:
            made = ("--num-workers", workers)
            done = train(tiny, tmp_path / name, *options, *made, updates=updates)
            assert done.status == 0, done.stderr
        losses = re.findall(r'"valid_loss": "([\d.]+)"', done.stderr)
        assert losses
        state = torch.load(tmp_path / name / "checkpoint_last.pt", weights_only=False)["model"]
        found.append((losses[-1], state))
    assert '"epoch": 2' in done.stderr
    for loss, state in found[1:]:
        assert found[0][0] == loss
        assert all(tensor.equal(state[name]) for name, tensor in found[0][1].items())
    path = tmp_path / "whole" / "checkpoint_last.pt"
    alone = ["translate", "--path", path, "--input", tiny.text / "test.en", "--output"]
    assert main([str(word) for word in (*alone, tmp_path / "out.de", *SEARCH)]) == 1
    (error,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert "give a data folder that has the split" in error and "/gtrans-" not in error
    validated = tiny.run.succeed(
        "validate", tiny.data, *PLUGIN, "--path", path, "--valid-subset", "valid",
        "--max-tokens", "1024", "--cpu",
    )  # fmt: skip
    assert f"loss {found[0][0]}" in validated.stdout + validated.stderr
