"""What a model makes of context: the texts that it reads, and the scores of their tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor

from gtrans.data.neighbours import in_documents, put_back, shuffled_order
from gtrans.decoding.force_decode import EncodedDocument, score_tokens
from gtrans.text.pipeline import TextPipeline
from gtrans.text.words import Words, words_of


@dataclass(frozen=True)
class Side:
    """One side of a corpus.

    Attributes:
        pipeline: encodes it.
        documents: its sentences as plain text.
    """

    pipeline: TextPipeline
    documents: Sequence[Sequence[str]]

    @cached_property
    def encoded(self) -> list[list[str]]:
        """Its sentences as pieces separated by spaces."""
        return [[self.pipeline.encode(line) for line in document] for document in self.documents]

    @cached_property
    def words(self) -> list[list[Words]]:
        """The words of its sentences."""
        return [
            [words_of(self.pipeline, *pair) for pair in zip(*texts, strict=True)]
            for texts in zip(self.documents, self.encoded, strict=True)
        ]


@dataclass(frozen=True)
class Reading:
    """Consecutive sentences of a document that a model reads, and those of them that it scores.

    Attributes:
        document: number of the document.
        begin, end: its sentences, ``end`` excluded.
        first: the first sentence that is scored.
    """

    document: int
    begin: int
    end: int
    first: int


@dataclass(frozen=True)
class Text:
    """A corpus as a model reads it.

    Attributes:
        source, target: the same sentences.
        context: most sentences before a sentence that are read; None: as many as the unit
            reads, a document unit being cut as for training.
    """

    source: Side
    target: Side
    context: int | None = None

    @property
    def sides(self) -> dict[str, Side]:
        """Both sides by name."""
        return {"source": self.source, "target": self.target}

    @cached_property
    def readings(self) -> list[Reading]:
        """What is read, so that every sentence is scored once, in order."""
        lengths = list(enumerate(map(len, self.source.documents)))
        if self.context is None:
            return [Reading(number, 0, length, 0) for number, length in lengths if length]
        return [
            Reading(number, max(place - self.context, 0), place + 1, place)
            for number, length in lengths
            for place in range(length)
        ]

    @property
    def cuts_units(self) -> bool:
        """Whether a document unit is cut as for training."""
        return self.context is None

    def encoded(self, reading: Reading) -> EncodedDocument:
        """The pieces of a reading."""
        sentences = slice(reading.begin, reading.end)
        source, target = (
            side.encoded[reading.document][sentences] for side in (self.source, self.target)
        )
        return source, target

    def plain(self, reading: Reading) -> Sequence[str]:
        """The source of a reading as plain text."""
        return self.source.documents[reading.document][reading.begin : reading.end]


def token_scores(
    models: Sequence[Any], task: Any, text: Text, max_tokens: int, rivals: bool = False
) -> list[list[Tensor]]:
    """Scores of the tokens of every sentence of every document, given its context.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: what they read.
        max_tokens, rivals: see :func:`gtrans.decoding.force_decode.score_tokens`.
    """
    found = score_tokens(
        models,
        task,
        [text.encoded(reading) for reading in text.readings],
        first=[reading.first - reading.begin for reading in text.readings],
        plain=[text.plain(reading) for reading in text.readings],
        whole=not text.cuts_units,
        max_tokens=max_tokens,
        progress="documents" if text.cuts_units else "sentences",
        rivals=rivals,
    )
    scores: list[list[Tensor]] = [[] for _ in text.source.documents]
    for reading, sentences in zip(text.readings, found, strict=True):
        scores[reading.document] += sentences
    return scores


def alone(
    models: Sequence[Any], task: Any, text: Text, max_tokens: int, rivals: bool = False
) -> list[list[Tensor]]:
    """As :func:`token_scores`, but every sentence is a document of its own."""
    source, target = (
        Side(side.pipeline, [[line] for document in side.documents for line in document])
        for side in (text.source, text.target)
    )
    found = iter(token_scores(models, task, Text(source, target), max_tokens, rivals))
    return [[next(found)[0] for _ in document] for document in text.source.documents]


def in_random_context(
    models: Sequence[Any], task: Any, text: Text, max_tokens: int
) -> list[list[Tensor]]:
    """As :func:`token_scores`, in documents as long whose sentences are drawn from all of the text.

    Returns:
        The scores in the order of ``text``.
    """
    lengths = [len(document) for document in text.source.documents]
    order = shuffled_order(sum(lengths))
    source, target = (
        Side(side.pipeline, in_documents(map(flat(side.documents).__getitem__, order), lengths))
        for side in (text.source, text.target)
    )
    shuffled = Text(source, target, text.context)
    found = flat(token_scores(models, task, shuffled, max_tokens))
    return in_documents(put_back(found, order), lengths)


def flat(documents: Iterable[Iterable[Any]]) -> list[Any]:
    """The sentences of all documents."""
    return [sentence for document in documents for sentence in document]
