"""A checkpoint as one object, with its checks; the average of several checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints.fingerprint import (
    ModelFingerprint,
    check_same_fingerprint,
    report_missing_fingerprint,
)
from gtrans.checkpoints.reading import options_of, read_checkpoint, write_checkpoint
from gtrans.errors import GtransError
from gtrans.files import check_output, check_replaceable, digest
from gtrans.messages import print_message
from gtrans.models.base.checkpoint_fit import check_fit
from gtrans.train.run_settings import changed_settings, run_of_checkpoint

# File names of fairseq-train: checkpointE.pt after epoch E, checkpoint_E_U.pt after update U.
# The group is the number by which they are ordered.
BY_EPOCH = re.compile(r"checkpoint(\d+)\.pt")
BY_UPDATE = re.compile(r"checkpoint_\d+_(\d+)\.pt")
AVERAGE_OF = "average_of"
"""The names of the files that a checkpoint is the mean of."""

_OF_TRAINING = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last)\.pt")


@dataclass
class Checkpoint:
    """A checkpoint of this project or of fairseq; ``state``: the contents of the file."""

    path: Path
    state: dict[str, Any]

    @classmethod
    def read(cls, path: Path, in_memory: bool = True) -> Checkpoint:
        """See :func:`read_checkpoint`."""
        return cls(path, read_checkpoint(path, in_memory))

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The parameters by name."""
        tensors: dict[str, Tensor] = self.state["model"]
        return tensors

    @property
    def parameters(self) -> int:
        """Number of parameters; shared tensors count once."""
        sizes = {tensor.data_ptr(): tensor.numel() for tensor in self.tensors.values()}
        return sum(sizes.values())

    @cached_property
    def fingerprint(self) -> ModelFingerprint | None:
        """The fingerprint, or None; it must fit the embeddings."""
        return ModelFingerprint.of_checkpoint(self.state, self.path)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return digest(self.path)

    def options(self, group: str) -> dict[str, Any]:
        """See :func:`~gtrans.checkpoints.reading.options_of`."""
        return options_of(self.state, group)

    def check_fit(self) -> None:
        """Raise GtransError unless the options describe the parameters."""
        check_fit(self.state, self.path)

    def check_same_run(self, first: Checkpoint) -> None:
        """Raise GtransError for another training than ``first``."""
        # fairseq before its release 0.10 wrote no cfg.
        if self.state.get("cfg") is None or first.state.get("cfg") is None:
            return
        first_run = run_of_checkpoint(first.state, first.path)
        run = run_of_checkpoint(self.state, self.path)
        changes = changed_settings(first_run, run)
        if changes:
            raise GtransError(
                f"{self.path} and {first.path} are of different trainings ({'; '.join(changes)}); "
                "average checkpoints of one run."
            )

    def check_same_model(self, first: Mapping[str, Tensor], path: Path) -> None:
        """Raise GtransError unless ``first``, of ``path``, has the same names and shapes."""
        for name in sorted(first.keys() ^ self.tensors.keys()):
            has, lacks = self.path, path
            if name in first:
                has, lacks = path, self.path
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

    @property
    def updates(self) -> int:
        """Number of updates of the training."""
        history = self.state.get("optimizer_history") or [{}]
        return int(history[-1].get("num_updates") or 0)

    def forget_training(self) -> None:
        """Drop the optimizer's state, other copies of the parameters, and the best score."""
        self.state["last_optimizer_state"] = None
        self.report_ema()
        extra = self.state.get("extra_state") or {}
        for name in ("run_state", "val_loss", "best", "ema"):
            extra.pop(name, None)

    def report_ema(self) -> None:
        """Print that fairseq's moving average of parameters, if any, is left out."""
        if "ema" in (self.state.get("extra_state") or {}):
            print_message(f"{self.path}: its moving average of parameters (EMA) is left out")

    def write(self, target: Path) -> None:
        """Write a file as a whole or not at all."""
        write_checkpoint(self.state, target)


