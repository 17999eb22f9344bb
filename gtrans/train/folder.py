"""A run folder (``--save-dir``): its lock, its checkpoints and its log."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from logging.handlers import MemoryHandler
from pathlib import Path
from typing import Any

from fairseq.checkpoint_utils import checkpoint_paths

from gtrans.checkpoints.reading import UnreadableCheckpoint, read_checkpoint
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, locked, unwritable

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the file that fairseq goes on from, unless another is named
LOG = "train.log"
"""The log in a run folder."""
_NEVER = logging.CRITICAL + 1
_NAME = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt")


class RunFolder:
    """The folder of a run; ``path`` is ``--save-dir``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = path / LAST

    def lock(self) -> None:
        """Make the folder, and keep trainings of others out of it until this process ends.

        Raises:
            GtransError: another training writes there, or the folder cannot be written.
        """
        check_output_folder("--save-dir", self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--save-dir` '{self.path}'", error) from error
        held = ExitStack()
        held.enter_context(locked(self.path))
        atexit.register(held.close)

    def checkpoints(self) -> list[Path]:
        """All checkpoints of the run, whole or not."""
        return sorted(path for path in self.path.glob("*.pt") if _NAME.fullmatch(path.name))

    def newest(self) -> Path | None:
        """The checkpoint to go on from; None: there is none.

        It is ``checkpoint_last.pt``, or if that is missing or not whole the one with most updates,
        which is logged.

        Raises:
            GtransError: there are checkpoints, but none is whole, or one could run code.
        """
        files = self.checkpoints()
        whole: list[tuple[int, int, Path]] = []
        for path in [self.last, *files] if self.last in files else files:
            with suppress(UnreadableCheckpoint):
                updates = updates_of(read_checkpoint(path, in_memory=False))
                if path == self.last:
                    return path
                whole.append((updates, path.stat().st_mtime_ns, path))
        if not whole and files:
            raise GtransError(
                f"--save-dir {self.path}: none of its checkpoints is whole "
                f"({', '.join(path.name for path in files)}); --restart starts anew and keeps them."
            )
        if not whole:
            return None
        updates, _, newest = max(whole)
        problem = "is not whole" if self.last in files else "is missing"
        logger.info(
            f"{self.path}: {LAST} {problem}; the run goes on from {newest.name} ({updates} updates)"
        )
        return newest

    def clear(self) -> Path | None:
        """Move all checkpoints into a new subfolder; returns it, or None if there are none."""
        files = self.checkpoints()
        if not files:
            return None
        number = 1
        while (self.path / f"before-restart-{number}").exists():
            number += 1
        aside = self.path / f"before-restart-{number}"
        aside.mkdir()
        # A run that is moved halfway can still go on.
        for path in sorted(files, key=lambda path: path == self.last):
            path.rename(aside / path.name)
        return aside

    def remove_old(self, cfg: Any) -> None:
        """Delete the checkpoints that ``--keep-..`` does not name; ``cfg``: their options."""
        old: list[str] = []
        if cfg.keep_interval_updates > 0:
            every = cfg.keep_interval_updates_pattern
            by_updates = self._paths(r"checkpoint_\d+_(\d+)\.pt")
            kept = [path for path, number in by_updates if every == -1 or number % every]
            old += kept[cfg.keep_interval_updates :]
        if cfg.keep_last_epochs > 0:
            old += [path for path, _ in self._paths(r"checkpoint(\d+)\.pt")[cfg.keep_last_epochs :]]
        if cfg.keep_best_checkpoints > 0:
            old += [path for path, _ in self.best_scores(cfg)[cfg.keep_best_checkpoints :]]
        for path in old:
            Path(path).unlink(missing_ok=True)

    def best_scores(self, cfg: Any) -> list[tuple[str, float]]:
        """The checkpoints of ``--keep-best-checkpoints`` and their scores, the best first."""
        metric = re.escape(cfg.best_checkpoint_metric)
        by_score = self._paths(rf"checkpoint\.best_{metric}_(-?\d+\.?\d*)\.pt")
        return by_score if cfg.maximize_best_checkpoint_metric else by_score[::-1]

    def _paths(self, pattern: str) -> list[tuple[str, float]]:
        """Files by the number in their names, highest first."""
        matches: list[tuple[str, float]] = checkpoint_paths(self.path, pattern, keep_match=True)
        return matches


def updates_of(state: Mapping[str, Any]) -> int:
    """How many updates the run of a checkpoint had made.

    Raises:
        UnreadableCheckpoint: it is not of a run.
    """
    try:
        int(state["extra_state"]["train_iterator"]["epoch"])
        dict(state["cfg"])
        return int(state["optimizer_history"][-1]["num_updates"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise UnreadableCheckpoint("it is not a checkpoint of a training run.") from None


def validations_since_best(extra: Mapping[str, Any]) -> int:
    """How many validations there were since the best one, by a checkpoint's ``extra_state``."""
    return int(((extra.get("run_state") or {}).get("early_stop") or {}).get("num_runs", 0))


# ---- the log -------------------------------------------------------------------------------------


@contextmanager
def run_log() -> Iterator[None]:
    """Keep logged lines until :func:`open_run_log` says where it belongs; then write it there."""
    root = logging.getLogger()
    handler = MemoryHandler(capacity=sys.maxsize, flushLevel=_NEVER, flushOnClose=False)
    for printed in root.handlers:
        for chosen in printed.filters:
            handler.addFilter(chosen)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        if handler.target is not None:
            handler.target.close()
        handler.close()


def open_run_log(folder: Path | None) -> None:
    """Append the log of this process to ``train.log`` in the folder; None: keep no log.

    Where the standard output is that file, it has all lines already.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if not isinstance(handler, MemoryHandler):
            continue
        if folder is None or _is_output(folder / LOG):
            root.removeHandler(handler)
            continue
        file = logging.FileHandler(folder / LOG, encoding="utf-8")
        file.setFormatter(root.handlers[0].formatter)
        handler.setTarget(file)
        handler.flush()
        handler.capacity = 1


def _is_output(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(sys.stdout.fileno()), path.stat())
    return False
