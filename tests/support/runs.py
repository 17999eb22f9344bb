"""Training runs of tiny models, started again in their folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gtrans.checkpoints.reading import read_checkpoint
from support.tiny_models import TINY, Finished, StockCommands

PLUGIN = ("--user-dir", "gtrans", "--task", "document_translation")
_MISTAKES = ("gtrans: error: ", "gtrans.errors.GtransError: ")
SIZES = TINY[:14]
GROUPS = TINY[14:-1]
G_TRANSFORMER = ("--arch", "gtransformer_tiny", *GROUPS)
TRAINING = (
    *(*SIZES, "--share-all-embeddings", "--optimizer", "adam", "--lr", "0.003"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "512"),
    *("--num-workers", "0", "--cpu", "--no-epoch-checkpoints"),
)


def words(
    data: Path, folder: Path, *options: str | Path, updates: int = 0
) -> tuple[str | Path, ...]:
    """The options of a training; a G-Transformer of ``updates`` updates unless they say otherwise.

    Without a number nothing ends it: for what is refused. Only ``--patience`` validates.
    """
    system: tuple[str, ...] = () if "--arch" in options else G_TRANSFORMER
    if "--patience" not in options:
        system += ("--disable-validation",)
    return (
        *(data, *PLUGIN, *TRAINING, *system, "--save-dir", folder, "--max-update", str(updates)),
        *options,
    )


def train(
    stock: StockCommands, data: Path, folder: Path, *options: str | Path, updates: int = 0
) -> Finished:
    """``gtrans train``; the options are those of :func:`words`."""
    return stock("gtrans", "train", *words(data, folder, *options, updates=updates))


def stock_train(
    stock: StockCommands, data: Path, folder: Path, *options: str | Path, updates: int = 0
) -> Finished:
    """``fairseq-train``; the options are those of :func:`words`."""
    return stock("train", *words(data, folder, *options, updates=updates))


def log_of(done: Finished) -> str:
    """What a successful command has written."""
    assert done.status == 0, done.stderr
    return done.stdout + done.stderr


def refusal(done: Finished) -> str:
    """The one line of a refused command; under fairseq's own it ends the traceback."""
    assert done.status != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith(_MISTAKES)]
    assert lines, done.stderr
    line = lines[-1]
    assert line.startswith(_MISTAKES[1]) or "Traceback" not in done.stderr, done.stderr
    return line.removeprefix(_MISTAKES[0]).removeprefix(_MISTAKES[1])


def last(folder: Path) -> dict[str, Any]:
    """The checkpoint with which a run goes on."""
    return read_checkpoint(folder / "checkpoint_last.pt")


def updates(folder: Path) -> int:
    """How many updates a run has made."""
    return int(last(folder)["optimizer_history"][-1]["num_updates"])


def outcome(folder: Path) -> dict[str, Any]:
    """All of a run's last checkpoint that is the same, however often the run was interrupted."""
    state = last(folder)
    extra, history = state["extra_state"], state["optimizer_history"][-1]
    return {
        "model": dict(state["model"]),
        "optimizer": state.get("last_optimizer_state"),
        "updates": history["num_updates"],
        "schedule": history["lr_scheduler_state"],
        **{name: extra.get(name) for name in ("train_iterator", "best", "val_loss", "ema")},
        "run": extra["run_state"],
        "made from": state["task_state"]["run"],
    }


def differing(one: Any, other: Any, name: str = "") -> list[str]:
    """Names of the entries in which two nested values differ, tensors bit by bit."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.dtype == other.dtype and torch.equal(one, other)
        return [] if same else [name]
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        return [
            found
            for key in keys
            for found in differing(one.get(key), other.get(key), f"{name}/{key}")
        ]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [
            found
            for number, pair in enumerate(zip(one, other, strict=True))
            for found in differing(*pair, f"{name}/{number}")
        ]
    return [] if one == other else [f"{name}: {one} and {other}"]
