"""Lines that several processes work on: the same result, little memory, errors of one line."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import chain

import pytest

from gtrans.errors import GtransError
from gtrans.text.workers import map_chunks


def _upper(lines: list[str]) -> list[str]:
    return [line.upper() for line in lines]


@pytest.mark.parametrize("workers", [1, 3])
def test_order_and_empty_lines(workers):
    lines = [f"Word WORD {n}" if n % 5 else "" for n in range(3000)]
    assert [*chain(*map_chunks(_upper, lines, workers))] == _upper(lines)
    assert not [*map_chunks(_upper, [], workers)]


def test_memory_does_not_grow_with_the_text():
    """However long the text is, it is read only a few chunks ahead of what is written."""
    read = 0

    def text() -> Iterator[str]:
        nonlocal read
        while read < 40_000:
            read += 1
            yield "line"

    lines = chain.from_iterable(map_chunks(_upper, text(), 2))
    ahead = [read - written for written, _ in enumerate(lines, start=1)]
    assert len(ahead) == 40_000 and max(ahead) < 6000
    assert max(ahead[30_000:]) <= max(ahead[:10_000])


def _killed(lines: list[str]) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return len(lines)


def _failing(lines: list[str]) -> int:
    raise GtransError(f"'{lines[0]}' is wrong")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_killed, "one of the 2 processes was killed, perhaps because"),
        (_failing, "'line' is wrong"),
    ],
)
def test_errors_of_a_process(function, message):
    with pytest.raises(GtransError, match=message):
        list(map_chunks(function, ["line"] * 2000, 2))
