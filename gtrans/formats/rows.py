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
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.inline import Block, Splitter
from gtrans.formats.plain import block_of
from gtrans.messages import say
from gtrans.text import reader
from gtrans.text.reader import ANY, Choice, open_text

TRANSLATION = "hypothesis"


@dataclass
class _Row:
    """A row: its line from 1, the id of its segment if it has one, and the lines of its text.

    A line without text has no block.
    """

    number: int
    name: str
    lines: list[Block | None]

    @property
    def sentences(self) -> int:
        """How many sentences are translated."""
        return sum(len(block.sentences) for block in self.lines if block)


class Rows(DocumentFile):
    """JSON lines or a table; rows of one document are in its order, also if others are between."""

    has_lines = True

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
            blocks = [block_of(line, split) if line else None for line in lines]
            self.rows.setdefault(row.document, []).append(_Row(row.number, name, blocks))
        if not any(row.sentences for row in chain(*self.rows.values())):
            raise GtransError(f"'{path}' holds no text; give rows with a document id and a text")
        if rows.others:
            say(f"{path}: {rows.others.total()} rows of other directions stay as they are")
        self.documents = [
            [block for row in of_document for block in row.lines if block]
            for of_document in self.rows.values()
        ]

    def names(self) -> list[tuple[str, list[str]]]:
        """The ids of the file, as far as it has them."""
        found = []
        for name, rows in self.rows.items():
            ids: list[str] = []
            for row in rows:
                numbers = range(1, row.sentences + 1)
                if not row.name:
                    ids += [str(len(ids) + n) for n in numbers]
                elif len(numbers) > 1:  # ids must differ
                    ids += [f"{row.name}.{n}" for n in numbers]
                else:
                    ids += [row.name for _ in numbers]
            found.append((name, ids))
        return found

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        return [row.number for row in chain(*self.rows.values()) for _ in range(row.sentences)]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        following = self.by_block(translations)
        by_line: dict[int, str] = {}
        for row in chain(*self.rows.values()):
            texts = [
                "".join(map(str, block.translated(next(following)[1], joint))) if block else ""
                for block in row.lines
            ]
            by_line[row.number] = "\n".join(texts)
        return "".join(f"{line}{self.line_end}" for line in self._written(by_line)).encode()

    def _written(self, by_line: dict[int, str]) -> list[str]:
        """The lines, with the translations of those that are rows."""
        if self.columns is None:
            return [
                json.dumps({**json.loads(line), TRANSLATION: by_line[number]}, ensure_ascii=False)
                if number in by_line
                else line
                for number, line in enumerate(self.lines, start=1)
            ]
        columns = self.columns
        place = columns.index(TRANSLATION) if TRANSLATION in columns else len(columns)
        lines: list[str] = []
        headless = place == len(columns)
        for number, line in enumerate(self.lines, start=1):
            cells = line.split("\t")
            if number in by_line:
                cells[place : place + 1] = [" ".join(by_line[number].split("\n"))]
            elif len(cells) > 1 and place == len(columns):  # the header, then rows without text
                cells.append(TRANSLATION if headless else "")
                headless = False
            lines.append("\t".join(cells))
        return lines
