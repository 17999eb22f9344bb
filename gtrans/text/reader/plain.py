"""Plain text, and what is none."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gtrans.data.documents import check_length
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.text.reader.base import ATTRIBUTES, Document, Head, Reader, Segment, is_boundary
from gtrans.text.reader.rows import NEEDS_IDS

CONVERT = "write its sentences as plain text, one per line"
_TRANSLATES = f"{CONVERT}; `gtrans translate FILE --output-dir DIR` translates it as it is"
_INLINE = r"(?:a|abbr|b|big|code|em|font|i|small|span|strong|sub|sup|tt|u)\b"
_TAG_LINE = re.compile(
    rf"<(?!{_INLINE})([A-Za-z][\w:.-]*){ATTRIBUTES}\s*/?>(?:$|.*</\1>$|\s*<)|"
    rf"<(?i:p|li|h[1-6]|t[dhr]|d[dt]|div){ATTRIBUTES}\s*>(?=\S)|"
    rf"</(?!{_INLINE})[A-Za-z][\w:.-]*>$|<!--|<[?!][A-Za-z]",
)
_PAGE = re.compile(rf"<\?xml|<!doctype|<(?:html|head|body|tmx|xliff){ATTRIBUTES}\s*>(?:$|<)", re.I)
# How lines begin, the least share of such lines, what the file is, and the way out.
_LINES = (
    (r"(?:\d+:)?\d\d:\d\d[,.]\d{3} --> ", 0.0, "subtitles", CONVERT),
    (
        r"[STHDP]-\d+\t", 0.3, "the output of fairseq-generate",
        "its translations are `grep ^D- FILE | sort -V | cut -f3`",
    ),
    (r"[^\t]*\t", 0.5, "a table without document ids", NEEDS_IDS),
)  # fmt: skip
_NAMES = {
    "HTML": ((".html", ".htm", ".xhtml"), _TRANSLATES),
    "Markdown": ((".md", ".markdown"), _TRANSLATES),
    "a table with commas (CSV)": ((".csv",), "write it with tabs (TSV)"),
    "PO, messages of a program": ((".po", ".pot"), CONVERT),
    "a file of settings": ((".ini", ".properties", ".strings", ".toml", ".yaml", ".yml"), CONVERT),
    "reStructuredText": ((".rst",), CONVERT),
    "LaTeX": ((".tex",), CONVERT),
}
"""Formats whose lines look like text: the ends of their names, and the way out."""


def _what(head: Head) -> tuple[str, str] | None:
    """What a file is instead of a text, and the way out; None: it is a text."""
    if _PAGE.match(head.first):
        return "HTML or XML", _TRANSLATES
    for pattern, share, what, way_out in _LINES:
        if head.share(re.compile(pattern)) > share:
            return what, way_out
    first, second = (*head.lines, "", "")[:2]
    if (first in ("{", "[", "[{") and second[:1] in ('"', "{", "[", "}", "]")) or (
        first.startswith('[{"') or (first.startswith('["') and first.endswith('"]'))
    ):
        return "JSON", "give JSON lines, an object with a document id per line (`jq -c '.[]' FILE`)"
    lines = [(number, line) for number, line in head.numbered if not is_boundary(line)]
    tags = [(number, line) for number, line in lines if _TAG_LINE.match(line)]
    many = len(tags) > 0.1 * len(lines) and (len(tags) > 2 or len(tags) > 0.5 * len(lines))
    if many or (len(tags) > 2 and tags[0] == lines[0] and tags[2] in lines[:20]):
        number, line = tags[0]
        shown = line if len(line) < 40 else f"{line[:37]}..."
        return f"markup (line {number}: {shown})", _TRANSLATES
    for what, (suffixes, way_out) in _NAMES.items():
        if head.suffix in suffixes and head.lines:
            return what, way_out
    return None


_INNER_END = re.compile(
    r"""[.!?…]["')\]»”’]*\s+["'(\[«„“‘¿¡]*[^\W\d_]|[。！？][^。！？」』”’）)]"""
)
_LAST = re.compile(r"""[\w,;–-]$""")


def notice_running_text(path: str | os.PathLike[str], lines: Sequence[str]) -> None:
    """Say so if the lines of a text are paragraphs, or broken at a width, and no sentences."""
    kept = [line for line in lines if not is_boundary(line)]
    several = sum(len(_INNER_END.findall(line)) > 1 for line in kept)
    broken = sum(
        _LAST.search(line) is not None and following[:1].islower()
        for line, following in pairwise(lines)
    )
    for count, what in ((several, "have several sentences"), (broken, "end inside a sentence")):
        if 2 * count > len(kept):
            say(
                f"{path}: {count} of {len(kept)} lines {what}, but a line is translated as one "
                "sentence; `--split-sentences` reads running text"
            )


class Plain(Reader):
    """Plain text: a sentence per line, and boundaries between documents."""

    takes_the_rest = True
    title = "plain text"
    has_ids = False

    @classmethod
    def recognises(cls, head: Head) -> bool:
        """See :meth:`Reader.recognises`."""
        found = _what(head)
        if found is not None:
            raise GtransError(f"'{head.path}' is no plain text but {found[0]}; {found[1]}")
        return True

    def raw_lines(self) -> Iterator[str]:
        """All lines, also empty ones and boundaries, without white space at their ends."""
        return (line.strip() for _, line in self.lines)

    def sentences(self) -> Iterator[tuple[int, str | None]]:
        """``(line number, sentence)``, and ``(line number, None)`` between two documents.

        Raises:
            GtransError: a line is too long.
        """
        boundary = 0  # line of the first boundary since the last sentence
        begun = False
        for number, line in self.lines:
            sentence = line.strip()
            if is_boundary(sentence):
                boundary = boundary or number
                continue
            if boundary and begun:
                yield boundary, None
            check_length(self.path, number, sentence)
            boundary, begun = 0, True
            yield number, sentence

    def __iter__(self) -> Iterator[Document]:
        """See :meth:`Reader.__iter__`."""
        segments: list[Segment] = []
        for number, sentence in self.sentences():
            if sentence is not None:
                segments.append(Segment(number, [sentence]))
            else:
                yield Document("", segments[0].line, segments)
                segments = []
        if segments:
            yield Document("", segments[0].line, segments)
