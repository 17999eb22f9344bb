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

A document of n tokens and m tokens of reference takes O(n m) time, K rows of n numbers of memory;
a long one is searched in a band, see :func:`bands`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, compress, pairwise
from math import log10
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import (
    Edge,
    Habits,
    Text,
    cased_tokens,
    ends_a_sentence,
    is_word,
    tokens_of,
)
from gtrans.evaluation.metrics import Documents
from gtrans.files import (
    StrPath,
    atomic_writer,
    check_replaceable,
    digest,
    read_object,
    unwritable,
)
from gtrans.messages import json_text, of_form
from gtrans.text.reader import Identified

SIGNATURE = "resegmented:edit-distance.6"
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

CLEARLY_BETTER = 4
"""Lines as many as the reference's sentences stay unless a stretch of the best split gains more
than they do by so many average tokens of the reference."""

LONG, ANCHORS, ROOM = 4000, 16, 100
"""A translation of more than LONG tokens is searched between so many anchors on either side, and
ROOM tokens around them."""

_ROWS_AT_ONCE = 64
_IMPOSSIBLE = -(10**8)

Gains = NDArray[np.int64]
Span = tuple[int, int]
"""The first token of a sentence, and the one behind its last token."""


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
        moved: whether it was split although it has as many lines as the reference has sentences.
    """

    sentences: list[str]
    omitted: list[int]
    added: list[Addition]
    tokens: list[int]
    gain: int = field(compare=False)  # of a band, sums are rounded from its begin
    moved: bool = False


class Resegmenter:
    """Splits translations of the documents of one reference.

    Args:
        references: one or more references, each documents of sentences; all of them with
            the same documents and sentences.
        always: also split a document whose lines seem to be the reference's sentences.
    """

    def __init__(self, references: Sequence[Documents], always: bool = False) -> None:
        self._always = always
        self._sentences = list(zip(*references, strict=True))
        self._references = [
            [[tokens_of(sentence) for sentence in document] for document in documents]
            for documents in references
        ]
        documents = chain.from_iterable(self._references)
        self._counts = Counter(chain.from_iterable(chain.from_iterable(documents)))
        self._total = max(1, sum(self._counts.values()))
        self.weight = cache(self._weight)
        self.habits = Habits(
            [
                cased_tokens(text)
                for documents in references
                for lines in documents
                for text in lines
            ]
        )

    def split(self, document: int, lines: Sequence[str]) -> Split:
        """Split the translation of a document.

        The reference itself has its own sentences. As many lines as the reference has sentences
        stay unless another split is clearly better (:data:`CLEARLY_BETTER`): where one sentence is
        missing and another one has two lines, all lines between them are in wrong places.

        Args:
            document: its number in the references, from 0.
            lines: the translation, in lines of any kind.
        """
        text = "".join("".join(lines).split())
        for sentences in self._sentences[document]:
            if text == "".join("".join(sentences).split()):
                return _as_it_is(sentences, sentences)
        references = [documents[document] for documents in self._references]
        search = _Search(self, Text("\n".join(lines)), references)
        spans = search.best_spans()
        may_stay = not self._always and len(lines) == len(references[0])
        if may_stay and not search.is_clearly_better(spans, lines):
            return _as_it_is(lines, self._sentences[document][0])
        return search.split(spans, moved=may_stay)

    def _weight(self, token: str) -> int:
        """The gain of a match."""
        rarity = log10(self._total / max(1, self._counts[token]))
        return int(min(RAREST, COMMONEST + RARER * rarity))


def _as_it_is(lines: Sequence[str], reference: Sequence[str]) -> Split:
    """A document whose lines are the translations of the sentences; empty ones are omitted."""
    pairs = zip(lines, reference, strict=True)
    omitted = [place for place, (line, reference) in enumerate(pairs) if reference and not line]
    return Split(list(lines), omitted, [], [len(tokens_of(line)) for line in lines], 0)


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a reference; one entry for each token in the arrays.

    Attributes:
        ids: numbers of the same tokens in the translation; -1: not in it.
        stems: numbers of the same first letters there.
        words: whether it is a word.
        weights: the gain of its match.
        edges: the numbers of its first and its last token, whether a quotation mark opens or not.
        final: whether the sentence ends in a final punctuation mark.
    """

    ids: Gains
    stems: Gains
    words: NDArray[np.bool_]
    weights: Gains
    edges: tuple[int, int]
    final: bool


