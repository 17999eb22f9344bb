"""The interface of document formats: read sentences, write their translations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, Protocol

from gtrans.text.reader import ALL_TEXT, TextSelection

Splitter = Callable[[str], list[str]]
"""Turns running text into its sentences, without white space at their ends."""

LOST, MOVED, KEPT = "emphasis lost", "markup moved", "not translated"
LEFT = "left as they are"
"""Kinds of notes."""


@dataclass(frozen=True)
class Note:
    """A note on text that was not translated, or on markup that could not be kept.

    Attributes:
        where: the file, and its line or the beginning of the text.
        kind: one of the constants above.
        count: how many places it is about.
    """

    where: str
    kind: str
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        if self.kind == LEFT:
            return f"{self.where}: {self.detail}"
        return f"{self.where}: {self.kind}{self.detail}"


class DocumentIds(NamedTuple):
    """The ids of a document and its sentences."""

    document: str
    sentences: list[str]


def sentence_numbers(document: Sequence[object]) -> list[str]:
    """Return ``1``, ``2``, .. as ids of sentences."""
    return [str(number) for number in range(1, len(document) + 1)]


def numbered_ids(documents: Iterable[Sequence[object]]) -> list[DocumentIds]:
    """Return numbers as the ids of documents and their sentences."""
    ids = []
    for number, document in enumerate(documents, start=1):
        ids.append(DocumentIds(str(number), sentence_numbers(document)))
    return ids


class TextBlock(Protocol):
    """A paragraph, a heading, a cell or a line of a document.

    Attributes:
        line: its first line in the file, from 1; 0: the format has no lines.
        sentences: its sentences that have a letter.
        moved: in the last translation, markup left the inside of a word.
    """

    line: int
    sentences: list[str]
    moved: bool

    def translated(self, translations: Iterable[str], joint: str) -> Any:
        """Return the content with these sentences, joined by ``joint``."""


class DocumentFile(ABC):
    """A file that has been read; each format is a subclass.

    Attributes:
        documents: the blocks of each document.
        notes: on the last translation.
        has_lines: lines or rows are sentences by default.
    """

    libraries: ClassVar[Sequence[str]] = ()
    has_lines: ClassVar[bool] = False

    def __init__(
        self, path: str, split: Splitter | None = None, selection: TextSelection = ALL_TEXT
    ) -> None:
        self.path = path
        self.documents: list[Sequence[TextBlock]] = []
        self.notes: list[Note] = []
        self.languages: tuple[str, str] | None = None

    @property
    def sentences(self) -> list[list[str]]:
        """The sentences of each document."""
        documents = []
        for blocks in self.documents:
            sentences = chain.from_iterable(block.sentences for block in blocks)
            documents.append(list(sentences))
        return documents

    @property
    def ids(self) -> list[DocumentIds]:
        """The ids of each document; by default numbers."""
        return numbered_ids(self.sentences)

    @property
    def sentence_places(self) -> list[str]:
        """The file and line of each sentence, for messages."""
        places = []
        for block in chain.from_iterable(self.documents):
            places += [self.place(block.line)] * len(block.sentences)
        return places

    def place(self, line: int) -> str:
        """Return ``FILE:LINE``, for messages; line 0: ``FILE``."""
        return f"{self.path}:{line}" if line else self.path

    def note_moved(self, blocks: Iterable[TextBlock]) -> None:
        """Note each block in which markup inside a word moved."""
        detail = " from inside a word to its end or around it"
        for block in blocks:
            if block.moved:
                self.notes.append(Note(self.place(block.line), MOVED, detail))

    @abstractmethod
    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """Return the translated file; ``joint`` joins the sentences of a block."""

    def by_block(
        self, translations: Sequence[Sequence[str]]
    ) -> Iterator[tuple[TextBlock, list[str]]]:
        """Yield every block with the translations of its sentences."""
        following = chain.from_iterable(translations)
        for block in chain.from_iterable(self.documents):
            yield block, list(islice(following, len(block.sentences)))
