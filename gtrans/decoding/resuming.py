"""What is kept of a translation: its finished part on disk, its record, and its progress.

Every finished batch, and every finished instance of a document that is translated instance by
instance, is a line in a file next to the output. A record beside the finished translation says what
it was made from.
"""

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
from gtrans.files import StrPath, atomic_writer, digest, read_object, unwritable
from gtrans.messages import say

Place = tuple[int, ...]
"""The number of a batch, or of a batch, of a document in it and of a part of that."""


class Kept:
    """What a run has finished, one JSON line each. The caller has locked the output.

    Attributes:
        path: the file; None: nothing is kept.
        known: what earlier runs have finished, by place.
    """

    def __init__(self, path: Path | None = None, anew: bool = False) -> None:
        """Read the file; ``anew``: forget what it has.

        Raises:
            GtransError: it cannot be read or written.
        """
        self.path = path
        self.known: dict[Place, Any] = {}
        if path is None:
            return
        try:
            if anew:
                path.unlink(missing_ok=True)
            self._file = open(path, "a+b")  # noqa: SIM115
            self._file.seek(0)
            end = 0
            with suppress(ValueError, TypeError):  # an interrupted write
                for line in self._file:
                    if not line.endswith(b"\n"):
                        break
                    place, value = json.loads(line)
                    self.known[tuple(place)] = value
                    end += len(line)
            self._file.truncate(end)
        except OSError as error:
            raise unwritable(path, error) from None

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

    def close(self) -> None:
        """Close the file."""
        if self.path is not None:
            with suppress(OSError):  # what could not be written has been reported
                self._file.close()


class Progress:
    """Tells how many sentences are translated, and the time that is left. A context.

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
            left = (self._all - self._sentences) / rate if rate else 0
            say(
                f"translating: {self._sentences} of {self._all} sentences, {rate:.1f} a second, "
                f"{tqdm.format_interval(left) if rate else 'some time'} left"
            )


EVERY = 30.0
"""Seconds between two lines of a log."""


# ---- what a translation was made from ------------------------------------------------------------

SUFFIX = ".made.json"
_FORMAT = "translation 1"


@dataclass(frozen=True)
class TranslationRecord:
    """What a translation was made from.

    Attributes:
        run: fingerprint of ``made_from``; the same command on the same files has the same.
        made_from: digests of ``checkpoints``, ``input`` (what was read of it) and ``preparation``
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

    def describes(self, output: StrPath) -> bool:
        """Whether ``output`` is the translation as it was written."""
        return Path(output).is_file() and digest(Path(output)) == self.output


def beside(output: StrPath, suffix: str) -> Path:
    """``OUTPUT`` and a suffix; if it is a symbolic link, beside the file behind it."""
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name}{suffix}")


def read_record(output: StrPath) -> TranslationRecord | None:
    """The record of a translation; None if it has none.

    Raises:
        GtransError: the file in its place is no such record.
    """
    path = beside(output, SUFFIX)
    try:
        fields = read_object(path)
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


def write_record(output: StrPath, record: TranslationRecord) -> None:
    """Write the record beside ``output``.

    Raises:
        GtransError: it cannot be written.
    """
    written = json.dumps({"format": _FORMAT, **asdict(record)}, indent=2, ensure_ascii=False)
    with atomic_writer(beside(output, SUFFIX)) as file:
        # A name of a file need not be UTF-8, but JSON is.
        file.write(written.encode("utf-8", "replace").decode() + "\n")
