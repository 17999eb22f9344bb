"""The formats, and the format of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gtrans.environment import require
from gtrans.errors import GtransError
from gtrans.formats.docx import Docx
from gtrans.formats.html import Html
from gtrans.formats.markdown import Markdown
from gtrans.formats.plain import PlainTextFile
from gtrans.formats.rows import HtmlRowFile, RowFile
from gtrans.formats.sentences import splitter, whole
from gtrans.text.document_file import DocumentFile, Splitter
from gtrans.text.reader import ALL_TEXT, TextSelection


class _Format(NamedTuple):
    kind: type[DocumentFile]
    suffixes: Sequence[str]


_FORMATS: Mapping[str, _Format] = {
    "text": _Format(PlainTextFile, (".txt", ".text")),
    "markdown": _Format(Markdown, (".md", ".markdown")),
    "html": _Format(Html, (".html", ".htm", ".xhtml")),
    "docx": _Format(Docx, (".docx",)),
    "jsonl": _Format(RowFile, (".jsonl",)),
    "tsv": _Format(RowFile, (".tsv",)),
}
SUFFIXES = {name: entry.suffixes for name, entry in _FORMATS.items()}
"""Name of each format and the suffixes of its files; all but DOCX may also be gzipped (``.gz``)."""
_ROWS_OF_HTML = "rows of html"
"""The format of rows for which HTML is asked."""


def format_of(path: Path) -> str | None:
    """Return the format of a file by its name, or None."""
    name = path.name.lower().removesuffix(".gz")
    for kind, ends in SUFFIXES.items():
        if name.endswith(tuple(ends)):
            return kind
    return None


def known_formats() -> str:
    """Return the formats and their suffixes, for messages."""
    return ", ".join(f"{name} ({' '.join(ends)})" for name, ends in SUFFIXES.items())


def require_libraries(path: Path, name: str, split_sentences: bool | None) -> None:
    """Raise GtransError if a library for the format ``name`` is not installed."""
    kind = _kind(name)
    libraries = list(kind.libraries)
    if _is_split(kind, split_sentences):
        libraries.append("sentencex")
    if libraries:
        require(libraries, f"'{path}'")


def _kind(name: str) -> type[DocumentFile]:
    if name == _ROWS_OF_HTML:
        return HtmlRowFile
    return _FORMATS[name].kind


def _is_split(kind: type[DocumentFile], split_sentences: bool | None) -> bool:
    if split_sentences is None:
        return not kind.has_lines
    return split_sentences


class DocumentReader(NamedTuple):
    """Reads files of any format.

    Attributes:
        lang: its rules split text into sentences.
        split_sentences: None: in all formats but plain text, JSON lines and tables, whose lines and
            rows are sentences.
        target: language of the translation, which a page states.
        selection: which rows are translated.
    """

    lang: str
    split_sentences: bool | None
    target: str | None = None
    selection: TextSelection = ALL_TEXT

    def read(self, path: Path, name: str) -> DocumentFile:
        """Read a file of the format ``name``."""
        kind = _kind(name)
        split: Splitter | None = None if kind.has_lines else whole
        if _is_split(kind, self.split_sentences):
            split = splitter(self.lang)
        file = kind(str(path), split, self.selection)
        if self.target is not None:
            file.languages = self.lang, self.target
        return file


def check_format(path: Path, forced: str | None) -> str:
    """Return the format of a file, by its name or ``forced``; GtransError if unknown.

    With ``html`` the texts of rows are HTML.
    """
    if forced == "html" and format_of(path) in ("jsonl", "tsv"):
        return _ROWS_OF_HTML
    name = forced or format_of(path)
    if name is None:
        raise GtransError(
            f"'{path}': the format of '{path.suffix or path.name}' is not known; known are "
            f"{known_formats()}; `--format NAME` says which it is."
        )
    return name
