"""Plain text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from gtrans.data.documents import check_length
from gtrans.errors import GtransError
from gtrans.messages import print_message
from gtrans.text.reader.base import Document, Head, Reader, Segment, is_boundary
from gtrans.text.reader.other_formats import other_format

_INNER_END = re.compile(
    r"""[.!?…]["')\]»”’]*\s+["'(\[«„“‘¿¡]*[^\W\d_]|[。！？][^。！？」』”’）)]"""
)
_LAST = re.compile(r"""[\w,;–-]$""")


def notice_running_text(path: str | os.PathLike[str], lines: Sequence[str]) -> None:
    """Report lines that are paragraphs, or broken at a width."""
    kept = [line for line in lines if not is_boundary(line)]
    several = sum(len(_INNER_END.findall(line)) > 1 for line in kept)
    broken = 0
    for line, following in pairwise(lines):
        if _LAST.search(line) and following[:1].islower():
            broken += 1
    if 2 * several > len(kept):
        _report_running_text(path, several, len(kept), "have several sentences")
    if 2 * broken > len(kept):
        _report_running_text(path, broken, len(kept), "end inside a sentence")


def _report_running_text(path: str | os.PathLike[str], count: int, lines: int, what: str) -> None:
    print_message(
        f"{path}: {count} of {lines} lines {what}, but a line is translated as one sentence; "
        "`gtrans translate FILE --split-sentences` reads running text"
    )


class PlainLine(NamedTuple):
    """A sentence of plain text, or None: a boundary."""

    number: int
    sentence: str | None


class PlainText(Reader):
    """Plain text, the default format."""

    title = "plain text"
    has_ids = False

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        other = other_format(head)
        if other is not None:
            raise GtransError(f"'{head.path}' is no plain text but {other.title}; {other.way_out}")
        return True

    def raw_lines(self) -> Iterator[str]:
        """Yield all lines, stripped."""
        return (line.strip() for _, line in self.lines)

    def sentences(self) -> Iterator[PlainLine]:
        """Yield the sentences, and one boundary between two documents."""
        boundary = 0  # line of the first boundary since the last sentence
        started = False
        for number, line in self.lines:
            sentence = line.strip()
            if is_boundary(sentence):
                boundary = boundary or number
                continue
            if boundary and started:
                yield PlainLine(boundary, None)
            check_length(self.path, number, sentence)
            boundary = 0
            started = True
            yield PlainLine(number, sentence)

    def __iter__(self) -> Iterator[Document]:
        """See :meth:`Reader.__iter__`."""
        for is_boundary_line, lines in groupby(self.sentences(), _is_boundary_line):
            if not is_boundary_line:
                segments = [Segment(line.number, [line.sentence or ""]) for line in lines]
                yield Document("", segments[0].line, segments)


def _is_boundary_line(line: PlainLine) -> bool:
    return line.sentence is None
