"""JSON from files and lines, with an error of one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError


def parse_json(text: str | bytes, place: str, way_out: str = "") -> Any:
    """The JSON value of a text.

    Args:
        text: the text; bytes are UTF-8.
        place: the file, or the file and line, with which error messages begin.
        way_out: how error messages go on: what to do.

    Raises:
        GtransError: it is not JSON.
    """
    try:
        content = text if isinstance(text, str) else text.decode("utf-8-sig")
        return json.loads(content, parse_constant=_no_number)
    except UnicodeError:
        raise GtransError(f"{place}: not JSON (not UTF-8){way_out}") from None
    except json.JSONDecodeError as error:
        where = f" in line {error.lineno}" if error.lineno > 1 else ""
        raise GtransError(f"{place}: not JSON ({error.msg}{where}){way_out}") from None
    except (ValueError, RecursionError) as error:
        raise GtransError(f"{place}: not JSON ({error}){way_out}") from None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number")


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
