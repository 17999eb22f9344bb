"""The finished part of a long translation, kept on disk until the output is written."""

from __future__ import annotations

import glob
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer, unwritable
from gtrans.identity.json_files import parse_json
from gtrans.messages import say


def partial_path(output: str) -> Path:
    """``OUTPUT.partial``; if ``output`` is a symbolic link, beside the file behind it."""
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name}.partial")


def run_of_partial(path: Path) -> str | None:
    """The fingerprint of the run that wrote a partial translation; None if there is no file.

    Raises:
        GtransError: the file is something else, which is neither changed nor deleted.
    """
    try:
        with open(path, "rb") as file:
            header = parse_json(file.readline(), str(path))
        return str(header["fingerprint"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise GtransError(
            f"'{path}' is in the way of the partial translation, but is none; move it away, or "
            "name another output."
        ) from None


class FinishedBatches:
    """The finished batches of a run, one JSON line each, in ``OUTPUT.partial``.

    The first line holds the fingerprint of the run, and so does every record: those of another
    run are never used. A partial translation of another run is kept as ``OUTPUT.partial.1``,
    ``.2``, .., and taken up again by its own run. The caller has locked the output.

    Args:
        path: ``OUTPUT.partial``; None: nothing is kept.
        fingerprint: that of the run.
        anew: forget what this run has finished earlier.
    """

    def __init__(self, path: Path | None, fingerprint: str, anew: bool = False) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._anew = anew
        self._batches: dict[int, list[list[str]]] = {}

    def __enter__(self) -> FinishedBatches:
        if self._path is None:
            return self
        try:
            self._take_up(self._path)
            end = self._read(self._path)
            self._file = open(self._path, "ab")
            self._file.truncate(end)
        except OSError as error:
            raise unwritable(self._path, error) from None
        if self._batches:
            say(f"going on from '{self._path}': {len(self._batches)} batches are finished")
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            with suppress(OSError):  # what could not be written has been reported
                self._file.close()

    def get(self, number: int) -> list[list[str]] | None:
        """The translations of a batch; None if it is not finished."""
        return self._batches.get(number)

    def add(self, number: int, translations: list[list[str]]) -> None:
        """Keep the translations of a batch.

        Raises:
            GtransError: the disk is full, or the like; earlier batches are kept.
        """
        if self._path is None:
            return
        record = {"run": self._fingerprint, "batch": number, "text": translations}
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self._path, error) from None

    def _take_up(self, path: Path) -> None:
        """Make ``path`` the partial translation of this run."""
        current = run_of_partial(path)
        kept = _kept(path)
        own = next((kept[n] for n in sorted(kept) if _is_of_run(kept[n], self._fingerprint)), None)
        if current not in (None, self._fingerprint):
            free = path.with_name(f"{path.name}.{max(kept, default=0) + 1}")
            os.rename(path, free)
            say(
                f"'{path}' comes from other input or options and is kept as '{free}': "
                + ("translating anew" if own is None or self._anew else f"'{own}' is continued")
            )
        if current != self._fingerprint and own is not None:
            os.rename(own, path)
        if self._anew or (current != self._fingerprint and own is None):
            with atomic_writer(path) as file:
                file.write(json.dumps({"fingerprint": self._fingerprint}) + "\n")

    def _read(self, path: Path) -> int:
        """Load the finished batches; returns the offset after the last complete record."""
        end = 0
        with open(path, "rb") as file:
            for line in file:
                try:
                    record = parse_json(line, str(path))
                    if record.get("run") == self._fingerprint:
                        self._batches[int(record["batch"])] = _texts(record["text"])
                except (ValueError, TypeError, KeyError, AttributeError):  # an interrupted write
                    break
                end += len(line)
        return end


def _texts(value: Any) -> list[list[str]]:
    """The translations of a record; raises TypeError for anything else."""
    rows = value if isinstance(value, list) else [None]
    if not all(isinstance(row, list) and all(isinstance(x, str) for x in row) for row in rows):
        raise TypeError("not lists of sentences")
    return rows


def _kept(path: Path) -> dict[int, Path]:
    """The files ``PATH.1``, ``PATH.2``, .. by number."""
    numbered = path.parent.glob(f"{glob.escape(path.name)}.*")
    return {
        int(file.suffix[1:]): file for file in numbered if re.fullmatch(r"\.[1-9]\d*", file.suffix)
    }


def _is_of_run(path: Path, fingerprint: str) -> bool:
    try:
        return run_of_partial(path) == fingerprint
    except GtransError:  # a stranger's file: left alone
        return False
