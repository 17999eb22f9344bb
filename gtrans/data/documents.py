"""The lines of text files.

Files are UTF-8, gzipped or not. Only ``\\n`` (or ``\\r\\n``) ends a line: U+2028, U+0085 and the
like stay inside their sentence. This module needs neither torch nor fairseq.
"""

from __future__ import annotations

import glob
import gzip
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError

STANDARD_STREAM = "-"
ENDS = ("", ".gz", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
"""What may follow the language in the name of a file with one side of a corpus."""
LONGEST_SENTENCE = 1_000_000
"""Characters; a longer line is a whole text, which no model can read and BPE not segment."""

_GZIP_MAGIC = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UNPACK = "unpack it first"
_DOCUMENT = "`gtrans translate` reads DOCX; otherwise save it as plain text"
_CONVERT = "convert it to plain text in UTF-8"
# What the first bytes of other files are, and the way out.
_MAGIC = {
    b"PK\x03\x04": ("a zip archive, such as DOCX, XLSX or ODT", _DOCUMENT),
    b"%PDF": ("PDF", _CONVERT),
    b"{\\rtf": ("RTF", _CONVERT),
    b"\xd0\xcf\x11\xe0": ("a document of Office before 2007", _CONVERT),
    b"BZh91AY": ("packed with bzip2", _UNPACK),
    b"\xfd7zXZ": ("packed with xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("packed with zstd", _UNPACK),
    b"7z\xbc\xaf": ("a 7z archive", _UNPACK),
    b"PAR1\x15": ("Parquet", "write it as JSON lines"),
    b"\xff\xfe": ("UTF-16", _CONVERT),
    b"\xfe\xff": ("UTF-16", _CONVERT),
}


def resolve(prefix: str, lang: str) -> Path:
    """Find ``PREFIX.LANG``, which may end in one of :data:`ENDS`; raises GtransError."""
    plain = Path(f"{prefix}.{lang}")
    for end in ENDS:
        path = Path(f"{plain}{end}")
        if path.is_file():
            return path
    if Path(prefix).is_file():
        common = Path(prefix.removesuffix(".gz")).with_suffix("")
        raise GtransError(
            f"'{prefix}' is a file; give its name without the language ('{common}'), which stands "
            "for the files of both"
        )
    folder = Path(prefix).parent
    names = [path.name for path in folder.glob(f"{glob.escape(Path(prefix).name)}*")]
    found = f" (there are {', '.join(sorted(names)[:4])})" if names else ""
    raise GtransError(
        f"there is no file '{plain}' and no file '{plain}.gz'{found}; check the prefix"
    )


@contextmanager
def _open_bytes(path: Path, once: bool) -> Iterator[IO[bytes]]:
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
    """Yield all lines of a file, stripped of white space.

    Args:
        once: the file is read only once, so it may be a pipe, or ``-``, the standard input.
        strip: False: strip only the line end.
    """
    name = "standard input" if str(path) == STANDARD_STREAM else str(path)
    with _open_bytes(Path(path), once) as file:
        for number, line in enumerate(file, start=1):
            if number == 1:
                _reject_binary(name, line[:512])
                line = line.removeprefix(_BYTE_ORDER_MARK)
            try:
                text = line.decode("utf-8")
                yield text.strip() if strip else text.rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise GtransError(
                    f"{name}:{number}: not UTF-8 (byte {error.start + 1} of the line is "
                    f"0x{line[error.start]:02x}); convert the file to UTF-8"
                ) from None


def _reject_binary(name: str, first: bytes) -> None:
    for magic, (what, way_out) in _MAGIC.items():
        if first.startswith(magic):
            raise GtransError(f"'{name}' is no text but {what}; {way_out}")
    if first[257:262] == b"ustar":
        raise GtransError(f"'{name}' is no text but a tar archive; {_UNPACK}")
    if first.count(0) * 4 > len(first):  # every second byte of a text in Latin letters
        raise GtransError(f"'{name}' is no text in UTF-8 but UTF-16 or binary; {_CONVERT}")


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file, unpacked."""
    with _open_bytes(Path(path), once=False) as file:
        return file.read()


def line_end(path: str | os.PathLike[str]) -> str:
    """Return what ends the first line: ``\\r\\n`` or ``\\n``."""
    with _open_bytes(Path(path), once=False) as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in UTF-8, gzipped or not."""
    return decoded(read_bytes(path), path)


def decoded(contents: bytes, path: str | os.PathLike[str]) -> str:
    """Return text without its byte order mark."""
    contents = contents.removeprefix(_BYTE_ORDER_MARK)
    try:
        return contents.decode("utf-8")
    except UnicodeDecodeError as error:
        raise GtransError(
            f"{path}:{contents.count(10, 0, error.start) + 1}: not UTF-8 (0x"
            f"{contents[error.start]:02x}); convert the file to UTF-8"
        ) from None


def check_length(path: str | os.PathLike[str], number: int, sentence: str) -> None:
    """Raise GtransError for a sentence that is a whole text."""
    if len(sentence) > LONGEST_SENTENCE:
        raise GtransError(
            f"{path}:{number}: a line of {len(sentence):,} characters; give one sentence per line, "
            f"of at most {LONGEST_SENTENCE:,}"
        )


def check_sides(
    source_blank: NDArray[np.bool_], target_blank: NDArray[np.bool_], name: str
) -> None:
    """Raise GtransError if the sides, each ``(lines,)``, differ in lines or empty lines."""
    lines = min(len(source_blank), len(target_blank))
    differ = np.flatnonzero(source_blank[:lines] != target_blank[:lines])
    if differ.size:
        line = int(differ[0])
        empty, full = "target", "source"
        if source_blank[line]:
            empty, full = "source", "target"
        raise GtransError(
            f"{name}: line {line + 1} is empty on the {empty} side but not on the {full} side; "
            "both sides need the same sentences and the same empty lines between documents."
        )
    if len(source_blank) != len(target_blank):
        raise GtransError(
            f"{name}: the source has {len(source_blank)} lines, the target {len(target_blank)}; "
            f"they differ from line {lines + 1} on."
        )
