"""Split a translated document into the sentences of its reference.

The translation of a whole document need not have a sentence for each sentence of the reference.
As mwerSegmenter does (Matusov et al., 2005, "Evaluating Machine Translation Output with
Automatic Sentence Segmentation"), the split with the smallest edit distance to the references is
found by dynamic programming. No model is needed. Edit distance with costs for insertion and
deletion is the lengths minus a gain, so the best split has the largest sum of gains:

* A token that equals a token of the reference gains its weight: more if it is rarer in the
  references; a share of it, :data:`STEM`, from another form of a word. Another word in the place
  of a word gains :data:`SUBSTITUTION`. Tokens have to be in the same order; :data:`MOVED` of its
  weight is gained by every token that occurs anywhere in the reference sentence.
* A boundary in a place where sentences seldom end costs something, see :data:`COSTS`. What the
  references' own sentences have around such a place counts, too, see
  :class:`gtrans.evaluation.boundaries.Habits`.
* A sentence of the reference may be *omitted*, and a stretch between two sentences *added*.
  Both gain a share of their weight, so they win where nothing fits.

With several references every sentence takes the one that fits best.

A document of n tokens and m tokens of reference takes O(n m) time, K rows of n numbers of memory.
Long documents are searched in a band around the word sequences that occur once on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.evaluation.boundaries import (
    Band,
    Edge,
    Habits,
    Text,
    bands,
    cased_tokens,
    ends_a_sentence,
    is_word,
    tokens_of,
)
from gtrans.evaluation.metrics import Documents
from gtrans.files import StrPath, atomic_writer, unwritable
from gtrans.text.reader import Identified

SIGNATURE = "resegmented:edit-distance.4"
"""The mark of a resegmented translation in signatures; the number counts versions."""

# The unit of gains is a tenth of the match of the most frequent token.
COMMONEST, RARER, RAREST = 10, 5.0, 40
"""Weight of a token: COMMONEST, RARER more for each factor of ten that it is rarer, at most
RAREST."""
SUBSTITUTION = 5
MOVED = 0.3
COSTS = {
    True: {Edge.LINE_END: -20, Edge.SENTENCE_END: 0, Edge.PUNCTUATION: 30, Edge.SPACE: 38,
           Edge.LOWER_CASE: 45, Edge.NONE: 60},
    False: {Edge.LINE_END: -20, Edge.SENTENCE_END: 0, Edge.PUNCTUATION: 12, Edge.SPACE: 12,
            Edge.LOWER_CASE: 22, Edge.NONE: 40},
}  # fmt: skip
"""Cost of a boundary by what stands there: for a reference sentence that ends in a final
punctuation mark (true), and for others, such as headlines."""
STEM, STEM_LETTERS = 0.5, 5
"""Share of its weight that a token gains from another one with the same first letters."""
OMITTED, ADDED, OPENING = 0.08, 0.22, 30
"""Share of its weight that a sentence gains by being omitted, a stretch by being added, less
OPENING."""

_ROWS_AT_ONCE = 64
_IMPOSSIBLE = -(10**8)

Gains = NDArray[np.int32]


@dataclass(frozen=True)
class Addition:
    """A stretch of the translation that fits no sentence.

    Attributes:
        after: the number of sentences of the document before it.
        part_of: the position of the sentence that it was made a part of.
        text: the stretch.
        tokens: its length.
    """

    after: int
    part_of: int
    text: str
    tokens: int


@dataclass(frozen=True)
class Split:
    """A document of translation in the sentences of its reference.

    Attributes:
        sentences: as many as the reference has. An omitted one is empty. An addition is a part
            of the sentence before it, so that nothing of the translation is lost.
        omitted: positions of the sentences that are not translated.
        added: stretches that translate nothing.
        tokens: length of each sentence.
        gain: the sum of gains, the largest of all splits.
    """

    sentences: list[str]
    omitted: list[int]
    added: list[Addition]
    tokens: list[int]
    gain: int = field(compare=False)  # sums are rounded from the begin of a band


class Resegmenter:
    """Splits translations of the documents of one reference.

    Args:
        references: one or more references, each documents of sentences; all of them with
            the same documents and sentences.
        always: also split a document that has as many lines as the reference has sentences.
    """

    def __init__(self, references: Sequence[Documents], always: bool = False) -> None:
        self._always = always
        self._sentences = list(zip(*references, strict=True))
        self._references = [
            [[tokens_of(sentence) for sentence in document] for document in documents]
            for documents in references
        ]
        sentences = [
            tokens
            for documents in self._references
            for document in documents
            for tokens in document
        ]
        self._counts = Counter(token for tokens in sentences for token in tokens)
        self._total = max(1, sum(self._counts.values()))
        self.habits = Habits(
            [cased_tokens(one) for documents in references for lines in documents for one in lines]
        )
        self._weights: dict[str, int] = {}

    def split(self, document: int, lines: Sequence[str]) -> Split:
        """Split the translation of a document.

        One that is the reference itself has its sentences, and one with as many lines keeps them.

        Args:
            document: its number in the references, from 0.
            lines: the translation, in lines of any kind.
        """
        if not self._always and len(lines) == len(self._sentences[document][0]):
            return _as_it_is(lines, self._sentences[document][0])
        for sentences in self._sentences[document]:
            if "".join("".join(lines).split()) == "".join("".join(sentences).split()):
                return _as_it_is(sentences, sentences)
        references = [documents[document] for documents in self._references]
        return _Search(self, Text("\n".join(lines)), references).split()

    def weight(self, token: str) -> int:
        """The gain of a match."""
        found = self._weights.get(token)
        if found is None:
            rarity = log10(self._total / max(1, self._counts[token]))
            found = self._weights[token] = int(min(RAREST, COMMONEST + RARER * rarity))
        return found


def _as_it_is(lines: Sequence[str], reference: Sequence[str]) -> Split:
    """A document whose lines are the translations of the sentences; empty ones are omitted."""
    pairs = zip(lines, reference, strict=True)
    omitted = [place for place, (line, one) in enumerate(pairs) if one and not line]
    return Split(list(lines), omitted, [], [len(tokens_of(line)) for line in lines], 0)


def stem_of(token: str) -> str:
    """What forms of a word have in common: its first letters."""
    return token[:STEM_LETTERS]


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a reference; one entry for each token in the arrays.

    Attributes:
        ids: numbers of the same tokens in the translation; -1: not in it.
        stems: numbers of the same first letters there.
        words: whether it is a word.
        weights: the gain of its match.
        weight: their sum.
        edges: the numbers of its first and its last token, whether a quotation mark opens or not.
        final: whether the sentence ends in a final punctuation mark.
    """

    ids: NDArray[np.int32]
    stems: NDArray[np.int32]
    words: NDArray[np.bool_]
    weights: NDArray[np.int32]
    weight: int
    edges: tuple[int, int]
    final: bool

    def reversed(self) -> _Sentence:
        """The sentence from its end to its begin."""
        return replace(
            self,
            ids=self.ids[::-1],
            stems=self.stems[::-1],
            words=self.words[::-1],
            weights=self.weights[::-1],
        )


