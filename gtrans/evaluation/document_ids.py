"""Texts with document ids: tables with a header (TSV) and JSON lines.

A row is a segment of a document: a sentence, a paragraph or the whole document. Its columns are
known by their names, see :data:`DOCUMENT`, :data:`SEGMENT` and :data:`TEXTS`; case, ``-`` and ``_``
make no difference. So WMT24++ (``document_id``, ``segment_id``, ``source``, ``target``) and WMT25
(``doc_id``, ``src_text``, ``refs``, ``hypothesis``) are read as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gtrans.data.documents import check_length, iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.identity.json_files import parse_json

Role = Literal["translation", "reference", "source"]

DOCUMENT = ("docid", "documentid", "document", "doc")
SEGMENT = ("segid", "segmentid", "sentid", "sentenceid", "paragraphid")
TEXTS: dict[Role, tuple[str, ...]] = {
    "translation": (
        *("hypothesis", "hyp", "translation", "mt", "prediction", "pred"),
        *("tgttext", "target", "tgt", "paragraphs", "text"),
    ),
    "reference": (
        *("reference", "ref", "refs", "tgttext", "target", "tgt", "translation"),
        *("paragraphs", "text"),
    ),
    "source": ("source", "src", "srctext", "sourcetext", "paragraphs", "text"),
}
"""Names of the column that has the text, the first one that a file has; without ``_`` and ``-``."""
BAD_SOURCE = "isbadsource"
_BEGINS_AS_OBJECT = re.compile(r'\s*\{\s*"')


@dataclass(frozen=True)
class Segment:
    """A part of a document.

    Attributes:
        name: its id; empty if segments have none.
        texts: its text; several for several references.
        left_out: whether the set's authors leave it out (``is_bad_source`` of WMT24++).
    """

    name: str
    texts: list[str]
    left_out: bool = False

    def text(self, number: int = 0) -> str:
        """The text of a reference; the last one if this segment has fewer."""
        return self.texts[min(number, len(self.texts) - 1)]


@dataclass
class Identified:
    """A file of documents with ids.

    Attributes:
        path: the file.
        documents: the segments of each document, in the order of the file.
    """

    path: str
    documents: dict[str, list[Segment]] = field(default_factory=dict)

    def texts(self, number: int = 0) -> list[list[str]]:
        """The documents as lists of segments; ``number`` of the references."""
        return [
            [segment.text(number) for segment in segments] for segments in self.documents.values()
        ]

    @property
    def references(self) -> int:
        """The number of references in the file."""
        return max(len(one.texts) for segments in self.documents.values() for one in segments)


@dataclass(frozen=True)
class Row:
    """A line of a file of documents with ids.

    Attributes:
        number: of the line, from 1.
        document: the id of its document.
        segments: its segments: one if it has an id, else one for each line of its text.
        cells: the names of the columns of a table; None: it is JSON.
    """

    number: int
    document: str
    segments: list[Segment]
    cells: list[str] | None


def read_rows(path: str, role: Role) -> list[Row] | None:
    """The rows of a file with document ids, in its order; None for a file of plain text.

    Raises:
        GtransError: a line is no row like the others, an id or a text is missing, a segment
            comes twice, or it is a table or JSON without document ids.
    """
    lines = enumerate(iterate_raw_lines(path, strip=False), start=1)
    number, first = next(((n, line) for n, line in lines if line.strip()), (0, ""))
    cells = None
    if _object(first, f"{path}:{number}") is not None:
        rows = list(_json_rows(path, [(number, first), *lines]))
    elif "\t" in first:
        rest = list(lines)
        if not _is_table(path, number, first, rest):
            return None
        rows, cells = list(_table_rows(path, first, rest)), [_name(c) for c in first.split("\t")]
    else:
        return None
    column = next((name for name in TEXTS[role] if any(name in row for _, row in rows)), "")
    found: list[Row] = []
    names, documents = set[tuple[str, str]](), set[str]()
    for number, row in rows:
        where = f"{path}:{number}"
        document, segments = _segments(where, row, role, column)
        for segment in segments:
            check_length(path, number, segment.texts[0])
            if segment.name and (document, segment.name) in names:
                raise GtransError(
                    f"{where}: the segment '{segment.name}' of document '{document}' comes twice; "
                    "give every segment once"
                )
            names.add((document, segment.name))
        last = found[-1].document if found else ""
        if (
            document in documents
            and not segments[0].name
            and (last != document or len(segments) > 1)
        ):
            raise GtransError(
                f"{where}: document '{document}' comes again; give every document once, or its "
                "segments together or with ids"
            )
        documents.add(document)
        found.append(Row(number, document, segments, cells))
    if not any(segment.text() for row in found for segment in row.segments):
        raise GtransError(f"'{path}' holds no text; give rows with a document id and a text")
    return found


def read_identified(path: str, role: Role) -> Identified | None:
    """The documents of a file with ids; None for a file of plain text.

    Raises:
        GtransError: see :func:`read_rows`.
    """
    rows = read_rows(path, role)
    if rows is None:
        return None
    found = Identified(path)
    for row in rows:
        found.documents.setdefault(row.document, []).extend(row.segments)
    return found


def match(found: Identified, reference: Identified, number: int = 0) -> list[list[str]]:
    """Documents of ``found`` with the segments of ``reference``, in its order.

    Segments are matched by their ids if both files have them, otherwise by their order.

    Raises:
        GtransError: a document or a segment is missing, or is not in ``reference``.
    """
    documents = by_document(found, reference)
    matched = []
    for name, segments, expected in zip(
        reference.documents, documents, reference.documents.values(), strict=True
    ):
        if all(one.name for one in (*segments, *expected)):
            known = {one.name: one for one in segments}
            _compare(
                f"of document '{name}'", "segment",
                list(known), [one.name for one in expected], found, reference,
            )  # fmt: skip
            segments = [known[one.name] for one in expected]
        elif len(segments) != len(expected):
            raise GtransError(
                f"document '{name}' has {len(segments)} segments in {found.path}, but "
                f"{len(expected)} in {reference.path}; --resegment splits a translation into the "
                "sentences of the reference"
            )
        matched.append([one.text(number) for one in segments])
    return matched


def by_document(found: Identified, reference: Identified) -> list[list[Segment]]:
    """The segments of every document of ``reference``, however many they are.

    Raises:
        GtransError: a document is missing, or is not in ``reference``.
    """
    _compare("", "document", list(found.documents), list(reference.documents), found, reference)
    documents = [found.documents[name] for name in reference.documents]
    for name, segments, expected in zip(
        reference.documents, documents, reference.documents.values(), strict=True
    ):
        if len(segments) != len(expected) and _comes_again([one.texts for one in segments]):
            raise GtransError(
                f"{found.path} has the same text of document '{name}' several times; give every "
                "document once, or its segments with ids"
            )
    # Where nearly every document is one row, a second row is no second part of its document.
    whole = [
        len(segments) == 1 < len(expected)
        for segments, expected in zip(documents, reference.documents.values(), strict=True)
    ]
    for name, segments in zip(reference.documents, documents, strict=True):
        if 10 * sum(whole) > 9 * len(whole) and len(segments) > 1 and not segments[0].name:
            raise GtransError(
                f"{found.path} has document '{name}' {len(segments)} times, but others once; give "
                "every document once, or its segments with ids"
            )
    return documents


def _comes_again(rows: list[list[str]]) -> bool:
    """Whether rows are the same rows twice or more."""
    count = len(rows)
    sizes = (size for size in range(1, count // 2 + 1) if count % size == 0)
    return any(rows[size:] == rows[:-size] for size in sizes)


def _compare(
    of: str, kind: str, names: list[str], expected: list[str], found: Identified, ref: Identified
) -> None:
    for have, want, one, other in (
        (set(names), expected, found, ref),
        (set(expected), names, ref, found),
    ):
        missing = [name for name in want if name not in have]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise GtransError(
                f"{one.path} lacks the {kind} '{missing[0]}'{more} {of}".rstrip()
                + f", which {other.path} has; both files need the same {kind}s"
            )


def _segments(
    where: str, row: Mapping[str, Any], role: Role, column: str
) -> tuple[str, list[Segment]]:
    """The id of the document of a row, and its segments; ``column`` has the text."""
    document = next((row[name] for name in DOCUMENT if name in row), None)
    if not isinstance(document, str | int) or not str(document).strip():
        raise GtransError(
            f"{where}: there is no document id; a row needs one, under 'doc_id', 'docid' or "
            "'document_id'"
        )
    name = next((str(row[key]) for key in SEGMENT if row.get(key) not in (None, "")), "")
    alternatives = _alternatives(row.get(column))
    if alternatives is None:
        names = f"'{column}', as other rows" if column else f"one of: {', '.join(TEXTS[role])}"
        raise GtransError(f"{where}: there is no {role}; a row needs a text under {names}")
    left_out = str(row.get(BAD_SOURCE, "")).lower() in ("true", "1")
    if name:
        joined = [" ".join(" ".join(lines).split()) for lines in alternatives]
        return str(document), [Segment(name, joined, left_out)]
    if len({len(lines) for lines in alternatives}) > 1:
        raise GtransError(f"{where}: its references have different numbers of lines")
    return str(document), [
        Segment("", list(lines), left_out) for lines in zip(*alternatives, strict=True)
    ] or [Segment("", [""] * len(alternatives), left_out)]


def _alternatives(value: Any) -> list[list[str]] | None:
    """The lines of a text; of each text if there are several, as in ``refs`` of WMT25."""
    if isinstance(value, str):
        return [[" ".join(line.split()) for line in value.split("\n") if line.strip()]]
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return [[" ".join(line.split()) for line in value]]
    if isinstance(value, dict):
        inner = [one.get("ref") if isinstance(one, dict) else one for one in value.values()]
        found = [_alternatives(one) for one in inner]
        if found and all(one is not None and len(one) == 1 for one in found):
            return [one[0] for one in found if one]
    return None


def _name(cell: str) -> str:
    return cell.strip().lower().replace("_", "").replace("-", "")


def _object(line: str, place: str) -> dict[str, Any] | None:
    """The object of a JSON line; None: it is text, which may begin with a brace, too.

    Raises:
        GtransError: it begins as an object with keys does, but is none.
    """
    if not _BEGINS_AS_OBJECT.match(line):
        return None
    return {_name(key): value for key, value in parse_json(line, place).items()}


def _json_rows(path: str, lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in lines:
        if line.strip():
            row = _object(line, f"{path}:{number}")
            if row is None:
                raise GtransError(
                    f"{path}:{number} is no JSON object with a document id, as the lines before "
                    "it; give one object per line"
                )
            yield number, row


def _is_table(path: str, number: int, first: str, rest: Sequence[tuple[int, str]]) -> bool:
    """Whether a file whose first line has a tab is a table with document ids, or plain text.

    Raises:
        GtransError: it is a table without.
    """
    names = {_name(cell) for cell in first.split("\t")}
    if names & set(DOCUMENT):
        return True
    known = {name for columns in (SEGMENT, *TEXTS.values()) for name in columns}
    if names <= known or all("\t" in line for _, line in rest if line.strip()):
        raise GtransError(
            f"{path}:{number}: there is no document id; the first line of a table needs the names "
            "of its columns, one of them 'doc_id', 'docid' or 'document_id'; plain text has no tabs"
        )
    return False


def _table_rows(
    path: str, header: str, lines: Sequence[tuple[int, str]]
) -> Iterator[tuple[int, dict[str, Any]]]:
    names = [_name(cell) for cell in header.split("\t")]
    for number, line in lines:
        if not line.strip():
            continue
        cells = line.split("\t")
        if len(cells) != len(names):
            raise GtransError(
                f"{path}:{number} has {len(cells)} cells, but the header has {len(names)}; cells "
                "are separated by tabs, and cannot contain any"
            )
        yield number, dict(zip(names, cells, strict=True))
