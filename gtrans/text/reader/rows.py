"""JSON lines and tables with document ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from gtrans.data.documents import check_length
from gtrans.errors import GtransError
from gtrans.files import parse_json
from gtrans.languages import language_code
from gtrans.messages import print_message
from gtrans.text.reader.base import (
    BAD_SOURCE,
    NO_REFERENCE,
    ONLY_MARKUP,
    Document,
    Head,
    Reader,
    Role,
    Segment,
    chosen_references,
    only_system,
)
from gtrans.text.reader.markup import without_markup

_DOCUMENT = ("docid", "documentid", "document", "doc", "srcdocid")
_SEGMENT = ("segid", "segmentid", "sentid", "sentenceid", "paragraphid")
_TEXT_COLUMNS: dict[Role, str] = {
    "translation": "hypothesis hyp translation mt prediction pred tgttext target tgt paragraphs "
    "text",
    "reference": "reference ref refs tgttext target tgt translation paragraphs text",
    "source": "source src srctext sourcetext paragraphs text",
}
_TEXTS = {role: names.split() for role, names in _TEXT_COLUMNS.items()}
"""Names of the column with the text, the first choice first."""
_PAIR = ("lp", "langpair", "languagepair")
_FROM = ("srclang", "sourcelang", "srclanguage", "sourcelanguage")
_TO = ("tgtlang", "trglang", "targetlang", "tgtlanguage", "targetlanguage")
_WHOLE_TEXT = ("text", "paragraphs")
_OBJECT = re.compile(r'\{\s*"')


class Row(NamedTuple):
    """A row; without a segment id, it has a segment for each line of its text."""

    number: int
    document: str
    segments: list[Segment]
    value: Any

    @property
    def text(self) -> str:
        """Its first text."""
        texts = _alternatives(self.value)
        return next(iter(texts.values()), "")


class RowReader(Reader):
    """JSON lines, and tables with a header and tabs, with the id of a document in every row.

    Case, ``-`` and ``_`` in names of columns do not matter. WMT24++ to WMT26, ParaDocs, HPLT and
    rows of the Hugging Face hub (``translation: {en: .., de: ..}``) are read as they are. A row
    without a segment id has a segment in each line. In JSON lines without document ids, every row
    is a document.

    Attributes:
        cells: the columns of a table; None: JSON lines.
        others: number of rows of each document of other directions.
        with_markup: number of rows from which markup was left out.
    """

    title = "JSON lines or a table"
    beginning = r'\{\s*"|[^\t]*\t'
    suffixes = (".jsonl", ".ndjson")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.cells: list[str] | None = None
        if _OBJECT.match(self.head.first) is None:
            self.cells = [_name(cell) for cell in self.head.first.split("\t")]
        self.others = Counter[str]()
        self.with_markup = 0
        self._has_document_ids = True
        self._languages: dict[str, str] = {}  # by the names of the columns with their texts
        self._names: dict[str, None] = {}

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        if _OBJECT.match(head.first):
            # A line of plain text may begin with a brace, too.
            if head.share(_OBJECT.pattern) > 0.5:
                return True
            if head.suffix in (".jsonl", ".ndjson", ".json"):
                return True
            try:
                return isinstance(parse_json(head.first, head.path), dict)
            except GtransError:
                return False
        names = {_name(cell) for cell in head.first.split("\t")}
        has_ids = not names.isdisjoint(_DOCUMENT)
        has_ids |= "id" in names and not names.isdisjoint(_WHOLE_TEXT)
        if len(names) > 1 and has_ids:
            return True
        if head.lines and head.suffix in cls.suffixes:
            number = head.numbered[0][0]
            raise GtransError(f"{head.path}:{number}: no JSON object; give one per line")
        return False

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents: consecutive rows with the same id are one."""
        for name, group in groupby(self.rows(), attrgetter("document")):
            rows = list(group)
            segments: list[Segment] = []
            for row in rows:
                if row is not rows[0] and len(row.segments) > 1:
                    raise self.wrong(
                        rows[1].number,
                        f"document '{name}' comes again; give every document once, or its segments "
                        "together or with ids",
                    )
                segments += row.segments
            yield Document(name, rows[0].number, segments)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of the selected direction."""
        selected = self.selection.direction
        directions: list[str] = []
        has_selected = False
        for number, row in self._entries():
            if not directions:
                self.column = self._find_column(number, row)
                self._look_for_ids(row)
            direction = _direction(row)
            is_known = selected != "" and direction != ""
            if direction not in directions:
                directions.append(direction)
                if len(directions) > 1 and not is_known:
                    names = ", ".join(filter(None, directions))
                    raise self.wrong(
                        number,
                        f"rows of several directions; choose one with `--direction`: {names}",
                    )
            if is_known and not _same_direction(selected, direction):
                self.others[self._document(number, row)] += 1
                continue
            has_selected = True
            yield self._row(number, row)
        if directions and not has_selected:
            names = ", ".join(directions)
            raise GtransError(
                f"{self.path} has no row of the direction {selected}, only of {names}"
            )
        if self.role == "reference" and self._names and not self.references:
            chosen_references(self.path, list(self._names), self.selection.references)

    def _find_column(self, number: int, row: Mapping[str, Any]) -> str:
        requested = self.selection.columns.get(self.role)
        if requested and _name(requested) not in row:
            raise self.wrong(
                number, f"there is no column '{requested}' (`--columns`), only {', '.join(row)}"
            )
        if requested:
            return _name(requested)
        for column in _TEXTS[self.role]:
            if column in row:
                return column
        return self._column_of_language(number, row)

    def _column_of_language(self, number: int, row: Mapping[str, Any]) -> str:
        source, _, target = self.selection.direction.partition("-")
        target = target or self.selection.target_lang
        lang = source if self.role == "source" else target
        columns: list[str] = []
        if lang:
            columns = [name for name in row if _same_language(name, lang)]
        elif self.role == "source" and target:
            columns = [name for name in self._languages if not _same_language(name, target)]
        if not columns and self._languages:
            languages = ", ".join(self._languages.values())
            way_out = "name both languages: `--direction SRC-TGT`"
            if lang:
                way_out = f"none of them is '{lang}'"
            raise self.wrong(number, f"its texts are in the languages {languages}; {way_out}")
        return columns[0] if len(columns) == 1 else ""

    def _look_for_ids(self, row: Mapping[str, Any]) -> None:
        has_id = not row.keys().isdisjoint(self._id_columns)
        self._has_document_ids = has_id or self.cells is not None
        if not self._has_document_ids:
            _report_missing_ids(self.path)

    @property
    def _id_columns(self) -> tuple[str, ...]:
        return (*_DOCUMENT, "id") if self.column in _WHOLE_TEXT else _DOCUMENT

    def _document(self, number: int, row: Mapping[str, Any]) -> str:
        if not self._has_document_ids:
            return str(number)
        document = None
        for name in self._id_columns:
            if name in row:
                document = row[name]
                break
        if not isinstance(document, str | int) or not str(document).strip():
            raise self.wrong(
                number,
                "there is no document id; a row needs one, under 'doc_id', 'docid' or "
                "'document_id'",
            )
        return str(document)

    def _row(self, number: int, row: Mapping[str, Any]) -> Row:
        document = self._document(number, row)
        value = row.get(self.column)
        name = _segment_id(row)
        is_bad_source = str(row.get("isbadsource", "")).lower() in ("true", "1")
        left_out = BAD_SOURCE if is_bad_source else ""
        texts = self._texts(number, row)
        had_markup = False
        if self.selection.without_markup:
            plain = [without_markup(text) for text in texts]
            had_markup = plain != texts
            texts = plain
        self.with_markup += had_markup
        lines = [lines_of(text) for text in texts]
        if name:
            lines = [[" ".join(parts)] for parts in lines]
        lacks_reference = self.role == "reference" and not any(map(any, lines))
        # A row that was published before its references has no text in their place.
        if lacks_reference and (had_markup or not isinstance(value, str)):
            reason = ONLY_MARKUP if had_markup else NO_REFERENCE
            return Row(number, document, [Segment(number, [""], name, reason)], value)
        if any(len(other) != len(lines[0]) for other in lines):
            raise self.wrong(number, "its references have different numbers of lines")
        parallel_lines = list(zip(*lines, strict=True))
        if not parallel_lines:
            parallel_lines = [("",) * len(lines)]
        segments = []
        for parallel in parallel_lines:
            for line in parallel:
                check_length(self.path, number, line)
            segments.append(Segment(number, list(parallel), name, left_out))
        return Row(number, document, segments, value)

    def _texts(self, number: int, row: Mapping[str, Any]) -> list[str]:
        value = row.get(self.column)
        texts = _alternatives(value)
        # A test set may be published before its references.
        is_reference = self.role == "reference" and self.column in row
        may_lack = is_reference and (not value or isinstance(value, dict))
        if _has_other_values(value) or not (texts or may_lack):
            columns = f"one of: {', '.join(_TEXTS[self.role])}"
            if self.column:
                columns = f"'{self.column}'"
            raise self.wrong(number, f"there is no {self.role}; a row needs a text under {columns}")
        self._names |= dict.fromkeys(texts)
        names = list(texts)
        if self.role != "reference":
            names = [only_system(self.path, names, self.selection.system)]
        elif self.selection.references and names != [""]:
            names = [name for name in self.selection.references if name in texts]
        for name in names:
            if name not in self.references:
                self.references.append(name)
        return [texts[name] for name in names]

    def _with_languages(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row by its columns; texts by language become columns."""
        named = {_name(key): value for key, value in row.items()}
        texts = named.get("translation")
        if not isinstance(texts, dict) or not texts or not all(map(language_code, texts)):
            return named
        del named["translation"]
        for lang, text in texts.items():
            named[_name(lang)] = text
            self._languages[_name(lang)] = lang
        return named

    def _entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        head = self.head.numbered[0][0]
        for number, line in self.lines:
            if not line.strip():
                continue
            if self.cells is None:
                row = parse_json(line, f"{self.path}:{number}")
                if not isinstance(row, dict):
                    raise self.wrong(number, "no JSON object; give one per line")
                yield number, self._with_languages(row)
            elif number > head:
                cells = line.split("\t")
                if len(cells) != len(self.cells):
                    raise self.wrong(
                        number,
                        f"{len(cells)} cells, but the header has {len(self.cells)}; cells are "
                        "separated by tabs, and cannot contain any",
                    )
                yield number, dict(zip(self.cells, cells, strict=True))


