"""A checkpoint as one object: its parameters, options and origin, checks, and the mean of several.

No code in a file is run: :mod:`gtrans.checkpoints.reading` says how it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints.identity import ModelIdentity, same_identity, say_unknown
from gtrans.checkpoints.reading import options_of, read_checkpoint, write_checkpoint
from gtrans.errors import GtransError
from gtrans.files import check_output, digest
from gtrans.models.base.checkpoint_fit import check_fit

# File names of fairseq-train: checkpointE.pt after epoch E, checkpoint_E_U.pt after update U.
# The group is the number by which they are ordered.
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
BY_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")
AVERAGE_OF = "average_of"
"""The names of the files that a checkpoint is the mean of."""

_OF_TRAINING = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last)\.pt")


@dataclass
class Checkpoint:
    """A checkpoint of this project or of fairseq.

    Attributes:
        path: the file.
        state: the dictionary in it.
    """

    path: Path
    state: dict[str, Any]

    @classmethod
    def read(cls, path: Path, in_memory: bool = True) -> Checkpoint:
        """Read a file; arguments and errors are those of :func:`read_checkpoint`."""
        return cls(path, read_checkpoint(path, in_memory))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name."""
        tensors: dict[str, Tensor] = self.state["model"]
        return tensors

    @property
    def parameters(self) -> int:
        """Number of parameters; shared tensors count once."""
        return sum({tensor.data_ptr(): tensor.numel() for tensor in self.tensors.values()}.values())

    @cached_property
    def identity(self) -> ModelIdentity | None:
        """What it was made from; None: it does not say.

        Raises:
            GtransError: it is damaged, or its vocabularies are not those of the embeddings.
        """
        return ModelIdentity.of_checkpoint(self.state, self.path)

    @cached_property
    def fingerprint(self) -> str:
        """The digest of the file."""
        return digest(self.path)

    def options(self, group: str) -> dict[str, Any]:
        """A group of options, such as ``task`` or ``model``; empty if there is none."""
        return options_of(self.state, group)

    def check_fit(self) -> None:
        """Raises GtransError unless its options describe its parameters."""
        check_fit(self.state, self.path)

    def check_same_model(self, first: Mapping[str, Tensor], path: Path) -> None:
        """Raises GtransError unless ``first``, of ``path``, has the same names and shapes."""
        for name in sorted(first.keys() ^ self.tensors.keys()):
            has, lacks = (path, self.path) if name in first else (self.path, path)
            raise GtransError(
                f"{has}: has a tensor {name} that is missing in {lacks}; not the same model."
            )
        for name, tensor in first.items():
            shape = self.tensors[name].shape
            if tensor.shape != shape:
                raise GtransError(
                    f"{self.path}: {name} is {tuple(shape)}, but {tuple(tensor.shape)} in {path}; "
                    "not the same model."
                )

    def forget_training(self) -> None:
        """Drop the state of the optimizer, with its copies of the parameters, and what is best."""
        self.state["last_optimizer_state"] = None
        for name in ("run_state", "val_loss", "best"):
            (self.state.get("extra_state") or {}).pop(name, None)

    def write(self, target: Path) -> None:
        """Write a file as a whole or not at all.

        Raises:
            GtransError: it cannot be written.
        """
        write_checkpoint(self.state, target)


def last_checkpoints(folder: Path, count: int, names: re.Pattern[str]) -> list[Path]:
    """The last ``count`` checkpoints in a folder, oldest first.

    Args:
        folder: where ``fairseq-train`` has saved them.
        count: how many.
        names: :data:`BY_EPOCH` or :data:`BY_UPDATE`.

    Raises:
        GtransError: there are fewer.
    """
    if not folder.is_dir():
        raise GtransError(f"{folder}: there is no such folder.")
    numbered = sorted(
        (int(match[1]), path) for path in folder.iterdir() if (match := names.fullmatch(path.name))
    )
    if len(numbered) < count:
        flag, pattern = "--keep-last-epochs", "checkpointE.pt"
        if names is not BY_EPOCH:
            flag, pattern = "--keep-interval-updates", "checkpoint_E_U.pt"
        raise GtransError(
            f"{folder}: {count} checkpoints {pattern} are needed, but there are {len(numbered)}; "
            f"train with {flag} {count}."
        )
    return [path for _, path in numbered[-count:]]


def average_checkpoints(paths: Sequence[Path], target: Path) -> int:
    """Write a checkpoint with the means of all parameters.

    Everything else is copied from the last checkpoint, except the state of the optimizer: the
    average is meant for decoding and for starting other models. The file is written as a whole
    or not at all.

    Args:
        paths: checkpoints of one model, in order; each is read once.
        target: the file to write.

    Returns:
        the number of tensors.

    Raises:
        GtransError: unreadable or different checkpoints (parameters, vocabulary,
            preparation or unit), or a target that cannot be written or is one of ``paths``.
    """
    check_output("--output", target, paths)
    trained = _OF_TRAINING.fullmatch(target.name)
    if trained and target.resolve().parent in {path.resolve().parent for path in paths}:
        raise GtransError(
            f"`--output` '{target}': the training in its folder has checkpoints of this name; give "
            "another, such as average.pt."
        )
    sums: dict[str, Tensor] = {}
    identities: list[ModelIdentity | None] = []
    for path in paths:
        last = Checkpoint.read(path)
        identities.append(last.identity)
        same_identity(paths[: len(identities)], identities)
        if not sums:
            sums = {name: _wide(tensor) for name, tensor in last.tensors.items()}
            continue
        last.check_same_model(sums, paths[0])
        for name, tensor in last.tensors.items():
            if tensor.is_floating_point():
                sums[name] += tensor
            elif not sums[name].equal(tensor):
                raise GtransError(f"{path}: {name} differs from that of {paths[0]}.")
    shared: dict[tuple[int, torch.Size], Tensor] = {}
    for name, tensor in last.tensors.items():
        # Parameters that are shared in the model stay shared in the file.
        key = tensor.data_ptr(), tensor.shape
        if key not in shared or tensor.numel() == 0:
            mean = sums[name] / len(paths) if tensor.is_floating_point() else sums[name]
            shared[key] = mean.to(tensor.dtype)
        sums[name] = shared[key]
    last.forget_training()
    del last.state["last_optimizer_state"]
    last.state |= {"model": sums, AVERAGE_OF: [path.name for path in paths]}
    last.write(target)
    for path, identity in zip(paths, identities, strict=True):
        if identity is None:
            say_unknown(path)
    return len(sums)


def _wide(tensor: Tensor) -> Tensor:
    """A copy to which others can be added without loss."""
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
