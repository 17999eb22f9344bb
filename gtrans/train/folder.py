"""A run folder (``--save-dir``): its lock, its checkpoints and its log."""

from __future__ import annotations

import atexit
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
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
        """Create the folder and keep other trainings out of it until this process ends."""
        check_output_folder("--save-dir", self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--save-dir` '{self.path}'", error) from error
        held = ExitStack()
        held.enter_context(locked(self.path))
        atexit.register(held.close)

    def checkpoints(self) -> list[Path]:
        """Return all checkpoints of the run, complete or not."""
        return sorted(path for path in self.path.glob("*.pt") if _NAME.fullmatch(path.name))

    def newest(self) -> Path | None:
        """Return the checkpoint to resume from, or None.

        It is ``checkpoint_last.pt``, or if that is incomplete the one with most updates.

        Raises:
            GtransError: all checkpoints are incomplete, or one could run code.
        """
        files = self.checkpoints()
        if not files:
            return None
        has_last = self.last in files
        if has_last and _updates_if_complete(self.last) is not None:
            return self.last
        complete: list[tuple[int, int, Path]] = []
        for path in files:
            updates = _updates_if_complete(path)
            if updates is not None:
                complete.append((updates, path.stat().st_mtime_ns, path))
        if not complete:
            names = ", ".join(path.name for path in files)
            raise GtransError(
                f"--save-dir {self.path}: none of its checkpoints is whole ({names}); --restart "
                "starts anew and keeps them."
            )
        updates, _, newest = max(complete)
        problem = "is not whole" if has_last else "is missing"
        logger.info(
            f"{self.path}: {LAST} {problem}; the run goes on from {newest.name} ({updates} updates)"
        )
        return newest

    def clear(self) -> Path | None:
        """Move all checkpoints into a new subfolder and return it."""
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
        """Delete the checkpoints that ``--keep-..`` does not keep."""
        old: list[tuple[str, float]] = []
        if cfg.keep_interval_updates > 0:
            every = cfg.keep_interval_updates_pattern
            by_updates = self._paths(r"checkpoint_\d+_(\d+)\.pt")
            if every != -1:
                by_updates = [found for found in by_updates if found[1] % every]
            old += by_updates[cfg.keep_interval_updates :]
        if cfg.keep_last_epochs > 0:
            by_epoch = self._paths(r"checkpoint(\d+)\.pt")
            old += by_epoch[cfg.keep_last_epochs :]
        if cfg.keep_best_checkpoints > 0:
            by_score = self.best_scores(cfg)
            old += by_score[cfg.keep_best_checkpoints :]
        for path, _ in old:
            Path(path).unlink(missing_ok=True)

    def best_scores(self, cfg: Any) -> list[tuple[str, float]]:
        """Return the checkpoints of ``--keep-best-checkpoints`` with their scores, best first."""
        metric = re.escape(cfg.best_checkpoint_metric)
        by_score = self._paths(rf"checkpoint\.best_{metric}_(-?\d+\.?\d*)\.pt")
        return by_score if cfg.maximize_best_checkpoint_metric else by_score[::-1]

    def _paths(self, pattern: str) -> list[tuple[str, float]]:
        matches: list[tuple[str, float]] = checkpoint_paths(self.path, pattern, keep_match=True)
        return matches


def _updates_if_complete(path: Path) -> int | None:
    try:
        return updates_of(read_checkpoint(path, in_memory=False))
    except UnreadableCheckpoint:
        return None


def updates_of(state: Mapping[str, Any]) -> int:
    """Return the number of updates that a run had made."""
    try:
        int(state["extra_state"]["train_iterator"]["epoch"])
        dict(state["cfg"])
        return int(state["optimizer_history"][-1]["num_updates"])
    except (KeyError, IndexError, TypeError, ValueError):
        raise UnreadableCheckpoint("it is not a checkpoint of a training run.") from None


def validations_since_best(extra: Mapping[str, Any]) -> int:
    """Return the validations since the best one, from ``extra_state``."""
    run_state = extra.get("run_state") or {}
    early_stop = run_state.get("early_stop") or {}
    return int(early_stop.get("num_runs", 0))


# ---- the log -------------------------------------------------------------------------------------


class RunLog:
    """Context that keeps logged lines until :meth:`write_to` names their folder."""

    def __init__(self) -> None:
        self._kept = MemoryHandler(capacity=sys.maxsize, flushLevel=_NEVER, flushOnClose=False)

    def __enter__(self) -> RunLog:
        root = logging.getLogger()
        for printed in root.handlers:
            for hides_lines in printed.filters:
                self._kept.addFilter(hides_lines)
        root.addHandler(self._kept)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger().removeHandler(self._kept)
        file = self._kept.target
        if file is not None:
            file.close()
        self._kept.close()

    def write_to(self, folder: Path) -> None:
        """Append kept and further lines to ``train.log`` in ``folder``, unless stdout does."""
        if _is_output(folder / LOG):
            self.discard()
            return
        file = logging.FileHandler(folder / LOG, encoding="utf-8")
        file.setFormatter(logging.getLogger().handlers[0].formatter)
        self._kept.setTarget(file)
        self._kept.flush()
        self._kept.capacity = 1  # each further line is written at once

    def discard(self) -> None:
        """Keep no lines, and write none."""
        logging.getLogger().removeHandler(self._kept)


def _is_output(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return os.path.samestat(os.fstat(sys.stdout.fileno()), path.stat())
    return False
