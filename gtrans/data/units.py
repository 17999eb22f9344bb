"""Translation units, and the lines of a corpus that form them.

This module needs neither torch nor fairseq.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtrans.data.documents import check_sides
from gtrans.errors import GtransError
from gtrans.modules import STEPS

UNITS = ("sentence", "window", "document", "stream")
"""Values of ``--unit``; :func:`unit_of` makes them."""
CONTEXT_KINDS = ("true", "fixed", "random", "none")
CONTEXT_SIDES = ("source", "both", "history")
# `<s>` and `</s>`.
SPECIAL_TOKENS_PER_SENTENCE = 2
_SHORTEST_LIMIT = 8
_SEED = 1

Lengths = Sequence[int]
Ints = NDArray[np.int64]


class UnitSpan(NamedTuple):
    """One row of a batch, as sentence numbers of its document, or as lines of a corpus.

    Attributes:
        source, target: sentences on either side; ``target`` is part of ``source``.
        predicted: part of ``target`` that the decoder predicts; the rest is given.
        kept: part of ``predicted`` whose translations are used; the spans of a document keep every
            sentence once.
    """

    source: range
    target: range
    predicted: range
    kept: range

    @classmethod
    def whole(cls, sentences: range) -> UnitSpan:
        """Return a row in which all sentences are kept."""
        return cls(sentences, sentences, sentences, sentences)


# ---- units of documents --------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit(ABC):
    """The sentences that a model sees at once.

    Attributes:
        name: value of ``--unit``.
        has_context: the model gets ``current_sentence``.
        trained_in_runs: each training update reads a run of sentences of a document.
        has_chunks: the model gets the sentences of each chunk.
    """

    name: ClassVar[str]
    has_context: ClassVar[bool] = False
    trained_in_runs: ClassVar[bool] = False
    has_chunks: ClassVar[bool] = False

    @abstractmethod
    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return the rows of one document.

        Lengths are tokens of every sentence, without special tokens.
        """

    def cut_to_translate(self, source_lengths: Lengths) -> list[UnitSpan]:
        """Return the rows to translate: the whole document if a part needs earlier parts."""
        if self.sentence_by_sentence or self.tokens_at_once is not None:
            return _one_row(source_lengths)
        return self.cut(source_lengths)

    def parts(self, source_lengths: Lengths) -> list[UnitSpan]:
        """Return the parts of a row, translated in turn."""
        if self.sentence_by_sentence:
            return SentenceUnit().cut(source_lengths)
        return self.cut(source_lengths)

    @property
    def context_kind(self) -> str:
        """One of :data:`CONTEXT_KINDS`."""
        return "true"

    @property
    def predicts_context(self) -> bool:
        """Whether the decoder also predicts the context."""
        return False

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether documents are translated one sentence at a time."""
        return False

    @property
    def tokens_at_once(self) -> int | None:
        """Most tokens of a row that are translated at once; None: all.

        With a number, a row to translate is a whole document.
        """
        return None

    def limited_to(self, max_doc_tokens: int) -> Unit:
        """Return the unit with another limit of tokens."""
        return self

    def unlimited(self) -> Unit:
        """Return the unit without its limit of tokens."""
        return self.limited_to(sys.maxsize)

    def as_dict(self) -> dict[str, Any]:
        """Return name and options, for JSON."""
        return {"unit": self.name, **asdict(self)}


@dataclass(frozen=True)
class SentenceUnit(Unit):
    """A single sentence."""

    name = "sentence"

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return a row for each sentence."""
        return [UnitSpan.whole(range(n, n + 1)) for n in range(len(source_lengths))]


