"""Work on lines in a pool of processes, which end with this one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import Any, TypeVar

from gtrans.errors import GtransError

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHUNK = 500  # items handed to a worker at once
_CHUNKS_AHEAD = 4  # chunks for each worker that run, or wait to be written


def all_cores() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # only of Linux
    if affinity is not None:
        return len(affinity(0))
    return os.cpu_count() or 1


def check_workers(workers: int) -> None:
    """Raise GtransError for far more processes than there are cores."""
    cores = all_cores()
    most = max(64, 4 * cores)
    if workers > most:
        raise GtransError(f"`--workers` {workers}: there are {cores} cores; give at most {most}.")


def map_chunks(
    function: Callable[[list[Item]], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """Yield ``function`` of chunks of items, in order, from at most ``workers`` processes.

    Items are read a few chunks ahead: memory does not grow with their number.
    """
    rest = iter(items)
    chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
    first = list(islice(chunks, workers))
    if len(first) < 2:
        yield from map(function, chain(first, chunks))
        return
    futures: deque[Future[Result]] = deque()
    pool = ProcessPoolExecutor(len(first), initializer=_start_worker, initargs=(function,))
    try:
        for chunk in chain(first, chunks):
            futures.append(pool.submit(_work, chunk))
            if len(futures) > _CHUNKS_AHEAD * len(first):
                yield futures.popleft().result()
        while futures:
            yield futures.popleft().result()
    except BrokenProcessPool:
        raise GtransError(
            f"one of the {len(first)} processes was killed, perhaps because memory ran out; run "
            "the same command again with fewer `--workers`, and it goes on after finished steps."
        ) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _start_worker(function: Callable[[list[Any]], Any]) -> None:
    global _worker
    _worker = function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process reports an interrupt
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # The parent may end by SIGKILL, too.
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(chunk: list[Any]) -> Any:
    return _worker(chunk)


_worker: Callable[[list[Any]], Any]
