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
from gtrans.text.reader.rows import NEEDS_IDS, is_comma_table

_TRANSLATES = "`gtrans translate FILE --output-dir DIR` translates it as it is"
CONVERT = "write its sentences as plain text, one per line"
_TIME = re.compile(r"(?:\d+:)?\d\d:\d\d[,.]\d{3} --> ")
_INLINE = r"(?:a|abbr|b|big|code|em|font|i|small|span|strong|sub|sup|tt|u)\b"
_TAG_LINE = re.compile(
    rf"<(?!{_INLINE})([A-Za-z][\w:.-]*){ATTRIBUTES}\s*/?>(?:$|.*</\1>$|\s*<)|"
    rf"<(?i:p|li|h[1-6]|t[dhr]|d[dt]|div){ATTRIBUTES}\s*>(?=\S)|"
    rf"</(?!{_INLINE})[A-Za-z][\w:.-]*>$|<!--|<[?!][A-Za-z]",
)
_WITHOUT_TIMES = "write the text of each title, one sentence per line"
_LINES = (
    (
        r"\{\d+\}\{\d+\}|\[\d+\]\[\d+\]|\[\d+:\d\d[.:]\d\d\]|(?:\d+:)?\d\d:\d\d\.\d{3},\d",
        "subtitles", _WITHOUT_TIMES,
    ),
    (
        r"[STHDP]-\d+\t", "the output of fairseq-generate",
        "its translations are `grep ^D- FILE | sort -V | cut -f3`",
    ),
    (r"\d+ \|\|\| ", "a list of the n best translations", CONVERT),
    (r'\((?:src|trg)\)="', "the output of opus_read", "`opus_read -wm moses` writes plain text"),
    (r'"(?:[^"]|"")*"[,;]"', "a table with commas (CSV)", "write it with tabs (TSV)"),
)  # fmt: skip
"""Formats with lines of their own: how these begin, what they are, and the way out."""
_NAMES = {
    "Markdown": (".md", ".markdown"),
    "PO, messages of a program": (".po", ".pot"),
    "a table with commas (CSV)": (".csv",),
    "a file of messages or settings": (".ini", ".properties", ".strings", ".toml", ".yaml", ".yml"),
    "reStructuredText": (".rst",),
    "LaTeX": (".tex",),
}
"""Formats whose lines look like text, by the ends of their names."""


def _root(head: Head) -> str:
    """The first element of a file that begins with a tag; empty: it does not."""
    if not head.first.startswith("<") or re.match(r"<[\w:.-]+> \w", head.first):
        return ""
    text = re.sub(r"<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", "",
                  "\n".join(head.lines), flags=re.DOTALL | re.IGNORECASE)  # fmt: skip
    found = re.match(r"\s*<([A-Za-z][\w:.-]*)", text)
    return found[1].lower() if found else ""


def _is_markup(head: Head) -> bool:
    """Whether many lines are tags or elements, not only here and there one."""
    lines = [line for line in head.lines if not is_boundary(line)]
    tags = [_TAG_LINE.match(line) is not None for line in lines]
    if not any(tags):
        return False
    many = sum(tags) > 0.1 * len(tags) and (sum(tags) > 2 or sum(tags) > 0.5 * len(tags))
    return many or (tags[0] and sum(tags[:20]) > 2)


def _what(head: Head) -> tuple[str, str] | None:
    """What a file is instead of a text, and the way out; None: it is a text."""
    first, second = head.first, (*head.lines, "", "")[1]
    root = _root(head)
    if root in ("html", "head", "body") or first.lower().startswith("<!doctype html"):
        return "HTML", _TRANSLATES
    if root in ("tmx", "xliff", "tei"):
        return root.upper(), CONVERT
    if first.lower().startswith("<?xml"):
        return f"XML (<{root or '?'}>)", CONVERT
    if first.startswith("WEBVTT"):
        return "subtitles (WebVTT)", _WITHOUT_TIMES
    times = sum(map(bool, map(_TIME.match, head.lines)))
    if (first.isdigit() and _TIME.match(second)) or times > 1:
        return "subtitles (SRT)", _WITHOUT_TIMES
    if first == "[Script Info]":
        return "subtitles", _WITHOUT_TIMES
    for pattern, what, way_out in _LINES:
        if head.share(re.compile(pattern)) > 0.3:
            return what, way_out
    if sum("\t" in line for line in head.lines) > 0.5 * len(head.lines):
        return "a table without document ids", NEEDS_IDS
    if head.has(r'msgid "') and head.has(r'msgstr(?:\[\d\])? "'):
        return "PO, messages of a program", CONVERT
    if (first in ("{", "[", "[{") and second[:1] in ('"', "{", "[", "}", "]")) or (
        first.startswith('[{"') or (first.startswith('["') and first.endswith('"]'))
    ):
        return "JSON", "give JSON lines, an object with a document id per line (`jq -c '.[]' FILE`)"
    if is_comma_table(head):
        return "a table with commas (CSV)", "write it with tabs (TSV)"
    begin = next((line for line in head.lines if line[0] != "%"), "")
    if begin.startswith((r"\documentclass", r"\begin{document}")):
        return "LaTeX", CONVERT
    if head.has(r"<talkid>") and head.has(r"<url>"):
        return "the training text of IWSLT with its tags", "`gtrans get-corpus` reads it"
    if _is_markup(head) or (root and head.suffix in (".html", ".htm", ".xml", ".sgm", ".sgml")):
        line = next(
            (one for one in head.numbered if _TAG_LINE.match(one[1]) and not is_boundary(one[1])),
            head.numbered[0],
        )
        shown = line[1] if len(line[1]) < 40 else f"{line[1][:37]}..."
        return f"markup (line {line[0]}: {shown})", f"{CONVERT}; HTML: {_TRANSLATES}"
    for what, suffixes in _NAMES.items():
        if head.suffix in suffixes and head.lines:
            return what, f"{CONVERT}; Markdown: {_TRANSLATES}" if what == "Markdown" else CONVERT
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
        document: Document | None = None
        for number, sentence in self.sentences():
            if sentence is None:
                assert document is not None
                yield document
                document = None
                continue
            document = document or Document("", number, [])
            document.segments.append(Segment(number, [sentence]))
        if document is not None:
            yield document