class _Search:
    """The search for the best split of one document.

    Columns are places between tokens of the translation, 0 to n. A row has for each column of a
    band the largest gain with which the references up to some token can be followed to it. It
    carries the column where its sentence began: as the lower bits of the gain, so that of equal
    gains the shorter sentence counts.
    """

    def __init__(
        self, model: Resegmenter, text: Text, references: Sequence[Sequence[list[str]]]
    ) -> None:
        self._text, self._model = text, model
        tokens = text.tokens
        self._ids: dict[str, int] = {}
        self._stem_ids: dict[str, int] = {}
        self._tokens, self._stems = (
            np.array([known.setdefault(token, len(known)) for token in tokens], dtype=np.int64)
            for known, tokens in (
                (self._ids, tokens),
                (self._stem_ids, [token[:STEM_LETTERS] for token in tokens]),
            )
        )
        # The token before each place; none before the first one and behind the last one.
        self._around = np.array([-2, *map(self._edge, tokens), -2])
        self._words = np.array([is_word(token) for token in tokens], dtype=bool)
        self._weight = np.array([model.weight(token) for token in tokens], dtype=np.int64)
        self._columns = np.arange(len(tokens) + 1)
        self._unit = 1 << len(tokens).bit_length()  # one of gain, above the bits of the column
        habits = model.habits.gains(text)
        self._boundary: dict[bool, Gains] = {}
        for final, costs in COSTS.items():
            by_edge = np.array([costs[edge] for edge in Edge])
            self._boundary[final] = habits - by_edge[text.edges]
        self._adding = _running(ADDED * self._weight)
        self._bands = bands(references[0], tokens)
        self._gain = 0
        self._sentences = [
            [self._prepare(alternative) for alternative in alternatives]
            for alternatives in zip(*references, strict=True)
        ]

    def _prepare(self, tokens: list[str]) -> _Sentence:
        return _Sentence(
            np.array([self._ids.get(token, -1) for token in tokens], dtype=np.int64),
            np.array([self._stem_ids.get(t[:STEM_LETTERS], -1) for t in tokens], dtype=np.int64),
            np.array([is_word(token) for token in tokens], dtype=bool),
            np.array([self._model.weight(token) for token in tokens], dtype=np.int64),
            (self._edge(tokens[0]), self._edge(tokens[-1])) if tokens else (-1, -1),
            ends_a_sentence(tokens),
        )

    def _edge(self, token: str) -> int:
        """The number of a token; of a quotation mark that of one that opens, if there is one."""
        return self._ids.get("“" if token == "”" and "“" in self._ids else token, -1)

    def best_spans(self) -> list[Span]:
        """The begin and end of each sentence in the best split; additions are between them."""
        band = self._bands[0] if self._bands else slice(0, len(self._columns))
        ends = np.where(self._columns[band], _IMPOSSIBLE, 0)
        stops, starts = [], []  # of each sentence: the end of the one before it, its begin
        for number, (own, alternatives) in enumerate(
            zip(self._bands, self._sentences, strict=True)
        ):
            ends, stop = self._with_addition(_fitted(ends, band, own), own)
            row = (ends + self._omission(number)) * self._unit + self._columns[own]
            for sentence in alternatives:
                row = np.maximum(row, self._follow(number, sentence, ends, own))
            ends, start = np.divmod(row, self._unit)
            stops.append(stop.astype(np.int32))
            starts.append(start.astype(np.int32))
            band = own
        ends, stop = self._with_addition(ends, band)
        self._gain = int(ends[-1])
        column = int(stop[-1])
        spans = []
        for own, stops_before, begins in zip(
            reversed(self._bands), reversed(stops), reversed(starts), strict=True
        ):
            begin = int(begins[column - own.start])
            spans.append((begin, column))
            column = int(stops_before[begin - own.start])
        return spans[::-1]

    def is_clearly_better(self, spans: Sequence[Span], lines: Sequence[str]) -> bool:
        """Whether a split gains clearly more than the lines as they are.

        The gains are compared stretch by stretch, between places where both have the end of the
        same sentence, so that many small differences are not taken for a large one.
        """
        ends = np.cumsum([len(tokens_of(line)) for line in lines]).tolist()
        if not ends or ends[-1] != len(self._tokens):
            return True  # a token reaches over the end of a line
        own = list(zip([0, *ends[:-1]], ends, strict=True))
        gained = self._gains_after(spans) - self._gains_after(own)
        common = [
            number
            for number, (span, line) in enumerate(zip(spans, own, strict=True))
            if span[1] == line[1] or number == len(own) - 1
        ]
        weights = np.concatenate([one.weights for both in self._sentences for one in both])
        average = weights.sum() / max(1, len(weights))
        return bool(np.diff(gained[common], prepend=0).max() > CLEARLY_BETTER * average)

    def _gains_after(self, spans: Sequence[Span]) -> Gains:
        """The sum of gains up to the end of each sentence of a split, (sentences,)."""
        gain, column = 0, 0
        gains = []
        for number, (start, stop) in enumerate(spans):
            gain += self._addition(column, start)
            if start == stop:
                gain += self._omission(number)
            else:
                own = slice(start, stop + 1)
                starts = np.full(stop - start + 1, _IMPOSSIBLE)
                starts[0] = gain
                rows = [
                    self._follow(number, sentence, starts, own)
                    for sentence in self._sentences[number]
                ]
                gain = int(np.max(rows, 0)[-1]) // self._unit
            column = stop
            gains.append(gain)
        gains[-1] += self._addition(column, len(self._tokens))
        return np.array(gains)

    def _addition(self, start: int, stop: int) -> int:
        """The gain of an added stretch; an empty one counts only if it gains something."""
        opening = int(self._boundary[True][stop]) - OPENING
        if start == stop:
            return max(0, opening)
        return int(self._adding[stop] - self._adding[start]) + opening

    def split(self, best: Sequence[Span], moved: bool) -> Split:
        """The split with these spans of sentences; what is between them is added."""
        omitted = [number for number, (start, stop) in enumerate(best) if start == stop]
        # An addition goes to the last sentence before it that has a translation.
        spans: list[list[int]] = [[start, stop] for start, stop in best]
        present = [number for number, (start, stop) in enumerate(best) if stop > start]
        for number, following in pairwise(present):
            spans[number][1] = spans[following][0]
        if present:
            spans[present[0]][0], spans[present[-1]][1] = 0, len(self._tokens)
        elif spans:
            spans[0] = [0, len(self._tokens)]
        owners = [number for number, (start, stop) in enumerate(spans) for _ in range(start, stop)]
        added = []
        ends = [0, *(stop for _, stop in best)]
        begins = [*(start for start, _ in best), len(self._tokens)]
        for number, (start, stop) in enumerate(zip(ends, begins, strict=True)):
            if stop > start:
                text = self._text.part(start, stop)
                added.append(Addition(number, owners[start], text, stop - start))
        sentences = [self._text.part(start, stop) for start, stop in spans]
        tokens = [stop - start for start, stop in spans]
        return Split(sentences, omitted, added, tokens, self._gain, moved)

    # --- parts of the sum ---------------------------------------------------------------

    def _follow(self, number: int, sentence: _Sentence, starts: Gains, own: slice) -> Gains:
        """The row at the end of a sentence of the reference, from the gains at its begin."""
        moved = self._moved(sentence, own)
        before: Gains = np.maximum.accumulate((starts - moved) * self._unit + self._columns[own])
        # A sentence has at least one token; one without any is omitted, which has its own price.
        row = np.concatenate([[_IMPOSSIBLE * self._unit], before[:-1]])
        for gains in self._gains(sentence, own):
            reached = np.maximum(row, before)[:-1] + gains
            row[1:] = np.maximum(reached, row[1:])
            row = np.maximum.accumulate(row)
        found: Gains = row + (moved + self._end(number, sentence, own)) * self._unit
        return found

    def _end(self, number: int, sentence: _Sentence, own: slice) -> Gains:
        """The gain of the end of a sentence at each place.

        The place costs nothing where the sentence's last token stands before it, and the first one
        of the next sentence behind it.
        """
        cost = self._boundary[sentence.final][own]
        following = self._sentences[number + 1] if number + 1 < len(self._sentences) else []
        behind = np.isin(self._around[1:][own], [other.edges[0] for other in following])
        certain = behind & (self._around[:-1][own] == sentence.edges[1])
        ends: Gains = np.where(certain, np.maximum(cost, 0), cost)
        return ends

    def _gains(self, sentence: _Sentence, own: slice) -> Iterator[Gains]:
        """For each token of the reference, its gain with each token of the translation."""
        between = slice(own.start, own.stop - 1)
        tokens, stems, words = (ids[between] for ids in (self._tokens, self._stems, self._words))
        for begin in range(0, len(sentence.ids), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            gains = np.where(sentence.words[part, None] == words, SUBSTITUTION, 0)
            weights = sentence.weights[part, None]
            alike = np.maximum(SUBSTITUTION, (STEM * weights).astype(np.int64))
            gains = np.where(sentence.stems[part, None] == stems, alike, gains)
            equal = sentence.ids[part, None] == tokens
            yield from np.where(equal, weights, gains) * self._unit

    def _moved(self, sentence: _Sentence, own: slice) -> Gains:
        """Sums over the tokens of the translation that occur in a sentence, in any order."""
        between = slice(own.start, own.stop - 1)
        present = np.isin(self._tokens[between], sentence.ids)
        return _running(MOVED * self._weight[between] * present)

    def _omission(self, number: int) -> int:
        weights = [int(sentence.weights.sum()) for sentence in self._sentences[number]]
        return int(OMITTED * sum(weights) / len(weights)) - OPENING

    def _with_addition(self, ends: Gains, own: slice) -> tuple[Gains, Gains]:
        """The gains before the next sentence, which an added stretch may precede; its begin."""
        adding, columns = self._adding[own], self._columns[own]
        jump = np.maximum.accumulate((ends - adding) * self._unit + columns)
        jump += (adding - OPENING + self._boundary[True][own]) * self._unit
        gains, begins = np.divmod(np.maximum(ends * self._unit + columns, jump), self._unit)
        return gains, begins


def bands(reference: Sequence[list[str]], tokens: list[str]) -> list[slice]:
    """The columns in which each sentence of a reference is searched; all of a short text.

    Three tokens that occur once on both sides are an anchor. A sentence stands between those before
    and behind it; a quarter of the nearest :data:`ANCHORS` may be in wrong places.
    """
    last = len(tokens)
    if last <= LONG:
        return [slice(0, last + 1)] * len(reference)
    theirs = list(chain.from_iterable(reference))
    here, there = _once(theirs), _once(tokens)
    pairs = np.array([(place, there[words]) for words, place in here.items() if words in there])
    pairs = pairs.reshape(-1, 2)
    ends = np.cumsum([len(sentence) for sentence in reference])
    firsts, lasts = [], []
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        before, behind = np.searchsorted(pairs[:, 0], (begin - 2, end))
        left, right = pairs[max(0, before - ANCHORS) : before, 1], pairs[behind:, 1][:ANCHORS]
        enough = len(left) == ANCHORS, len(right) == ANCHORS
        firsts.append(max(0, np.sort(left)[ANCHORS // 4] - ROOM) if enough[0] else 0)
        lasts.append(min(last, np.sort(right)[-1 - ANCHORS // 4] + ROOM) if enough[1] else last)
    # Neither goes back, and each band meets the next one.
    first = np.minimum.accumulate(firsts[::-1])[::-1]
    stop = np.maximum(np.maximum.accumulate(lasts), [*first[1:], last]) + 1
    return [slice(int(begin), int(end)) for begin, end in zip(first, stop, strict=True)]


def _once(tokens: list[str]) -> dict[tuple[str, ...], int]:
    """The place of every three tokens that stand together once only, in their order."""
    trigrams = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    counts = Counter(trigrams)
    return {trigram: place for place, trigram in enumerate(trigrams) if counts[trigram] == 1}


def _fitted(row: Gains, band: slice, own: slice) -> Gains:
    """A row of one band in the columns of the next one; what it lacks cannot be reached."""
    fitted = np.full(own.stop - own.start, _IMPOSSIBLE)
    both = slice(max(band.start, own.start), min(band.stop, own.stop))
    kept = row[both.start - band.start : both.stop - band.start]
    fitted[both.start - own.start : both.stop - own.start] = kept
    return fitted


def _running(values: NDArray[Any]) -> Gains:
    """Sums of the values before each place, (values + 1), as whole numbers."""
    return np.concatenate([[0.0], np.cumsum(values)]).astype(np.int64)


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
        [sum(len(tokens_of(text)) for text in sentence) / len(references) for sentence in sentences]
        for sentences in (
            zip(*documents, strict=True) for documents in zip(*references, strict=True)
        )
    ]
    expected = sum(sum(compress(*pair)) for pair in zip(lengths, counted, strict=True))
    tokens = sum(
        sum(compress(split.tokens, flags)) for split, flags in zip(splits, counted, strict=True)
    )
    omitted = [(d, k) for d, split in enumerate(splits) for k in split.omitted if counted[d][k]]
    added = [
        (d, addition)
        for d, split in enumerate(splits)
        for addition in split.added
        if counted[d][addition.part_of]
    ]
    documents = list(ids.documents.items()) if ids is not None else []

    def place(d: int) -> dict[str, Any]:
        return {"document": d + 1} | ({"doc_id": documents[d][0]} if documents else {})

    def segment(d: int, k: int) -> dict[str, Any]:
        name = documents[d][1][k].name if documents else ""
        return {"sentence": k + 1} | ({"segment_id": name} if name else {})

    return Coverage(
        omitted=100 * sum(lengths[d][k] for d, k in omitted) / max(1.0, expected),
        added=100 * sum(addition.tokens for _, addition in added) / max(1, tokens),
        omitted_sentences=[
            place(d) | segment(d, k) | {"reference": references[0][d][k]} for d, k in omitted
        ],
        added_text=[
            place(d) | {"after_sentence": addition.after, "text": addition.text}
            for d, addition in added
        ],
    )


_RECORD = "resegmented.json"
"""The digests of the files that were written into a folder, by their names."""


def check_documents_folder(folder: Path, systems: Iterable[str], force: bool) -> None:
    """Refuse a folder in which files of others would be replaced, before anything is computed.

    Args:
        folder: the folder of ``--resegment-dir``.
        systems: names of the systems.
        force: whether the user gave ``--force``.

    Raises:
        GtransError: a file there is not as :func:`write_documents` wrote it.
    """
    try:
        written = read_object(folder / _RECORD).get("files", {})
    except (FileNotFoundError, GtransError):
        written = {}
    names = [_file_name(f"hyp.{system}.txt") for system in systems]
    for path in sorted(folder.glob("*.txt")):
        if path.name in names or path.name == "src.txt" or _REFERENCE.fullmatch(path.name):
            check_replaceable("--resegment-dir", path, partial(_is_as_written, written), force)


_REFERENCE = re.compile(r"ref\d*\.txt")


def _is_as_written(digests: Mapping[str, str], path: Path) -> bool:
    return digests.get(path.name) == digest(path)


def _file_name(name: str) -> str:
    return name.replace("/", "_")


def write_documents(folder: Path, texts: dict[str, Documents], inputs: Sequence[StrPath]) -> None:
    """Write texts as files of one sentence per line with an empty line between documents.

    All files have the same lines; the line of an empty sentence is empty.

    Raises:
        GtransError: a file cannot be written, is one of ``inputs``, or would be two texts.
    """
    files = {folder / _file_name(name): documents for name, documents in texts.items()}
    if len(files) < len(texts):
        raise GtransError(
            "`--resegment-dir`: names of systems differ in '/' and '_' alone, which are the same "
            "in names of files; give others with --hyp NAME=FILE"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, documents in files.items():
            with atomic_writer(path, inputs) as file:
                file.write("\n\n".join("\n".join(document) for document in documents) + "\n")
        digests = {path.name: digest(path) for path in files}
        with atomic_writer(folder / _RECORD) as file:
            file.write(f"{json_text(of_form('resegmented', {'files': digests}))}\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
