"""Plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gtrans.data.documents import check_length, line_end
from gtrans.formats.document_file import DocumentFile, as_one
from gtrans.formats.inline import PLACEHOLDER, Block, Mark, Splitter
from gtrans.text.reader import is_boundary, notice_running_text, plain_lines


class Sentence(Block):
    """A line that is a sentence, whatever it holds; but placeholders are not translated."""

    def __init__(self, line: str) -> None:
        super().__init__([line], as_one, addresses=False)
        self._whole = not PLACEHOLDER.search(line)
        if self._whole:
            self.text = line
            self.sentences = [line]

    def translated(self, translations: Iterable[str], joint: str) -> list[str | Mark]:
        """The translation."""
        return list(translations) if self._whole else super().translated(translations, joint)


class PlainText(DocumentFile):
    """Text whose lines are sentences; an empty line, or ``<d>``, ends a document.

    In running text a line is a paragraph, and only ``<d>`` ends a document.
    """

    running = False

    @classmethod
    def read(cls, path: str, split: Splitter) -> PlainText:
        """See :meth:`DocumentFile.read`."""
        found = cls(path)
        found.lines = list(plain_lines(path))
        found.line_end = line_end(path)
        blocks: list[list[Block]] = [[]]
        for number, line in enumerate(found.lines, start=1):
            if is_boundary(line) and (line or not cls.running):
                blocks.append([])
            elif line:
                check_length(path, number, line)
                blocks[-1].append(Block([line], split) if cls.running else Sentence(line))
                found.numbers += [number] * len(blocks[-1][-1].sentences)
        found.documents = blocks
        if not cls.running:
            notice_running_text(path, found.lines)
        return found

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.lines: list[str] = []
        self.line_end = "\n"
        self.numbers: list[int] = []

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        return self.numbers

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        blocks = self.by_block(translations)
        lines = []
        for line in self.lines:
            if not is_boundary(line):
                block, found = next(blocks)
                items = block.translated(found, joint)
                line = "".join(map(str, items))
            lines.append(f"{line}{self.line_end}")
        return "".join(lines).encode()


class RunningText(PlainText):
    """Text whose lines are paragraphs."""

    running = True
