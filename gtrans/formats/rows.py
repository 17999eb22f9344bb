"""Rows of documents with ids: JSON lines and tables (TSV), such as those of WMT24++ and WMT25.

The translation of a row is its field ``hypothesis``, the name by which ``gtrans score`` finds it;
all other fields stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice

from gtrans.data.documents import iterate_raw_lines, line_end
from gtrans.errors import GtransError
from gtrans.evaluation.document_ids import Row, read_rows
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.inline import Block, Splitter
from gtrans.formats.plain import Sentence

TRANSLATION = "hypothesis"


class Rows(DocumentFile):
    """JSON lines or a table; rows of one document are in its order, also if others are between."""

    running = False

    @classmethod
    def read(cls, path: str, split: Splitter) -> Rows:
        """See :meth:`DocumentFile.read`."""
        found = cls(path)
        found.lines = list(iterate_raw_lines(path, strip=False))
        found.line_end = line_end(path)
        rows = read_rows(path, "source")
        if rows is None:
            raise GtransError(
                f"'{path}' has no rows with document ids; give JSON lines, or a table with a "
                "header, with 'doc_id' and 'source'"
            )
        found.rows = {}
        for row in rows:
            found.rows.setdefault(row.document, []).append(row)
        for document in found.rows.values():
            blocks: list[Block] = []
            for row in document:
                for segment in row.segments:
                    text = segment.text()
                    block = Block([text], split) if cls.running else Sentence(text)
                    if not text:
                        block.sentences = []
                    blocks.append(block)
            found.documents.append(blocks)
        return found

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lines: list[str] = []
        self.line_end = "\n"
        self.rows: dict[str, list[Row]] = {}

    def names(self) -> list[tuple[str, list[str]]]:
        """The ids of the file, as far as it has them."""
        found = []
        for (name, rows), blocks in zip(self.rows.items(), self.documents, strict=True):
            segments = iter([segment for row in rows for segment in row.segments])
            ids: list[str] = []
            for block in blocks:
                own = next(segments).name
                numbers = range(1, len(block.sentences) + 1)
                if not own:
                    ids += [str(len(ids) + n) for n in numbers]
                elif len(numbers) > 1:  # ids must differ
                    ids += [f"{own}.{n}" for n in numbers]
                else:
                    ids += [own for _ in numbers]
            found.append((name, ids))
        return found

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        numbers = (
            row.number for rows in self.rows.values() for row in rows for _ in row.segments
        )
        blocks = (block for blocks in self.documents for block in blocks)
        return [
            number
            for number, block in zip(numbers, blocks, strict=True)
            for _ in block.sentences
        ]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        texts = iter(
            "".join(map(str, block.translated(found, joint)))
            for block, found in self.by_block(translations)
        )
        by_line = {
            row.number: list(islice(texts, len(row.segments)))
            for rows in self.rows.values()
            for row in rows
        }
        return "".join(f"{line}{self.line_end}" for line in self._written(by_line)).encode()

    def _written(self, by_line: dict[int, list[str]]) -> list[str]:
        """The lines, with the translations of those that are rows."""
        columns = next(row.cells for rows in self.rows.values() for row in rows)
        if columns is None:
            return [
                self._object(line, by_line[number]) if number in by_line else line
                for number, line in enumerate(self.lines, start=1)
            ]
        place = columns.index(TRANSLATION) if TRANSLATION in columns else len(columns)
        lines: list[str] = []
        headless = place == len(columns)
        for number, line in enumerate(self.lines, start=1):
            cells = line.split("\t")
            if number in by_line:
                cells[place : place + 1] = [" ".join(by_line[number])]
            elif len(cells) > 1 and place == len(columns):  # the header, then rows without text
                cells.append(TRANSLATION if headless else "")
                headless = False
            lines.append("\t".join(cells))
        return lines

    @staticmethod
    def _object(line: str, texts: list[str]) -> str:
        entries = json.loads(line)
        return json.dumps({**entries, TRANSLATION: "\n".join(texts)}, ensure_ascii=False)


class RunningRows(Rows):
    """Rows of running text."""

    running = True
