"""Types of options for argparse: numbers within a range.

Each is a function from the word on the command line to its value, that raises
``argparse.ArgumentTypeError`` with a message that says what is possible.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable

_NUMBER = re.compile(r"[+-]?(\d+(_\d+)*\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def whole(least: int | None = None, most: int | None = None) -> Callable[[str], int]:
    """Whole numbers from ``least`` to ``most``."""

    def parse(word: str) -> int:
        try:
            value = int(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no whole number") from None
        _check(value, least, most)
        return value

    return parse


def real(
    least: float | None = None, most: float | None = None, above: float | None = None
) -> Callable[[str], float]:
    """Finite numbers from ``least``, or ``above`` a number, to ``most``."""

    def parse(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{word}' is no number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{word}' is no finite number")
        _check(value, least, most, above)
        return value

    return parse


def several(one: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Numbers with commas between them, also in brackets, as fairseq's lists are written.

    fairseq evaluates such words as Python; nothing but numbers is let through.
    """

    def parse(word: str) -> list[float]:
        inner = word.strip()
        if inner[:1] + inner[-1:] in ("()", "[]"):
            inner = inner[1:-1]
        parts = [part.strip() for part in inner.rstrip(",").split(",")]
        for part in parts:
            if not _NUMBER.fullmatch(part) and part.lower() not in ("nan", "inf", "-inf"):
                raise argparse.ArgumentTypeError(
                    f"'{word}' are no numbers; write them as 0.9,0.98 or (0.9, 0.98)"
                )
        return [one(part) for part in parts]

    return parse


def _check(
    value: float, least: float | None, most: float | None, above: float | None = None
) -> None:
    if least is not None and value < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}, but is {value}")
    if above is not None and value <= above:
        raise argparse.ArgumentTypeError(f"must be above {above}, but is {value}")
    if most is not None and value > most:
        raise argparse.ArgumentTypeError(f"must be at most {most}, but is {value}")
