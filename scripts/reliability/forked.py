"""Commands as a user types them, each in a process forked from this one.

This one has imported fairseq and the plugin before, which is most of what a small command costs. A
command has its own folder, streams, exit status and limits; its end is that of a program of its
own: an exception that nothing handles is printed as a traceback, with status 1.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

MEMORY = 6 << 30  # bytes of addresses, those of the imported libraries included
COMPUTING = 60  # seconds of computation
WAITING = 600.0  # seconds until the end, on a machine that does other work as well
_LOOKING = 0.005
_FAIRSEQ = ("generate", "hydra_train", "interactive", "preprocess", "train", "validate")
_STREAMS = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Ended:
    """A command that has ended.

    Attributes:
        status: its exit status; negative: the signal that has killed it.
        stdout: what it has printed.
        stderr: what it has printed as errors and messages.
        seconds: from its start to its end.
        hung: it has computed or waited for too long, and was killed.
    """

    status: int
    stdout: str
    stderr: str
    seconds: float
    hung: bool

    @property
    def said(self) -> str:
        """The last line of its messages."""
        lines = self.stderr.strip().splitlines()
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Order:
    """A command to run: its words, the folder to run in, the file of its standard input."""

    words: tuple[str, ...]
    folder: Path
    stdin: Path = Path(os.devnull)
    computing: int = COMPUTING
    memory: int = MEMORY


@dataclass(frozen=True)
class _Running:
    order: Order
    begin: float


def run(order: Order) -> Ended:
    """Run one command to its end."""
    return next(run_all([order]))[1]


def run_all(orders: Iterable[Order], jobs: int = 1) -> Iterator[tuple[Order, Ended]]:
    """Run commands, ``jobs`` at the same time; yields each as it ends.

    An order is taken from ``orders`` just before it is started. What a command has printed is in
    ``stdout`` and ``stderr`` of its folder until the next one runs there.
    """
    _import_all()
    running: dict[int, _Running] = {}
    waiting = iter(orders)
    try:
        while True:
            while len(running) < jobs and (order := next(waiting, None)) is not None:
                running[_start(order)] = _Running(order, time.monotonic())
            if not running:
                return
            for pid in list(running):
                ended = _ended(pid, running[pid])
                if ended is not None:
                    yield running.pop(pid).order, ended
            time.sleep(_LOOKING)
    finally:
        for pid in running:
            _kill(pid)
            os.waitpid(pid, 0)


def _ended(pid: int, running: _Running) -> Ended | None:
    seconds = time.monotonic() - running.begin
    late = seconds > WAITING
    if late:
        _kill(pid)
    found, status = os.waitpid(pid, 0 if late else os.WNOHANG)
    if not found:
        return None
    _kill(pid)  # its children
    code = os.waitstatus_to_exitcode(status)
    out, err = (
        (running.order.folder / name).read_text("utf-8", errors="backslashreplace")
        for name in _STREAMS[1:]
    )
    return Ended(code, out, err, seconds, late or code == -signal.SIGXCPU)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _start(order: Order) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    _be(order)


def _be(order: Order) -> NoReturn:
    """Become the command."""
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (order.computing, order.computing + 5))
        resource.setrlimit(resource.RLIMIT_AS, (order.memory, order.memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # A command ends with the program that has started it.
        importlib.import_module("ctypes").CDLL(None).prctl(1, signal.SIGKILL)
        os.chdir(order.folder)
        os.dup2(os.open(order.stdin, os.O_RDONLY), 0)
        for number, name in enumerate(_STREAMS[1:], start=1):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        program, *words = order.words
        sys.argv = [program, *words]
        status = _program(program)() or 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # what Python itself does at the top
        sys.excepthook(*sys.exc_info())
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _program(name: str) -> Callable[[], int | None]:
    module, function = "gtrans.cli", "main"
    if name != "gtrans":
        module = f"fairseq_cli.{name.removeprefix('fairseq-').replace('-', '_')}"
        function = "cli_main"
    found: Callable[[], int | None] = getattr(importlib.import_module(module), function)
    return found


def _import_all() -> None:
    """Import what the commands need; the second time this does nothing."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in _FAIRSEQ:
        importlib.import_module(f"fairseq_cli.{name}")
    for name in ("sacremoses", "sentencepiece", "tokenizers", "transformers.models.bert"):
        importlib.import_module(name)
    from gtrans.cli.shared.dispatch import all_commands, module_of
    from gtrans.decoding.loading import import_plugin

    import_plugin()
    for command in all_commands():
        module_of(command)
    importlib.import_module("gtrans.decoding.translation")
    _settle()


def _settle() -> None:
    """One thread in every child: a forked process has none of torch's."""
    import torch

    torch.set_num_threads(1)


def words_of(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose program is named without its folder, as :func:`run` wants it."""
    first, *rest = command
    return (Path(first).name, *rest)
