"""The reader of text: the documents of a file, in whatever format it is.

============  =====================================================================================
plain text    a sentence per line; documents are separated by empty lines, by lines ``<d>``,
              ``<doc ..>`` and ``</doc>``, or by OPUS's lines ``<fromDoc>..`` and ``<toDoc>..``
JSON lines    a row per segment or document, with the id of its document
table         the same with a header and tabs (TSV)
SGM           test sets of NIST, WMT and IWSLT: ``<srcset>``, ``<refset>``, ``<tstset>``
WMT XML       test sets of WMT from 2021 on: ``<src>``, ``<ref translator>``, ``<hyp system>``
============  =====================================================================================

The contents of a file decide its format, and its name where they do not. All may be gzipped. Text
of any other kind (HTML, subtitles, XML, ..) is rejected by what it is, so that no command takes
markup for sentences. A new format is a file of this package with one subclass of :class:`Reader`.

This module needs neither torch nor fairseq.
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
from typing import NamedTuple

from gtrans.data.documents import STANDARD_STREAM, iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.text.reader.base import ANY as ANY
from gtrans.text.reader.base import BAD_SOURCE as BAD_SOURCE
from gtrans.text.reader.base import DOCUMENT_LINE as DOCUMENT_LINE
from gtrans.text.reader.base import NO_REFERENCE, Head, listed
from gtrans.text.reader.base import Choice as Choice
from gtrans.text.reader.base import Document as Document
from gtrans.text.reader.base import Reader as Reader
from gtrans.text.reader.base import Role as Role
from gtrans.text.reader.base import Segment as Segment
from gtrans.text.reader.base import is_boundary as is_boundary
from gtrans.text.reader.base import sentence_of as sentence_of
from gtrans.text.reader.plain import CONVERT
from gtrans.text.reader.plain import Plain as Plain
from gtrans.text.reader.plain import notice_running_text as notice_running_text
from gtrans.text.reader.rows import Rows as Rows
from gtrans.text.reader.test_sets import TestSet as TestSet

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)  # so that its formats are known


def open_text(
    path: str | os.PathLike[str], role: Role = "source", choice: Choice = ANY, once: bool = False
) -> Reader:
    """The reader of a file, by its format.

    Args:
        path: the file, gzipped or not; with ``once`` also a pipe, or ``-``, the standard input.
        role: what the text is used as.
        choice: what to read of it.
        once: it is opened only once.

    Raises:
        GtransError: it cannot be read, or is no text of a known format.
    """
    name = "standard input" if str(path) == STANDARD_STREAM else os.fspath(path)
    lines = enumerate(iterate_raw_lines(path, once=once, strip=False), start=1)
    first = list(islice(lines, Head.LINES))
    head = Head(name, first)
    return _kind_of(head)(name, head, chain(first, lines), role, choice)


def _kind_of(head: Head) -> type[Reader]:
    """The first format that recognises the beginning of a file."""
    return next(kind for kind in Reader.kinds if kind.recognises(head))


def check_plain(path: str, lines: Sequence[tuple[int, str]]) -> None:
    """Raises GtransError if the first lines of a stream, with their numbers, are no plain text."""
    head = Head(path, lines[: Head.LINES])
    _check_plain(path, _kind_of(head))


def _check_plain(path: str | os.PathLike[str], kind: type[Reader]) -> None:
    if kind is not Plain:
        raise GtransError(
            f"'{path}' is no plain text but {kind.title}; {CONVERT} (`gtrans translate --input` "
            "and `gtrans score` read it)"
        )


def _plain(path: str | os.PathLike[str]) -> Plain:
    found = open_text(path)
    _check_plain(path, type(found))
    assert isinstance(found, Plain)
    return found


def plain_lines(path: str | os.PathLike[str]) -> Iterator[str]:
    """All lines of a file of plain text, also empty ones, without white space at their ends.

    Raises:
        GtransError: it cannot be read, or is of another format.
    """
    return _plain(path).raw_lines()


def iterate_lines(path: str | os.PathLike[str]) -> Iterator[tuple[int, str | None]]:
    """The sentences of a file of plain text and the boundaries between its documents.

    Yields:
        as :meth:`Plain.sentences`.
    """
    return _plain(path).sentences()


def read_documents(path: str | os.PathLike[str]) -> list[list[str]]:
    """The sentences of all documents of a file; no document is empty.

    Raises:
        GtransError: it cannot be read, is of no known format, or holds no sentence.
    """
    documents = [[one.text() for one in document.segments] for document in open_text(path)]
    if not any(map(any, documents)):
        raise GtransError(f"'{path}' holds no sentence; give a file with one sentence per line")
    return documents


class Sides(NamedTuple):
    """The two sides of a corpus: two files, or one file that has both.

    Attributes:
        source, target: the files; the same path if one has both.
        choice: what to read of them.
    """

    source: Path
    target: Path
    choice: Choice = ANY

    def read(self, quiet: bool = False) -> Iterator[tuple[str, str] | None]:
        """Sentence pairs, ``None`` at each boundary between documents.

        Args:
            quiet: do not say which pairs are left out.

        Raises:
            GtransError: a file cannot be read, one has a sentence where the other has none, or
                both hold none.
        """
        source = open_text(self.source, "source", self.choice)
        target = open_text(self.target, "reference", self.choice)
        if isinstance(source, Plain) and isinstance(target, Plain):
            if self.source == self.target:
                raise GtransError(
                    f"'{self.source}' has one side only; give its name without the language, which "
                    "stands for the files of both"
                )
            yield from _plain_pairs(source, target)
        else:
            left_out = Counter[str]()
            yield from _used_pairs(source, target, left_out)
            for reason, count in left_out.items() if not quiet else ():
                say(f"{self.source}: {count} sentence pairs are left out: they are {reason}")


def _describe(path: str, line: tuple[int, str | None] | None, last: int) -> str:
    """One line of a file in words, for an error message; ``last``: the line before it."""
    if line is None:
        return f"{path} ends after line {last}"
    number, sentence = line
    return f"{path}:{number} is " + ("a document boundary" if sentence is None else "a sentence")


def _plain_pairs(source: Plain, target: Plain) -> Iterator[tuple[str, str] | None]:
    last_source = last_target = 0
    document = 1
    for source_line, target_line in zip_longest(source.sentences(), target.sentences()):
        if source_line and target_line:
            last_source, last_target = source_line[0], target_line[0]
            if source_line[1] is not None and target_line[1] is not None:
                yield source_line[1], target_line[1]
                continue
            if source_line[1] is None and target_line[1] is None:
                document += 1
                yield None
                continue
        raise GtransError(
            f"document {document}: {_describe(source.path, source_line, last_source)} but "
            f"{_describe(target.path, target_line, last_target)}: both sides need the same "
            "sentences and boundaries, and no sentence may be empty on one side only; `gtrans "
            "get-corpus own --empty drop` leaves such pairs out."
        )
    if not last_source:
        raise GtransError(f"'{source.path}' and '{target.path}' hold no sentence; check the prefix")


def _used_pairs(
    source: Reader, target: Reader, left_out: Counter[str]
) -> Iterator[tuple[str, str] | None]:
    begun, found = False, False  # whether a document, or any, has a pair
    for pairs in matched(source, target):
        begun = False
        if source.path == target.path and source.column and source.column == target.column:
            raise GtransError(
                f"{source.path} has one side only, '{source.column}'; give a file with both, or "
                "the name of two without the language"
            )
        for left, right in pairs:
            if len(target.references) > 1:
                raise GtransError(
                    f"{target.path} has the references {listed(target.references)}; choose one "
                    "with `--reference`"
                )
            reason = left.left_out or right.left_out
            if not reason and not (left.text() and right.text()):
                reason = "without a text on a side"
            if reason:
                left_out[reason] += 1
                continue
            if found and not begun:
                yield None
            begun = found = True
            yield (
                sentence_of(left.text(), source.path, left.line),
                sentence_of(right.text(), target.path, right.line),
            )
    if not found:
        raise GtransError(f"'{source.path}' and '{target.path}' hold no sentence pair")


def matched(
    source: Iterable[Document], target: Iterable[Document], strict: bool = True
) -> Iterator[list[tuple[Segment, Segment]]]:
    """The pairs of segments of each document of two sides.

    Segments are matched by their ids if all have one, in the order of the source; otherwise by
    their order.

    Args:
        source, target: two readers.
        strict: a segment that a side lacks is a mistake; otherwise it is one without a text.

    Raises:
        GtransError: a document is missing on one side, has another name there, or other segments.
    """
    paths = [getattr(side, "path", "") for side in (source, target)]
    seen: set[str] = set()
    number = 0
    for number, (left, right) in enumerate(zip_longest(source, target), start=1):
        if left is None or right is None:
            shorter, longer = paths[left is not None], paths[left is None]
            more = right if left is None else left
            raise GtransError(
                f"{shorter} has {number - 1} documents, but {longer} has more "
                f"({_of(more)}line {more.line}); both sides need the same documents"
            )
        if left.name and right.name and left.name != right.name:
            raise GtransError(
                f"document {number} is '{left.name}' in {paths[0]}:{left.line}, but "
                f"'{right.name}' in {paths[1]}:{right.line}; both sides need the same documents"
            )
        if left.name in seen and isinstance(source, Rows):
            raise GtransError(
                f"{paths[0]}:{left.line}: document '{left.name}' comes again; give the rows of a "
                "document together"
            )
        seen.add(left.name)
        yield _matched_segments(number, (paths[0], left), (paths[1], right), strict)


def _of(document: Document) -> str:
    return f"'{document.name}', " if document.name else ""


def _matched_segments(
    number: int, source: tuple[str, Document], target: tuple[str, Document], strict: bool
) -> list[tuple[Segment, Segment]]:
    sides = [document.segments for _, document in (source, target)]
    if not all(segment.name for side in sides for segment in side):
        if len(sides[0]) != len(sides[1]) and not _without_reference(sides[1]):
            raise GtransError(
                f"document {number} ({_of(source[1])}{source[0]}:{source[1].line}) has "
                f"{len(sides[0])} segments, but {len(sides[1])} in {target[0]}:{target[1].line}"
            )
        if len(sides[0]) != len(sides[1]):
            sides[1] = sides[1] * len(sides[0])
        return list(zip(*sides, strict=True))
    left, right = ({segment.name: segment for segment in side} for side in sides)
    if strict and left.keys() != right.keys():
        name = next(name for name in {**left, **right} if name not in left or name not in right)
        has, lacks = (source, target) if name in left else (target, source)
        line = (left if name in left else right)[name].line
        raise GtransError(
            f"document {number} ({_of(has[1])}{has[0]}:{line}) has the segment '{name}', which "
            f"{lacks[0]}:{lacks[1].line} lacks"
        )
    return [
        (
            left.get(name) or Segment(source[1].line, [""], name),
            right.get(name) or Segment(target[1].line, [""], name),
        )
        for name in {**left, **right}
    ]


def _without_reference(segments: Sequence[Segment]) -> bool:
    return len(segments) == 1 and segments[0].left_out == NO_REFERENCE


def read_parallel(
    source: str | os.PathLike[str], target: str | os.PathLike[str], choice: Choice = ANY
) -> list[tuple[list[str], list[str]]]:
    """All document pairs of two sides; both have the same number of sentences.

    Raises:
        GtransError: as :meth:`Sides.read`.
    """
    pairs: list[tuple[list[str], list[str]]] = [([], [])]
    for pair in Sides(Path(source), Path(target), choice).read():
        if pair is None:
            pairs.append(([], []))
        else:
            pairs[-1][0].append(pair[0])
            pairs[-1][1].append(pair[1])
    return pairs


@dataclass
class Identified:
    """A file of documents with ids.

    Attributes:
        path: the file.
        documents: the segments of each document, in the order of the file.
        references: the names of its references.
        others: its documents of other directions, which are not read.
    """

    path: str
    documents: dict[str, list[Segment]] = field(default_factory=dict)
    references: list[str] = field(default_factory=list)
    others: frozenset[str] = frozenset()

    def texts(self, number: int = 0) -> list[list[str]]:
        """The documents as lists of segments; ``number`` of the references."""
        return [
            [segment.text(number) for segment in segments] for segments in self.documents.values()
        ]


def read_identified(path: str, role: Role, choice: Choice = ANY) -> Identified | None:
    """The documents of a file with ids, whose rows may stand in any order; None: it has none.

    Raises:
        GtransError: it cannot be read, a document or a segment comes twice, or it holds no text.
    """
    reader = open_text(path, role, choice)
    if not reader.has_ids:
        return None
    found = Identified(path)
    for document in reader:
        known = found.documents.setdefault(document.name, [])
        if known and not (known[0].name and document.segments[0].name):
            raise GtransError(
                f"{path}:{document.line}: document '{document.name}' comes again; give every "
                "document once, or its segments together or with ids"
            )
        names = {segment.name for segment in known if segment.name}
        for segment in document.segments:
            if segment.name in names:
                raise GtransError(
                    f"{path}:{segment.line}: the segment '{segment.name}' of document "
                    f"'{document.name}' comes twice; give every segment once"
                )
            if segment.name:
                names.add(segment.name)
        known += document.segments
    found.references = reader.references
    found.others = frozenset(reader.others if isinstance(reader, Rows) else ())
    if not any(one.text() for segments in found.documents.values() for one in segments):
        raise GtransError(f"'{path}' holds no {role}; give rows with a document id and a text")
    return found