@cache
def _report_missing_ids(path: str) -> None:
    print_message(
        f"{path}: its rows have no document ids, so each of them is a document of its own"
    )


def _same_language(first: str, second: str) -> bool:
    if first == _name(second):
        return True
    code = language_code(first)
    if code is None:
        return False
    return code == language_code(second)


def _name(cell: str) -> str:
    return cell.strip().lower().replace("_", "").replace("-", "")


def _alternatives(value: Any) -> dict[str, str]:
    if isinstance(value, str):
        return {"": value}
    if isinstance(value, list) and value and all(isinstance(line, str) for line in value):
        lines = [" ".join(line.split()) for line in value]
        return {"": "\n".join(lines)}
    alternatives: dict[str, str] = {}
    if not isinstance(value, dict):
        return alternatives
    for name, item in value.items():
        if isinstance(item, dict):
            item = item.get("ref")
        text = _alternatives(item).get("")
        if text:
            alternatives[name] = text
    return alternatives


def _segment_id(row: Mapping[str, Any]) -> str:
    for name in _SEGMENT:
        if row.get(name) not in (None, ""):
            return str(row[name])
    return ""


def _has_other_values(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return any(not isinstance(item, str | list | dict | None) for item in value.values())


def _direction(row: Mapping[str, Any]) -> str:
    pair = _first_value(row, _PAIR)
    if pair:
        return pair
    source = _first_value(row, _FROM)
    target = _first_value(row, _TO)
    if source and target:
        return f"{source}-{target}"
    return source or target


def _first_value(row: Mapping[str, Any], names: Sequence[str]) -> str:
    for name in names:
        if row.get(name):
            return str(row[name])
    return ""


def _same_direction(selected: str, direction: str) -> bool:
    """Whether ``en-de`` is ``en-de_DE``; regions must be the same."""
    left = selected.lower().split("-")
    right = direction.lower().split("-")
    return len(left) == len(right) and all(map(_same_variety, left, right))


def _same_variety(first: str, second: str) -> bool:
    language, _, region = first.partition("_")
    other_language, _, other_region = second.partition("_")
    code = language_code(language) or language
    if code != (language_code(other_language) or other_language):
        return False
    has_both_regions = region != "" and other_region != ""
    return region == other_region or not has_both_regions


def lines_of(text: str) -> list[str]:
    """Return the lines with text, with single spaces."""
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return [line for line in lines if line]
