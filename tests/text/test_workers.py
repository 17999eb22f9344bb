"""Lines that several processes work on: the same result, little memory, errors of one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from itertools import chain

import pytest

from gtrans.errors import GtransError
from gtrans.text.workers import map_chunks


def _upper(lines: list[str]) -> list[str]:
    return [line.upper() for line in lines]


def map_lines(lines: Iterable[str], workers: int) -> Iterator[str]:
    return chain.from_iterable(map_chunks(_upper, lines, workers))


LINES = [f"the word {n % 7} Word WORD {n}" if n % 5 else "" for n in range(3000)]


def test_order_and_empty_lines():
    wanted = [line.upper() for line in LINES]
    for workers in (1, 3):
        assert list(map_lines(LINES, workers)) == wanted
    assert list(map_lines([], 2)) == []


def test_memory_does_not_grow_with_the_text():
    """However long the text is, it is read only a few chunks ahead of what is written."""
    read = 0

    def text() -> Iterator[str]:
        nonlocal read
        while read < 40_000:
            read += 1
            yield "line"

    ahead = [read - written for written, _ in enumerate(map_lines(text(), 2), start=1)]
    assert len(ahead) == 40_000
    assert max(ahead) < 6000
    assert max(ahead[30_000:]) <= max(ahead[:10_000])


def _killed(lines: list[str]) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return len(lines)


def _failing(lines: list[str]) -> int:
    raise GtransError(f"'{lines[0]}' is wrong")


def test_errors_of_a_process():
    with pytest.raises(GtransError, match="one of the 2 processes was killed, perhaps because"):
        list(map_chunks(_killed, ["line"] * 2000, 2))
    with pytest.raises(GtransError, match="'line' is wrong"):
        list(map_chunks(_failing, ["line"] * 2000, 2))
