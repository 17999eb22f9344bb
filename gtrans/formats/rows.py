"""Rows of documents with ids: JSON lines and tables (TSV), such as those of WMT24++ to WMT26.

The translation of a row is its field ``hypothesis``, the name by which ``gtrans score`` finds it;
all other fields stay as they are. Tags and fenced blocks inside a row stay as in HTML and Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gtrans.data.documents import iterate_raw_lines, line_end
from gtrans.errors import GtransError
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.html import HtmlText
from gtrans.formats.inline import Block, Splitter
from gtrans.formats.plain import Sentence
from gtrans.messages import say
from gtrans.text import reader
from gtrans.text.reader import ANY, MARKUP, Choice, open_text

TRANSLATION = "hypothesis"
_FENCE = re.compile(r"\s*(```+|~~~+)")


@dataclass
class _Row:
    """A row: its line from 1, the id of its segment if it has one, and the lines of its text."""

    number: int
    name: str
    lines: list[str | Block | HtmlText]

    @property
    def blocks(self) -> list[Block]:
        """What is translated."""
        found: list[Block] = []
        for line in self.lines:
            found += [line] if isinstance(line, Block) else []
            found += line.blocks if isinstance(line, HtmlText) else []
        return found

    @property
    def sentences(self) -> int:
        """How many sentences are translated."""
        return sum(len(block.sentences) for block in self.blocks)

    def translated(self, translations: Iterator[Sequence[str]], joint: str) -> str:
        """The text with the translations of the sentences of each block."""
        return "\n".join(
            line
            if isinstance(line, str)
            else line.translated(translations, joint)
            if isinstance(line, HtmlText)
            else "".join(map(str, line.translated(next(translations), joint)))
            for line in self.lines
        )


class Rows(DocumentFile):
    """JSON lines or a table; rows of one document are in its order, also if others are between."""

    running = False

    @classmethod
    def read(cls, path: str, split: Splitter, choice: Choice = ANY) -> Rows:
        """See :meth:`DocumentFile.read`; ``choice``: which rows are translated."""
        rows = open_text(path, "source", choice)
        if not isinstance(rows, reader.Rows):
            raise GtransError(
                f"'{path}' has no rows with document ids; give JSON lines, or a table with a "
                "header, with 'doc_id' and 'source'"
            )
        found = cls(path)
        found.lines = list(iterate_raw_lines(path, strip=False))
        found.line_end = line_end(path)
        for row in rows.rows():
            text = row.value if isinstance(row.value, str) else "\n".join(row.value)
            name = row.segments[0].name
            lines = list(cls._lines_of(text, split, as_one=bool(name)))
            found.rows.setdefault(row.document, []).append(_Row(row.number, name, lines))
        if not any(row.sentences for of_document in found.rows.values() for row in of_document):
            raise GtransError(f"'{path}' holds no text; give rows with a document id and a text")
        if rows.others:
            say(f"{path}: {rows.others.total()} rows of other directions stay as they are")
        found.documents = [
            [block for row in of_document for block in row.blocks]
            for of_document in found.rows.values()
        ]
        found.columns = rows.cells
        return found

    @classmethod
    def _lines_of(
        cls, text: str, split: Splitter, as_one: bool
    ) -> Iterator[str | Block | HtmlText]:
        """The lines of a text; ``as_one``: without markup it is a single one."""
        fence = ""
        marked = MARKUP.search(text) is not None
        if as_one and not marked and not _FENCE.search(text):
            text = " ".join(text.split())
        for line in text.split("\n"):
            mark = _FENCE.match(line)
            if fence or mark:
                ends = mark is not None and line.strip() == fence
                begins = mark is not None and not fence
                # A block may begin and end on one line.
                if begins and mark is not None and line.rstrip().endswith(mark[1], mark.end()):
                    begins = False
                fence = "" if ends else mark[1] if begins and mark is not None else fence
                yield line
            elif marked and MARKUP.search(line):
                yield HtmlText(line, split)
            elif words := " ".join(line.split()):
                yield Block([words], split) if cls.running else Sentence(words)
            else:
                yield line

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lines: list[str] = []
        self.line_end = "\n"
        self.rows: dict[str, list[_Row]] = {}
        self.columns: list[str] | None = None

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
        return [
            row.number for rows in self.rows.values() for row in rows for _ in range(row.sentences)
        ]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        following = (found for _, found in self.by_block(translations))
        by_line = {
            row.number: row.translated(following, joint)
            for rows in self.rows.values()
            for row in rows
        }
        return "".join(f"{line}{self.line_end}" for line in self._written(by_line)).encode()

    def _written(self, by_line: dict[int, str]) -> list[str]:
        """The lines, with the translations of those that are rows."""
        if self.columns is None:
            return [
                self._object(line, by_line[number]) if number in by_line else line
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

    @staticmethod
    def _object(line: str, text: str) -> str:
        return json.dumps({**json.loads(line), TRANSLATION: text}, ensure_ascii=False)


class RunningRows(Rows):
    """Rows of running text."""

    running = True