@dataclass(frozen=True)
class WindowUnit(Unit):
    """A sentence and its context in the document.

    Attributes:
        before, after: sentences of context; fewer at the ends of the document.
        context_kind: the ``true`` context, one ``fixed`` sentence, ``random`` words, or ``none``.
        context_sides: ``source`` alone; ``both``: the decoder also predicts the context
            (concatenation); ``history``: it reads its earlier translations.
    """

    name = "window"
    has_context = True

    before: int = 1
    after: int = 0
    context_kind: str = "true"
    context_sides: str = "source"

    def __post_init__(self) -> None:
        _at_least(0, "context-before", self.before)
        _at_least(0, "context-after", self.after)
        if self.context_sides != "source" and self.context_kind in ("fixed", "random"):
            raise GtransError(
                f"`--context-kind {self.context_kind}` replaces source sentences, but "
                f"`--context-sides {self.context_sides}` also has their translations; give "
                "`none`, or `--context-sides source`."
            )
        if self.context_sides == "history" and self.after:
            raise GtransError(
                "`--context-sides history` takes the sentences before the current one; "
                f"`--context-after` must be 0, but is {self.after}."
            )

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return a row for each sentence."""
        count = len(source_lengths)
        before = after = 0
        if self.context_kind != "none":
            before, after = self.before, self.after
        spans = []
        for number in range(count):
            window = range(max(number - before, 0), min(number + after + 1, count))
            current = range(number, number + 1)
            target = current if self.context_sides == "source" else window
            predicted = window if self.context_sides == "both" else current
            spans.append(UnitSpan(window, target, predicted, kept=current))
        return spans

    @property
    def predicts_context(self) -> bool:
        """True in concatenation."""
        return self.context_sides == "both"

    @property
    def sentence_by_sentence(self) -> bool:
        """True with ``history``."""
        return self.context_sides == "history" and self.context_kind != "none"


@dataclass(frozen=True)
class DocumentUnit(Unit):
    """Consecutive sentences of a document: a *chunk*.

    Attributes:
        max_doc_tokens: most tokens of a chunk.
        overlap: in decoding, sentences that a chunk shares with the one before.
    """

    name = "document"

    max_doc_tokens: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        _at_least(_SHORTEST_LIMIT, "max-doc-tokens", self.max_doc_tokens)
        _at_least(0, "overlap", self.overlap)

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return a row for each chunk."""
        other = source_lengths if target_lengths is None else target_lengths
        if not self.overlap:
            chunks = split_chunks(source_lengths, other, self.max_doc_tokens)
            return list(map(UnitSpan.whole, chunks))
        overlapping = split_overlapping(source_lengths, other, self.max_doc_tokens, self.overlap)
        spans = []
        for first, own in overlapping:
            read = range(first, own.stop)
            spans.append(UnitSpan(read, read, predicted=own, kept=own))
        return spans

    @property
    def tokens_at_once(self) -> int | None:
        """The limit of a chunk, with ``overlap``."""
        return self.max_doc_tokens if self.overlap else None

    def limited_to(self, max_doc_tokens: int) -> DocumentUnit:
        """Return the unit with another limit."""
        return replace(self, max_doc_tokens=max_doc_tokens)


