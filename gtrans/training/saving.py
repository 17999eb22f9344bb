"""Checkpoints that are whole under all of their names."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from gtrans.checkpoints.reading import write_checkpoint
from gtrans.errors import GtransError
from gtrans.files import copy_file
from gtrans.training import stopping
from gtrans.training.folder import RunFolder
from gtrans.training.state import state_of


def save_checkpoint(
    original: Callable[..., Any],
    cfg: Any,
    trainer: Any,
    epoch_itr: Any,
    val_loss: float | None,
    **named: Any,
) -> Any:
    """fairseq's function of this name, with the state of the run.

    A file gets its name only when it is complete.

    Args:
        original: fairseq's own.
        cfg: options of checkpoints.
        trainer: fairseq's trainer.
        epoch_itr: fairseq's batches of the epoch.
        val_loss: loss of the validation; None: there was none.
        named: passed on.

    Raises:
        GtransError: a file cannot be written, a parameter is not finite, or the loss is NaN.
            Earlier checkpoints stay as they are.
    """
    if not cfg.no_save:
        _check_finite(trainer, val_loss)
        trainer.task.run.state = state_of(trainer)
    with _whole_files() as files:
        returned = original(cfg, trainer, epoch_itr, val_loss, **named)
    if files or cfg.no_save:
        stopping.saved(trainer)
    return returned


def begin(trainer: Any) -> None:
    """Say that a training begins, or goes on from a checkpoint."""
    _running[:] = [trainer]
    stopping.saved(trainer)


def check_end() -> None:
    """Refuse to call a training finished that is lost; to be called when fairseq's loop has ended.

    Raises:
        GtransError: a parameter is not finite, or no checkpoint has the last updates.
    """
    if not _running or not _running[0].is_data_parallel_master:
        return
    trainer = _running.pop()
    _check_finite(trainer, None)
    options, updates = trainer.cfg.checkpoint, trainer.get_num_updates()
    lost = updates - stopping.saved_updates()
    kept = RunFolder(Path(options.save_dir), trainer.checkpoint_suffix).checkpoints()
    if not options.no_save and (lost > 0 or not kept):
        raise GtransError(
            f"--save-dir {options.save_dir}: the training has ended after {updates} updates, but "
            f"{'the last ' + str(lost) + ' are in no checkpoint' if lost else 'made none'}; lower "
            "--save-interval, or leave out --no-last-checkpoints and --no-epoch-checkpoints."
        )


def _check_finite(trainer: Any, val_loss: float | None) -> None:
    """Raises GtransError for a model that is of no use any more."""
    broken = next(
        (
            name
            for name, parameter in trainer.get_model().named_parameters()
            if not torch.isfinite(parameter).all()
        ),
        None,
    )
    if broken is None and val_loss is not None and math.isnan(val_loss):
        broken = "the loss of the validation"
    if broken is not None:
        raise GtransError(
            f"{broken} is not finite (NaN or infinity) after {trainer.get_num_updates()} updates, "
            "so training ends and nothing more is saved; lower --lr, or give a longer "
            "--warmup-updates or a --clip-norm."
        )


_running: list[Any] = []  # the trainer of the training that runs in this process


class _WholeCopies(PathManager):
    """fairseq's functions for files, with copies that are complete or not there."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        """Copy a file; returns True."""
        copy_file(Path(src_path), Path(dst_path))
        return True


@contextmanager
def _whole_files() -> Iterator[list[str]]:
    """While a checkpoint is saved, let fairseq write and copy its files in this way.

    Yields:
        the files that have been written, not copied; only one process writes.
    """
    write = checkpoint_utils.torch_persistent_save
    files: list[str] = []

    def write_whole(state: dict[str, Any], path: str, async_write: bool = False) -> None:
        files.append(path)
        if async_write:
            write(state, path, async_write=True)
        else:
            write_checkpoint(state, Path(path))

    checkpoint_utils.torch_persistent_save = write_whole
    checkpoint_utils.PathManager = _WholeCopies
    try:
        yield files
    finally:
        checkpoint_utils.torch_persistent_save = write
        checkpoint_utils.PathManager = PathManager
