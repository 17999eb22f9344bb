"""Whether the files of two runs hold the same: checkpoints by their contents, others by bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from processes import LOCK
from torch import Tensor

from gtrans.checkpoints import read_checkpoint

# What says when and where a run was, not what it has come to.
LEFT_OUT = re.compile(
    r"extra_state\.(metrics|previous_training_time)"
    # The file of a start: its place, and its bytes, among which are times.
    r"|task_state\.run\.start\.[^.]+\.(path|digest)"
    # In the record of a translation, the same of the checkpoints.
    r"|made_from\.checkpoints\.\d+|run"
)
# The file of a lock may stay when its owner ends; a log says when things were done.
NO_RESULTS = (LOCK, ".log")
# The options that decide about numbers; others, such as ports, are the machine's.
OPTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler")


def files_of(folder: Path, patterns: Sequence[str]) -> dict[str, Path]:
    """The files of a folder that match one of the patterns, by their name inside it."""
    matching = (path for pattern in patterns for path in folder.glob(pattern))
    found = {path for path in matching if path.is_file() and path.suffix not in NO_RESULTS}
    return {str(path.relative_to(folder)): path for path in sorted(found)}


def differences(expected: Path, folder: Path, patterns: Sequence[str]) -> list[str]:
    """What differs between the results in two folders, a line for each file."""
    wanted, got = files_of(expected, patterns), files_of(folder, patterns)
    lines = [f"{name}: missing" for name in wanted.keys() - got.keys()]
    lines += [f"{name}: not in an uninterrupted run" for name in got.keys() - wanted.keys()]
    for name in wanted.keys() & got.keys():
        lines += [f"{name}: {what}" for what in _difference(wanted[name], got[name])]
    return sorted(lines)


def left_over(expected: Path, folder: Path) -> list[str]:
    """Files of a folder for which an uninterrupted run has none."""
    return sorted(files_of(folder, ["**/*"]).keys() - files_of(expected, ["**/*"]).keys())


def _difference(expected: Path, got: Path) -> list[str]:
    """The first thing that differs in two files, as a list of one; none if they are the same."""
    if expected.suffix == ".pt":
        return list(_unequal(_checkpoint(expected), _checkpoint(got)))[:1]
    if expected.read_bytes() == got.read_bytes():
        return []
    if expected.suffix == ".json":
        both = (json.loads(path.read_text("utf-8")) for path in (expected, got))
        return list(_unequal(*both))[:1]
    return ["other bytes"]


def _checkpoint(path: Path) -> dict[str, Any]:
    """The part of a checkpoint that must be the same."""
    state = read_checkpoint(path)
    if state.get("cfg"):
        state["cfg"] = {name: state["cfg"].get(name) for name in OPTIONS}
    # Every start of a run adds an entry, the last one is that of the checkpoint.
    state["optimizer_history"] = (state.get("optimizer_history") or [])[-1:]
    return state


def _unequal(expected: Any, got: Any, name: str = "") -> Iterator[str]:
    """Where two nested values differ."""
    if LEFT_OUT.fullmatch(name):
        return
    if isinstance(expected, Tensor) and isinstance(got, Tensor):
        if expected.dtype != got.dtype or not torch.equal(expected, got):
            yield f"{name} differs"
    elif isinstance(expected, Mapping) and isinstance(got, Mapping):
        for key in sorted({*expected, *got}, key=str):
            inner = f"{name}.{key}" if name else str(key)
            if key in expected and key in got:
                yield from _unequal(expected[key], got[key], inner)
            else:
                yield f"{inner} is only in one of them"
    elif isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        if len(expected) != len(got):
            yield f"{name} has {len(got)} entries instead of {len(expected)}"
        for number, pair in enumerate(zip(expected, got, strict=False)):
            yield from _unequal(*pair, f"{name}.{number}")
    elif type(expected) is not type(got) or expected != got:
        yield f"{name} is {got!r:.60} instead of {expected!r:.60}"
