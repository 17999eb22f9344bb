"""The finished part of a long translation, kept on disk until the output is written."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from gtrans.decoding.document_search import SentenceHypothesis
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
    """The finished parts of the documents of one batch."""

    def __init__(
        self, finished: FinishedBatches, batch: int, progress: Callable[[int], object]
    ) -> None:
        self._finished = finished
        self._batch = batch
        self._progress = progress

    def get(self, document: int, part: int) -> list[list[SentenceHypothesis]] | None:
        """See :class:`gtrans.decoding.part_search.FinishedParts`."""
        return self._finished.part((self._batch, document, part))

    def add(self, document: int, part: int, hypotheses: list[list[SentenceHypothesis]]) -> None:
        """See :class:`gtrans.decoding.part_search.FinishedParts`."""
        self._finished.add_part(self._batch, document, part, hypotheses)
        self._progress(len(hypotheses[0]))


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
