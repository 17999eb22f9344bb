"""Formats that are rejected: neither plain text nor rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gtrans.text.reader.base import ATTRIBUTES, Head, NumberedLine, is_boundary

_NEEDS_IDS = (
    "the first line of a table needs the names of its columns, one of them 'doc_id', 'docid' or "
    "'document_id'; plain text has no tabs"
)
CONVERT = "write its sentences as plain text, one per line"
_TRANSLATES = f"{CONVERT}; `gtrans translate FILE --output-dir DIR` translates it as it is"
_NO_MARKUP = r"/?(?:a|abbr|b|big|code|em|font|i|small|span|strong|sub|sup|tt|u|d|doc|DOC|\w+Doc)\b"
_TAG_LINE = re.compile(
    rf"<(?!{_NO_MARKUP})([A-Za-z][\w:.-]*){ATTRIBUTES}\s*/?>(?:$|.*</\1>$|\s*<)|"
    rf"<(?i:p|li|h[1-6]|t[dhr]|d[dt]|div){ATTRIBUTES}\s*>(?=\S)|"
    rf"<(?!{_NO_MARKUP})/[A-Za-z][\w:.-]*>$|<!--|<[?!][A-Za-z]",
)
_PAGE = re.compile(
    rf"<\?xml|<!doctype|<(?:html|head|body|tmx|xliff|tt(?=\s)){ATTRIBUTES}\s*>(?:$|<)", re.I
)
_BEFORE_ROOT = re.compile(
    r"\s*(?:<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>)", re.S | re.I
)
_ROOT = re.compile(r"\s*<([A-Za-z][\w:.-]*)")
_JSON = re.compile(r'(?:\{|\[\{?)\n["{\[}\]]|\[\{"|\["[^\n]*"\](?:\n|$)')
_TITLES = "write the text of each title, one sentence per line"
_TABS = "write it with tabs (TSV)"
_NBEST = "keep the best line of each sentence, without numbers and scores (`awk -F ' \\|\\|\\| '`)"
_PAIRS = "write both sides into files of their own, such as train.en and train.de"


class OtherFormat(NamedTuple):
    """A format that is rejected."""

    title: str
    way_out: str


class _LineFormat(NamedTuple):
    """A format, if more than a share of lines begin with a pattern."""

    beginning: str
    share: float
    title: str
    way_out: str


_LINE_FORMATS = (
    _LineFormat(r"(?:\d+:)?\d\d:\d\d[,.]\d{3} --> ", 0.0, "subtitles (SRT or WebVTT)", _TITLES),
    _LineFormat(r"\{\d+\}\{\d+\}|\[\d+\]\[\d+\]", 0.3, "subtitles (MicroDVD or MPL2)", _TITLES),
    _LineFormat(r"\[\d+:\d\d[.:]\d\d\d?\]", 0.3, "subtitles (LRC)", _TITLES),
    _LineFormat(
        r"(?:\d+:)?\d\d:\d\d\.\d{3},(?:\d+:)?\d\d:\d\d\.\d{3}$", 0.1, "subtitles (SBV)", _TITLES
    ),
    _LineFormat(r"\[Script Info\]$|Dialogue: \S+,\d+:\d\d:", 0.0, "subtitles (ASS)", _TITLES),
    _LineFormat(
        r"[STHDP]-\d+\t",
        0.3,
        "the output of fairseq-generate",
        "its translations are `grep ^D- FILE | sort -V | cut -f3`",
    ),
    _LineFormat(r"\d+ \|\|\| ", 0.3, "a list of the n best translations", _NBEST),
    _LineFormat(r"[^|]*\S \|\|\| ", 0.5, "sentence pairs of a word aligner", _PAIRS),
    _LineFormat(
        r'\((?:src|trg)\)="',
        0.3,
        "the output of opus_read",
        "`opus_read -wm moses` writes plain text",
    ),
    _LineFormat(r'msgid(?:_plural)? "', 0.05, "PO, messages of a program", CONVERT),
    _LineFormat(r"\\(?:documentclass\b|begin\{document\})", 0.0, "LaTeX", CONVERT),
    _LineFormat(r'"(?:[^"]|"")*"[,;]"', 0.3, "a table with commas (CSV)", _TABS),
    _LineFormat(r"[^\t]*\t", 0.5, "a table without document ids", _NEEDS_IDS),
)


class _NamedFormat(NamedTuple):
    """A format whose lines look like text, by its file names."""

    suffixes: Sequence[str]
    title: str
    way_out: str


_NAMED_FORMATS = (
    _NamedFormat((".html", ".htm", ".xhtml"), "HTML", _TRANSLATES),
    _NamedFormat((".md", ".markdown"), "Markdown", _TRANSLATES),
    _NamedFormat((".csv",), "a table with commas (CSV)", _TABS),
    _NamedFormat((".po", ".pot"), "PO, messages of a program", CONVERT),
    _NamedFormat(
        (".ini", ".properties", ".strings", ".toml", ".yaml", ".yml"),
        "a file of settings",
        CONVERT,
    ),
    _NamedFormat((".rst", ".tex"), "reStructuredText or LaTeX", CONVERT),
    _NamedFormat((".srt", ".vtt", ".ass", ".ssa", ".sbv", ".lrc", ".sub"), "subtitles", _TITLES),
)
_HEADER = re.compile(r"[\w.-]+(?:([,;])[\w.-]+)(?:\1[\w.-]+)*")


def other_format(head: Head) -> OtherFormat | None:
    """Return the format of a file; None: it is plain text."""
    for by_lines in _LINE_FORMATS:
        if head.share(by_lines.beginning) > by_lines.share:
            return OtherFormat(by_lines.title, by_lines.way_out)
    if _JSON.match("\n".join(head.lines[:2])):
        return OtherFormat(
            "JSON", "give JSON lines, an object with a document id per line (`jq -c '.[]' FILE`)"
        )
    if _has_commas(head):
        return OtherFormat("a table with commas (CSV)", _TABS)
    tag = _tag_of_markup(head)
    if tag is not None:
        number, line = tag
        markup = OtherFormat(f"markup (line {number}: {line[:40]})", _TRANSLATES)
        return _xml(head) or markup
    for by_name in _NAMED_FORMATS:
        if head.lines and head.suffix in by_name.suffixes:
            return OtherFormat(by_name.title, by_name.way_out)
    return None


def _has_commas(head: Head) -> bool:
    header = _HEADER.fullmatch(head.first)
    if header is None or len(head.lines) < 2:
        return False
    comma = header[1]
    cells = head.first.count(comma)
    return all(line.count(comma) >= cells for line in head.lines)


def _tag_of_markup(head: Head) -> NumberedLine | None:
    """Return the first tag, if many lines are tags."""
    lines = [(number, line) for number, line in head.numbered if not is_boundary(line)]
    tags = [(number, line) for number, line in lines if _TAG_LINE.match(line)]
    if _PAGE.match(head.first):
        return tags[0] if tags else head.numbered[0]
    if len(tags) > 0.5 * len(lines):
        return tags[0]
    if len(tags) < 3:
        return None
    begins_with_tags = tags[0] == lines[0] and tags[2] in lines[:20]
    if begins_with_tags or len(tags) > 0.1 * len(lines):
        return tags[0]
    return None


def _xml(head: Head) -> OtherFormat | None:
    """Return the format of XML; None: it is HTML or the like."""
    text = "\n".join(head.lines)
    before = _BEFORE_ROOT.match(text)
    while before:
        text = text[before.end() :]
        before = _BEFORE_ROOT.match(text)
    root = _ROOT.match(text)
    name = root[1] if root else "?"
    if name.lower() in ("tmx", "xliff"):
        return OtherFormat(name.upper(), CONVERT)
    if name.lower() == "tt":
        return OtherFormat("subtitles (TTML)", _TITLES)
    if head.first.lower().startswith("<?xml") and name.lower() != "html":
        return OtherFormat(f"XML (<{name}>)", CONVERT)
    return None
