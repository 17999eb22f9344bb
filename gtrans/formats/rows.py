"""Rows of documents with ids: JSON lines and tables (TSV), such as WMT24++ to WMT26.

The translation of a row is its field ``hypothesis``, which ``gtrans score`` finds; all other fields
stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from gtrans.data.documents import iterate_raw_lines, line_end
from gtrans.errors import GtransError
from gtrans.formats.checks import BlockCheck
from gtrans.formats.html import HtmlText
from gtrans.formats.inline import Block
from gtrans.formats.plain import Line
from gtrans.formats.sentences import whole
from gtrans.messages import print_message
from gtrans.text import reader
from gtrans.text.document_file import DocumentFile, DocumentIds, Splitter
from gtrans.text.reader import ALL_TEXT, TextSelection, have_markup, open_text

TRANSLATION = "hypothesis"

_FENCE = re.compile(r"\s*(```+|~~~+)")


@dataclass
class _Row:
    """A row; ``number``: its line from 1; ``name``: the id of its segment."""

    number: int
    name: str
    lines: Sequence[str | Line | HtmlText]

    @property
    def blocks(self) -> list[Block]:
        blocks: list[Block] = []
        for line in self.lines:
            if isinstance(line, Line):
                blocks.append(line)
            elif isinstance(line, HtmlText):
                blocks += line.blocks
        return blocks

    @property
    def sentences(self) -> int:
        return sum(len(block.sentences) for block in self.blocks)

    def translated(
        self,
        translations: Iterator[Sequence[str]],
        joint: str,
        languages: tuple[str, str] | None,
    ) -> str:
        written = []
        for line in self.lines:
            if isinstance(line, Line):
                written.append(line.text(next(translations), joint))
            elif isinstance(line, HtmlText):
                written.append(line.translated(translations, joint, languages))
            else:
                written.append(line)
        return "\n".join(written)


class RowFile(DocumentFile):
    """JSON lines or a table; rows of a document need not be neighbours.

    If most texts begin with a tag or a fence, all are read as HTML, and fenced code stays.
    """

    has_lines = True
    is_html = False

    def __init__(
        self, path: str, split: Splitter | None, selection: TextSelection = ALL_TEXT
    ) -> None:
        super().__init__(path)
        rows = open_text(path, "source", selection)
        if not isinstance(rows, reader.RowReader):
            raise GtransError(
                f"'{path}' has no rows with document ids; give JSON lines, or a table with a "
                "header, with 'doc_id' and 'source'"
            )
        self.check = BlockCheck()
        self.lines = list(iterate_raw_lines(path, strip=False))
        self.line_end = line_end(path)
        self.columns = rows.cells
        self.rows: dict[str, list[_Row]] = {}
        self._split = split
        found = list(rows.rows())
        has_markup = self.is_html or have_markup([row.text for row in found])
        if has_markup:
            print_message(f"{path}: its texts are read as HTML; tags and fenced code stay")
        sentences = 0
        for source in found:
            name = source.segments[0].name
            lines: Sequence[str | Line | HtmlText]
            if has_markup:
                lines = list(self._lines_of_markup(source.text, source.number))
            else:
                lines = list(self._lines_of_text(source.text, source.number, as_one=bool(name)))
            row = _Row(source.number, name, lines)
            self.rows.setdefault(source.document, []).append(row)
            sentences += row.sentences
        if not sentences:
            why = " but tags and fenced code, which stay" if has_markup else ""
            raise GtransError(
                f"'{path}' holds no text{why}; give rows with a document id and a text"
            )
        if rows.others:
            print_message(
                f"{path}: {rows.others.total()} rows of other directions stay as they are"
            )
        self.check.check_file(path)
        for group in self.rows.values():
            blocks: list[Block] = []
            for row in group:
                blocks += row.blocks
            self.documents.append(blocks)

    def _lines_of_text(self, text: str, number: int, as_one: bool) -> Iterator[str | Line]:
        lines = [text] if as_one else text.split("\n")
        for line in lines:
            words = " ".join(line.split())
            yield Line(words, self._split, number) if words else ""

    def _lines_of_markup(self, text: str, number: int) -> Iterator[str | HtmlText]:
        fence = ""  # the characters of the open fence
        for line in text.split("\n"):
            begin = _FENCE.match(line)
            if fence:
                yield line
                if begin and line.strip() == fence:
                    fence = ""
            elif begin:
                yield line
                stands_alone = line.strip() == begin[1]
                is_closed = line.rstrip().endswith(begin[1]) and not stands_alone
                fence = "" if is_closed else begin[1]
            else:
                yield HtmlText(line, self._split or whole, number, self.check)

    @property
    def ids(self) -> list[DocumentIds]:
        """The ids of each document and its sentences; numbers stand for missing ids."""
        ids_of_documents = []
        for name, rows in self.rows.items():
            ids: list[str] = []
            for row in rows:
                numbers = range(1, row.sentences + 1)
                if not row.name:
                    ids += [str(len(ids) + n) for n in numbers]
                else:  # ids must differ
                    ids += [f"{row.name}.{n}" if len(numbers) > 1 else row.name for n in numbers]
            ids_of_documents.append(DocumentIds(name, ids))
        return ids_of_documents

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = self.check.notes(self.path)
        following = (sentences for _, sentences in self.by_block(translations))
        by_line = {}
        for row in chain(*self.rows.values()):
            by_line[row.number] = row.translated(following, joint, self.languages)
        lines = self._json_lines(by_line) if self.columns is None else self._table(by_line)
        return "".join(f"{line}{self.line_end}" for line in lines).encode()

    def _json_lines(self, by_line: dict[int, str]) -> list[str]:
        lines = []
        for number, line in enumerate(self.lines, start=1):
            if number in by_line:
                row = json.loads(line)
                row[TRANSLATION] = by_line[number]
                line = json.dumps(row, ensure_ascii=False)
            lines.append(line)
        return lines

    def _table(self, by_line: dict[int, str]) -> list[str]:
        columns = self.columns or []
        is_new = TRANSLATION not in columns
        column = len(columns) if is_new else columns.index(TRANSLATION)
        new_cell = TRANSLATION  # in the header, and then empty in rows without text
        lines = []
        for number, line in enumerate(self.lines, start=1):
            cells = line.split("\t")
            if number in by_line:
                cells[column : column + 1] = [by_line[number].replace("\n", " ")]
            elif is_new and len(cells) > 1:
                cells.append(new_cell)
                new_cell = ""
            lines.append("\t".join(cells))
        return lines


class HtmlRowFile(RowFile):
    """Rows whose texts are HTML, whatever they begin with."""

    is_html = True
