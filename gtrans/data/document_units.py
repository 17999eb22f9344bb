"""Which lines of a binarised corpus form which unit.

An empty line, the boundary between two documents, is a single end symbol there. Units are formed
when the corpus is loaded, so that one binarised corpus serves every model
(:mod:`gtrans.data.units`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gtrans.data.binarised import check_sides
from gtrans.data.units import MARKS_PER_SENTENCE, StreamUnit, Unit, UnitSpan
from gtrans.errors import GtransError
from gtrans.modules import STEPS

Ints = NDArray[np.int64]


_SEED = 1


@dataclass(frozen=True)
class Selection:
    """A part of a training set, the same in every epoch, command and process.

    A smaller sample is part of a larger one.

    Attributes:
        min_tokens: fewest tokens of a document; others are left out first.
        instances: how many units are drawn (sentences, windows, instances); 0: all.
    """

    min_tokens: int = 0
    instances: int = 0

    def of_documents(self, tokens: Ints, name: str) -> Ints:
        """The documents that are read.

        Args:
            tokens: ``(documents,)`` tokens of each document.
            name: name of the training set in messages.

        Returns:
            their numbers, in ascending order.

        Raises:
            GtransError: none is left.
        """
        left = np.flatnonzero(tokens >= self.min_tokens)
        if self.min_tokens and not len(left):
            raise GtransError(
                f"`--min-doc-tokens` {self.min_tokens}: no document of {name} is so long, the "
                f"longest has {int(tokens.max(initial=0))} tokens; give a smaller number."
            )
        return left

    def of_instances(self, count: int, name: str) -> Ints:
        """Which of ``count`` units are read, in ascending order.

        Raises:
            GtransError: there are not so many.
        """
        if self.instances > count:
            raise GtransError(
                f"`--sample-instances` {self.instances}: {name} has only {count} instances; give "
                "a smaller number, or leave it out to read all of them."
            )
        # RandomState gives the same numbers in every version of numpy.
        order = np.random.RandomState(_SEED).permutation(count)
        return np.sort(order[: self.instances or count]).astype(np.int64)


WHOLE = Selection()
"""All documents and units."""


@dataclass(frozen=True)
class LineRanges:
    """Ranges of lines of a corpus, one for each unit.

    Attributes:
        begin, end: ``(units,)`` first line of each range, and first line after it. Lines are
            counted from 0, with the empty ones.
    """

    begin: Ints
    end: Ints

    @classmethod
    def of(cls, ranges: Sequence[range]) -> LineRanges:
        """From Python's ranges."""
        begin = np.array([lines.start for lines in ranges], np.int64)
        end = np.array([lines.stop for lines in ranges], np.int64)
        return cls(begin, end)

    def __getitem__(self, unit: int) -> range:
        return range(int(self.begin[unit]), int(self.end[unit]))

    def take(self, units: Ints) -> LineRanges:
        """The ranges of some ``units (n,)``."""
        return LineRanges(self.begin[units], self.end[units])

    def moved(self, lines: int) -> LineRanges:
        """The same ranges, so many lines later."""
        return LineRanges(self.begin + lines, self.end + lines)

    @classmethod
    def joined(cls, parts: Sequence[LineRanges]) -> LineRanges:
        """The ranges of all parts."""
        return cls(
            np.concatenate([part.begin for part in parts]),
            np.concatenate([part.end for part in parts]),
        )

    def sums(self, totals: Ints) -> Ints:
        """``(units,)`` sums over each range; ``totals (lines + 1,)``: the sums up to each line."""
        sums: Ints = totals[self.end] - totals[self.begin]
        return sums


@dataclass(frozen=True)
class Units:
    """Which lines of a corpus form which unit.

    Attributes:
        source, target, written, current: the lines of each unit's
            :class:`~gtrans.data.units.UnitSpan`.
        first_sentence: ``(units,)`` number of the first current sentence among all sentences
            of the corpus.
    """

    source: LineRanges
    target: LineRanges
    written: LineRanges
    current: LineRanges
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.first_sentence)

    @classmethod
    def of(cls, spans: Sequence[UnitSpan], sentences_before: Ints) -> Units:
        """From spans of lines; ``sentences_before (lines,)``: how many precede each line."""
        current = LineRanges.of([span.current for span in spans])
        return cls(
            LineRanges.of([span.source for span in spans]),
            LineRanges.of([span.target for span in spans]),
            LineRanges.of([span.written for span in spans]),
            current,
            sentences_before[current.begin],
        )

    @classmethod
    def whole(cls, lines: LineRanges, first_sentence: Ints) -> Units:
        """Units in which all lines are current."""
        return cls(lines, lines, lines, lines, first_sentence)

    @property
    def _ranges(self) -> tuple[LineRanges, ...]:
        return self.source, self.target, self.written, self.current

    def take(self, chosen: Ints) -> Units:
        """The units of these numbers ``(n,)``."""
        source, target, written, current = (it.take(chosen) for it in self._ranges)
        return Units(source, target, written, current, self.first_sentence[chosen])

    def moved(self, lines: int, sentences: int) -> Units:
        """The same units in a corpus that has so many lines and sentences before them."""
        source, target, written, current = (it.moved(lines) for it in self._ranges)
        return Units(source, target, written, current, self.first_sentence + sentences)

    @classmethod
    def joined(cls, parts: Sequence[Units]) -> Units:
        """The units of all parts."""
        sides = zip(*(part._ranges for part in parts), strict=True)
        source, target, written, current = map(LineRanges.joined, sides)
        first: Ints = np.concatenate([part.first_sentence for part in parts])
        return cls(source, target, written, current, first)

    def span(self, unit: int) -> UnitSpan:
        """One unit, in lines."""
        return UnitSpan(
            self.source[unit], self.target[unit], self.written[unit], self.current[unit]
        )


