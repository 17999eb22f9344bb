"""The printed words: numbers, progress messages, and text that must not control the terminal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gtrans.version import __version__

# Control characters, line separators, marks that reorder the text around them, and surrogates, by
# which Python stands for bytes of a file name that are not UTF-8.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""``text`` on one line, for a terminal.

    File names, labels and values come from others, and could move the cursor or hide a line. A
    character that does more than to be shown is written as JSON writes it: ``\u001b``.
    """
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_text(value: Any) -> str:
    """``value`` as JSON for the standard output, which may be a terminal."""
    lines = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False).split("\n")
    return "\n".join(map(printable, lines))


def with_schema(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """``value`` behind the name and version of its schema, and the version of this package."""
    return {"schema": f"gtrans.{name}/1", "version": __version__, **value}


def finite(value: Any) -> Any:
    """A copy in which infinite numbers and NaN, which JSON does not have, are null."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def in_digits(value: float, digits: int, sign: str = "") -> str:
    """A number as tables show it; a negative number that rounds to zero loses its minus.

    Args:
        value: the number.
        digits: behind the point.
        sign: ``+`` for changes: numbers from zero get a plus.
    """
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"


def change_interval(ends: Iterable[float], digits: int) -> str:
    """The interval of a change."""
    return " to ".join(in_digits(end, digits, "+") for end in ends)


def aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> list[str]:
    """The lines of a table; all rows have the same number of cells.

    The columns whose numbers are in ``words`` are flush left, all others flush right.
    Control characters are escaped.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if column in words else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def print_lines(*lines: str) -> None:
    """Print lines to standard output."""
    print("\n".join(map(printable, lines)))


def print_message(text: str) -> None:
    """Print a progress message to standard error."""
    print(printable(text), file=sys.stderr, flush=True)
