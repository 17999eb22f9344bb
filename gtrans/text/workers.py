"""Work in other processes, which end with this one, even if it is killed."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from gtrans.errors import GtransError
from gtrans.text import supervised

Result = TypeVar("Result")


def all_cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def map_lines(function: Callable[[str], str], lines: Iterable[str], workers: int) -> Iterator[str]:
    """``function`` of each line, in order, by ``workers`` processes; empty lines stay empty.

    Raises:
        GtransError: see :func:`map_chunks`.
    """
    for chunk in map_chunks(partial(_of_each, function), lines, workers):
        yield from chunk


def map_chunks(
    function: Callable[[list[str]], Result], lines: Iterable[str], workers: int
) -> Iterator[Result]:
    """``function`` of every few hundred lines, in order, by at most ``workers`` processes.

    The lines are read only a few chunks for each process ahead of the results that were taken, so
    memory does not grow with their number. There are no more processes than chunks, and a text of
    one chunk needs no other process.

    Raises:
        GtransError: one of the processes was killed.
    """
    rest = iter(lines)
    chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
    first = list(islice(chunks, workers))
    processes = len(first)
    if processes < 2:
        yield from map(function, chain(first, chunks))
        return
    pool = ProcessPoolExecutor(processes, initializer=_start_worker, initargs=(function,))
    try:
        begun: deque[Future[Result]] = deque()
        for chunk in chain(first, chunks):
            begun.append(pool.submit(_work, chunk))
            if len(begun) > _CHUNKS_AHEAD * processes:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    except BrokenProcessPool:
        raise GtransError(
            f"`--workers` {workers}: one of the {processes} processes was killed, perhaps because "
            "memory ran out; run the same command again with fewer than these, and it goes on "
            "after the finished steps."
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def useful_workers(lines: Iterable[str], workers: int) -> int:
    """How many of ``workers`` processes have a chunk of ``lines`` to work on, at least one."""
    enough = sum(1 for _ in islice(lines, workers * _CHUNK))
    return max(math.ceil(enough / _CHUNK), 1)


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


def _start_worker(function: Callable[[list[str]], Any]) -> None:
    global _worker
    _worker = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process tells of an interrupt
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(chunk: list[str]) -> Any:
    return _worker(chunk)


def _of_each(function: Callable[[str], str], chunk: list[str]) -> list[str]:
    return [function(line) if line else "" for line in chunk]


_worker: Callable[[list[str]], Any]
_CHUNK = 500  # lines handed to a worker at once
_CHUNKS_AHEAD = 4  # chunks for each worker that are in work, or wait to be written
