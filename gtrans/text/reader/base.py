"""The classes of all readers, and plain text."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from gtrans.data.documents import check_length
from gtrans.errors import GtransError
from gtrans.messages import print_message

Role = Literal["source", "reference", "translation"]
NumberedLine = tuple[int, str]
"""A line, after its number in the file, from 1."""

DOCUMENT_LINE = "<d>"
BAD_SOURCE = "marked is_bad_source"
NO_REFERENCE = "without a reference"
ONLY_MARKUP = "of markup alone"
NEEDS_IDS = (
    "the first line of a table needs the names of its columns, one of them 'doc_id', 'docid' or "
    "'document_id'; plain text has no tabs"
)
ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>]+))*"""
_BOUNDARY = re.compile(
    rf"<d>|<(?:doc|DOC)(?:{ATTRIBUTES}\s*|\s+\w+=[^<>]*)>|</(?:doc|DOC)>|<(?:fromDoc|toDoc)>.*"
)


def is_boundary(line: str) -> bool:
    """Whether a stripped line of plain text separates documents."""
    if not line:
        return True
    return line[0] == "<" and _BOUNDARY.fullmatch(line) is not None


_LINE_ENDS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


def sentence_of(text: str, path: str | Path, line: int) -> str:
    """Return a sentence on one line; raise GtransError if it is a boundary."""
    sentence = _LINE_ENDS.sub(" ", text).strip()
    check_length(path, line, sentence)
    if sentence and is_boundary(sentence):
        raise GtransError(
            f"{path}:{line}: the sentence '{sentence}' looks like a boundary between "
            "documents; take it out"
        )
    return sentence


@dataclass(frozen=True)
class TextSelection:
    """The text to read of a file that has several.

    Attributes:
        direction: of the rows to read, such as ``en-de``; empty: all.
        target_lang: for an unknown direction.
        references: their names; empty: all.
        columns: their names by role.
    """

    direction: str = ""
    target_lang: str = ""
    references: tuple[str, ...] = ()
    system: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    without_markup: bool = False


ALL_TEXT = TextSelection()


class Segment(NamedTuple):
    """A part of a document: a sentence, or what a format calls a segment.

    Attributes:
        line: its first line in the file, from 1.
        texts: one for each reference; they may be empty.
        left_out: the reason not to use it, or empty.
    """

    line: int
    texts: Sequence[str]
    name: str = ""
    left_out: str = ""

    def text(self, number: int = 0) -> str:
        """Return the text of a reference, or of the last one."""
        return self.texts[min(number, len(self.texts) - 1)]


@dataclass
class Document:
    """A document; ``line``: its first line in the file."""

    name: str
    line: int
    segments: list[Segment]

    @property
    def sentences(self) -> list[str]:
        """The first text of each segment."""
        return [segment.text() for segment in self.segments]


class Head:
    """The beginning of a file, by which its format is recognised.

    Attributes:
        suffix: of its name without ``.gz``, such as ``.jsonl``.
        numbered, lines: its first lines that are not empty, with and without numbers.
    """

    LINES = 200

    def __init__(self, path: str, lines: Sequence[NumberedLine]) -> None:
        self.path = path
        self.suffix = Path(path.lower().removesuffix(".gz")).suffix
        stripped = [(number, line.strip()) for number, line in lines]
        self.numbered = [(number, text) for number, text in stripped if text]
        self.lines = [text for _, text in self.numbered]
        self.first = self.lines[0] if self.lines else ""

    def share(self, pattern: str) -> float:
        """Return the share of lines that begin with a pattern."""
        matches = sum(re.match(pattern, line) is not None for line in self.lines)
        return matches / max(len(self.lines), 1)


