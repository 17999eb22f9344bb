"""The classes of all readers."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from gtrans.data.documents import check_length
from gtrans.errors import GtransError

Role = Literal["source", "reference", "translation"]
NumberedLine = tuple[int, str]
"""A line, after its number in the file, from 1."""

DOCUMENT_LINE = "<d>"
BAD_SOURCE = "marked is_bad_source"
NO_REFERENCE = "without a reference"
ONLY_MARKUP = "of markup alone"
ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>]+))*"""
_BOUNDARY = re.compile(
    rf"<d>|<(?:doc|DOC)(?:{ATTRIBUTES}\s*|\s+\w+=[^<>]*)>|</(?:doc|DOC)>|<(?:fromDoc|toDoc)>.*"
)
_LINE_ENDS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


def is_boundary(line: str) -> bool:
    """Whether a stripped line of plain text separates documents."""
    if not line:
        return True
    return line[0] == "<" and _BOUNDARY.fullmatch(line) is not None


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
        kinds: all formats, the last imported one first; plain text, which takes the rest, last.
        beginning: regular expression; :meth:`recognises` is asked if the first line matches.
        suffixes: of file names; it is also asked for these.
        references: the names read so far.
        column: the one that is read, if the format has columns.
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
