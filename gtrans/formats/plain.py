"""Plain text."""

from __future__ import annotations

from collections.abc import Sequence

from gtrans.data.documents import check_length, line_end
from gtrans.formats.inline import PLACEHOLDER, Block, with_points
from gtrans.formats.sentences import whole
from gtrans.text.document_file import DocumentFile, Splitter
from gtrans.text.reader import (
    ALL_TEXT,
    TextSelection,
    is_boundary,
    notice_running_text,
    plain_lines,
)


class Line(Block):
    """A line that is not empty: running text, or without ``split`` a sentence.

    Placeholders are not translated, nor addresses in running text.
    """

    def __init__(self, text: str, split: Splitter | None, line: int) -> None:
        content = with_points([text], addresses=split is not None)
        super().__init__(content, split or whole, line)
        self._is_whole = split is None and not PLACEHOLDER.search(text)
        if self._is_whole:
            self.sentences = [text]

    def text(self, translations: Sequence[str], joint: str) -> str:
        """Return the translation."""
        if self._is_whole:
            return "".join(translations)
        items = self.translated(translations, joint)
        return "".join(map(str, items))


class PlainTextFile(DocumentFile):
    """Text whose lines are sentences; an empty line, or ``<d>``, ends a document.

    In running text a line is a paragraph, and only ``<d>`` ends a document.
    """

    has_lines = True

    def __init__(
        self, path: str, split: Splitter | None, selection: TextSelection = ALL_TEXT
    ) -> None:
        super().__init__(path)
        self.lines = list(plain_lines(path))
        self.line_end = line_end(path)
        document: list[Line] = []
        self.documents = [document]
        for number, line in enumerate(self.lines, start=1):
            ends_document = is_boundary(line) and (line or split is None)
            if ends_document:
                document = []
                self.documents.append(document)
            elif line:
                check_length(path, number, line)
                document.append(Line(line, split, number))
        if split is None:
            notice_running_text(path, self.lines)

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        following = self.by_block(translations)
        written = []
        for line in self.lines:
            if is_boundary(line):
                written.append(line)
            else:
                block, sentences = next(following)
                assert isinstance(block, Line)
                written.append(block.text(sentences, joint))
            written.append(self.line_end)
        return "".join(written).encode()
