"""The average of several checkpoints of one training run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints.identity import ModelIdentity, same_identity, say_unknown
from gtrans.checkpoints.reading import read_checkpoint, write_checkpoint
from gtrans.errors import GtransError
from gtrans.files import CHECKPOINT, check_output

# File names of fairseq-train: checkpointE.pt after epoch E, checkpoint_E_U.pt after update U.
# The group is the number by which they are ordered.
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
BY_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")
AVERAGE_OF = "average_of"
"""The names of the files that a checkpoint is the mean of."""

_OF_TRAINING = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last)\.pt")


def last_checkpoints(
    folder: Path, count: int, names: re.Pattern[str], upto: int | None = None
) -> list[Path]:
    """The last ``count`` checkpoints in a folder, oldest first.

    Args:
        folder: where ``fairseq-train`` has saved them.
        count: how many.
        names: :data:`BY_EPOCH` or :data:`BY_UPDATE`.
        upto: later epochs or updates are ignored (None: there is no limit).

    Raises:
        GtransError: there are fewer.
    """
    if not folder.is_dir():
        raise GtransError(f"{folder}: there is no such folder.")
    found = sorted(
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := names.fullmatch(path.name)) and (upto is None or int(match[1]) <= upto)
    )
    if len(found) < count:
        kind = "epochs" if names is BY_EPOCH else "updates"
        raise GtransError(
            f"{folder}: {count} checkpoints are needed, but it has {len(found)} of {kind}"
            + ("" if upto is None else f" up to {upto}")
            + "; train with --keep-last-epochs or --keep-interval-updates large enough."
        )
    return [path for _, path in found[-count:]]


def average_checkpoints(paths: Sequence[Path], target: Path) -> int:
    """Write a checkpoint with the means of all parameters.

    Everything else is copied from the last checkpoint, except the state of the optimizer: the
    average is meant for decoding and for starting other models. The file is written as a whole
    or not at all.

    Args:
        paths: checkpoints of one model, in order; each is read once, and no code in it is run.
        target: the file to write.

    Returns:
        the number of tensors.

    Raises:
        GtransError: no path, unreadable or different checkpoints (parameters, vocabulary,
            preparation or unit), or a target that cannot be written or is one of ``paths``.
    """
    if not paths:
        raise GtransError("there is no checkpoint to average; name at least one.")
    check_output("--output", target, paths, writes=CHECKPOINT)
    _check_target(target, paths)
    sums: dict[str, Tensor] = {}
    state: dict[str, Any] = {}
    identities: list[ModelIdentity | None] = []
    for path in paths:
        state = read_checkpoint(path)
        model = state["model"]
        identities.append(ModelIdentity.of_checkpoint(state, path))
        same_identity(paths[: len(identities)], identities)
        if not sums:
            sums = {name: _summand(tensor) for name, tensor in model.items()}
            continue
        _check_same(sums, model, paths[0], path)
        for name, tensor in model.items():
            if tensor.is_floating_point():
                sums[name] += tensor
            elif not sums[name].equal(tensor):
                raise GtransError(f"{path}: {name} differs from that of {paths[0]}.")
    averaged: dict[str, Tensor] = {}
    shared: dict[tuple[int, torch.Size], Tensor] = {}
    for name, tensor in state["model"].items():
        # Parameters that are shared in the model stay shared in the file.
        key = tensor.data_ptr(), tensor.shape
        if key not in shared or tensor.numel() == 0:
            mean = sums[name] / len(paths) if tensor.is_floating_point() else sums[name]
            shared[key] = mean.to(tensor.dtype)
        averaged[name] = shared[key]
    state["model"] = averaged
    state.pop("last_optimizer_state", None)
    # Among it are fp32 copies of the last checkpoint's parameters.
    extra = state.get("extra_state") or {}
    extra.pop("run_state", None)
    for of_the_last in ("val_loss", "best"):
        extra.pop(of_the_last, None)
    state[AVERAGE_OF] = [path.name for path in paths]
    write_checkpoint(state, target)
    for path, identity in zip(paths, identities, strict=True):
        if identity is None:
            say_unknown(path)
    return len(averaged)


def _check_target(target: Path, paths: Sequence[Path]) -> None:
    """Raises GtransError if a training would lose what it goes on from, or take the mean for it."""
    trained = _OF_TRAINING.fullmatch(target.name)
    if trained and target.resolve().parent in {path.resolve().parent for path in paths}:
        raise GtransError(
            f"`--output` '{target}': the training in its folder has checkpoints of this name; give "
            "another, such as average.pt."
        )
    state: Mapping[str, Any] = {}
    if target.is_file():
        with suppress(GtransError):  # one that cannot be read can be lost
            state = read_checkpoint(target, in_memory=False)
    if "last_optimizer_state" in state:
        raise GtransError(
            f"`--output` '{target}' is a checkpoint that a training goes on from; name another "
            "file, or remove it first."
        )


def _summand(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _check_same(
    first: dict[str, Tensor], other: dict[str, Tensor], first_path: Path, path: Path
) -> None:
    for name in sorted(first.keys() ^ other.keys()):
        has, lacks = (first_path, path) if name in first else (path, first_path)
        raise GtransError(
            f"{has}: has a tensor {name} that is missing in {lacks}; not the same model."
        )
    for name, tensor in first.items():
        if tensor.shape != other[name].shape:
            raise GtransError(
                f"{path}: {name} is {tuple(other[name].shape)}, but {tuple(tensor.shape)} in "
                f"{first_path}; not the same model."
            )
