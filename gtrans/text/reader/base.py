"""What every format of text is read as: documents of segments, and how it is recognised."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from gtrans.data.documents import check_length
from gtrans.errors import GtransError

Role = Literal["source", "reference", "translation"]

DOCUMENT_LINE = "<d>"
BAD_SOURCE = "marked is_bad_source"
NO_REFERENCE = "without a reference"
ATTRIBUTES = r"""(?:\s+[\w:.-]+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'<>]+))*"""
_BOUNDARY = re.compile(
    rf"<d>|<(?:doc|DOC)(?:{ATTRIBUTES}\s*|\s+\w+=[^<>]*)>|</(?:doc|DOC)>|<(?:fromDoc|toDoc)>.*"
)


def is_boundary(line: str) -> bool:
    """Whether a line of plain text, without white space at its ends, separates documents."""
    return not line or (line[0] == "<" and _BOUNDARY.fullmatch(line) is not None)


_LINE_ENDS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


def sentence_of(text: str, path: str | Path, line: int) -> str:
    """A sentence on one line, without white space at its ends.

    Raises:
        GtransError: it is a whole text, or would be a boundary between documents.
    """
    sentence = _LINE_ENDS.sub(" ", text).strip()
    check_length(path, line, sentence)
    if sentence and is_boundary(sentence):
        raise GtransError(
            f"{path}:{line}: the sentence '{sentence}' would be read as a boundary between "
            "documents; take it out"
        )
    return sentence


@dataclass(frozen=True)
class Choice:
    """What to read of files that have more than one text.

    Attributes:
        direction: such as ``en-de``, of rows of several language pairs; empty: there is only one.
        references: names of references; empty: all.
        system: the system whose translations are wanted, if there are those of several.
        columns: names of columns that have a text, by its role.
    """

    direction: str = ""
    references: tuple[str, ...] = ()
    system: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


ANY = Choice()


class Segment(NamedTuple):
    """A part of a document: a sentence, or what a format calls a segment.

    Attributes:
        line: where it begins in its file, from 1.
        texts: its text; several for several references. It may be empty.
        name: its id; empty: it has none.
        left_out: why it is not to be used; empty: it is used.
    """

    line: int
    texts: Sequence[str]
    name: str = ""
    left_out: str = ""

    def text(self, number: int = 0) -> str:
        """The text of a reference; the last one if this segment has fewer."""
        return self.texts[min(number, len(self.texts) - 1)]


@dataclass
class Document:
    """A document: its id (empty: it has none), its first line in its file, and its segments."""

    name: str
    line: int
    segments: list[Segment]


class Head:
    """The beginning of a file, by which its format is recognised.

    Attributes:
        path: its name, for messages.
        suffix: the end of its name without ``.gz``, such as ``.jsonl``.
        lines: the first lines that are not empty, with their numbers.
    """

    LINES = 200

    def __init__(self, path: str, lines: Sequence[tuple[int, str]]) -> None:
        self.path = path
        self.suffix = Path(path.lower().removesuffix(".gz")).suffix
        self.numbered = [(number, text) for number, line in lines if (text := line.strip())]
        self.lines = [text for _, text in self.numbered]
        self.first = self.lines[0] if self.lines else ""

    def share(self, pattern: re.Pattern[str]) -> float:
        """The share of these lines that begin with a pattern."""
        return sum(map(bool, map(pattern.match, self.lines))) / max(len(self.lines), 1)

    def has(self, pattern: str) -> bool:
        """Whether a line begins with a pattern."""
        return any(re.match(pattern, line, re.IGNORECASE) for line in self.lines)


class Reader(ABC, Iterable[Document]):
    """The documents of a file, read once and in its order.

    A new format is a file of this package with one subclass: :meth:`recognises` says by the
    beginning of a file whether it is of this format, and ``__iter__`` yields its documents from
    ``self.lines``. All subclasses are known to :func:`gtrans.text.reader.open_text`.

    Attributes:
        kinds: all formats; the one that takes what no other does is the last.
        takes_the_rest: whether a format takes what no other does.
        title: what the format is called in messages.
        has_ids: whether documents have ids.
        path: the file, for messages.
        role: what the text is used as.
        references: the names of its references, as far as it has been read.
        column: which of its texts is read, of a format that has several; empty until it is read.
    """

    kinds: ClassVar[list[type[Reader]]] = []
    takes_the_rest: ClassVar[bool] = False
    title: ClassVar[str]
    has_ids: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        Reader.kinds.append(cls)
        Reader.kinds.sort(key=lambda kind: kind.takes_the_rest)

    def __init__(
        self, path: str, head: Head, lines: Iterator[tuple[int, str]], role: Role, choice: Choice
    ) -> None:
        self.path, self.head, self.role, self.choice = path, head, role, choice
        self.lines = lines
        self.references: list[str] = []
        self.column = ""

    @classmethod
    @abstractmethod
    def recognises(cls, head: Head) -> bool:
        """Whether a file that begins so is of this format.

        Raises:
            GtransError: it is, and nevertheless cannot be read.
        """

    @abstractmethod
    def __iter__(self) -> Iterator[Document]:
        """The documents.

        Raises:
            GtransError: with file and line: the text is not as its format has it.
        """


def chosen_references(path: str, names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The references that are wanted.

    Raises:
        GtransError: one of them is not there.
    """
    for name in wanted:
        if name not in names:
            raise GtransError(
                f"{path} has no reference '{name}' (`--reference`), only {listed(names)}"
            )
    return list(wanted) or list(names)


def the_only_system(path: str, names: Sequence[str], wanted: str) -> str:
    """The translations of the system that is wanted, or of the only one.

    Raises:
        GtransError: there are several.
    """
    if wanted in names or len(names) == 1:
        return wanted if wanted in names else names[0]
    raise GtransError(
        f"{path} has translations by {listed(names)}; name one of them: `--hyp {names[0]}={path}`"
    )


def listed(names: Sequence[str]) -> str:
    """Names in words, for a message."""
    return ", ".join(name or "one without a name" for name in names) or "none"
