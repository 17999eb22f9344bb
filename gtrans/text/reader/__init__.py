"""The reader of text: the documents of a file.

============  =====================================================================================
plain text    a sentence per line; between documents empty lines, ``<d>``, ``<doc ..>``,
              ``</doc>``, or OPUS's ``<fromDoc>..`` and ``<toDoc>..``
JSON lines    a row per segment or document, with a document id
table         the same with a header and tabs (TSV)
SGM           test sets of NIST, WMT and IWSLT: ``<srcset>``, ``<refset>``, ``<tstset>``
WMT XML       test sets of WMT from 2021 on: ``<src>``, ``<ref translator>``, ``<hyp system>``
============  =====================================================================================

The contents of a file decide its format, otherwise its name. Other formats (HTML, subtitles, XML,
..) are rejected, so that no command takes markup for sentences. A new format is a file of this
package with a subclass of :class:`Reader`.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from gtrans.annexes import add_lab_texts
from gtrans.data.documents import STANDARD_STREAM, iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.messages import print_message
from gtrans.text.reader.base import ALL_TEXT as ALL_TEXT
from gtrans.text.reader.base import BAD_SOURCE as BAD_SOURCE
from gtrans.text.reader.base import DOCUMENT_LINE as DOCUMENT_LINE
from gtrans.text.reader.base import NO_REFERENCE, Head, listed
from gtrans.text.reader.base import Document as Document
from gtrans.text.reader.base import NumberedLine as NumberedLine
from gtrans.text.reader.base import Reader as Reader
from gtrans.text.reader.base import Role as Role
from gtrans.text.reader.base import Segment as Segment
from gtrans.text.reader.base import TextSelection as TextSelection
from gtrans.text.reader.base import is_boundary as is_boundary
from gtrans.text.reader.base import sentence_of as sentence_of
from gtrans.text.reader.markup import have_markup as have_markup
from gtrans.text.reader.markup import without_markup as without_markup
from gtrans.text.reader.other_formats import CONVERT
from gtrans.text.reader.plain import PlainLine as PlainLine
from gtrans.text.reader.plain import PlainText as PlainText
from gtrans.text.reader.plain import notice_running_text as notice_running_text
from gtrans.text.reader.rows import RowReader as RowReader

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)  # its formats come before plain text


def open_text(
    path: str | os.PathLike[str],
    role: Role = "source",
    selection: TextSelection = ALL_TEXT,
    once: bool = False,
) -> Reader:
    """Return the reader of a file, by its format.

    Args:
        once: the file may be a pipe, or ``-``, the standard input: it is opened only once.
    """
    name = "standard input" if str(path) == STANDARD_STREAM else os.fspath(path)
    lines = enumerate(iterate_raw_lines(path, once=once, strip=False), start=1)
    first = list(islice(lines, Head.LINES))
    return _reader(name, first, chain(first, lines), role, selection)


def _reader(name: str, first: Sequence[NumberedLine], *more: Any) -> Reader:
    head = Head(name, first)
    if head.first.startswith("<"):  # as published test sets do
        add_lab_texts()
    for kind in Reader.kinds:
        if kind.is_possible(head) and kind.recognises(head):
            return kind(name, head, *more)
    raise AssertionError("plain text takes all that no other format does")


def check_plain(path: str, lines: Sequence[NumberedLine]) -> None:
    """Raise GtransError if the first lines of a stream are no plain text."""
    reader = _reader(path, lines[: Head.LINES], iter(()), "source", ALL_TEXT)
    _plain(reader)


def _plain(reader: Reader) -> PlainText:
    if not isinstance(reader, PlainText):
        raise GtransError(
            f"'{reader.path}' is no plain text but {reader.title}; {CONVERT} (`gtrans translate "
            "--input` and `gtrans score` read it)"
        )
    return reader


def plain_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield all lines of plain text, stripped."""
    return _plain(open_text(path)).raw_lines()


def iterate_lines(path: str | os.PathLike[str]) -> Iterator[PlainLine]:
    """Yield the sentences and boundaries of plain text."""
    return _plain(open_text(path)).sentences()


