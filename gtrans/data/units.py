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
_LEAST_DOC_TOKENS = 8
_SEED = 1

Lengths = Sequence[int]
Ints = NDArray[np.int64]


class UnitSpan(NamedTuple):
    """One row of a batch, as sentence numbers of its document, or as lines of a corpus.

    Attributes:
        source: sentences that the encoder reads.
        target: part of ``source`` that the decoder reads.
        predicted: part of ``target`` that the decoder predicts.
        kept: part of ``predicted`` whose translations are used: every sentence of a document once.
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
        has_context: batches have ``current_sentence``.
        trained_in_runs: a training update reads consecutive sentences of a document.
        has_chunks: batches have ``chunks``.
    """

    name: ClassVar[str]
    has_context: ClassVar[bool] = False
    trained_in_runs: ClassVar[bool] = False
    has_chunks: ClassVar[bool] = False

    @abstractmethod
    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return the rows of one document; lengths: the words of each sentence."""

    def cut_to_translate(self, source_lengths: Lengths) -> list[UnitSpan]:
        """Return the rows to translate: the document if parts need earlier parts."""
        if self.sentence_by_sentence or self.tokens_at_once is not None:
            return _one_row(source_lengths)
        return self.cut(source_lengths)

    def parts(self, source_lengths: Lengths) -> list[UnitSpan]:
        """Return the parts of a row to translate, one after the other."""
        if self.sentence_by_sentence:
            return SentenceUnit().cut(source_lengths)
        return self.cut(source_lengths)

    @property
    def context_kind(self) -> str:
        """One of :data:`CONTEXT_KINDS`."""
        return "true"

    @property
    def predicts_context(self) -> bool:
        """Whether the decoder predicts the context, too."""
        return False

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether documents are translated one sentence at a time."""
        return False

    @property
    def tokens_at_once(self) -> int | None:
        """Most tokens of a document that are translated at once; None: all."""
        return None

    def limited_to(self, max_doc_tokens: int) -> Unit:
        """Return the unit with another ``--max-doc-tokens``."""
        return self

    def unlimited(self) -> Unit:
        """Return the unit without a limit of tokens."""
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
        spans = []
        for number in range(len(source_lengths)):
            spans.append(UnitSpan.whole(range(number, number + 1)))
        return spans


@dataclass(frozen=True)
class WindowUnit(Unit):
    """A sentence and its context in the document.

    Attributes:
        before, after: sentences of context.
        context_kind: the ``true`` context, a ``fixed`` sentence, ``random`` words, or ``none``.
        context_sides: ``source``; ``both``: the decoder predicts the context, too (concatenation);
            ``history``: it reads its earlier translations.
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
            start = max(number - before, 0)
            stop = min(number + after + 1, count)
            window = range(start, stop)
            current = range(number, number + 1)
            spans.append(
                UnitSpan(
                    source=window,
                    target=current if self.context_sides == "source" else window,
                    predicted=window if self.context_sides == "both" else current,
                    kept=current,
                )
            )
        return spans

    @property
    def predicts_context(self) -> bool:
        """Whether the unit is for concatenation."""
        return self.context_sides == "both"

    @property
    def sentence_by_sentence(self) -> bool:
        """Whether the decoder reads earlier translations."""
        return self.context_sides == "history" and self.context_kind != "none"


@dataclass(frozen=True)
class DocumentUnit(Unit):
    """Consecutive sentences of a document: a *chunk*.

    Attributes:
        max_doc_tokens: most tokens of a chunk.
        overlap: in decoding, sentences that a chunk shares with the chunk before.
    """

    name = "document"

    max_doc_tokens: int = 512
    overlap: int = 0

    def __post_init__(self) -> None:
        _at_least(_LEAST_DOC_TOKENS, "max-doc-tokens", self.max_doc_tokens)
        _at_least(0, "overlap", self.overlap)

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return a row for each chunk."""
        other = source_lengths if target_lengths is None else target_lengths
        if self.overlap:
            return split_overlapping(source_lengths, other, self.max_doc_tokens, self.overlap)
        chunks = split_chunks(source_lengths, other, self.max_doc_tokens)
        return [UnitSpan.whole(chunk) for chunk in chunks]

    @property
    def tokens_at_once(self) -> int | None:
        """``max_doc_tokens`` if chunks overlap."""
        return self.max_doc_tokens if self.overlap else None

    def limited_to(self, max_doc_tokens: int) -> DocumentUnit:
        """Return the unit with another ``--max-doc-tokens``."""
        return replace(self, max_doc_tokens=max_doc_tokens)


