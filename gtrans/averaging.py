"""The average of several checkpoints of one training run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints import read_checkpoint, write_checkpoint
from gtrans.errors import GtransError

# Names that fairseq-train gives: checkpointE.pt at the end of an epoch, checkpoint_E_U.pt
# at an update. The number that tells their order is the group.
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
BY_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")


def last_checkpoints(
    folder: Path, count: int, names: re.Pattern[str], upto: int | None = None
) -> list[Path]:
    """The last ``count`` checkpoints in a folder, oldest first.

    Args:
        folder: where ``fairseq-train`` has saved them.
        count: how many.
        names: :data:`BY_EPOCH` or :data:`BY_UPDATE`.
        upto: the last epoch or update that counts (None: there is no limit).

    Raises:
        GtransError: fewer are there.
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
            f"{folder}: {count} checkpoints are wanted, but it has {len(found)} of {kind}"
            + ("" if upto is None else f" up to {upto}")
            + "; train with --keep-last-epochs or --keep-interval-updates large enough."
        )
    return [path for _, path in found[-count:]]


def average_checkpoints(paths: Sequence[Path], target: Path) -> int:
    """Write a checkpoint with the mean of all parameters; the rest is the last one's.

    The state of the optimizer is left out: the average is for decoding, and for starting
    other models. The file is written as a whole or not at all.

    Args:
        paths: checkpoints of one model, in order; each is read once, with torch's check
            that it holds no code.
        target: the file to write.

    Returns:
        the number of tensors.

    Raises:
        GtransError: no path, unreadable or different checkpoints, or a target that cannot
            be written.
    """
    if not paths:
        raise GtransError("no checkpoint is given to average.")
    if not target.parent.is_dir():
        raise GtransError(f"{target}: there is no folder {target.parent}; make it first.")
    sums: dict[str, Tensor] = {}
    state: dict[str, Any] = {}
    for path in paths:
        state = read_checkpoint(path)
        model = state["model"]
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
        # Tables that are one in the model stay one in the file.
        key = tensor.data_ptr(), tensor.shape
        if key not in shared or tensor.numel() == 0:
            mean = sums[name] / len(paths) if tensor.is_floating_point() else sums[name]
            shared[key] = mean.to(tensor.dtype)
        averaged[name] = shared[key]
    state["model"] = averaged
    state.pop("last_optimizer_state", None)
    write_checkpoint(state, target)
    return len(averaged)


def _summand(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _check_same(
    first: dict[str, Tensor], other: dict[str, Tensor], first_path: Path, path: Path
) -> None:
    for name in sorted(first.keys() ^ other.keys()):
        has, lacks = (first_path, path) if name in first else (path, first_path)
        raise GtransError(f"{has}: has a tensor {name} that {lacks} lacks; not the same model.")
    for name, tensor in first.items():
        if tensor.shape != other[name].shape:
            raise GtransError(
                f"{path}: {name} is {tuple(other[name].shape)}, but {tuple(tensor.shape)} in "
                f"{first_path}; not the same model."
            )
