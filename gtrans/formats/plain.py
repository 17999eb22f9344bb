"""Plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gtrans.data.documents import check_length, line_end
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.inline import PLACEHOLDER, Block, Mark, Splitter
from gtrans.text.reader import ANY, Choice, is_boundary, notice_running_text, plain_lines


class Sentence(Block):
    """A line that is a sentence, whatever it holds; but placeholders are not translated."""

    def __init__(self, line: str) -> None:
        super().__init__([line], lambda text: [text] if text else [], addresses=False)
        self._whole = not PLACEHOLDER.search(line)
        if self._whole:
            self.text = line
            self.sentences = [line]

    def translated(self, translations: Iterable[str], joint: str) -> list[str | Mark]:
        """The translation."""
        return list(translations) if self._whole else super().translated(translations, joint)


def block_of(line: str, split: Splitter | None) -> Block:
    """A line that is not empty: running text, or without ``split`` a sentence."""
    return Sentence(line) if split is None else Block([line], split)


class PlainText(DocumentFile):
    """Text whose lines are sentences; an empty line, or ``<d>``, ends a document.

    In running text a line is a paragraph, and only ``<d>`` ends a document.
    """

    has_lines = True

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        self.lines = list(plain_lines(path))
        self.line_end = line_end(path)
        self.numbers: list[int] = []
        self.documents.append([])
        for number, line in enumerate(self.lines, start=1):
            if is_boundary(line) and (line or split is None):
                self.documents.append([])
            elif line:
                check_length(path, number, line)
                block = block_of(line, split)
                self.documents[-1].append(block)
                self.numbers += [number] * len(block.sentences)
        if split is None:
            notice_running_text(path, self.lines)

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
                line = "".join(map(str, block.translated(found, joint)))
            lines.append(f"{line}{self.line_end}")
        return "".join(lines).encode()