class _Search:
    """The search for the best split of one document.

    Columns are places between tokens of the translation, 0 to n. A row has the largest gain
    with which the references up to some token can be followed to each column of a band.
    """

    def __init__(
        self, model: Resegmenter, text: Text, references: Sequence[Sequence[list[str]]]
    ) -> None:
        self._text = text
        tokens = text.tokens
        self._ids: dict[str, int] = {}
        self._tokens = np.array(
            [self._ids.setdefault(token, len(self._ids)) for token in tokens], dtype=np.int32
        )
        self._stem_ids: dict[str, int] = {}
        self._stems = np.array(
            [self._stem_ids.setdefault(stem_of(t), len(self._stem_ids)) for t in tokens],
            dtype=np.int32,
        )
        # The token before each place; none before the first one and behind the last one.
        self._around = np.array([-2, *map(self._edge, tokens), -2], dtype=np.int32)
        self._words = np.array([is_word(token) for token in tokens], dtype=bool)
        self._model = model
        self._weight = np.array([model.weight(token) for token in tokens], dtype=np.int32)
        habits = model.habits.gains(text.cased)
        self._boundary: dict[bool, Gains] = {}
        for final, costs in COSTS.items():
            by_edge = np.array([costs[edge] for edge in Edge], dtype=np.int32)
            self._boundary[final] = habits - by_edge[text.edges]
        self._adding = _running(ADDED * self._weight)
        sentences = list(zip(*references, strict=True))
        self._bands = bands(sentences, tokens)
        self._sentences = [
            [self._prepare(one, model) for one in alternatives] for alternatives in sentences
        ]

    def _prepare(self, tokens: list[str], model: Resegmenter) -> _Sentence:
        weights = np.array([model.weight(token) for token in tokens], dtype=np.int32)
        return _Sentence(
            np.array([self._ids.get(token, -1) for token in tokens], dtype=np.int32),
            np.array([self._stem_ids.get(stem_of(t), -1) for t in tokens], dtype=np.int32),
            np.array([is_word(token) for token in tokens], dtype=bool),
            weights,
            int(weights.sum()),
            (self._edge(tokens[0]), self._edge(tokens[-1])) if tokens else (-1, -1),
            ends_a_sentence(tokens),
        )

    def _edge(self, token: str) -> int:
        """The number of a token; of a quotation mark that of one that opens, if there is one."""
        return self._ids.get("“" if token == "”" and "“" in self._ids else token, -1)

    def split(self) -> Split:
        """The best split."""
        return self._back(*self._forth())

    def _forth(self) -> tuple[list[tuple[Band, Gains]], Gains, Band]:
        """The row before each sentence with its band, and the last row."""
        ends, band = np.zeros(1, dtype=np.int32), Band(0, 0)
        history = []
        for number, own in enumerate(self._bands):
            history.append((band, ends))
            starts = self._with_addition(_fit(ends, band, own), own)
            ways = [
                self._follow(number, sentence, starts, own) for sentence in self._sentences[number]
            ]
            ends = np.maximum.reduce([*ways, starts + self._omission(number)])
            band = own
        return history, ends, band

    def _back(self, history: list[tuple[Band, Gains]], ends: Gains, band: Band) -> Split:
        """From the last column back: the column where each sentence begins."""
        column = len(self._tokens)
        places: list[tuple[int, int]] = []  # begin of each sentence, end of the one before it
        total = int(self._with_addition(ends, band)[-1])
        stop = self._before_addition(ends, band, column)
        pieces = [(stop, column)]
        column = stop
        for number in range(len(history) - 1, -1, -1):
            gain = int(ends[column - band.first])
            own, (band, ends) = band, history[number]
            ends = _fit(ends, band, own)
            start = self._begin(number, self._with_addition(ends, own), own, column, gain)
            stop = self._before_addition(ends, own, start)
            ends = history[number][1]
            places.append((start, column))
            pieces.append((stop, start))
            column = stop
        return self._result(places[::-1], pieces[::-1], total)

    def _begin(self, number: int, starts: Gains, own: Band, column: int, gain: int) -> int:
        """The column where the sentence ``number`` begins, which ends in ``column``."""
        width = column - own.first + 1
        if int(starts[width - 1]) + self._omission(number) == gain:
            return column
        for sentence in self._sentences[number]:
            moved = self._moved(sentence, own)[:width]
            row = np.zeros(width, dtype=np.int32)
            # The same rows from the other side: from the end of the sentence to its begin.
            for gains in self._gains(sentence.reversed(), Band(own.first, column)):
                row = _next_row(row, gains[::-1], row)
            end = self._end(number, sentence, Band(column, column))[0]
            total = row[::-1] + starts[:width] - moved + moved[-1] + end
            found = np.flatnonzero(total[:-1] == gain)
            if len(found):
                return own.first + int(found[-1])
        raise AssertionError("the way back has the gains of the way forth")

    def _result(
        self, places: list[tuple[int, int]], pieces: list[tuple[int, int]], gain: int
    ) -> Split:
        omitted = [number for number, (start, stop) in enumerate(places) if start == stop]
        # An addition goes to the last sentence before it that has a translation.
        spans: list[list[int]] = [[start, stop] for start, stop in places]
        present = [number for number, (start, stop) in enumerate(places) if stop > start]
        for one, other in pairwise(present):
            spans[one][1] = spans[other][0]
        if present:
            spans[present[0]][0], spans[present[-1]][1] = 0, len(self._tokens)
        elif spans:
            spans[0] = [0, len(self._tokens)]
        owners = [number for number, (start, stop) in enumerate(spans) for _ in range(start, stop)]
        added = [
            Addition(number, owners[start], self._text.part(start, stop), stop - start)
            for number, (start, stop) in enumerate(pieces)
            if stop > start
        ]
        sentences = [self._text.part(start, stop) for start, stop in spans]
        return Split(sentences, omitted, added, [stop - start for start, stop in spans], gain)

    # --- parts of the sum ---------------------------------------------------------------

    def _follow(self, number: int, sentence: _Sentence, starts: Gains, own: Band) -> Gains:
        """The gains at the end of a sentence of the reference, from those at its begin."""
        moved = self._moved(sentence, own)
        before: Gains = np.maximum.accumulate(starts - moved)
        # A sentence has at least one token; one without any is omitted, which has its own price.
        row = np.concatenate([[_IMPOSSIBLE], before[:-1]]).astype(np.int32)
        for gains in self._gains(sentence, own):
            row = _next_row(row, gains, np.maximum(row, before))
        return row + moved + self._end(number, sentence, own)

    def _end(self, number: int, sentence: _Sentence, band: Band) -> Gains:
        """The gain of the end of a sentence at each place of a band.

        The place costs nothing where the sentence's last token stands before it, and the first one
        of the next sentence behind it.
        """
        cost = self._boundary[sentence.final][band.first : band.last + 1]
        places = np.arange(band.first, band.last + 1)
        following = self._sentences[number + 1] if number + 1 < len(self._sentences) else []
        behind = np.isin(self._around[places + 1], [other.edges[0] for other in following])
        certain = behind & (self._around[places] == sentence.edges[1])
        found: Gains = np.where(certain, np.maximum(cost, 0), cost)
        return found

    def _gains(self, sentence: _Sentence, band: Band) -> Iterator[Gains]:
        """For each token of the reference, its gain with each token of the translation."""
        translation = self._tokens[band.first : band.last]
        words = self._words[band.first : band.last]
        stems = self._stems[band.first : band.last]
        for begin in range(0, len(sentence.ids), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            same_kind = sentence.words[part, None] == words
            gains = np.where(same_kind, np.int32(SUBSTITUTION), np.int32(0))
            weights = sentence.weights[part, None]
            alike = np.maximum(SUBSTITUTION, STEM * weights).astype(np.int32)
            gains = np.where(sentence.stems[part, None] == stems, alike, gains)
            equal = sentence.ids[part, None] == translation
            yield from np.where(equal, weights, gains)

    def _moved(self, sentence: _Sentence, band: Band) -> Gains:
        """Sums over the tokens of the translation that occur in a sentence, in any order."""
        present = np.zeros(len(self._ids) + 1, dtype=bool)  # the last one: tokens that do not
        present[sentence.ids] = True
        present[-1] = False
        part = slice(band.first, band.last)
        return _running(MOVED * self._weight[part] * present[self._tokens[part]])

    def _omission(self, number: int) -> int:
        weights = [sentence.weight for sentence in self._sentences[number]]
        return int(OMITTED * sum(weights) / len(weights)) - OPENING

    def _with_addition(self, ends: Gains, band: Band) -> Gains:
        """The gains before the next sentence, which an added stretch may precede."""
        adding = self._adding[band.first : band.last + 1]
        jump = np.maximum.accumulate(ends - adding) + adding - OPENING
        added: Gains = np.maximum(ends, jump + self._boundary[True][band.first : band.last + 1])
        return added

    def _before_addition(self, ends: Gains, band: Band, column: int) -> int:
        """Where the stretch begins that was added before ``column``; ``column``: there is none."""
        at = column - band.first
        adding = self._adding[band.first : band.last + 1]
        gain = int(self._with_addition(ends, band)[at])
        if gain == ends[at]:
            return column
        jumps = ends - adding + adding[at] - OPENING + self._boundary[True][column]
        return band.first + int(np.flatnonzero(jumps[: at + 1] == gain)[-1])


def _next_row(row: Gains, gains: Gains, before: Gains) -> Gains:
    """The row of the next token of the reference: it meets a token, or it is passed by.

    ``before``: the row from which it meets one.
    """
    new = row.copy()
    np.maximum(before[:-1] + gains, row[1:], out=new[1:])
    best: Gains = np.maximum.accumulate(new)
    return best


def _running(values: NDArray[Any]) -> Gains:
    """Sums of the values before each place, (values + 1), as whole numbers."""
    return np.concatenate([[0.0], np.cumsum(values)]).astype(np.int32)


def _fit(row: Gains, band: Band, own: Band) -> Gains:
    """A row of one band in the columns of another; what it lacks cannot be reached."""
    fitted = np.full(own.last - own.first + 1, _IMPOSSIBLE, dtype=np.int32)
    first, last = max(band.first, own.first), min(band.last, own.last)
    if first <= last:
        fitted[first - own.first : last - own.first + 1] = row[
            first - band.first : last - band.first + 1
        ]
    return fitted


# --- what a translation leaves out and adds -------------------------------------------------------


@dataclass(frozen=True)
class Coverage:
    """How much of the reference a translation covers.

    Attributes:
        omitted: share of the reference's words in sentences that are not translated, in percent
            (characters in scripts without spaces).
        added: share of the translation's words in stretches that translate nothing, in percent.
        omitted_sentences: these sentences: ``document`` and ``sentence`` of the reference's file,
            counted from 1, their ids, if there are any, as ``doc_id`` and ``segment_id``, and the
            ``reference``.
        added_text: these stretches: ``document`` (``doc_id``), the sentence before as
            ``after_sentence`` (0: at the beginning), and the ``text``.
    """

    omitted: float
    added: float
    omitted_sentences: list[dict[str, Any]]
    added_text: list[dict[str, Any]]


def coverage(
    splits: Sequence[Split],
    references: Sequence[Documents],
    counted: Sequence[Sequence[bool]],
    ids: Identified | None = None,
) -> Coverage:
    """The coverage of one system; a sentence of several references counts its mean length.

    Args:
        splits: its documents.
        references: one or more references of the same documents.
        counted: for each sentence of each document whether it counts. What is added counts if
            the sentence does that it is a part of.
        ids: the reference's documents and segments, if they have ids.
    """
    lengths = [
        [sum(len(tokens_of(one)) for one in sentence) / len(references) for sentence in sentences]
        for sentences in (
            zip(*documents, strict=True) for documents in zip(*references, strict=True)
        )
    ]
    expected = sum(sum(compress(*pair)) for pair in zip(lengths, counted, strict=True))
    tokens = sum(sum(compress(one.tokens, two)) for one, two in zip(splits, counted, strict=True))
    omitted = [(d, k) for d, split in enumerate(splits) for k in split.omitted if counted[d][k]]
    added = [
        (d, one) for d, split in enumerate(splits) for one in split.added if counted[d][one.part_of]
    ]
    documents = list(ids.documents.items()) if ids is not None else []

    def place(d: int) -> dict[str, Any]:
        return {"document": d + 1} | ({"doc_id": documents[d][0]} if documents else {})

    def segment(d: int, k: int) -> dict[str, Any]:
        name = documents[d][1][k].name if documents else ""
        return {"sentence": k + 1} | ({"segment_id": name} if name else {})

    return Coverage(
        omitted=100 * sum(lengths[d][k] for d, k in omitted) / max(1.0, expected),
        added=100 * sum(one.tokens for _, one in added) / max(1, tokens),
        omitted_sentences=[
            place(d) | segment(d, k) | {"reference": references[0][d][k]} for d, k in omitted
        ],
        added_text=[place(d) | {"after_sentence": one.after, "text": one.text} for d, one in added],
    )


def write_documents(folder: Path, texts: dict[str, Documents], inputs: Sequence[StrPath]) -> None:
    """Write texts as files of one sentence per line with an empty line between documents.

    All files have the same lines; the line of an empty sentence is empty.

    Raises:
        GtransError: a file cannot be written, or is one of ``inputs``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, documents in texts.items():
            with atomic_writer(folder / name, inputs) as file:
                file.write("\n\n".join("\n".join(document) for document in documents) + "\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
