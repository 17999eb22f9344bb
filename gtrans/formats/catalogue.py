"""The formats, and which files are of which format."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.formats.document_file import DocumentFile, as_one, splitter
from gtrans.formats.docx import Docx
from gtrans.formats.html import Html
from gtrans.formats.markdown import Markdown
from gtrans.formats.plain import PlainText, RunningText
from gtrans.formats.rows import Rows, RunningRows
from gtrans.libraries import require
from gtrans.text.reader import ANY, Choice

SUFFIXES: Mapping[str, Sequence[str]] = {
    "text": (".txt", ".text"),
    "markdown": (".md", ".markdown"),
    "html": (".html", ".htm", ".xhtml"),
    "docx": (".docx",),
    "jsonl": (".jsonl",),
    "tsv": (".tsv",),
}
"""Name of each format and the suffixes of its files; all but DOCX may also be gzipped (``.gz``)."""

_SENTENCES: Mapping[str, type[DocumentFile]] = {"text": PlainText, "jsonl": Rows, "tsv": Rows}
_RUNNING: Mapping[str, type[DocumentFile]] = {
    **{"text": RunningText, "jsonl": RunningRows, "tsv": RunningRows},
    **{"markdown": Markdown, "html": Html, "docx": Docx},
}
_PACKED = ".gz"


def format_of(path: Path) -> str | None:
    """The format of a file by its name; None if it is not known."""
    name = path.name.lower().removesuffix(_PACKED)
    return next((one for one, ends in SUFFIXES.items() if name.endswith(tuple(ends))), None)


def known_formats() -> str:
    """The formats and their suffixes, for messages."""
    return ", ".join(f"{name} ({' '.join(ends)})" for name, ends in SUFFIXES.items())


def require_libraries(path: Path, name: str, split_sentences: bool) -> None:
    """Look for the libraries that a file of the format ``name`` needs.

    Raises:
        GtransError: one of them is not installed.
    """
    if _is_running(name, split_sentences):
        require([*_RUNNING[name].libraries, "sentencex"], f"'{path}'")


def _is_running(name: str, split_sentences: bool) -> bool:
    return split_sentences or name not in _SENTENCES


class Reader:
    """Reads files of any format.

    Args:
        lang: language of the text, whose rules split it into sentences.
        split_sentences: the lines and rows of plain text, JSON lines and tables are running text,
            not sentences. Text of the other formats always is.
        target: the language of the translation, for what a page says of its own.
        choice: which rows are translated.
    """

    def __init__(
        self,
        lang: str,
        split_sentences: bool,
        target: str | None = None,
        choice: Choice = ANY,
    ) -> None:
        self._lang = lang
        self._target = target
        self._split_sentences = split_sentences
        self._choice = choice

    def read(self, path: Path, name: str) -> DocumentFile:
        """A file of the format ``name``, of which the libraries are there.

        Raises:
            GtransError: it cannot be read or is not of this format.
        """
        running = _is_running(name, self._split_sentences)
        split = splitter(self._lang) if running else as_one
        kind = (_RUNNING if running else _SENTENCES)[name]
        found: DocumentFile
        if issubclass(kind, Rows):
            found = kind.read(str(path), split, self._choice)
        else:
            found = kind.read(str(path), split)
        if self._target is not None:
            found.languages = self._lang, self._target
        return found


def packer(path: Path) -> Callable[[bytes], bytes]:
    """What the contents of a file go through before they are written: gzip for ``.gz``."""
    if path.suffix.lower() != _PACKED:
        return bytes

    def pack(contents: bytes) -> bytes:
        # Without the time, so that the same translation is the same file.
        return gzip.compress(contents, mtime=0)

    return pack


def check_format(path: Path, forced: str | None) -> str:
    """The format of a file that is named.

    Raises:
        GtransError: it is not known.
    """
    found = forced or format_of(path)
    if found is None:
        raise GtransError(
            f"'{path}': the format of '{path.suffix or path.name}' is not known; known are "
            f"{known_formats()}; `--format NAME` says which it is."
        )
    return found