@dataclass(frozen=True)
class StreamUnit(Unit):
    """A whole document, read sentence by sentence; see :mod:`gtrans.data.stream`."""

    name = "stream"
    trained_in_runs = True

    def cut(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[UnitSpan]:
        """Return the document as one row."""
        return _one_row(source_lengths)

    def steps(self, source_lengths: Lengths, target_lengths: Lengths | None = None) -> list[int]:
        """Return the number of sentences of each step."""
        return [1] * len(source_lengths)

    @property
    def sentence_by_sentence(self) -> bool:
        """True: the memory reads each translation."""
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
        """False: the memory reads whole chunks."""
        return False

    @property
    def tokens_at_once(self) -> int:
        """The most tokens of a chunk."""
        return self.max_doc_tokens

    def limited_to(self, max_doc_tokens: int) -> ChunkStreamUnit:
        """Return the unit with another ``--max-doc-tokens``."""
        return replace(self, max_doc_tokens=max_doc_tokens)

    def unlimited(self) -> ChunkStreamUnit:
        """Return the unit itself."""
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
        before = 1 if settings.context_before is None else int(settings.context_before)
        return WindowUnit(
            before=before,
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
    costs sum to at most ``max_tokens``; a longer sentence is a chunk. This is "up to 512 tokens" of
    G-Transformer (Bao et al. 2021), as in the authors' code.
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
) -> list[UnitSpan]:
    """As :func:`split_chunks`, but a chunk also reads up to ``overlap`` sentences before its own.

    They are not predicted again.
    """
    costs = _costs(source_lengths, target_lengths)
    spans: list[UnitSpan] = []
    start = 0
    while start < len(costs):
        used = costs[start]
        first_read = start
        earliest = max(start - overlap, 0)
        while first_read > earliest and used + costs[first_read - 1] <= max_tokens:
            first_read -= 1
            used += costs[first_read]
        stop = start + 1
        while stop < len(costs) and used + costs[stop] <= max_tokens:
            used += costs[stop]
            stop += 1
        read = range(first_read, stop)
        own = range(start, stop)
        spans.append(UnitSpan(source=read, target=read, predicted=own, kept=own))
        start = stop
    return spans


def _costs(source_lengths: Lengths, target_lengths: Lengths) -> list[int]:
    costs = []
    for source, target in zip(source_lengths, target_lengths, strict=True):
        costs.append(max(source, target) + SPECIAL_TOKENS_PER_SENTENCE)
    return costs


# ---- units of a corpus ---------------------------------------------------------------------------


class UnitSelection(NamedTuple):
    """A random part of a training set; larger parts hold smaller ones.

    Attributes:
        min_tokens: shorter documents are left out.
        units: number of units to draw; 0: all.
    """

    min_tokens: int = 0
    units: int = 0


ALL_UNITS = UnitSelection()
"""All documents and units."""


@dataclass(frozen=True)
class Units:
    """The units of a corpus.

    Attributes:
        lines: ``(units, 4, 2)`` begin and end of the ranges of a :class:`UnitSpan`, in lines with
            the empty ones.
        first_sentence: ``(units,)`` number of the first kept sentence in the corpus.
    """

    lines: Ints
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.lines)

    def span(self, number: int) -> UnitSpan:
        """Return the lines of one unit."""
        source, target, predicted, kept = self.lines[number].tolist()
        return UnitSpan(range(*source), range(*target), range(*predicted), range(*kept))

    def take(self, chosen: Ints) -> Units:
        """Return the units ``chosen (n,)``."""
        return Units(self.lines[chosen], self.first_sentence[chosen])

    def shifted(self, lines: int, sentences: int) -> Units:
        """Add offsets to all line and sentence numbers."""
        return Units(self.lines + lines, self.first_sentence + sentences)

    @classmethod
    def joined(cls, parts: Sequence[Units]) -> Units:
        """Concatenate units."""
        lines = [part.lines for part in parts]
        first_sentence = [part.first_sentence for part in parts]
        return cls(np.concatenate(lines), np.concatenate(first_sentence))

    @classmethod
    def whole(cls, lines: Ints, first_sentence: Ints) -> Units:
        """Return units that keep all ``lines (units, 2)``."""
        return cls(np.stack([lines] * 4, 1), first_sentence)


