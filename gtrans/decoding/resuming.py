"""The finished part of a long translation, kept on disk until the output is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gtrans.data.documents import STANDARD_STREAM
from gtrans.messages import say


def forget(output: str) -> None:
    """Remove the file that is kept for ``output``."""
    _partial_path(output).unlink(missing_ok=True)


def _partial_path(output: str) -> Path:
    path = Path(output)
    return path.with_name(f"{path.name}.partial")


class FinishedBatches:
    """The finished batches of a run, one JSON line each, in a file next to its output.

    The first line holds the fingerprint of the run. A file with another fingerprint is
    replaced. Nothing is kept for the standard output.
    """

    def __init__(self, output: str, fingerprint: str) -> None:
        self._path = None if output == STANDARD_STREAM else _partial_path(output)
        self._fingerprint = fingerprint
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
            self._append({"fingerprint": self._fingerprint})
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            self._file.close()

    def get(self, number: int) -> list[list[str]] | None:
        """The translations of a batch; None if it is not finished."""
        return self._batches.get(number)

    def add(self, number: int, translations: list[list[str]]) -> None:
        """Keep the translations of a batch."""
        if self._path is not None:
            self._append({"batch": number, "text": translations})

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")
        self._file.flush()

    def _read(self, path: Path) -> int:
        """Load the finished batches; returns the offset after the last complete record."""
        end = 0
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = json.loads(line)
                except ValueError:  # an interrupted write
                    break
                if end == 0 and record != {"fingerprint": self._fingerprint}:
                    say(f"'{path}' comes from other input or options: translating anew")
                    break
                if end:
                    self._batches[record["batch"]] = record["text"]
                end += len(line)
        return end
