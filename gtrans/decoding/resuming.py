"""What is kept of a translation: its finished part on disk, its record, and its progress."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gtrans.errors import GtransError
from gtrans.files import atomic_writer, digest, read_json, unwritable
from gtrans.messages import say


def partial_path(output: str, run: str) -> Path:
    """``OUTPUT.RUN.partial``; if ``output`` is a symbolic link, beside the file behind it.

    ``run``: the fingerprint of the run, so that other options have another file.
    """
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name}.{run[:12]}.partial")


class FinishedWork:
    """What a run has finished, one JSON line each. The caller has locked the output.

    Attributes:
        path: the file; None: nothing is kept.

    Args:
        path: as above.
        anew: forget what this run has finished earlier.
    """

    def __init__(self, path: Path | None = None, anew: bool = False) -> None:
        self.path = path
        self._anew = anew
        self._known: dict[tuple[int, ...], Any] = {}

    def __enter__(self) -> FinishedWork:
        if self.path is None:
            return self
        try:
            if self._anew:
                self.path.unlink(missing_ok=True)
            self._file = open(self.path, "a+b")
            self._file.seek(0)
            end = 0
            with suppress(ValueError, TypeError):  # an interrupted write
                for line in self._file:
                    if not line.endswith(b"\n"):
                        break
                    place, value = json.loads(line)
                    self._known[tuple(place)] = value
                    end += len(line)
            self._file.truncate(end)
        except OSError as error:
            raise unwritable(self.path, error) from None
        if self._known:
            batches = sum(len(place) == 1 for place in self._known)
            parts = len(self._known) - batches
            others = f", and {parts} instances of others" if parts else ""
            say(f"going on from '{self.path}': {batches} batches are finished{others}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
            with suppress(OSError):  # what could not be written has been reported
                self._file.close()

    def get(self, number: int) -> Any:
        """What is kept of a batch; None: nothing."""
        return self._known.get((number,))

    def of_parts(self, number: int) -> dict[tuple[int, ...], Any]:
        """What is kept of the parts in documents of a batch."""
        return {at: it for at, it in self._known.items() if len(at) > 1 and at[0] == number}

    def add(self, value: Any, *place: int) -> None:
        """Keep a value that JSON can represent.

        Raises:
            GtransError: the disk is full, or the like; earlier ones are kept.
        """
        if self.path is None:
            return
        try:
            self._file.write(json.dumps([place, value]).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) from None


SUFFIX = ".made.json"
_FORMAT = "translation 1"


@dataclass(frozen=True)
class TranslationRecord:
    """What a translation was made from.

    Attributes:
        run: fingerprint of ``made_from``; the same command on the same files has the same.
        made_from: digests of ``checkpoints``, ``input`` (the encoded lines) and ``preparation``
            (empty if there is none), all options that matter, and the version.
        names: the paths of these files, as they were given.
        sentences: number of translated sentences.
        output: digest of the translation as it was written.
        before: digest of what it has replaced, which is there if the writing was interrupted.
    """

    run: str
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]
    sentences: int
    output: str
    before: str = ""

    def describes(self, output: str | os.PathLike[str]) -> bool:
        """Whether ``output`` is the translation as it was written."""
        return Path(output).is_file() and digest(Path(output)) == self.output


def record_path(output: str | os.PathLike[str]) -> Path:
    """The file of the record; if ``output`` is a symbolic link, beside the file behind it."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}{SUFFIX}")


def read_record(output: str | os.PathLike[str]) -> TranslationRecord | None:
    """The record of a translation; None if it has none.

    Raises:
        GtransError: the file in its place is no such record.
    """
    path = record_path(output)
    try:
        fields = read_json(path)
        if fields.pop("format") != _FORMAT:
            raise ValueError
        record = TranslationRecord(**fields)
        dict(record.made_from), dict(record.names), int(record.sentences)
        return record
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise GtransError(
            f"'{path}' is in the way of the record of '{os.fspath(output)}', but is none; move it "
            "away, or name another output."
        ) from None


def write_record(output: str | os.PathLike[str], record: TranslationRecord) -> None:
    """Write the record beside ``output``.

    Raises:
        GtransError: it cannot be written.
    """
    written = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2, ensure_ascii=False)
    with atomic_writer(record_path(output)) as file:
        # A name of a file need not be UTF-8, but JSON is.
        file.write(written.encode("utf-8", "replace").decode() + "\n")


EVERY = 30.0
"""Seconds between two lines of a log."""


class Progress:
    """Tells how many sentences are translated, and the time that is left.

    Args:
        sentences: how many there are.
        clock: seconds, from any begin.
    """

    def __init__(self, sentences: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._all = sentences
        self._clock = clock
        self._sentences = self._known = 0
        self._bar = tqdm(total=sentences, desc="translating", unit=" sentences", disable=None)

    def __enter__(self) -> Progress:
        self._started = self._told = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def add(self, sentences: int, known: bool = False) -> None:
        """Some more are translated; ``known``: by an earlier run."""
        self._sentences += sentences
        self._known += sentences if known else 0
        self._bar.update(sentences)
        now = self._clock()
        if self._bar.disable and now - self._told >= EVERY:
            self._told = now
            rate = (self._sentences - self._known) / max(now - self._started, 1e-9)
            left = _time((self._all - self._sentences) / rate) if rate else "some time"
            say(
                f"translating: {self._sentences} of {self._all} sentences, {rate:.1f} a second, "
                f"{left} left"
            )


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
