"""The output of a translation, which appears when it is complete.

``OUTPUT.*.partial`` keeps finished batches, from which the same command goes on;
``OUTPUT.made.json`` holds the provenance of a finished translation. The standard output, a device
or a FIFO has neither.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from gtrans.data.documents import STANDARD_STREAM
from gtrans.errors import GtransError
from gtrans.files import (
    StrPath,
    atomic_writer,
    binary_writer,
    digest,
    digest_of_bytes,
    digest_of_values,
    is_file,
    locked,
    read_object,
    unwritable,
)
from gtrans.messages import print_message
from gtrans.text.document_file import DocumentIds

RECORD_SUFFIX = ".made.json"
_RECORD_FORMAT = "translation 2"
_GZIP_SUFFIX = ".gz"


# ---- translations -------------------------------------------------------------------------------


class Alternative(NamedTuple):
    """A translation of a sentence.

    ``score``: the log-probability, divided by ``tokens ** lenpen``.
    """

    text: str
    score: float


Translations = list[list[Alternative]]
"""The translations of each sentence of a document or of a row, the best first."""


def best_of(documents: Sequence[Translations]) -> list[list[str]]:
    """Return the best text of each sentence."""
    return [[alternatives[0].text for alternatives in document] for document in documents]


def as_lines(lines: Iterable[str]) -> bytes:
    """Return lines as the contents of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


def json_lines(
    ids_of_documents: Sequence[DocumentIds],
    sources: Sequence[Sequence[str]],
    translations: Sequence[Translations],
) -> list[str]:
    """Return a JSON object for each sentence, with the keys that ``gtrans score`` knows."""
    lines = []
    documents = zip(ids_of_documents, sources, translations, strict=True)
    for ids, texts, sentences in documents:
        for sentence_id, source, alternatives in zip(ids.sentences, texts, sentences, strict=True):
            nbest = []
            for alternative in alternatives:
                score = round(alternative.score, 6)
                nbest.append({"hypothesis": alternative.text, "score": score})
            row = {"doc_id": ids.document, "seg_id": sentence_id, "source": source, **nbest[0]}
            if len(nbest) > 1:
                row["nbest"] = nbest
            lines.append(json.dumps(row, ensure_ascii=False))
    return lines


# ---- the record ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TranslationRecord:
    """The provenance of a translation.

    Attributes:
        provenance: digests of ``checkpoints``, ``input`` and ``preparation``, options, version.
        names: the paths of these files, as given.
        replaced_digest: of the file before, which stays if the writing is interrupted.
    """

    provenance_digest: str
    provenance: Mapping[str, Any]
    names: Mapping[str, Any]
    sentences: int
    output_digest: str
    replaced_digest: str = ""


def path_beside(output: StrPath, suffix: str) -> Path:
    """Return the path of ``OUTPUT`` and a suffix; symbolic links are followed."""
    path = Path(os.path.realpath(output))
    return path.with_name(f"{path.name}{suffix}")