@dataclass(frozen=True)
class Steps:
    """The steps of documents that are read as streams (:mod:`gtrans.data.units`).

    Attributes:
        name: what they are, one of :data:`gtrans.modules.STEPS`.
        lines: the lines of all steps, document by document.
        counts: ``(documents,)`` steps of each document.
        first: ``(documents,)`` number of its first step.
    """

    name: str
    lines: LineRanges
    counts: Ints
    first: Ints

    @classmethod
    def of(
        cls,
        documents: LineRanges,
        sizes: tuple[Ints, Ints],
        unit: Unit,
        draw: np.random.Generator | None = None,
    ) -> Steps:
        """Cut documents.

        Args:
            documents: their lines.
            sizes: ``(lines,)`` tokens of all lines on both sides, with end symbol.
            unit: a stream.
            draw: where documents are cut is random; None: it is not.
        """
        assert isinstance(unit, StreamUnit)
        of_documents: list[list[int]] = []
        for begin, end in zip(documents.begin.tolist(), documents.end.tolist(), strict=True):
            words, other = ((of_side[begin:end] - 1).tolist() for of_side in sizes)
            share = None if draw is None else 1.0 - draw.random()
            of_documents.append(unit.steps(words, other, share))
        counts = np.array([len(of_document) for of_document in of_documents], np.int64)
        sentences = np.array([size for one in of_documents for size in one], np.int64)
        first = np.cumsum(counts) - counts
        # Between documents there are lines that belong to none.
        before = np.cumsum(sentences) - sentences
        begin = before + np.repeat(documents.begin - before[first], counts)
        name = STEPS[int(unit.has_instances)]
        return cls(name, LineRanges(begin, begin + sentences), counts, first)

    def of_run(self, document: int, position: int, count: int) -> LineRanges:
        """The lines of ``count`` steps of a document, from number ``position`` on."""
        first = int(self.first[document]) + position
        return self.lines.take(np.arange(first, first + count))


def document_units(
    source_sizes: Ints,
    target_sizes: Ints | None,
    unit: Unit,
    name: str,
    selection: Selection = WHOLE,
    draw: np.random.Generator | None = None,
) -> Units:
    """Form units from the tokens of all lines (with end symbol, so an empty line has 1).

    Args:
        source_sizes: ``(lines,)``.
        target_sizes: ``(lines,)``; None: there is no target.
        unit: how documents are cut.
        name: name of the corpus in messages.
        selection: which documents and units are read. A document has as many tokens as
            ``--max-doc-tokens`` counts (:func:`gtrans.data.units.split_instances`).
        draw: where documents are cut is random; None: it is not.

    Raises:
        GtransError: the two sides differ in lines or document boundaries, or the corpus does not
            have what ``selection`` asks for.
    """
    blank = source_sizes == 1
    other = source_sizes if target_sizes is None else target_sizes
    check_sides(blank, other == 1, name)
    documents = _documents(blank)
    if not len(documents.begin):
        raise GtransError(f"{name}: the corpus holds no sentence.")
    if selection != WHOLE:
        costs = np.maximum(source_sizes, other) - 1 + MARKS_PER_SENTENCE
        tokens = documents.sums(np.concatenate([[0], np.cumsum(costs, dtype=np.int64)]))
        documents = documents.take(selection.of_documents(tokens, name))
    spans: list[UnitSpan] = []
    for begin, end in zip(documents.begin.tolist(), documents.end.tolist(), strict=True):
        words, other_words = ((sizes[begin:end] - 1).tolist() for sizes in (source_sizes, other))
        if draw is not None:
            found = unit.cut_anew(words, other_words, 1.0 - draw.random())
        elif unit.tokens_at_once is None:
            found = unit.cut(words, other_words)
        else:  # they are not for training
            found = unit.cut_to_translate(words)
        spans += [_moved(span, begin) for span in found]
    if selection.instances:
        spans = [spans[chosen] for chosen in selection.of_instances(len(spans), name)]
    return Units.of(spans, np.cumsum(~blank) - 1)


def _documents(blank: NDArray[np.bool_]) -> LineRanges:
    """The lines of every document; ``blank (lines,)`` is True for empty lines."""
    boundaries = np.flatnonzero(np.concatenate([[True], blank, [True]])) - 1
    begin, end = boundaries[:-1] + 1, boundaries[1:]
    return LineRanges(begin, end).take(np.flatnonzero(end > begin))


def _moved(span: UnitSpan, by: int) -> UnitSpan:
    """A span ``by`` lines further down: from sentence numbers of a document to lines."""

    def moved(lines: range) -> range:
        return range(lines.start + by, lines.stop + by)

    return UnitSpan(
        moved(span.source), moved(span.target), moved(span.written), moved(span.current)
    )
