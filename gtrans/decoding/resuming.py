"""The finished part of a long translation, kept on disk until the output is written."""

from __future__ import annotations

import glob
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gtrans.decoding.document_search import SentenceHypothesis
from gtrans.errors import GtransError
from gtrans.files import atomic_writer, digest, parse_json, read_json, unwritable
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


def outputs_of_partial(path: Path) -> set[str]:
    """The digests of the outputs that were about to be written when a run was killed."""
    found: set[str] = set()
    with suppress(OSError, ValueError, TypeError), open(path, "rb") as file:
        for line in file:
            if b'"output": ' in line:
                found.add(parse_json(line, str(path))["output"])
    return found


class FinishedBatches:
    """The finished batches of a run, one JSON line each, in ``OUTPUT.partial``.

    The first line holds the fingerprint of the run, and so does every record: those of another
    run are never used. A partial translation of another run is kept as ``OUTPUT.partial.1``,
    ``.2``, .., and taken up again by its own run. The caller has locked the output.

    Attributes:
        path: ``OUTPUT.partial``; None: nothing is kept.

    Args:
        path: as above.
        fingerprint: that of the run.
        anew: forget what this run has finished earlier.
    """

    def __init__(self, path: Path | None, fingerprint: str, anew: bool = False) -> None:
        self.path = path
        self._fingerprint = fingerprint
        self._anew = anew
        self._batches: dict[int, list[list[str]]] = {}
        self._parts: dict[tuple[int, int, int], list[list[SentenceHypothesis]]] = {}

    def __enter__(self) -> FinishedBatches:
        if self.path is None:
            return self
        try:
            self._take_up(self.path)
            end = self._read(self.path)
            self._file = open(self.path, "ab")
            self._file.truncate(end)
        except OSError as error:
            raise unwritable(self.path, error) from None
        if self._batches or self._parts:
            say(
                f"going on from '{self.path}': {len(self._batches)} batches are finished"
                + (f", and {len(self._parts)} instances of others" if self._parts else "")
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.path is not None:
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
        self._write({"batch": number, "text": translations})

    def add_output(self, digest: str) -> None:
        """Keep the digest of what is going to be written, as :meth:`add` does."""
        self._write({"output": digest})

    def parts(self, number: int, progress: Callable[[int], object]) -> BatchParts:
        """Keeps the parts of the documents of a batch until it is finished.

        ``progress`` is told of the number of sentences of every part.
        """
        return BatchParts(self, number, progress)

    def part(self, place: tuple[int, int, int]) -> list[list[SentenceHypothesis]] | None:
        """The hypotheses of a part; ``place``: batch, document and part."""
        return self._parts.get(place)

    def add_part(
        self, number: int, document: int, part: int, hypotheses: list[list[SentenceHypothesis]]
    ) -> None:
        """Keep a part, as :meth:`add` does."""
        found = [[[one.tokens, one.scores] for one in sentences] for sentences in hypotheses]
        self._write({"batch": number, "document": document, "part": part, "hypotheses": found})

    def _write(self, entries: dict[str, Any]) -> None:
        if self.path is None:
            return
        record = {"run": self._fingerprint, **entries}
        try:
            self._file.write(json.dumps(record).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self.path, error) from None

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
                    if record.get("run") == self._fingerprint and "output" not in record:
                        number = int(record["batch"])
                        if "text" in record:
                            self._batches[number] = _texts(record["text"])
                        else:
                            place = number, int(record["document"]), int(record["part"])
                            self._parts[place] = _hypotheses(record["hypotheses"])
                except (ValueError, TypeError, KeyError, AttributeError):  # an interrupted write
                    break
                end += len(line)
        for place in [place for place in self._parts if place[0] in self._batches]:
            del self._parts[place]
        return end


def _texts(value: Any) -> list[list[str]]:
    """The translations of a record; raises TypeError for anything else."""
    rows: list[Any] = value if isinstance(value, list) else [None]
    if not all(isinstance(row, list) and all(isinstance(x, str) for x in row) for row in rows):
        raise TypeError("not lists of sentences")
    return rows


def _hypotheses(value: Any) -> list[list[SentenceHypothesis]]:
    """The hypotheses of a record; raises TypeError or ValueError for anything else."""
    found = [[SentenceHypothesis(*one) for one in sentences] for sentences in value]
    for one in chain.from_iterable(found):
        kinds = {type(token) for token in one.tokens}, {type(score) for score in one.scores}
        if not (kinds[0] <= {int} and kinds[1] <= {float} and len(one.tokens) == len(one.scores)):
            raise TypeError("not tokens and their scores")
    return found


class BatchParts:
    """The finished parts of the documents of one batch.

    Attributes:
        sentences: how many have been told to the progress.
    """

    def __init__(
        self, finished: FinishedBatches, batch: int, progress: Callable[[int], object]
    ) -> None:
        self._finished = finished
        self._batch = batch
        self._progress = progress
        self.sentences = 0

    def get(self, document: int, part: int) -> list[list[SentenceHypothesis]] | None:
        """See :class:`gtrans.decoding.document_search.FinishedParts`."""
        return self._finished.part((self._batch, document, part))

    def add(self, document: int, part: int, hypotheses: list[list[SentenceHypothesis]]) -> None:
        """See :class:`gtrans.decoding.document_search.FinishedParts`."""
        self._finished.add_part(self._batch, document, part, hypotheses)
        self._progress(len(hypotheses[0]))
        self.sentences += len(hypotheses[0])


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
    """

    run: str
    made_from: Mapping[str, Any]
    names: Mapping[str, Any]
    sentences: int
    output: str

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
