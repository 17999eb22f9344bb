"""Text for the user: numbers, progress messages, and characters that are safe in a terminal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from gtrans.version import __version__

# Control characters, line separators, characters that reorder the text around them, and surrogates,
# by which Python stands for bytes of a file name that are not UTF-8.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return ``text`` on one line, with control characters written as in JSON: ``\u001b``."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def json_text(value: Any) -> str:
    """Return ``value`` as JSON for a terminal."""
    text = json.dumps(finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    return "\n".join(printable(line) for line in text.split("\n"))


def with_schema(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``value`` with the name and version of its schema, and this package's version."""
    return {"schema": f"gtrans.{name}/1", "version": __version__, **value}


def finite(value: Any) -> Any:
    """Return a copy with null for infinite numbers and NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def in_digits(value: float, digits: int, sign: str = "") -> str:
    """Return a number as tables show it, never as minus zero; ``sign="+"`` shows a plus, too."""
    rounded = round(value, digits) + 0.0  # -0.0 becomes 0.0
    return f"{rounded:{sign}.{digits}f}"


def change_interval(ends: Iterable[float], digits: int) -> str:
    """Return the interval of a change."""
    return " to ".join(in_digits(end, digits, "+") for end in ends)


def aligned(rows: Sequence[Sequence[str]], words: Collection[int]) -> list[str]:
    """Return the lines of a table; columns in ``words`` are flush left, others flush right."""
    columns = []
    for number, cells in enumerate(zip(*rows, strict=True)):
        texts = [printable(cell) for cell in cells]
        width = max(len(text) for text in texts)
        if number in words:
            columns.append([text.ljust(width) for text in texts])
        else:
            columns.append([text.rjust(width) for text in texts])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def print_lines(*lines: str) -> None:
    """Print lines to standard output."""
    print("\n".join(map(printable, lines)))


def print_message(text: str) -> None:
    """Print a progress message to standard error."""
    print(printable(text), file=sys.stderr, flush=True)
