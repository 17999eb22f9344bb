"""The finished part of a long translation, kept until the whole is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtrans.data.documents import STANDARD_STREAM
from gtrans.messages import say


def forget(output: str) -> None:
    """Remove what is kept for ``output``."""
    _partial_path(output).unlink(missing_ok=True)


def _partial_path(output: str) -> Path:
    path = Path(output)
    return path.with_name(f"{path.name}.partial")


class FinishedBatches:
    """The finished batches of a run, one JSON line each, kept beside its output.

    The first line holds the fingerprint of the run. The file of a run with another
    one is replaced. For the standard output nothing is kept.
    """

    def __init__(self, output: str, mark: str) -> None:
        self._path = None if output == STANDARD_STREAM else _partial_path(output)
        self._mark = mark
        self._batches: dict[int, list[list[str]]] = {}

    def __enter__(self) -> FinishedBatches:
        if self._path is None:
            return self
        end = self._read(self._path) if self._path.exists() else 0
        self._file = open(self._path, "ab")
        self._file.truncate(end)
        if end:
            say(f"going on from '{self._path}': {len(self._batches)} batches are finished")
        else:
            self._append({"fingerprint": self._mark})
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._file.close()

    def get(self, number: int) -> list[list[str]] | None:
        """The translations of a batch, if it was finished before."""
        return self._batches.get(number)

    def add(self, number: int, translations: list[list[str]]) -> None:
        """Keep the translations of a batch."""
        if self._path is not None:
            self._append({"batch": number, "text": translations})

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def _read(self, path: Path) -> int:
        """Take over what is there; returns the end of the last complete record."""
        end = 0
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:  # an interrupted write
                    break
                if end == 0 and record != {"fingerprint": self._mark}:
                    say(f"'{path}' comes from other input or options: translating anew")
                    break
                if end:
                    self._batches[record["batch"]] = record["text"]
                end += len(line)
        return end
