"""The one way in which this project reads JSON.

Files come from outside or were changed by hand. What no program of this project writes and Python
would read in silence or fail on is refused: a second value behind the first, a key that occurs
twice, NaN, numbers of thousands of digits, deep nesting, and halves of surrogate pairs, which
cannot be written as UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError

_DEPTH = 100  # of values inside values; the deepest file of this project has 6
_DIGITS = 18  # every such number has 64 bits
_SPACE = re.compile(r"[ \t\n\r]*")
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadJson(ValueError):
    """What is wrong with a text; ``position``: the character at which it is, if known."""

    def __init__(self, what: str, position: int | None = None) -> None:
        super().__init__(what)
        self.position = position


def decode(text: str, begin: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at a character of ``text``, and the character after it.

    Raises:
        BadJson: there is none, or one that is refused.
    """
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise BadJson(error.msg, error.pos) from None
    except RecursionError:
        raise BadJson(_TOO_DEEP) from None
    _check(value)
    return value, end


def skip_space(text: str, position: int) -> int:
    """The first character of ``text`` from ``position`` on that is no white space of JSON."""
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


def parse_json(text: str | bytes, place: str, way_out: str = "") -> Any:
    """The only JSON value of a text.

    Args:
        text: the text; bytes are UTF-8.
        place: the file, or the file and line, with which error messages begin.
        way_out: how error messages go on: what to do.

    Raises:
        GtransError: it is not JSON, or JSON that is refused.
    """
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise GtransError(f"{place}: not JSON (not UTF-8){way_out}") from None
    try:
        value, end = decode(content, skip_space(content, 0))
        end = skip_space(content, end)
        if end < len(content):
            raise BadJson("something follows its end", end)
    except BadJson as error:
        where = ""
        if error.position is not None and "\n" in content.rstrip("\n"):
            where = f" in line {content.count(chr(10), 0, error.position) + 1}"
        raise GtransError(f"{place}: not JSON ({error}{where}){way_out}") from None
    return value


def read_json(path: Path, way_out: str = "") -> Any:
    """The JSON value of a file.

    Arguments and errors are those of :func:`parse_json`; also:

    Raises:
        FileNotFoundError: there is no such file.
        GtransError: it cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise GtransError(f"{path}: cannot be read ({error.strerror}){way_out}") from None
    return parse_json(content, str(path), way_out)


def read_object(path: Path, way_out: str = "") -> dict[str, Any]:
    """The JSON object of a file.

    Arguments and errors are those of :func:`read_json`; also:

    Raises:
        GtransError: it holds another value.
    """
    value = read_json(path, way_out)
    if not isinstance(value, dict):
        raise GtransError(f"{path}: not an object of JSON{way_out}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise BadJson(f"the key '{_short(key)}' occurs twice")
        found[key] = value
    return found


def _integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > _DIGITS:
        raise BadJson(f"a number of {len(digits.removeprefix('-'))} digits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise BadJson(f"the number {_short(digits)} is too large")
    return value


def _constant(name: str) -> float:
    raise BadJson(f"{name} is no number")


_TOO_DEEP = f"more than {_DEPTH} values inside each other"
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)


def _check(value: Any) -> None:
    """Refuse deep nesting and strings that no file can hold."""
    level = [value]
    for _ in range(_DEPTH):
        deeper: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                deeper.extend(part)
                deeper.extend(part.values())
            elif isinstance(part, list):
                deeper.extend(part)
            elif isinstance(part, str) and not part.isascii() and _SURROGATE.search(part):
                raise BadJson(f"half of a surrogate pair in '{_short(part)}'")
        if not deeper:
            return
        level = deeper
    raise BadJson(_TOO_DEEP)


def _short(text: str) -> str:
    return text if len(text) < 40 else f"{text[:37]}..."
