"""Types of options for argparse: numbers within a range.

Each is a function from the word on the command line to its value, that raises
``argparse.ArgumentTypeError`` with a message that says what is possible.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable

_LARGEST = 2**63 - 1  # of torch and NumPy
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def whole(least: int | None = None, most: int | None = None) -> Callable[[str], int]:
    """Whole numbers from ``least`` to ``most``."""

    def parse(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no whole number") from None
        _check(value, least, _LARGEST if most is None else most)
        return value

    return parse


def real(
    least: float | None = None, above: float | None = None, below: float | None = None
) -> Callable[[str], float]:
    """Finite numbers from ``least``, or ``above`` a number, and ``below`` another."""

    def parse(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{word}' is no finite number")
        _check(value, least, above=above, below=below)
        return value

    return parse


def several(
    one: Callable[[str], float], count: int | None = None
) -> Callable[[str], list[float]]:
    """Numbers with commas between them, also in brackets, as fairseq's lists are written.

    fairseq evaluates such words as Python; nothing but ``count`` numbers is let through.
    """

    def parse(word: str) -> list[float]:
        inner = word.strip()
        if inner[:1] + inner[-1:] in ("()", "[]"):
            inner = inner[1:-1]
        parts = [part.strip() for part in inner.rstrip(",").split(",")]
        if count not in (None, len(parts)) or not all(map(_NUMBER.fullmatch, parts)):
            many = "numbers with commas between them" if count is None else f"{count} numbers"
            raise argparse.ArgumentTypeError(f"must be {many}, such as 0.9,0.98, but is {word}")
        return [one(part) for part in parts]

    return parse


def _check(
    value: float,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> None:
    for holds, limit, words in (
        (least is None or value >= least, least, "at least"),
        (most is None or value <= most, most, "at most"),
        (above is None or value > above, above, "above"),
        (below is None or value < below, below, "below"),
    ):
        if not holds:
            raise argparse.ArgumentTypeError(f"must be {words} {limit}, but is {value}")
