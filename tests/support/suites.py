"""What of a list of cases `make test` tries, and what only `make test-all` does."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

import pytest


def others_long(cases: Iterable[Any], kept: Container[Any]) -> list[Any]:
    """Parameters of a test, of which all but ``kept`` are for `make test-all`."""
    return [
        pytest.param(case, id=str(case), marks=() if case in kept else pytest.mark.long)
        for case in cases
    ]


def one_in(step: int, cases: Iterable[Any]) -> list[Any]:
    """Parameters of a test, of which `make test` tries the first of every ``step``."""
    every = list(cases)
    return others_long(every, every[::step])
