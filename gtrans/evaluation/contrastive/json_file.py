"""Entries of JSON files of contrastive sets, with line numbers for error messages."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.identity.json_files import BadJson, decode, skip_space


@dataclass(frozen=True)
class Entry:
    """One entry of a JSON array or object.

    Attributes:
        place: file, line and name, with which error messages begin: ``set.json:12: instance 3``.
        name: its key, or its number in an array, counted from 1.
        value: the decoded JSON.
    """

    place: str
    name: str
    value: Any

    def error(self, message: str) -> GtransError:
        """The exception to raise if the entry does not have the form of its format."""
        return GtransError(f"{self.place}: {message}")

    def text(self, key: str) -> str:
        """The value of ``key``, a non-empty string.

        Raises:
            GtransError: it is something else, or the entry is not an object.
        """
        value = self.value.get(key) if isinstance(self.value, dict) else None
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"{key!r} must be a text that is not empty, but is {_shown(value)}.")
        return value.strip()

    def number(self, key: str) -> int:
        """The value of ``key``, an integer.

        Raises:
            GtransError: it is something else, or the entry is not an object.
        """
        value = self.value.get(key) if isinstance(self.value, dict) else None
        if type(value) is not int:
            raise self.error(f"{key!r} must be a whole number, but is {_shown(value)}.")
        return value


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) < 60 else f"{text[:57]}..."


def read_entries(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """The entries of the array or object that a file holds, gzipped or not.

    Raises:
        GtransError: the file cannot be read, or is not JSON; the message names the line.
    """
    text = "\n".join(iterate_raw_lines(path))
    line, counted = 1, 0

    def broken(position: int, what: str) -> GtransError:
        return GtransError(f"{path}:{text.count(chr(10), 0, position) + 1}: not JSON ({what}).")

    def decoded(position: int) -> tuple[Any, int]:
        try:
            return decode(text, position)
        except BadJson as error:
            raise broken(error.position or position, str(error)) from None

    position = skip_space(text, 0)
    opening = text[position : position + 1]
    if opening not in ("[", "{"):
        raise GtransError(f"{path}: must hold a JSON array or object.")
    closing = "]" if opening == "[" else "}"
    position = skip_space(text, position + 1)
    number, after_comma = 0, False
    names: set[str] = set()
    while after_comma or text[position : position + 1] != closing:
        number += 1
        line, counted = line + text.count("\n", counted, position), position
        name = str(number)
        if opening == "{":
            begin = position
            name, position = decoded(position)
            position = skip_space(text, position)
            if not isinstance(name, str) or text[position : position + 1] != ":":
                raise broken(position, "Expecting ':' after a key")
            if name in names:
                raise broken(begin, f"the key '{name}' occurs twice")
            names.add(name)
            position = skip_space(text, position + 1)
        value, position = decoded(position)
        yield Entry(f"{path}:{line}: instance {name}", name, value)
        position = skip_space(text, position)
        after_comma = text[position : position + 1] == ","
        if after_comma:
            position = skip_space(text, position + 1)
        elif text[position : position + 1] != closing:
            raise broken(position, f"Expecting ',' or '{closing}'")
    position = skip_space(text, position + 1)
    if position < len(text):
        raise broken(position, f"something follows the closing '{closing}'")