def read_record(output: StrPath) -> TranslationRecord | None:
    """Return the record of a translation, or None; raise GtransError for another file."""
    path = path_beside(output, RECORD_SUFFIX)
    try:
        fields = read_object(path)
        if fields.pop("format") != _RECORD_FORMAT:
            raise ValueError
        return _checked_record(TranslationRecord(**fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise GtransError(
            f"'{path}' is in the way of the record of '{os.fspath(output)}', but is none; move it "
            "away, or name another output."
        ) from None


def _checked_record(record: TranslationRecord) -> TranslationRecord:
    if not isinstance(record.provenance, dict) or not isinstance(record.names, dict):
        raise TypeError
    if not isinstance(record.sentences, int):
        raise TypeError
    return record


def write_record(output: StrPath, record: TranslationRecord) -> None:
    """Write the record beside ``output``."""
    fields = {"format": _RECORD_FORMAT, **asdict(record)}
    written = json.dumps(fields, indent=2, ensure_ascii=False)
    with atomic_writer(path_beside(output, RECORD_SUFFIX)) as file:
        # A name of a file need not be UTF-8, but JSON is.
        file.write(written.encode("utf-8", "replace").decode() + "\n")


def check_overwritable(output: StrPath, force: bool) -> None:
    """Raise GtransError for a file that gtrans did not write, or that was changed since."""
    path = Path(output)
    record = read_record(path)
    is_empty = not path.is_file() or path.stat().st_size == 0
    if force or is_empty:
        return
    if record is None or digest(path) not in (record.output_digest, record.replaced_digest):
        changed = "was changed since it was written" if record else "was not written by gtrans"
        raise GtransError(
            f"'{path}' {changed} and is kept; name another output, or replace it with `--force`."
        )


# ---- the output ----------------------------------------------------------------------------------


class PartKey(NamedTuple):
    """Numbers of a batch, of a document in it, and of a part of the document."""

    batch: int
    document: int
    part: int


class Output:
    """A file that is written when everything is translated; until then, the finished work.

    Attributes:
        has_file: whether ``path`` is a file, beside which others can stand.
        batches: translations of finished batches.
        parts: hypotheses of finished parts in unfinished batches.
    """

    def __init__(self, path: str, provenance: Mapping[str, Any], force: bool) -> None:
        """``force``: forget what earlier runs have finished."""
        self.path = path
        self.provenance = dict(provenance)
        self.provenance_digest = digest_of_values(self.provenance)
        self.has_file = path != STANDARD_STREAM and is_file(path)
        self.batches: dict[int, Any] = {}
        self.parts: dict[PartKey, Any] = {}
        self._force = force
        self._file: BinaryIO | None = None

    @property
    def partial(self) -> Path:
        """The file of finished batches; it depends on the options."""
        return path_beside(self.path, f".{self.provenance_digest[:12]}.partial")

    def is_finished(self) -> bool:
        """Return whether the file is this translation already, and is not to be replaced."""
        if not self.has_file:
            return False
        with locked(self.path):
            record = read_record(self.path)
            if self._force or record is None or record.provenance_digest != self.provenance_digest:
                return False
            path = Path(self.path)
            if not path.is_file() or digest(path) != record.output_digest:
                return False
            self.partial.unlink(missing_ok=True)  # killed at its very end
            return True

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lock the file, and read what earlier runs finished."""
        if not self.has_file:
            yield
            return
        with locked(self.path):
            self._file = self._open_partial()
            if self.batches or self.parts:
                parts = f", and {len(self.parts)} chunks of others" if self.parts else ""
                finished = f"{len(self.batches)} batches are finished{parts}"
                print_message(f"going on from '{self.partial}': {finished}")
            try:
                yield
            finally:
                with suppress(OSError):  # an error of writing has been reported
                    self._file.close()

    def _open_partial(self) -> BinaryIO:
        try:
            if self._force:
                self.partial.unlink(missing_ok=True)
            file = open(self.partial, "a+b")  # noqa: SIM115
            file.seek(0)
            whole = 0
            with suppress(ValueError, TypeError, KeyError):  # an interrupted write
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._remember(json.loads(line))
                    whole += len(line)
            file.truncate(whole)
            return file
        except OSError as error:
            raise unwritable(self.partial, error) from None

    def _remember(self, finished: Mapping[str, Any]) -> None:
        if "part" in finished:
            key = PartKey(finished["batch"], finished["document"], finished["part"])
            self.parts[key] = finished["hypotheses"]
        else:
            self.batches[finished["batch"]] = finished["translations"]

    def keep_batch(self, number: int, translations: Any) -> None:
        """Keep a batch's translations, in JSON types."""
        self._keep({"batch": number, "translations": translations})

    def keep_part(self, key: PartKey, hypotheses: Any) -> None:
        """Keep a part's hypotheses, in JSON types."""
        self._keep({**key._asdict(), "hypotheses": hypotheses})

    def _keep(self, finished: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(finished).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise unwritable(self.partial, error) from None

    def write(self, contents: bytes, names: Mapping[str, Any], sentences: int) -> None:
        """Write the translation, compressed if its name ends in ``.gz``, and the record.

        ``names``: the paths for the record.
        """
        path = Path(self.path)
        if path.suffix.lower() == _GZIP_SUFFIX:
            # Without the time, so that the same translation is the same file.
            contents = gzip.compress(contents, mtime=0)
        if self.path == STANDARD_STREAM:
            write_out(contents)
            return
        if self.has_file:
            record = TranslationRecord(
                provenance_digest=self.provenance_digest,
                provenance=self.provenance,
                names=names,
                sentences=sentences,
                output_digest=digest_of_bytes(contents),
                replaced_digest=digest(path) if path.is_file() else "",
            )
            write_record(path, record)
        with binary_writer(path) as file:
            file.write(contents)
        if self.has_file:
            self.partial.unlink(missing_ok=True)


def write_out(contents: bytes) -> None:
    """Write to the standard output at once."""
    if sys.stdout is None:
        raise GtransError("the standard output is closed; name a file")
    try:
        sys.stdout.buffer.write(contents)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable("the standard output", error) from None
