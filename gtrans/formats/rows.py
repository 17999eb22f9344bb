"""Rows of documents with ids: JSON lines and tables (TSV), such as those of WMT24++ and WMT25.

The translation of a row is its field ``hypothesis``, the name by which ``gtrans score`` finds it;
all other fields stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from gtrans.data.documents import iterate_raw_lines, line_end
from gtrans.errors import GtransError
from gtrans.formats.plain import Line, Lines
from gtrans.messages import say
from gtrans.text import reader
from gtrans.text.document_file import Splitter
from gtrans.text.reader import ANY, Choice, open_text

TRANSLATION = "hypothesis"


@dataclass
class _Row:
    """A row: its line from 1, the id of its segment if it has one, and the lines of its text.

    A line without text has no block.
    """

    number: int
    name: str
    lines: list[Line | None]

    @property
    def sentences(self) -> int:
        """How many sentences are translated."""
        return sum(len(line.sentences) for line in self.lines if line)


class Rows(Lines):
    """JSON lines or a table; rows of one document are in its order, also if others are between."""

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        rows = open_text(path, "source", choice)
        if not isinstance(rows, reader.Rows):
            raise GtransError(
                f"'{path}' has no rows with document ids; give JSON lines, or a table with a "
                "header, with 'doc_id' and 'source'"
            )
        self.lines = list(iterate_raw_lines(path, strip=False))
        self.line_end, self.columns = line_end(path), rows.cells
        self.rows: dict[str, list[_Row]] = {}
        for row in rows.rows():
            text = row.value if isinstance(row.value, str) else "\n".join(row.value)
            name = row.segments[0].name
            lines = [" ".join(line.split()) for line in ([text] if name else text.split("\n"))]
            blocks = [Line(line, split, row.number) if line else None for line in lines]
            self.rows.setdefault(row.document, []).append(_Row(row.number, name, blocks))
        if not any(row.sentences for row in chain(*self.rows.values())):
            raise GtransError(f"'{path}' holds no text; give rows with a document id and a text")
        if rows.others:
            say(f"{path}: {rows.others.total()} rows of other directions stay as they are")
        self.documents = [
            [line for row in group for line in row.lines if line] for group in self.rows.values()
        ]

    def names(self) -> list[tuple[str, list[str]]]:
        """The ids of the file, as far as it has them."""
        names = []
        for name, rows in self.rows.items():
            ids: list[str] = []
            for row in rows:
                numbers = range(1, row.sentences + 1)
                if not row.name:
                    ids += [str(len(ids) + n) for n in numbers]
                else:  # ids must differ
                    ids += [f"{row.name}.{n}" if len(numbers) > 1 else row.name for n in numbers]
            names.append((name, ids))
        return names

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        texts = self.texts(translations, joint)
        by_line = {
            row.number: "\n".join(next(texts) if line else "" for line in row.lines)
            for row in chain(*self.rows.values())
        }
        lines = self._json_lines(by_line) if self.columns is None else self._table(by_line)
        return "".join(f"{line}{self.line_end}" for line in lines).encode()

    def _json_lines(self, by_line: dict[int, str]) -> list[str]:
        return [
            json.dumps({**json.loads(line), TRANSLATION: by_line[number]}, ensure_ascii=False)
            if number in by_line
            else line
            for number, line in enumerate(self.lines, start=1)
        ]

    def _table(self, by_line: dict[int, str]) -> list[str]:
        columns = self.columns or []
        column = columns.index(TRANSLATION) if TRANSLATION in columns else len(columns)
        lines, header = [], TRANSLATION
        for number, line in enumerate(self.lines, start=1):
            cells = line.split("\t")
            if number in by_line:
                cells[column : column + 1] = [" ".join(by_line[number].split("\n"))]
            elif len(cells) > 1 and column == len(columns):  # the header, then rows without text
                cells.append(header)
                header = ""
            lines.append("\t".join(cells))
        return lines
