"""JSON lines and tables with document ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from gtrans.data.documents import check_length
from gtrans.errors import GtransError
from gtrans.files import parse_json
from gtrans.languages import language_code
from gtrans.text.reader.base import (
    BAD_SOURCE,
    NO_REFERENCE,
    Document,
    Head,
    Reader,
    Role,
    Segment,
    chosen_references,
    the_only_system,
)

_DOCUMENT = ("docid", "documentid", "document", "doc", "srcdocid")
_SEGMENT = ("segid", "segmentid", "sentid", "sentenceid", "paragraphid")
_TEXTS: dict[Role, tuple[str, ...]] = {
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
_KNOWN = frozenset(chain(("id",), _DOCUMENT, _SEGMENT, *_TEXTS.values()))
_PAIR = ("lp", "langpair", "languagepair")
_FROM = ("srclang", "sourcelang", "srclanguage", "sourcelanguage")
_TO = ("tgtlang", "trglang", "targetlang", "tgtlanguage", "targetlanguage")
_WHOLE_TEXT = ("text", "paragraphs")
_OBJECT = re.compile(r'\{\s*"')
NEEDS_IDS = (
    "the first line of a table needs the names of its columns, one of them 'doc_id', 'docid' or "
    "'document_id'; plain text has no tabs"
)


@dataclass(frozen=True)
class Row:
    """A line of a file of documents with ids.

    Attributes:
        number: of the line, from 1.
        document: the id of its document.
        segments: its segments: one if it has an id, else one for each line of its text.
        value: what its column holds.
    """

    number: int
    document: str
    segments: list[Segment]
    value: Any


class Rows(Reader):
    """JSON lines, and tables with a header and tabs, with the id of a document in every row.

    Columns are known by their names; case, ``-`` and ``_`` make no difference. So WMT24++
    (``document_id``, ``segment_id``, ``source``, ``target``), WMT25 and WMT26 (``doc_id``,
    ``src_text``, ``refs``, ``hypothesis``), ParaDocs (``src_docid``, ``src``, ``tgt``) and HPLT
    (``id``, ``text``) are read as they are. A row without a segment's id has a segment in each line
    of its text.

    Attributes:
        cells: the names of the columns of a table; None: it is JSON lines.
        others: the documents of other directions, with the numbers of their rows left out.
    """

    title = "JSON lines or a table"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cells: list[str] | None = None
        if not self._begins_as_json(self.head):
            self.cells = [_name(cell) for cell in self.head.first.split("\t")]
        self.others = Counter[str]()
        self._names: dict[str, None] = {}

    @staticmethod
    def _begins_as_json(head: Head) -> bool:
        return _OBJECT.match(head.first) is not None

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        if cls._begins_as_json(head):
            # A line of plain text may begin with a brace, too.
            if head.share(_OBJECT) > 0.5 or head.suffix in (".jsonl", ".ndjson", ".json"):
                return True
            try:
                return isinstance(parse_json(head.first, head.path), dict)
            except GtransError:
                return False
        if "\t" not in head.first:
            if head.lines and head.suffix in (".jsonl", ".ndjson"):
                raise GtransError(
                    f"{head.path}:{head.numbered[0][0]} is no JSON object; give one per line, or "
                    "another name to a file of another format"
                )
            return False
        names = {_name(cell) for cell in head.first.split("\t")}
        if names & {*_DOCUMENT} or ("id" in names and names & {*_WHOLE_TEXT}):
            return True
        if names <= _KNOWN:
            raise GtransError(
                f"{head.path}:{head.numbered[0][0]}: there is no document id; {NEEDS_IDS}"
            )
        return False

    def __iter__(self) -> Iterator[Document]:
        """The documents; rows that follow each other and have the same id are of one."""
        document: Document | None = None
        for row in self.rows():
            if document is None or document.name != row.document:
                if document is not None:
                    yield document
                document = Document(row.document, row.number, [])
            elif len(row.segments) > 1:  # a row is a document then
                raise GtransError(
                    f"{self.path}:{row.number}: document '{row.document}' comes again; give every "
                    "document once, or its segments together or with ids"
                )
            document.segments += row.segments
        if document is not None:
            yield document

    def rows(self) -> Iterator[Row]:
        """The rows of the wanted direction.

        Raises:
            GtransError: a line is no row like the others, an id or a text is missing, or there
                are rows of several directions and none is chosen.
        """
        directions: dict[str, None] = {}
        chosen = any_row = False
        for number, row in self._cells() if self.cells else self._objects():
            any_row = True
            self.column = self.column or self._find_column(number, row)
            direction = _direction(row)
            wanted = not self.choice.direction or not direction
            if direction not in directions and directions and wanted:
                directions[direction] = None
                raise GtransError(
                    f"{self.path}:{number}: the rows are of several directions; choose one with "
                    f"`--direction`: {', '.join(filter(None, directions))}"
                )
            directions[direction] = None
            if wanted or _same_direction(self.choice.direction, direction):
                chosen = True
                yield self._row(number, row)
            else:
                self.others[self._document(number, row)] += 1
        if chosen and self.role == "reference" and not self.references and self._names:
            chosen_references(self.path, list(self._names), self.choice.references)
        if any_row and not chosen:
            raise GtransError(
                f"{self.path} has no row of the direction {self.choice.direction}, only of "
                f"{', '.join(directions)}"
            )

    def _find_column(self, number: int, row: Mapping[str, Any]) -> str:
        asked = self.choice.columns.get(self.role)
        if asked and _name(asked) not in row:
            raise GtransError(
                f"{self.path}:{number}: there is no column '{asked}' (`--columns`), only "
                f"{', '.join(row)}"
            )
        found = next((name for name in _TEXTS[self.role] if name in row), "")
        return _name(asked) if asked else found

    def _document(self, number: int, row: Mapping[str, Any]) -> str:
        """The id of the document of a row."""
        ids = (*_DOCUMENT, "id") if self.column in _WHOLE_TEXT else _DOCUMENT
        document = next((row[name] for name in ids if name in row), None)
        if not isinstance(document, str | int) or not str(document).strip():
            raise GtransError(
                f"{self.path}:{number}: there is no document id; a row needs one, under 'doc_id', "
                "'docid' or 'document_id'"
            )
        return str(document)

    def _row(self, number: int, row: Mapping[str, Any]) -> Row:
        where = f"{self.path}:{number}"
        document = self._document(number, row)
        name = next((str(row[key]) for key in _SEGMENT if row.get(key) not in (None, "")), "")
        value = row.get(self.column)
        left_out = BAD_SOURCE if str(row.get("isbadsource", "")).lower() in ("true", "1") else ""
        texts = self._texts(where, value, self.column in row)
        lines = [lines_of(text) for text in texts]
        if self.role == "reference" and not isinstance(value, str) and not any(lines):
            segment = Segment(number, [""], name, NO_REFERENCE)  # published before its references
            return Row(number, document, [segment], value)
        if name:
            joined = [" ".join(one) for one in lines]
            segments = [Segment(number, joined, name, left_out)]
        elif len({len(one) for one in lines}) > 1:
            raise GtransError(f"{where}: its references have different numbers of lines")
        else:
            both = zip(*lines, strict=True)
            segments = [Segment(number, list(one), "", left_out) for one in both]
            segments = segments or [Segment(number, [""] * len(lines), "", left_out)]
        for segment in segments:
            check_length(self.path, number, segment.texts[0])
        return Row(number, document, segments, value)

    def _texts(self, where: str, value: Any, is_there: bool) -> list[str]:
        """The text of a row; several for several references, none if there is none yet."""
        texts = _alternatives(value)
        if self.role == "reference" and is_there and (not value or texts == {}):
            return []
        if not texts:
            names = (
                f"'{self.column}', as other rows"
                if self.column
                else f"one of: {', '.join(_TEXTS[self.role])}"
            )
            raise GtransError(f"{where}: there is no {self.role}; a row needs a text under {names}")
        self._names |= dict.fromkeys(texts)
        if self.role != "reference":
            wanted = [the_only_system(self.path, list(texts), self.choice.system)]
        elif self.choice.references and [*texts] != [""]:
            wanted = [name for name in self.choice.references if name in texts]
        else:
            wanted = list(texts)
        self.references = list(dict.fromkeys([*self.references, *wanted]))
        return [texts[name] for name in wanted]

    def _objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, line in self.lines:
            if not line.strip():
                continue
            row = parse_json(line, f"{self.path}:{number}") if _OBJECT.match(line.strip()) else None
            if not isinstance(row, dict):
                raise GtransError(
                    f"{self.path}:{number} is no JSON object with a document id, as the lines "
                    "before it; give one object per line"
                )
            yield number, {_name(key): value for key, value in row.items()}

    def _cells(self) -> Iterator[tuple[int, dict[str, Any]]]:
        assert self.cells is not None
        headed = False
        for number, line in self.lines:
            if not line.strip():
                continue
            if not headed:
                headed = True
                continue
            cells = line.split("\t")
            if len(cells) != len(self.cells):
                raise GtransError(
                    f"{self.path}:{number} has {len(cells)} cells, but the header has "
                    f"{len(self.cells)}; cells are separated by tabs, and cannot contain any"
                )
            yield number, dict(zip(self.cells, cells, strict=True))


def _name(cell: str) -> str:
    return cell.strip().lower().replace("_", "").replace("-", "")


def _alternatives(value: Any) -> dict[str, str] | None:
    """The text of a row by its name; several texts, as in ``refs`` of WMT25, have names."""
    if isinstance(value, str):
        return {"": value}
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        return {"": "\n".join(map(" ".join, map(str.split, value)))}
    if isinstance(value, dict):
        inner = {
            name: _alternatives((one.get("ref") if isinstance(one, dict) else one) or {})
            for name, one in value.items()
        }
        if all(one is not None and [*one] == [""] for one in inner.values() if one != {}):
            return {name: one[""] for name, one in inner.items() if one and one[""]}
    return None


def _direction(row: Mapping[str, Any]) -> str:
    """The direction that a row names: ``en-de_DE``; empty: none."""
    pair = next((str(row[name]) for name in _PAIR if row.get(name)), "")
    sides = [next((str(row[n]) for n in names if row.get(n)), "") for names in (_FROM, _TO)]
    return pair or "-".join(filter(None, sides))


def _same_direction(wanted: str, found: str) -> bool:
    """Whether ``en-de`` is ``en-de_DE``; two regions must be the same."""

    sides = [
        [side.partition("_") for side in direction.lower().split("-")]
        for direction in (wanted, found)
    ]
    return len(sides[0]) == len(sides[1]) and all(
        (language_code(left[0]) or left[0]) == (language_code(right[0]) or right[0])
        and (left[2] == right[2] or not (left[2] and right[2]))
        for left, right in zip(*sides, strict=True)
    )


def lines_of(text: str) -> list[str]:
    """The lines of a row's text that are not empty, with single spaces."""
    return [joined for line in text.split("\n") if (joined := " ".join(line.split()))]
