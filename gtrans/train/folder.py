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
from typing import Any, NamedTuple

from fairseq.checkpoint_utils import checkpoint_paths

from gtrans.checkpoints.reading import UnreadableCheckpoint, read_checkpoint
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, locked, unwritable

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the file that fairseq goes on from, unless another is named
LOG = "train.log"
_NEVER = logging.CRITICAL + 1
_NAME = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt")


class _Numbered(NamedTuple):
    """A checkpoint with updates, epoch or score in its name."""

    path: str
    number: float


class RunFolder:
    """The folder of a run (``--save-dir``)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = path / LAST

    def lock(self) -> None:
        """Create the folder, and keep other trainings out until this process ends."""
        check_output_folder("--save-dir", self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise unwritable(f"`--save-dir` '{self.path}'", error) from error
        held = ExitStack()
        held.enter_context(locked(self.path))
        atexit.register(held.close)

    def checkpoints(self) -> list[Path]:
        """Return the run's checkpoints, complete or not."""
        paths = sorted(self.path.glob("*.pt"))
        return [path for path in paths if _NAME.fullmatch(path.name)]

    def newest(self) -> Path | None:
        """Return ``checkpoint_last.pt``, else the complete checkpoint of most updates, or None.

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
        # The last checkpoint is moved last: a run that is moved halfway can still go on.
        files.sort(key=lambda path: path == self.last)
        for path in files:
            path.rename(aside / path.name)
        return aside

    def remove_old(self, cfg: Any) -> None:
        """Delete the checkpoints that ``--keep-..`` does not keep."""
        old: list[_Numbered] = []
        if cfg.keep_interval_updates > 0:
            every = cfg.keep_interval_updates_pattern
            by_updates = self._numbered(r"checkpoint_\d+_(\d+)\.pt")
            if every != -1:
                by_updates = [found for found in by_updates if found.number % every]
            old += by_updates[cfg.keep_interval_updates :]
        if cfg.keep_last_epochs > 0:
            by_epoch = self._numbered(r"checkpoint(\d+)\.pt")
            old += by_epoch[cfg.keep_last_epochs :]
        if cfg.keep_best_checkpoints > 0:
            by_score = self._by_score(cfg)
            old += by_score[cfg.keep_best_checkpoints :]
        for found in old:
            Path(found.path).unlink(missing_ok=True)

    def best_scores(self, cfg: Any) -> list[float]:
        """Return the scores of the checkpoints of ``--keep-best-checkpoints``, best first."""
        return [found.number for found in self._by_score(cfg)]

    def _by_score(self, cfg: Any) -> list[_Numbered]:
        metric = re.escape(cfg.best_checkpoint_metric)
        by_score = self._numbered(rf"checkpoint\.best_{metric}_(-?\d+\.?\d*)\.pt")
        if not cfg.maximize_best_checkpoint_metric:
            by_score.reverse()
        return by_score

    def _numbered(self, pattern: str) -> list[_Numbered]:
        """Return checkpoints, the highest numbers first."""
        matches = checkpoint_paths(self.path, pattern, keep_match=True)
        return [_Numbered(path, number) for path, number in matches]


def _updates_if_complete(path: Path) -> int | None:
    try:
        return updates_of(read_checkpoint(path, in_memory=False))
    except UnreadableCheckpoint:
        return None


def updates_of(state: Mapping[str, Any]) -> int:
    """Return the updates of a run's checkpoint."""
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
    """Context that keeps logged lines until :meth:`write_to`."""

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
        """Append all lines to ``train.log`` in ``folder``, unless stdout is that file."""
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
        output = os.fstat(sys.stdout.fileno())
        return os.path.samestat(output, path.stat())
    return False
