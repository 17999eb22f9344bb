"""The interface of formats: documents out of a file, and a file out of their translations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Protocol

from gtrans.text.reader import ANY, Choice

Splitter = Callable[[str], list[str]]
"""Turns running text into its sentences, without white space at their ends."""

LOST, MOVED, KEPT = "emphasis lost", "markup moved", "not translated"
LEFT = "left as they are"
"""Kinds of notes."""


@dataclass(frozen=True)
class Note:
    """What could not be kept, or was not translated.

    Attributes:
        where: the file, and its line or the begin of the text.
        kind: one of those above; a summary counts them.
        detail: what follows the kind.
        count: of how many places it tells.
    """

    where: str
    kind: str
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        return f"{self.where}: {self.detail if self.kind == LEFT else self.kind + self.detail}"


class TextBlock(Protocol):
    """Running text of a document: a paragraph, a heading, a cell, a line.

    Attributes:
        line: where it begins in its file, from 1; 0: lines say nothing.
        sentences: its sentences; those without a letter are left out.
        moved: whether markup inside a word could not stay there in the last translation.
    """

    line: int
    sentences: list[str]
    moved: bool

    def translated(self, translations: Iterable[str], joint: str) -> Any:
        """The content with the translations of ``sentences``, ``joint`` between two of them."""


class DocumentFile(ABC):
    """A file that has been read.

    A format is a subclass, made from the path, a splitter of running text, and a choice of rows.
    It raises GtransError for a file that cannot be read, or is of another format.

    Attributes:
        path: the file, for messages.
        documents: its documents, each a list of blocks.
        notes: after :meth:`translated`, what of it could not be kept or was not translated.
        languages: of the source and the target; None if they are not known.
        libraries: that its format needs.
        has_lines: whether its lines or rows are sentences, if they are not to be split.
    """

    libraries: ClassVar[Sequence[str]] = ()
    has_lines: ClassVar[bool] = False

    def __init__(self, path: str, split: Splitter | None = None, choice: Choice = ANY) -> None:
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

    def names(self) -> list[tuple[str, list[str]]]:
        """The id of each document and the ids of its sentences; by default they are counted."""
        return counted(self.sentences)

    def where(self) -> list[str]:
        """Where each sentence of all documents stands, for messages."""
        places = []
        for block in chain.from_iterable(self.documents):
            places += [self.place(block.line)] * len(block.sentences)
        return places

    def place(self, line: int) -> str:
        """The file, and a line of it; 0: lines say nothing."""
        return f"{self.path}:{line}" if line else self.path

    def note_moved(self, blocks: Iterable[TextBlock]) -> None:
        """Note each of the blocks in which markup inside a word moved."""
        detail = " from inside a word to its end or around it"
        for block in blocks:
            if block.moved:
                self.notes.append(Note(self.place(block.line), MOVED, detail))

    @abstractmethod
    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """The file with other sentences.

        Args:
            translations: for each document, of each of its sentences.
            joint: what stands between two sentences of a block.
        """

    def by_block(
        self, translations: Sequence[Sequence[str]]
    ) -> Iterator[tuple[TextBlock, list[str]]]:
        """Every block, and the translations of its sentences."""
        following = chain.from_iterable(translations)
        for block in chain.from_iterable(self.documents):
            yield block, list(islice(following, len(block.sentences)))


def counted(documents: Sequence[Sequence[object]]) -> list[tuple[str, list[str]]]:
    """Documents and their sentences by numbers from 1."""
    names = []
    for number, document in enumerate(documents, start=1):
        sentences = [str(place) for place in range(1, len(document) + 1)]
        names.append((str(number), sentences))
    return names