@dataclass(frozen=True)
class StreamUnit(Unit):
    """A whole document, sentence by sentence; :mod:`gtrans.data.stream` cuts it in training."""

    name = "stream"
    trained_in_runs = True

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return one row; none for an empty document."""
        return _one_row(source_lengths)

    def steps(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[int]:
        """Return the number of sentences of each step."""
        return [1] * len(source_lengths)

    @property
    def sentence_by_sentence(self) -> bool:
        """True: the memory needs each translation."""
        return True


@dataclass(frozen=True)
class ChunkStreamUnit(StreamUnit):
    """A whole document, chunk by chunk as :class:`DocumentUnit` cuts it."""

    has_chunks = True

    max_doc_tokens: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        _ = self._documents

    @property
    def _documents(self) -> DocumentUnit:
        return DocumentUnit(self.max_doc_tokens, self.overlap)

    def parts(self, source_lengths: Lengths) -> list[UnitSpan]:
        """Return the chunks."""
        return self._documents.cut(source_lengths)

    def steps(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[int]:
        """Return the number of sentences of each chunk."""
        other = source_lengths if target_lengths is None else target_lengths
        spans = self._documents.cut(source_lengths, other)
        return [len(span.kept) for span in spans]

    @property
    def sentence_by_sentence(self) -> bool:
        """False: the memory needs whole chunks."""
        return False

    @property
    def tokens_at_once(self) -> int:
        """The limit of a chunk."""
        return self.max_doc_tokens

    def limited_to(self, max_doc_tokens: int) -> ChunkStreamUnit:
        """Return the unit with another limit."""
        return replace(self, max_doc_tokens=max_doc_tokens)

    def unlimited(self) -> ChunkStreamUnit:
        """Return the unit itself: its memory has no limit."""
        return self


def unit_of(name: str | None, settings: Any) -> Unit:
    """Return the unit ``name`` (None: ``document``) with its options."""
    kind = str(settings.context_kind or "true")
    if name not in (None, "window") and kind != "true":
        raise GtransError(
            f"`--context-kind {kind}` is for the unit window, but this is the unit {name}; "
            "leave it out."
        )
    if name == "sentence":
        return SentenceUnit()
    if name == "window":
        if kind == "fixed" and not settings.context_sentence:
            raise GtransError("`--context-kind fixed` needs `--context-sentence 'TOKENS ..'`.")
        before = settings.context_before
        return WindowUnit(
            before=1 if before is None else int(before),
            after=int(settings.context_after or 0),
            context_kind=kind,
            context_sides=str(settings.context_sides or "source"),
        )
    if name == "stream" and str(settings.stream_of) != STEPS[1]:
        return StreamUnit()
    unit = ChunkStreamUnit if name == "stream" else DocumentUnit
    return unit(int(settings.max_doc_tokens), int(settings.overlap))


def _at_least(least: int, flag: str, value: int) -> None:
    if value < least:
        raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")


def _one_row(lengths: Lengths) -> list[UnitSpan]:
    return [UnitSpan.whole(range(len(lengths)))] if lengths else []


def split_chunks(source_lengths: Lengths, target_lengths: Lengths, max_tokens: int) -> list[range]:
    """Return the sentence numbers of the chunks of one document, cut greedily.

    A sentence costs ``max(source length, target length) + 2``. A chunk takes sentences while their
    costs are at most ``max_tokens``; no sentence is cut. This is "up to 512 tokens" of
    G-Transformer (Bao et al. 2021), cut as in the authors' code.
    """
    costs = _costs(source_lengths, target_lengths)
    chunks: list[range] = []
    start = used = 0
    for index, cost in enumerate(costs):
        if index > start and used + cost > max_tokens:
            chunks.append(range(start, index))
            start, used = index, 0
        used += cost
    if costs:
        chunks.append(range(start, len(costs)))
    return chunks


def split_overlapping(
    source_lengths: Lengths, target_lengths: Lengths, max_tokens: int, overlap: int
) -> list[tuple[int, range]]:
    """As :func:`split_chunks`, but a chunk also reads up to ``overlap`` sentences before its own.

    Returns:
        For each chunk the first sentence that it reads, and its own sentences.
    """
    costs = _costs(source_lengths, target_lengths)
    chunks: list[tuple[int, range]] = []
    start = 0
    while start < len(costs):
        used = costs[start]
        read = start
        while start - read < overlap and read > 0 and used + costs[read - 1] <= max_tokens:
            read -= 1
            used += costs[read]
        stop = start + 1
        while stop < len(costs) and used + costs[stop] <= max_tokens:
            used += costs[stop]
            stop += 1
        chunks.append((read, range(start, stop)))
        start = stop
    return chunks


def _costs(source_lengths: Lengths, target_lengths: Lengths) -> list[int]:
    return [
        max(source, target) + SPECIAL_TOKENS_PER_SENTENCE
        for source, target in zip(source_lengths, target_lengths, strict=True)
    ]


# ---- units of a corpus ---------------------------------------------------------------------------


class UnitSelection(NamedTuple):
    """A part of a training set; a smaller one is part of a larger one.

    Attributes:
        min_tokens: shorter documents are left out before the draw.
        units: number of units to draw; 0: all.
    """

    min_tokens: int = 0
    units: int = 0


ALL_UNITS = UnitSelection()
"""All documents and units."""


@dataclass(frozen=True)
class Units:
    """The lines of a corpus that form each unit.

    Attributes:
        lines: ``(units, 4, 2)`` begin and end of the ranges of each :class:`UnitSpan`; empty lines
            count.
        first_sentence: ``(units,)`` number of the first kept sentence in the corpus.
    """

    lines: Ints
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.lines)

    def take(self, chosen: Ints) -> Units:
        """Return the units ``chosen (n,)``."""
        return Units(self.lines[chosen], self.first_sentence[chosen])

    def shifted(self, lines: int, sentences: int) -> Units:
        """Return the units with offsets added to all numbers."""
        return Units(self.lines + lines, self.first_sentence + sentences)

    @classmethod
    def joined(cls, parts: Sequence[Units]) -> Units:
        """Concatenate units."""
        lines = np.concatenate([part.lines for part in parts])
        first_sentence = np.concatenate([part.first_sentence for part in parts])
        return cls(lines, first_sentence)

    @classmethod
    def whole(cls, lines: Ints, first_sentence: Ints) -> Units:
        """Return units that keep all ``lines (units, 2)``."""
        return cls(np.stack([lines] * 4, 1), first_sentence)


def sums(lines: Ints, totals: Ints) -> Ints:
    """Return ``(n,)`` the sum over each of ``lines (n, 2)``, from :func:`totals_of`."""
    total: Ints = totals[lines[:, 1]] - totals[lines[:, 0]]
    return total


def totals_of(numbers: Any) -> Ints:
    """Return ``(lines + 1,)`` sums of ``numbers (lines,)`` before each line."""
    totals: Ints = np.concatenate([[0], np.cumsum(numbers, dtype=np.int64)])
    return totals


def document_units(
    source_sizes: Ints,
    target_sizes: Ints | None,
    unit: Unit,
    name: str,
    selection: UnitSelection = ALL_UNITS,
) -> Units:
    """Cut a corpus into units.

    Args:
        source_sizes, target_sizes: ``(lines,)`` tokens of each line with ``</s>``.
        name: name of the corpus in messages.
    """
    blank = source_sizes == 1
    other = source_sizes if target_sizes is None else target_sizes
    check_sides(blank, other == 1, name)
    documents = _documents(blank)
    if not len(documents):
        raise GtransError(f"{name}: the corpus holds no sentence.")
    costs = np.maximum(source_sizes, other) - 1 + SPECIAL_TOKENS_PER_SENTENCE
    tokens = sums(documents, totals_of(costs))
    documents = documents[tokens >= selection.min_tokens]
    if not len(documents):
        raise GtransError(
            f"`--min-doc-tokens` {selection.min_tokens}: no document of {name} is so long, the "
            f"longest has {tokens.max()} tokens; give a smaller number."
        )
    lines = _lines_of_units(documents, (source_sizes, other), unit)
    if selection.units > len(lines):
        raise GtransError(
            f"`--sample-instances` {selection.units}: {name} has only {len(lines)} units; "
            "give a smaller number, or leave it out to train on all of them."
        )
    if selection.units:
        # RandomState gives the same numbers in every version of numpy.
        order = np.random.RandomState(_SEED).permutation(len(lines))
        lines = lines[np.sort(order[: selection.units])]
    sentence_numbers = np.cumsum(~blank) - 1
    return Units(lines, sentence_numbers[lines[:, 3, 0]])


def _documents(blank: NDArray[np.bool_]) -> Ints:
    """Return ``(documents, 2)`` lines, from ``blank (lines,)``."""
    is_boundary = np.concatenate([[True], blank, [True]])
    boundaries = np.flatnonzero(is_boundary) - 1
    documents = np.stack([boundaries[:-1] + 1, boundaries[1:]], 1)
    has_sentences = documents[:, 0] < documents[:, 1]
    return documents[has_sentences]


def _lines_of_units(documents: Ints, sizes: tuple[Ints, Ints], unit: Unit) -> Ints:
    """Return ``(units, 4, 2)`` lines; ``sizes (lines,)`` are of both sides."""
    spans: list[list[list[int]]] = []
    for begin, end in documents.tolist():
        words, other_words = ((side[begin:end] - 1).tolist() for side in sizes)
        if unit.tokens_at_once is None:
            cuts = unit.cut(words, other_words)
        else:  # they are not for training
            cuts = unit.cut_to_translate(words)
        for span in cuts:
            spans.append([[begin + part.start, begin + part.stop] for part in span])
    return np.array(spans, np.int64).reshape(-1, 4, 2)


@dataclass(frozen=True)
class StreamSteps:
    """The steps of documents that are read as streams.

    Attributes:
        name: one of :data:`gtrans.modules.STEPS`.
        lines: ``(steps, 2)``, document by document.
        counts: ``(documents,)`` steps of each document.
        first: ``(documents,)`` number of its first step.
    """

    name: str
    lines: Ints
    counts: Ints
    first: Ints

    @classmethod
    def of(cls, documents: Ints, sizes: tuple[Ints, Ints], unit: Unit) -> StreamSteps:
        """Cut ``documents (documents, 2)`` into steps; ``sizes (lines,)`` are of both sides."""
        assert isinstance(unit, StreamUnit)
        counts: list[int] = []
        lines: list[tuple[int, int]] = []
        for begin, end in documents.tolist():
            words, other = ((side[begin:end] - 1).tolist() for side in sizes)
            steps = unit.steps(words, other)
            counts.append(len(steps))
            for sentences in steps:
                lines.append((begin, begin + sentences))
                begin += sentences
        count = np.array(counts, np.int64)
        return cls(
            name=STEPS[int(unit.has_chunks)],
            lines=np.array(lines, np.int64).reshape(-1, 2),
            counts=count,
            first=np.cumsum(count) - count,
        )