def last_checkpoints(folder: Path, count: int, names: re.Pattern[str]) -> list[Path]:
    """Return the last ``count`` checkpoints in a folder, oldest first.

    ``names``: :data:`BY_EPOCH` or :data:`BY_UPDATE`.
    """
    if not folder.is_dir():
        raise GtransError(f"{folder}: there is no such folder.")
    numbered = []
    for path in folder.iterdir():
        match = names.fullmatch(path.name)
        if match is not None:
            numbered.append((int(match[1]), path))
    numbered.sort()
    if len(numbered) < count:
        flag, pattern = "--keep-last-epochs", "checkpointE.pt"
        if names is not BY_EPOCH:
            flag, pattern = "--keep-interval-updates", "checkpoint_E_U.pt"
        raise GtransError(
            f"{folder}: {count} checkpoints {pattern} are needed, but there are {len(numbered)}; "
            f"train with {flag} {count}."
        )
    return [path for _, path in numbered[-count:]]


def is_average(path: Path) -> bool:
    """Return whether ``gtrans average`` wrote a file."""
    return AVERAGE_OF in Checkpoint.read(path, in_memory=False).state


def average_checkpoints(paths: Sequence[Path], target: Path, force: bool = False) -> int:
    """Write the means of all parameters; return their number.

    All else comes from the last checkpoint, except the state of the optimizer.
    """
    check_output("--output", target, paths)
    folders = {path.resolve().parent for path in paths}
    if _OF_TRAINING.fullmatch(target.name) and target.resolve().parent in folders:
        raise GtransError(
            f"`--output` '{target}': the training in its folder has checkpoints of this name; give "
            "another, such as average.pt."
        )
    check_replaceable("--output", target, is_average, force)
    sum_of_models = _Sum()
    fingerprints: list[ModelFingerprint | None] = []
    digests: dict[str, Path] = {}
    for path in paths:
        last = Checkpoint.read(path)
        if last.sha256 in digests:
            raise GtransError(
                f"{path} and {digests[last.sha256]} are the same checkpoint; name it once."
            )
        digests[last.sha256] = path
        fingerprints.append(last.fingerprint)
        check_same_fingerprint(paths[: len(fingerprints)], fingerprints)
        sum_of_models.add(last)
        if path != paths[-1]:
            last.report_ema()
    means = sum_of_models.means(last, len(paths))
    last.forget_training()
    del last.state["last_optimizer_state"]
    last.state["model"] = means
    last.state[AVERAGE_OF] = [path.name for path in paths]
    last.write(target)
    for path, fingerprint in zip(paths, fingerprints, strict=True):
        if fingerprint is None:
            report_missing_fingerprint(path)
    return len(means)


class _Sum:
    """The sum of the parameters of checkpoints, in double precision."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._first: Checkpoint | None = None  # without parameters

    def add(self, checkpoint: Checkpoint) -> None:
        if self._first is None:
            for name, tensor in checkpoint.tensors.items():
                wide = torch.float64 if tensor.is_floating_point() else tensor.dtype
                self._sums[name] = tensor.to(wide, copy=True)
            state = {**checkpoint.state, "model": {}, "last_optimizer_state": None}
            self._first = Checkpoint(checkpoint.path, state)
            return
        first_path = self._first.path
        checkpoint.check_same_model(self._sums, first_path)
        checkpoint.check_same_run(self._first)
        for name, tensor in checkpoint.tensors.items():
            if tensor.is_floating_point():
                self._sums[name] += tensor
            elif not self._sums[name].equal(tensor):
                raise GtransError(f"{checkpoint.path}: {name} differs from {name} of {first_path}.")

    def means(self, last: Checkpoint, count: int) -> dict[str, Tensor]:
        """Return the means in the types of ``last``; shared parameters stay shared."""
        means: dict[str, Tensor] = {}
        shared: dict[tuple[int, torch.Size], Tensor] = {}
        for name, tensor in last.tensors.items():
            key = tensor.data_ptr(), tensor.shape
            if key not in shared or tensor.numel() == 0:
                total = self._sums.pop(name)
                mean = total / count if tensor.is_floating_point() else total
                shared[key] = mean.to(tensor.dtype)
            means[name] = shared[key]
        return means
