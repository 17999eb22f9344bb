"""Checkpoints that are whole under all of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from gtrans.checkpoints import write_checkpoint
from gtrans.identity.files import copy_file
from gtrans.training.state import state_of


def save_checkpoint(
    original: Callable[..., Any], cfg: Any, trainer: Any, *further: Any, **named: Any
) -> Any:
    """fairseq's function of this name, with the state of the run.

    A file gets its name only when it is complete.

    Args:
        original: fairseq's own.
        cfg: options of checkpoints.
        trainer: fairseq's trainer.
        further, named: passed on.

    Raises:
        GtransError: a file cannot be written. Earlier checkpoints stay as they are.
    """
    if not cfg.no_save:
        trainer.task.run.state = state_of(trainer)
    with _whole_files():
        return original(cfg, trainer, *further, **named)


class _WholeCopies(PathManager):
    """fairseq's functions for files, with copies that are complete or not there."""

    @staticmethod
    def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
        """Copy a file; returns True."""
        copy_file(Path(src_path), Path(dst_path))
        return True


@contextmanager
def _whole_files() -> Iterator[None]:
    """While a checkpoint is saved, let fairseq write and copy its files in this way."""
    write = checkpoint_utils.torch_persistent_save

    def write_whole(state: dict[str, Any], path: str, async_write: bool = False) -> None:
        if async_write:
            write(state, path, async_write=True)
        else:
            write_checkpoint(state, Path(path))

    checkpoint_utils.torch_persistent_save = write_whole
    checkpoint_utils.PathManager = _WholeCopies
    try:
        yield
    finally:
        checkpoint_utils.torch_persistent_save = write
        checkpoint_utils.PathManager = PathManager
