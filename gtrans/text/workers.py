"""Processing the lines of a text in several processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator


def map_lines(function: Callable[[str], str], lines: Iterable[str], workers: int) -> Iterator[str]:
    """``function`` of each line, in order, by ``workers`` processes; empty lines stay empty."""
    if workers == 1:
        yield from (function(line) if line else "" for line in lines)
        return
    with multiprocessing.Pool(workers, _start_worker, (function,)) as pool:
        yield from pool.imap(_work, lines, _CHUNK)


def _start_worker(function: Callable[[str], str]) -> None:
    global _worker
    _worker = function


def _work(line: str) -> str:
    return _worker(line) if line else ""


_worker: Callable[[str], str]
_CHUNK = 500  # lines handed to a worker at once