def sums(lines: Ints, totals: Ints) -> Ints:
    """Return ``(n,)`` the sum over each of ``lines (n, 2)``, from :func:`totals_of`."""
    begin, end = lines[:, 0], lines[:, 1]
    total: Ints = totals[end] - totals[begin]
    return total


def totals_of(numbers: Any) -> Ints:
    """Return ``(lines + 1,)`` sums of ``numbers (lines,)`` before each line."""
    up_to_line = np.cumsum(numbers, dtype=np.int64)
    totals: Ints = np.concatenate([[0], up_to_line])
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
    if selection.units:
        lines = _drawn(lines, selection.units, name)
    sentence_numbers = np.cumsum(~blank) - 1
    first_kept = lines[:, 3, 0]
    return Units(lines, sentence_numbers[first_kept])


def _drawn(lines: Ints, count: int, name: str) -> Ints:
    if count > len(lines):
        raise GtransError(
            f"`--sample-instances` {count}: {name} has only {len(lines)} units; "
            "give a smaller number, or leave it out to train on all of them."
        )
    # RandomState gives the same numbers in every version of numpy.
    order = np.random.RandomState(_SEED).permutation(len(lines))
    return lines[np.sort(order[:count])]


def _documents(blank: NDArray[np.bool_]) -> Ints:
    """Return ``(documents, 2)`` lines, from ``blank (lines,)``."""
    is_boundary = np.concatenate([[True], blank, [True]])
    boundaries = np.flatnonzero(is_boundary) - 1
    begin = boundaries[:-1] + 1
    end = boundaries[1:]
    documents = np.stack([begin, end], 1)
    return documents[begin < end]


def _lines_of_units(documents: Ints, sizes: tuple[Ints, Ints], unit: Unit) -> Ints:
    """Return ``(units, 4, 2)`` lines; ``sizes (lines,)`` are of both sides."""
    lines: list[list[tuple[int, int]]] = []
    for begin, end in documents.tolist():
        source_words, target_words = _words_of_sides(sizes, begin, end)
        if unit.tokens_at_once is None:
            spans = unit.cut(source_words, target_words)
        else:  # they are not for training
            spans = unit.cut_to_translate(source_words)
        for span in spans:
            lines.append([(begin + part.start, begin + part.stop) for part in span])
    return np.array(lines, np.int64).reshape(-1, 4, 2)


def _words_of_sides(sizes: tuple[Ints, Ints], begin: int, end: int) -> tuple[list[int], list[int]]:
    source_sizes, target_sizes = sizes
    source_words = source_sizes[begin:end] - 1
    target_words = target_sizes[begin:end] - 1
    return source_words.tolist(), target_words.tolist()


@dataclass(frozen=True)
class StreamSteps:
    """The steps of documents that are read as streams.

    Attributes:
        name: one of :data:`gtrans.modules.STEPS`.
        lines: ``(steps, 2)``, document by document.
        counts: ``(documents,)`` steps of each.
        first: ``(documents,)`` number of the first step of each.
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
            steps = unit.steps(*_words_of_sides(sizes, begin, end))
            counts.append(len(steps))
            line = begin
            for sentences in steps:
                lines.append((line, line + sentences))
                line += sentences
        steps_of_documents = np.array(counts, np.int64)
        return cls(
            name=STEPS[int(unit.has_chunks)],
            lines=np.array(lines, np.int64).reshape(-1, 2),
            counts=steps_of_documents,
            first=np.cumsum(steps_of_documents) - steps_of_documents,
        )