class Reader(Iterable[Document]):
    """The documents of a file, read once and in order.

    Every format is a subclass, which yields documents from ``self.lines``.

    Attributes:
        kinds: all formats, the last defined one first.
        beginning: regular expression; :meth:`recognises` is asked if the first line matches.
        suffixes: of file names; it is also asked for these.
        references: the names read so far.
        column: that is read, if the format has columns.
    """

    kinds: ClassVar[list[type[Reader]]] = []
    title: ClassVar[str]
    beginning: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()
    has_ids: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        Reader.kinds.insert(0, cls)

    def __init__(
        self,
        path: str,
        head: Head,
        lines: Iterator[NumberedLine],
        role: Role,
        selection: TextSelection,
    ) -> None:
        self.path = path
        self.head = head
        self.lines = lines
        self.role = role
        self.selection = selection
        self.references: list[str] = []
        self.column = ""

    @classmethod
    def is_possible(cls, head: Head) -> bool:
        """Whether the first line or the file name may be of this format."""
        if head.suffix in cls.suffixes:
            return True
        return re.match(cls.beginning, head.first) is not None

    def wrong(self, line: int, what: str) -> GtransError:
        """Return the error for a line of the file."""
        return GtransError(f"{self.path}:{line}: {what}")

    @classmethod
    @abstractmethod
    def recognises(cls, head: Head) -> bool:
        """Whether a file is of this format; raise GtransError if it cannot be read."""

    @abstractmethod
    def __iter__(self) -> Iterator[Document]:
        """Yield the documents; raise GtransError, with the line, for a mistake."""


def chosen_references(path: str, names: Sequence[str], requested: Sequence[str]) -> list[str]:
    """Return the requested references, or all."""
    for name in requested:
        if name not in names:
            raise GtransError(
                f"{path} has no reference '{name}' (`--reference`), only {listed(names)}"
            )
    return list(requested or names)


def only_system(path: str, names: Sequence[str], requested: str) -> str:
    """Return the requested system, or the only one."""
    if requested in names:
        return requested
    if len(names) > 1:
        raise GtransError(
            f"{path} has translations by {listed(names)}; name one of them: "
            f"`--hyp {names[0]}={path}`"
        )
    return names[0]


def listed(names: Sequence[str]) -> str:
    """Return names in words, for a message."""
    words = [name or "one without a name" for name in names]
    return ", ".join(words) or "none"


# ---- plain text, and what is none ----------------------------------------------------------------

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


class _OtherFormat(NamedTuple):
    """A format that is rejected."""

    title: str
    way_out: str


class _LineFormat(NamedTuple):
    """A format, if more than a share of the lines begin with a pattern."""

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
    _LineFormat(r"[^\t]*\t", 0.5, "a table without document ids", NEEDS_IDS),
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


def _other_format(head: Head) -> _OtherFormat | None:
    """Return the format of a file; None: it is plain text."""
    for by_lines in _LINE_FORMATS:
        if head.share(by_lines.beginning) > by_lines.share:
            return _OtherFormat(by_lines.title, by_lines.way_out)
    if _JSON.match("\n".join(head.lines[:2])):
        return _OtherFormat(
            "JSON", "give JSON lines, an object with a document id per line (`jq -c '.[]' FILE`)"
        )
    if _has_commas(head):
        return _OtherFormat("a table with commas (CSV)", _TABS)
    tag = _tag_of_markup(head)
    if tag is not None:
        number, line = tag
        markup = _OtherFormat(f"markup (line {number}: {line[:40]})", _TRANSLATES)
        return _xml(head) or markup
    for by_name in _NAMED_FORMATS:
        if head.lines and head.suffix in by_name.suffixes:
            return _OtherFormat(by_name.title, by_name.way_out)
    return None


def _has_commas(head: Head) -> bool:
    header = _HEADER.fullmatch(head.first)
    if header is None or len(head.lines) < 2:
        return False
    comma = header[1]
    cells = head.first.count(comma)
    return all(line.count(comma) >= cells for line in head.lines)


def _tag_of_markup(head: Head) -> NumberedLine | None:
    """Return the first line with a tag, if many lines are tags."""
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


def _xml(head: Head) -> _OtherFormat | None:
    """Return the format of XML; None: it is HTML or the like."""
    text = "\n".join(head.lines)
    before = _BEFORE_ROOT.match(text)
    while before:
        text = text[before.end() :]
        before = _BEFORE_ROOT.match(text)
    root = _ROOT.match(text)
    name = root[1] if root else "?"
    if name.lower() in ("tmx", "xliff"):
        return _OtherFormat(name.upper(), CONVERT)
    if name.lower() == "tt":
        return _OtherFormat("subtitles (TTML)", _TITLES)
    if head.first.lower().startswith("<?xml") and name.lower() != "html":
        return _OtherFormat(f"XML (<{name}>)", CONVERT)
    return None


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
        other = _other_format(head)
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
