"""A command that is watched from outside: its processes, and the files that they are writing.

All of this is read from Linux' ``/proc``. Every process of a command is known by a mark in its
environment, which its children inherit, so that one that outlives the command is found as well.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

PROC = Path("/proc")
PAUSE = 1.0  # seconds within which a stopped process stands still
RECENT = 0.2  # seconds for which a list of processes serves
GRACE = 10.0  # seconds within which the children of a killed process end
LOCK = ".lock"  # ending of files that are open for writing, but never written
_MARK = "GTRANS_RELIABILITY"
_WRITES = os.O_WRONLY | os.O_RDWR


class Watched:
    """A running command. At the end of the ``with`` block none of its processes is left."""

    def __init__(self, command: Sequence[str], folder: Path, log: Path) -> None:
        """Start it in ``folder``; what it prints is added to ``log``."""
        self._folder = f"{folder.resolve()}/"
        self._mark = f"{_MARK}={uuid.uuid4().hex}"
        name, _, value = self._mark.partition("=")
        threads = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._found: list[int] = []
        self._found_at = -RECENT
        self._begin = time.monotonic()
        with open(log, "ab") as file:
            self._process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **threads, name: value},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self.end_orphans(grace=0.0)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begin

    def computed(self) -> float:
        """Seconds that its processes have computed; unlike the time, other work slows them not."""
        return sum(_computed(pid) for pid in self.recent_processes())

    @property
    def status(self) -> int | None:
        """The exit status; None while the command runs."""
        return self._process.poll()

    def processes(self) -> list[int]:
        """The numbers of its processes, those without a parent included."""
        return [pid for pid in _all_processes() if self._mark in _environment(pid)]

    def recent_processes(self) -> list[int]:
        """Those of a moment ago, for frequent looks: to find them means to read all of /proc."""
        if time.monotonic() > self._found_at + RECENT:
            self._found_at, self._found = time.monotonic(), self.processes()
        return self._found

    def writing(self, pids: Sequence[int], pattern: str = "*") -> list[str]:
        """The files of the folder that ``pids`` have open for writing, if their names match."""
        found = set()
        for pid in pids:
            with contextlib.suppress(OSError):  # it has ended meanwhile
                for entry in os.scandir(PROC / str(pid) / "fd"):
                    found.add(self._written(pid, entry))
        return sorted(name for name in found if name and fnmatch(os.path.basename(name), pattern))

    def _written(self, pid: int, entry: os.DirEntry[str]) -> str:
        """The name inside the folder of an open file; empty if it is another one or only read."""
        try:
            path = os.readlink(entry.path)
            if not path.startswith(self._folder) or path.endswith(LOCK):
                return ""
            flags = (PROC / str(pid) / "fdinfo" / entry.name).read_text()
        except OSError:  # closed meanwhile
            return ""
        mode = int(flags.partition("flags:")[2].split()[0], 8)
        return path[len(self._folder) :].removesuffix(" (deleted)") if mode & _WRITES else ""

    def pause(self, pids: Sequence[int]) -> None:
        """Let processes stand still, so that what they are doing can be looked at."""
        _signal(pids, signal.SIGSTOP)
        end = time.monotonic() + PAUSE
        while time.monotonic() < end and any(_state(pid) not in "TtZX" for pid in pids):
            time.sleep(0.0002)

    def resume(self, pids: Sequence[int]) -> None:
        """Let paused processes go on."""
        _signal(pids, signal.SIGCONT)

    def kill(self, pids: Sequence[int]) -> None:
        """Kill processes, the command's first one among them."""
        _signal(pids, signal.SIGKILL)
        self._process.wait()

    @property
    def first(self) -> int:
        """The number of the process that was started."""
        return self._process.pid

    def end_orphans(self, grace: float = GRACE) -> list[str]:
        """Kill the processes that still run after ``grace`` seconds; returns their commands."""
        end = time.monotonic() + grace
        while (left := self.processes()) and time.monotonic() < end:
            time.sleep(0.1)
        commands = [_command(pid) for pid in left]
        _signal(left, signal.SIGKILL)
        while self.processes():
            time.sleep(0.01)
        return commands


def _all_processes() -> Iterator[int]:
    return (int(entry.name) for entry in os.scandir(PROC) if entry.name.isdigit())


def _environment(pid: int) -> list[str]:
    if _state(pid) in "ZX":
        return []
    try:
        return (PROC / str(pid) / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # it has ended, or belongs to someone else
        return []


def _state(pid: int) -> str:
    """The letter that proc(5) explains; X if there is no such process."""
    return _stat(pid)[0]


def _computed(pid: int) -> float:
    """Seconds of a process and of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """What proc(5) says of a process, from its state on."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["X"]


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().decode().replace("\0", " ").strip()
    except OSError:
        return "ended"


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
