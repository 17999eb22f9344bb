"""Plain-text documents: one sentence per line, a boundary line between documents.

A boundary is an empty line, or a line ``<d>`` as in the published TED, News and
Europarl document corpora. Consecutive boundaries count as one; those at the beginning
and at the end of a file do not count. Files are UTF-8, gzipped or not (their first bytes
decide, not their name); a byte order mark at the start is dropped.
Only ``\\n`` (or ``\\r\\n``) ends a line: U+2028, U+0085 and the like stay inside
their sentence.

Both sides of a corpus must have the same structure. Every error names the file and
the line (counted from 1). This module needs neither torch nor fairseq.
"""

from __future__ import annotations

import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import IO

from gtrans.errors import GtransError

Document = list[str]
DocumentPair = tuple[Document, Document]

DOCUMENT_LINE = "<d>"
STANDARD_STREAM = "-"
LONGEST_SENTENCE = 1_000_000
"""Characters; a longer line is a whole text, which no model can read and BPE not segment."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def resolve(prefix: str, lang: str) -> Path:
    """The file of one side of a corpus: ``PREFIX.LANG`` or ``PREFIX.LANG.gz``.

    Raises:
        GtransError: there is neither.
    """
    plain = Path(f"{prefix}.{lang}")
    for path in (plain, Path(f"{plain}.gz")):
        if path.is_file():
            return path
    if Path(prefix).is_file():
        common = Path(prefix.removesuffix(".gz")).with_suffix("")
        raise GtransError(
            f"'{prefix}' is a file; give its name without the language ('{common}'), which stands "
            "for the files of both"
        )
    raise GtransError(f"there is no file '{plain}' and no file '{plain}.gz'; check the prefix")


@contextmanager
def _open_bytes(path: Path, once: bool) -> Iterator[IO[bytes]]:
    """The unpacked bytes of ``path``; failures of the file system become GtransError."""
    if str(path) == STANDARD_STREAM and once:
        if sys.stdin is None:
            raise GtransError("the standard input is closed; name a file")
        yield sys.stdin.buffer
        return
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise GtransError(f"'{path}' is a folder; name a file")
        if not (stat.S_ISREG(mode) or once):
            raise GtransError(
                f"'{path}' is no file but a pipe or a device, which cannot be read twice; write "
                "the text to a file"
            )
        with open(path, "rb") as raw:
            packed = raw.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] == _GZIP_MAGIC
            if packed:
                with gzip.open(raw, "rb") as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield raw
    except FileNotFoundError:
        raise GtransError(f"there is no file '{path}'; check the path") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise GtransError(f"'{path}' is damaged as a gzip file ({error}); fetch it anew") from None
    except OSError as error:
        raise GtransError(f"cannot read '{path}': {error.strerror or error}") from None


def iterate_raw_lines(
    path: str | os.PathLike[str], once: bool = False, strip: bool = True
) -> Iterator[str]:
    """All lines of a file with empty lines and boundaries, stripped of white space.

    Gzipped files are unpacked; only a line feed ends a line. ``once``: the file is read only once,
    so it may be a pipe, or ``-``, the standard input. Without ``strip`` only the line's end is
    taken away.

    Raises:
        GtransError: no such file, not readable, not UTF-8 (with the line's number).
    """
    name = "standard input" if str(path) == STANDARD_STREAM else str(path)
    with _open_bytes(Path(path), once) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                line = line.removeprefix(_BYTE_ORDER_MARK)
            try:
                text = line.decode("utf-8")
                yield text.strip() if strip else text.rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise GtransError(
                    f"{name}:{number}: not UTF-8 (byte {error.start + 1} of the line is "
                    f"0x{line[error.start]:02x}); convert the file to UTF-8"
                ) from None


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The contents of a file, unpacked if it is gzipped.

    Raises:
        GtransError: no such file, or not readable.
    """
    with _open_bytes(Path(path), once=False) as file:
        return file.read()


def line_end(path: str | os.PathLike[str]) -> str:
    """What ends the first line of a file, and so its lines: ``\\r\\n`` or ``\\n``.

    Raises:
        GtransError: no such file, or not readable.
    """
    with _open_bytes(Path(path), once=False) as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a file, gzipped or not, without a byte order mark.

    Raises:
        GtransError: no such file, not readable, not UTF-8 (with the line's number).
    """
    contents = read_bytes(path).removeprefix(_BYTE_ORDER_MARK)
    try:
        return contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GtransError(
            f"{path}:{contents.count(10, 0, error.start) + 1}: not UTF-8 (0x"
            f"{contents[error.start]:02x}); convert the file to UTF-8"
        ) from None


def check_length(path: str | os.PathLike[str], number: int, sentence: str) -> None:
    """Raises GtransError, naming the line, if a sentence is a whole text without line breaks."""
    if len(sentence) > LONGEST_SENTENCE:
        raise GtransError(
            f"{path}:{number}: a line of {len(sentence):,} characters; give one sentence per line, "
            f"of at most {LONGEST_SENTENCE:,}"
        )


def iterate_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str | None]]:
    """The sentences of a file and the boundaries between its documents.

    Yields:
        ``(line number, sentence)`` for a sentence, stripped of white space at both ends, and
        ``(line number, None)`` for a boundary between two documents; never for one at the
        beginning or end of the file or after another boundary.

    Raises:
        GtransError: as :func:`iterate_raw_lines`, and for a line that is too long.
    """
    boundary = 0  # line of the first boundary since the last sentence
    seen_sentence = False
    for number, sentence in enumerate(iterate_raw_lines(path), start=1):
        if not sentence or sentence == DOCUMENT_LINE:
            boundary = boundary or number
            continue
        if boundary and seen_sentence:
            yield boundary, None
        check_length(path, number, sentence)
        boundary = 0
        seen_sentence = True
        yield number, sentence


def read_documents(path: str | os.PathLike[str]) -> list[Document]:
    """All documents of one file, each a list of sentences; none of them is empty.

    Raises:
        GtransError: as :func:`iterate_raw_lines`, and for a file without a sentence.
    """
    documents: list[Document] = [[]]
    for _, sentence in iterate_lines(path):
        if sentence is None:
            documents.append([])
        else:
            documents[-1].append(sentence)
    if not documents[0]:
        raise GtransError(f"'{path}' holds no sentence; give a file with one sentence per line")
    return documents


def _describe(path: Path, line: tuple[int, str | None] | None, last: int) -> str:
    """One line of a file in words, for an error message; ``last``: the line before it."""
    if line is None:
        return f"{path} ends after line {last}"
    number, sentence = line
    return f"{path}:{number} is " + ("a document boundary" if sentence is None else "a sentence")


class DifferentSides(GtransError):
    """Two sides of a corpus have other sentences or boundaries."""


def iterate_parallel(
    source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]
) -> Iterator[tuple[str, str] | None]:
    """Sentence pairs of two files, ``None`` at each boundary between documents.

    Raises:
        GtransError: one file has a sentence where the other has a boundary or its end, or
            the files hold no sentence.
    """
    source, target = Path(source_path), Path(target_path)
    last_source = last_target = 0
    document = 1
    for source_line, target_line in zip_longest(iterate_lines(source), iterate_lines(target)):
        if source_line and target_line:
            last_source, last_target = source_line[0], target_line[0]
            if source_line[1] is not None and target_line[1] is not None:
                yield source_line[1], target_line[1]
                continue
            if source_line[1] is None and target_line[1] is None:
                document += 1
                yield None
                continue
        raise DifferentSides(
            f"document {document}: {_describe(source, source_line, last_source)} but "
            f"{_describe(target, target_line, last_target)}: both sides need the same "
            "sentences and boundaries, and no sentence may be empty on one side only"
        )
    if not last_source:
        raise GtransError(f"'{source}' and '{target}' hold no sentence; check the prefix")


def read_parallel(
    source_path: str | os.PathLike[str], target_path: str | os.PathLike[str]
) -> list[DocumentPair]:
    """All document pairs of two files; both sides of a pair have the same number of sentences.

    Raises:
        GtransError: as :func:`iterate_parallel`.
    """
    pairs: list[DocumentPair] = [([], [])]
    for pair in iterate_parallel(source_path, target_path):
        if pair is None:
            pairs.append(([], []))
        else:
            pairs[-1][0].append(pair[0])
            pairs[-1][1].append(pair[1])
    return pairs