def is_plain(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is plain text."""
    return isinstance(open_text(path), PlainText)


def has_boundaries(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is divided into documents."""
    reader = open_text(path)
    if not isinstance(reader, PlainText):
        return True
    return any(sentence is None for _, sentence in reader.sentences())


def read_documents(path: str | os.PathLike[str]) -> list[list[str]]:
    """Return the sentences of each document of a file."""
    documents = [document.sentences for document in open_text(path)]
    if not _have_text(documents):
        raise GtransError(f"'{path}' holds no sentence; give a file with one sentence per line")
    return documents


def _have_text(documents: Iterable[Sequence[str]]) -> bool:
    return any(any(sentences) for sentences in documents)


# ---- both sides ----------------------------------------------------------------------------------

_ONE_SIDE = (
    "'{}' has one side only{}; give a file with both, or the name of two without the language"
)


class Sides(NamedTuple):
    """The two sides of a corpus: two files, or the same path if one file has both."""

    source: Path
    target: Path
    selection: TextSelection = ALL_TEXT

    def read(self, quiet: bool = False) -> Iterator[tuple[str, str] | None]:
        """Yield sentence pairs, and ``None`` at each boundary between documents.

        ``quiet``: do not report pairs that are left out.
        """
        source = open_text(self.source, "source", self.selection)
        target = open_text(self.target, "reference", self.selection)
        left_out = Counter[str]()
        if isinstance(source, PlainText) and isinstance(target, PlainText):
            if self.source == self.target:
                raise GtransError(_ONE_SIDE.format(self.source, ""))
            yield from _plain_pairs(source, target)
        else:
            yield from _used_pairs(source, target, left_out)
        if quiet:
            return
        for reason, count in left_out.items():
            print_message(f"{self.source}: {count} sentence pairs are left out: they are {reason}")


def _plain_pairs(source: PlainText, target: PlainText) -> Iterator[tuple[str, str] | None]:
    document = 1
    left = None
    for left, right in zip_longest(source.sentences(), target.sentences()):
        if not _are_alike(left, right):
            raise GtransError(
                f"document {document}: {_place(source, left)} but {_place(target, right)}: both "
                "sides need the same sentences and boundaries, and no sentence may be empty on one "
                "side only; `gtrans get-corpus own --empty drop` leaves such pairs out."
            )
        if left.sentence is None or right.sentence is None:
            document += 1
            yield None
        else:
            yield left.sentence, right.sentence
    if left is None:
        raise GtransError(f"'{source.path}' and '{target.path}' hold no sentence; check the prefix")


def _are_alike(left: PlainLine | None, right: PlainLine | None) -> bool:
    if left is None or right is None:
        return False
    return (left.sentence is None) == (right.sentence is None)


def _place(side: PlainText, line: PlainLine | None) -> str:
    if line is None:
        return f"{side.path} ends"
    kind = "a sentence" if line.sentence else "a document boundary"
    return f"{side.path}:{line.number} is {kind}"


def _used_pairs(
    source: Reader, target: Reader, left_out: Counter[str]
) -> Iterator[tuple[str, str] | None]:
    has_pairs = False
    for segments in matched(source, target):
        _check_columns(source, target)
        is_new_document = True
        for left, right in segments:
            reason = left.left_out or right.left_out
            if not reason and not (left.text() and right.text()):
                reason = "without a text on a side"
            if reason:
                left_out[reason] += 1
                continue
            if has_pairs and is_new_document:
                yield None
            is_new_document = False
            has_pairs = True
            source_sentence = sentence_of(left.text(), source.path, left.line)
            target_sentence = sentence_of(right.text(), target.path, right.line)
            yield source_sentence, target_sentence
    if not has_pairs:
        raise GtransError(f"'{source.path}' and '{target.path}' hold no sentence pair")


def _check_columns(source: Reader, target: Reader) -> None:
    has_columns = source.path == target.path and source.column != ""
    if has_columns and source.column == target.column:
        raise GtransError(_ONE_SIDE.format(source.path, f", '{source.column}'"))
    if len(target.references) > 1:
        names = listed(target.references)
        raise GtransError(
            f"{target.path} has the references {names}; choose one with `--reference`"
        )


class _DocumentPlaces(NamedTuple):
    source: str
    target: str


def matched(
    source: Iterable[Document], target: Iterable[Document], strict: bool = True
) -> Iterator[list[tuple[Segment, Segment]]]:
    """Yield the pairs of segments of each document of two sides.

    They are matched by their ids if all have one, otherwise by their order.

    Args:
        strict: raise GtransError for a missing segment; otherwise its text is empty.
    """
    for number, (left, right) in enumerate(zip_longest(source, target), start=1):
        places = _DocumentPlaces(_document_place(source, left), _document_place(target, right))
        if left is None or right is None or _have_other_names(left, right):
            raise GtransError(
                f"document {number} is {places.source}, but {places.target}; both sides need the "
                "same documents"
            )
        yield _matched_segments(left, right, places, strict)


def _have_other_names(left: Document, right: Document) -> bool:
    return left.name != "" and right.name != "" and left.name != right.name


def _document_place(side: Iterable[Document], document: Document | None) -> str:
    path = getattr(side, "path", "")
    if document is None:
        return f"missing in {path}"
    return f"'{document.name}' in {path}:{document.line}"


def _matched_segments(
    source: Document, target: Document, places: _DocumentPlaces, strict: bool
) -> list[tuple[Segment, Segment]]:
    left = source.segments
    right = target.segments
    if all(segment.name for segment in chain(left, right)):
        return _matched_by_name(source, target, places, strict)
    if len(right) == 1 and right[0].left_out == NO_REFERENCE:
        right = right * len(left)
    if len(left) != len(right):
        raise GtransError(
            f"segments of a document: {len(left)} in {places.source}, {len(right)} in "
            f"{places.target}; they must be as many"
        )
    return list(zip(left, right, strict=True))


def _matched_by_name(
    source: Document, target: Document, places: _DocumentPlaces, strict: bool
) -> list[tuple[Segment, Segment]]:
    left = {segment.name: segment for segment in source.segments}
    right = {segment.name: segment for segment in target.segments}
    pairs = []
    for name in {**left, **right}:
        if strict and name not in right:
            raise GtransError(
                f"document {places.source} has the segment '{name}', {places.target} has not"
            )
        if strict and name not in left:
            raise GtransError(
                f"document {places.target} has the segment '{name}', {places.source} has not"
            )
        here = left.get(name) or Segment(source.line, [""], name)
        there = right.get(name) or Segment(target.line, [""], name)
        pairs.append((here, there))
    return pairs


def read_parallel(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    selection: TextSelection = ALL_TEXT,
) -> list[tuple[list[str], list[str]]]:
    """Return the document pairs of :meth:`Sides.read`."""
    sources: list[str] = []
    targets: list[str] = []
    documents = [(sources, targets)]
    for pair in Sides(Path(source), Path(target), selection).read():
        if pair is None:
            sources, targets = [], []
            documents.append((sources, targets))
        else:
            sources.append(pair[0])
            targets.append(pair[1])
    return documents


# ---- documents with ids --------------------------------------------------------------------------


@dataclass
class DocumentsWithIds:
    """A file of documents with ids.

    Attributes:
        documents: the segments of each document.
        others: ids of documents of other directions.
        with_markup: number of rows from which markup was left out.
    """

    path: str
    documents: dict[str, list[Segment]] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)
    others: frozenset[str] = frozenset()
    with_markup: int = 0

    def texts(self) -> list[list[str]]:
        """Return the text of each segment of each document."""
        texts = []
        for segments in self.documents.values():
            texts.append([segment.text() for segment in segments])
        return texts


def read_documents_with_ids(
    path: str, role: Role, selection: TextSelection = ALL_TEXT
) -> DocumentsWithIds | None:
    """Return the documents of a file in any order; None: it has no ids."""
    reader = open_text(path, role, selection)
    if not reader.has_ids:
        return None
    identified = DocumentsWithIds(path)
    for document in reader:
        segments = identified.documents.setdefault(document.name, [])
        if segments and not (segments[0].name and document.segments[0].name):
            raise reader.wrong(
                document.line,
                f"document '{document.name}' comes again; give every document once, or its "
                "segments together or with ids",
            )
        names = {segment.name for segment in segments}
        for segment in document.segments:
            if segment.name and segment.name in names:
                label = f"the segment '{segment.name}' of document '{document.name}'"
                raise reader.wrong(segment.line, f"{label} comes twice; give every segment once")
            names.add(segment.name)
        segments += document.segments
    identified.references = reader.references
    if isinstance(reader, RowReader):
        identified.with_markup = reader.with_markup
        identified.others = frozenset(reader.others)
    if not _have_text(identified.texts()):
        raise GtransError(f"'{path}' holds no {role}; give rows with a document id and a text")
    return identified
