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
from gtrans.training import made_from

LAST = "checkpoint_last.pt"  # the file that fairseq goes on from, unless another is named
_ASIDE = "before-restart-"
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
    def made_from(self) -> dict[str, Any] | None:
        """See :func:`gtrans.training.made_from.recorded`."""
        return made_from.recorded(self.state, self.path)


class RunFolder:
    """The folder of a run.

    Args:
        path: ``--save-dir``.
        suffix: what fairseq adds to the names of its checkpoints.
    """

    def __init__(self, path: Path, suffix: str = "") -> None:
        self.path = path
        names = r"checkpoint(\d+|_\d+_\d+|_best|_last|\.best_.+)"
        self._name = re.compile(names + re.escape(suffix) + r"\.pt")
        self.last = path / f"checkpoint_last{suffix}.pt"

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
        return sorted(path for path in self.path.glob("*.pt") if self._name.fullmatch(path.name))

    def newest(self) -> tuple[RunCheckpoint | None, str | None]:
        """The checkpoint to go on from, and what there is to say about it.

        It is ``checkpoint_last.pt``. If that is missing or not whole, or older and with fewer
        updates than others (``--no-last-checkpoints``), it is the one of them with the most.

        Raises:
            GtransError: there are checkpoints, but none is whole, or one could run code.
        """
        files = self.checkpoints()
        others = [path for path in files if path != self.last]
        last, problem = None, f"{self.last.name} is missing"
        if self.last in files:
            try:
                last, problem = _read(self.last), f"{self.last.name} is older"
                written = _time(self.last)
                others = [path for path in others if _time(path) > written]
            except UnreadableCheckpoint:
                problem = f"{self.last.name} is not whole"
        whole: list[RunCheckpoint] = []
        for path in others:
            with suppress(UnreadableCheckpoint):
                whole.append(_read(path))
        newest = max(whole, key=lambda found: (found.updates, _time(found.path)), default=None)
        if newest is not None and (last is None or newest.updates > last.updates):
            return newest, (
                f"{self.path}: {problem}; the run goes on from {newest.path.name} "
                f"({newest.updates} updates)"
            )
        if last is not None:
            return last, None
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


def _time(path: Path) -> int:
    return path.stat().st_mtime_ns


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
