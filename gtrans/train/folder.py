"""A run folder (``--save-dir``): its lock and its checkpoints."""

from __future__ import annotations

import atexit
import logging
import re
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from fairseq.checkpoint_utils import checkpoint_paths

from gtrans.checkpoints.reading import UnreadableCheckpoint, read_checkpoint
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, locked, unwritable

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the file that fairseq goes on from, unless another is named
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
