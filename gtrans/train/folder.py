"""A run folder (``--save-dir``): its lock and its checkpoints."""

from __future__ import annotations

import atexit
import re
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.checkpoints.reading import UnreadableCheckpoint, read_checkpoint
from gtrans.errors import GtransError
from gtrans.files import locked
from gtrans.train.compare import MadeFrom, recorded_in

LAST = "checkpoint_last.pt"  # the file that fairseq goes on from, unless another is named
_ASIDE = "before-restart-"
_NAME = re.compile(r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)\.pt")
# Held until the process ends, so that several trainings of one process may follow each other.
_held: set[Path] = set()


@dataclass(frozen=True)
class RunCheckpoint:
    """A whole checkpoint of a run.

    Attributes:
        path: the file.
        state: the dictionary in it, whose tensors are not in memory.
    """

    path: Path
    state: dict[str, Any]

    @property
    def updates(self) -> int:
        """Updates of the run up to this checkpoint."""
        return int(self.state["optimizer_history"][-1]["num_updates"])

    @property
    def options(self) -> dict[str, Any]:
        """The options of the run, by group."""
        options: dict[str, Any] = self.state["cfg"]
        return options

    @property
    def run_state(self) -> dict[str, Any]:
        """See :class:`gtrans.train.state.RunState`; empty if fairseq's own command wrote it."""
        return dict(self.state["extra_state"].get("run_state") or {})

    @property
    def made_from(self) -> MadeFrom | None:
        """See :func:`gtrans.train.compare.recorded_in`."""
        return recorded_in(self.state, self.path)

    def why_finished(self, cfg: Any) -> str | None:
        """Why the run is at its end, with all options of a training that goes on; None: not yet."""
        extra = self.state["extra_state"]
        goal, epochs = cfg.optimization.max_update, cfg.optimization.max_epoch
        if 0 < goal <= self.updates:
            return f"{self.updates} updates, --max-update {goal}"
        epoch = int(extra["train_iterator"]["epoch"])
        if 0 < epochs < epoch and not cfg.checkpoint.reset_dataloader:
            return f"{epoch - 1} epochs, --max-epoch {epochs}"
        hours = extra.get("previous_training_time", 0) / 3600
        if 0 < cfg.optimization.stop_time_hours < hours:
            return f"{hours:.2f} hours, --stop-time-hours {cfg.optimization.stop_time_hours}"
        waited = (self.run_state.get("early_stop") or {}).get("num_runs", 0)
        patience = cfg.checkpoint.patience
        if 0 < patience <= waited and not cfg.checkpoint.reset_meters:
            return f"{waited} validations without a gain, --patience {patience}"
        return None


class RunFolder:
    """The folder of a run; ``path`` is ``--save-dir``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.last = path / LAST

    def lock(self) -> None:
        """Keep other trainings out of the folder until this process ends.

        Raises:
            GtransError: another training writes there, or the folder cannot be written.
        """
        folder = self.path.resolve()
        if folder in _held:
            return
        held = ExitStack()
        held.enter_context(locked(self.path))
        atexit.register(held.close)
        _held.add(folder)

    def checkpoints(self) -> list[Path]:
        """All checkpoints of the run, whole or not."""
        return sorted(path for path in self.path.glob("*.pt") if _NAME.fullmatch(path.name))

    def newest(self) -> tuple[RunCheckpoint | None, str | None]:
        """The checkpoint to go on from, and what there is to say about it.

        It is ``checkpoint_last.pt``, or if that is missing or not whole the one with most updates.

        Raises:
            GtransError: there are checkpoints, but none is whole, or one could run code.
        """
        files = self.checkpoints()
        problem = "is missing"
        if self.last in files:
            try:
                return _read(self.last), None
            except UnreadableCheckpoint:
                problem = "is not whole"
        whole: list[RunCheckpoint] = []
        for path in files:
            with suppress(UnreadableCheckpoint):
                whole.append(_read(path))
        if whole:
            newest = max(whole, key=lambda found: (found.updates, found.path.stat().st_mtime_ns))
            return newest, (
                f"{self.path}: {LAST} {problem}; the run goes on from {newest.path.name} "
                f"({newest.updates} updates)"
            )
        if files:
            raise GtransError(
                f"--save-dir {self.path}: none of its checkpoints is whole "
                f"({', '.join(path.name for path in files)}); --restart starts anew and keeps them."
            )
        return None, None

    def clear(self) -> Path | None:
        """Move all checkpoints into a new subfolder; returns it, or None if there are none."""
        files = self.checkpoints()
        if not files:
            return None
        number = 1
        while (aside := self.path / f"{_ASIDE}{number}").exists():
            number += 1
        aside.mkdir()
        # A run that is moved halfway can still go on.
        for path in sorted(files, key=lambda path: path == self.last):
            path.rename(aside / path.name)
        return aside

    def remove_old(self, cfg: Any) -> None:
        """Delete the checkpoints that ``--keep-..`` does not name; ``cfg``: their options."""
        if cfg.keep_interval_updates > 0:
            every = cfg.keep_interval_updates_pattern
            found = self._by_number(r"checkpoint_\d+_(\d+)\.pt")
            if every != -1:
                found = [(number, path) for number, path in found if number % every]
            _delete(found[cfg.keep_interval_updates :])
        if cfg.keep_last_epochs > 0:
            _delete(self._by_number(r"checkpoint(\d+)\.pt")[cfg.keep_last_epochs :])
        if cfg.keep_best_checkpoints > 0:
            best = self.best_scores(cfg.best_checkpoint_metric)
            best = best if cfg.maximize_best_checkpoint_metric else best[::-1]
            _delete(best[cfg.keep_best_checkpoints :])

    def best_scores(self, metric: str) -> list[tuple[float, Path]]:
        """The checkpoints of ``--keep-best-checkpoints`` with their scores, highest first."""
        return self._by_number(rf"checkpoint\.best_{re.escape(metric)}_(-?\d+\.?\d*)\.pt")

    def _by_number(self, name: str) -> list[tuple[float, Path]]:
        matches = ((re.fullmatch(name, path.name), path) for path in self.path.glob("*.pt"))
        return sorted(((float(it[1]), path) for it, path in matches if it), reverse=True)


def _delete(found: list[tuple[float, Path]]) -> None:
    for _, path in found:
        path.unlink(missing_ok=True)


def _read(path: Path) -> RunCheckpoint:
    state = read_checkpoint(path, in_memory=False)
    try:
        int(state["optimizer_history"][-1]["num_updates"])
        int(state["extra_state"]["train_iterator"]["epoch"])
        known = isinstance(state["cfg"], dict)
    except (KeyError, IndexError, TypeError, ValueError):
        known = False
    if not known:
        raise UnreadableCheckpoint(f"{path}: not a checkpoint of a training run.")
    return RunCheckpoint(path, state)
