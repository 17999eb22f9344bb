"""Work in other processes, which end with this one, even if it is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from gtrans.text import supervised


def map_lines(function: Callable[[str], str], lines: Iterable[str], workers: int) -> Iterator[str]:
    """``function`` of each line, in order, by ``workers`` processes; empty lines stay empty."""
    if workers == 1:
        yield from (function(line) if line else "" for line in lines)
        return
    with multiprocessing.Pool(workers, _start_worker, (function,)) as pool:
        yield from pool.imap(_work, lines, _CHUNK)


def run_module(module: str, arguments: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run ``python -m MODULE ARGUMENTS`` in a folder.

    Returns:
        its exit status, and what it has printed, its errors last.
    """
    theirs, ours = os.pipe()
    # Python must not import modules from the folder (has an effect from Python 3.11 on).
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    process = subprocess.Popen(
        [sys.executable, supervised.__file__, str(theirs), module, *arguments],
        cwd=folder, env=environment, pass_fds=[theirs], start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
    )  # fmt: skip
    try:
        output, errors = process.communicate()
        return process.returncode, output + errors
    finally:
        with suppress(ProcessLookupError):  # all of them have ended
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)
        os.close(theirs)


def _start_worker(function: Callable[[str], str]) -> None:
    global _worker
    _worker = function
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(line: str) -> str:
    return _worker(line) if line else ""


_worker: Callable[[str], str]
_CHUNK = 500  # lines handed to a worker at once
