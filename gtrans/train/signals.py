"""Ctrl-C, SIGTERM and SIGUSR1 end a training after its update; a second signal ends it at once.

The exit status is :data:`STOPPED` (try again), after Ctrl-C :data:`INTERRUPTED`.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from torch.multiprocessing.spawn import ProcessExitedException

STOPPED = 75  # EX_TEMPFAIL of sysexits.h: to be tried again
INTERRUPTED = 128 + signal.SIGINT  # as a shell reports it
SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
CTRL_C_CODE = 1 << 16  # what a process adds in place of 1, more than there are processes
# Seconds in which several signals are one: a launcher passes on what its processes got as well.
_TOGETHER = 2.0
_LOOK = 0.3  # seconds after which a process that loads data looks for its parent
_received: list[int] = []  # since the latest training of this process began


class Signals:
    """Context that receives signals, and with ``speaks`` prints a message.

    ``name``: the first signal, or empty.
    """

    def __init__(self, speaks: bool) -> None:
        self.name = ""
        self._speaks = speaks
        self._time_of_first = 0.0
        self._before: dict[int, Any] = {}  # signal -> its handler

    def __enter__(self) -> Signals:
        _received.clear()
        if threading.current_thread() is threading.main_thread():  # only there they are received
            reads, writes = os.pipe()
            os.set_blocking(writes, False)
            os.register_at_fork(after_in_child=self._leave_to_the_parent)
            receiver = threading.Thread(target=self._receive, args=(reads,), daemon=True)
            receiver.start()
            # Python calls a handler between two of its own steps, but writes to the pipe at once.
            signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
            for number in SIGNALS:
                self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @property
    def code(self) -> int:
        """1 after a signal, :data:`CTRL_C_CODE` after Ctrl-C; the processes exchange the sum."""
        return CTRL_C_CODE if self.name == "SIGINT" else int(self.name != "")

    def _receive(self, pipe: int) -> None:
        while True:
            for number in os.read(pipe, 64):
                if number not in SIGNALS or not self._before:
                    continue
                _received.append(number)
                if not self.name:
                    self.name = signal.Signals(number).name
                    self._time_of_first = time.monotonic()
                    if self._speaks:
                        write_line(
                            f"{self.name}: the training ends after this update; a second one ends "
                            "it now"
                        )
                elif time.monotonic() - self._time_of_first > _TOGETHER:
                    os._exit(128 + number)

    def _leave_to_the_parent(self) -> None:
        if self._before:
            signal.set_wakeup_fd(-1)
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
            threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    """End this process with its parent; torch itself looks for the parent every 5 s."""
    parent = os.getppid()
    while os.getppid() == parent:
        received = signal.sigtimedwait(SIGNALS, _LOOK)
        if received is not None and received.si_pid == parent:
            break
    os._exit(0)


def pass_on_to_workers(work: Callable[[], None]) -> None:
    """Run ``work``, and pass signals on to the processes that it starts."""
    received = _received
    received.clear()

    def pass_on(number: int, frame: Any) -> None:
        received.append(number)
        for worker in multiprocessing.active_children():
            if worker.pid is not None:
                os.kill(worker.pid, number)

    before = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        work()
        if signal.SIGINT in received:  # torch takes it for no error of a process that it started
            raise SystemExit(INTERRUPTED)
    except ProcessExitedException as end:
        if end.exit_code in (STOPPED, INTERRUPTED):
            raise SystemExit(end.exit_code) from None
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_if_signalled(what: str) -> None:
    """End a command of several trainings if a signal came in the last update of one."""
    if _received:
        number = _received[0]
        _received.clear()
        write_line(f"{signal.Signals(number).name}: stopped after this training; {what}")
        raise SystemExit(INTERRUPTED if number == signal.SIGINT else STOPPED)


def write_line(message: str) -> None:
    """Write a line to stderr, also in a signal handler."""
    os.write(2, f"gtrans: {message}\n".encode())
