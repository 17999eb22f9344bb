"""Split a translated document into the sentences of its reference.

Dynamic programming aligns both, as in mwerSegmenter (Matusov et al., 2005, "Evaluating Machine
Translation Output with Automatic Sentence Segmentation"), for the largest sum of gains:

* A token gains its weight from the same token of the reference, :data:`STEM_SHARE` of it from
  another form of the word, :data:`MOVED_SHARE` of it out of order, and :data:`SUBSTITUTION` from
  another word.
* A boundary costs more where sentences seldom end (:data:`BOUNDARY_COSTS`,
  :class:`~gtrans.evaluation.boundaries.Habits`).
* A sentence may be *omitted*, and a stretch of the translation *added*, for a share of its weight.

With n tokens, m reference tokens and K sentences: O(n m) time, O(K n) memory; long documents are
searched in :func:`bands`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, compress
from math import log10
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError
from gtrans.evaluation.boundaries import (
    Edge,
    Habits,
    TokenisedText,
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
from gtrans.messages import json_text, with_schema
from gtrans.text.reader import DocumentsWithIds

SIGNATURE = "resegmented:edit-distance.6"
"""Part of a signature; the number counts versions of this algorithm."""

# Gains are whole numbers; the least weight of a token is 10.
LEAST_WEIGHT = 10
RARITY_WEIGHT = 5.0
"""Additional weight for each factor of ten between the number of all tokens and a token's count."""
LARGEST_WEIGHT = 40
STEM_SHARE = 0.5
STEM_LETTERS = 5
"""Words with the same first letters are forms of one word."""
SUBSTITUTION = 5
MOVED_SHARE = 0.3
OMITTED_SHARE = 0.08
ADDED_SHARE = 0.22
OPENING_COST = 30
"""Cost of each omitted sentence and added stretch, which gain a share of their weight."""
BOUNDARY_COSTS = {
    True: {
        Edge.LINE_END: -20,
        Edge.SENTENCE_END: 0,
        Edge.PUNCTUATION: 30,
        Edge.SPACE: 38,
        Edge.LOWER_CASE: 45,
        Edge.NONE: 60,
    },
    False: {
        Edge.LINE_END: -20,
        Edge.SENTENCE_END: 0,
        Edge.PUNCTUATION: 12,
        Edge.SPACE: 12,
        Edge.LOWER_CASE: 22,
        Edge.NONE: 40,
    },
}
"""Cost of a boundary behind a reference sentence with final punctuation (True) or without."""

CLEARLY_BETTER = 4
"""As many lines as sentences stay unless a stretch of the best split gains this many average tokens
more."""

LONG_DOCUMENT = 4000
"""Documents with more tokens are searched in bands."""
ANCHORS = 16
"""Anchors on either side of a sentence, which bound its band."""
BAND_MARGIN = 100
"""Tokens that a band has beyond its anchors."""

_ROWS_AT_ONCE = 64
_IMPOSSIBLE = -(10**8)

Gains = NDArray[np.int64]


class TokenSpan(NamedTuple):
    """The first token of a sentence, and the one behind it."""

    start: int
    stop: int


@dataclass(frozen=True)
class Addition:
    """A stretch of the translation that fits no sentence.

    Attributes:
        after: number of sentences before it.
        part_of: its sentence in the split.
    """

    after: int
    part_of: int
    text: str
    tokens: int


@dataclass(frozen=True)
class Split:
    """A translated document in the sentences of its reference.

    Attributes:
        sentences: with additions behind them; empty if omitted.
        tokens: length of each sentence.
        moved: split although there were as many lines as sentences.
    """

    sentences: list[str]
    omitted: list[int]
    added: list[Addition]
    tokens: list[int]
    gain: int = field(compare=False)  # in a band, sums are rounded from its first column
    moved: bool = False


class Resegmenter:
    """Splits translations into the sentences of their references.

    Args:
        always: also split documents whose lines seem to be the reference's sentences.
    """

    def __init__(self, references: Sequence[Documents], always: bool = False) -> None:
        self._always = always
        self._sentences = list(zip(*references, strict=True))
        self._references: list[list[list[list[str]]]] = []
        self._counts = Counter[str]()
        sentences: list[list[str]] = []
        for documents in references:
            tokens_of_documents = []
            for document in documents:
                tokens = list(map(tokens_of, document))
                tokens_of_documents.append(tokens)
                self._counts.update(chain.from_iterable(tokens))
                sentences += map(cased_tokens, document)
            self._references.append(tokens_of_documents)
        self._total = max(1, self._counts.total())
        self.weight = cache(self._weight)
        self.habits = Habits(sentences)

    def split(self, document: int, lines: Sequence[str]) -> Split:
        """Split a translation; as many lines as sentences may stay (:data:`CLEARLY_BETTER`)."""
        characters = _without_spaces(lines)
        for sentences in self._sentences[document]:
            if characters == _without_spaces(sentences):
                return _unchanged(sentences, sentences)
        text = TokenisedText("\n".join(lines))
        references = [documents[document] for documents in self._references]
        search = _Search(self, text, references)
        spans = search.best_spans()
        has_as_many = len(lines) == len(references[0])
        may_stay = has_as_many and not self._always
        if may_stay and not search.is_clearly_better(spans, lines):
            return _unchanged(lines, self._sentences[document][0])
        return search.split(spans, moved=may_stay)

    def _weight(self, token: str) -> int:
        rarity = log10(self._total / max(1, self._counts[token]))
        weight = LEAST_WEIGHT + RARITY_WEIGHT * rarity
        return int(min(LARGEST_WEIGHT, weight))


def _without_spaces(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def _unchanged(lines: Sequence[str], reference: Sequence[str]) -> Split:
    omitted = []
    tokens = []
    for index, (line, sentence) in enumerate(zip(lines, reference, strict=True)):
        tokens.append(len(tokens_of(line)))
        if sentence and not line:
            omitted.append(index)
    return Split(list(lines), omitted, added=[], tokens=tokens, gain=0)


@dataclass(frozen=True)
class _Sentence:
    """A sentence of a reference.

    Attributes:
        ids, stems: ids of the same tokens and stems in the translation, or -1; (tokens,).
        first, last: ids by :meth:`_Search._edge_id`.
        is_final: it ends in a final punctuation mark.
    """

    ids: Gains
    stems: Gains
    words: NDArray[np.bool_]
    weights: Gains
    first: int
    last: int
    is_final: bool


@dataclass(frozen=True)
class _Traceback:
    """The best way to each column in the band of a sentence.

    Attributes:
        starts: the start of the sentence for each stop.
        previous_stops: the stop of the sentence before for each start.
    """

    first_column: int
    starts: NDArray[np.int32]
    previous_stops: NDArray[np.int32]


class _Search:
    """The search for the best split of one document.

    Columns are places between tokens of the translation, 0 to n. A row has the largest gain up to
    each column of a band, *packed*: the lower bits are the sentence's first column, so that the
    shorter of equal sentences wins.
    """

    def __init__(
        self,
        resegmenter: Resegmenter,
        text: TokenisedText,
        references: Sequence[Sequence[list[str]]],
    ) -> None:
        self._text = text
        self._resegmenter = resegmenter
        tokens = text.tokens
        self._ids: dict[str, int] = {}
        self._stem_ids: dict[str, int] = {}
        self._tokens = _numbered(tokens, self._ids)
        self._stems = _numbered(_stems(tokens), self._stem_ids)
        # The token before each column; -2 before the first token and behind the last one.
        self._edge_ids = np.array([-2, *map(self._edge_id, tokens), -2])
        self._words = _array(map(is_word, tokens), bool)
        self._weights = _array(map(resegmenter.weight, tokens))
        self._columns = np.arange(len(tokens) + 1)
        self._unit = 1 << len(tokens).bit_length()  # a packed gain of 1, above the column's bits
        habits = resegmenter.habits.gains(text)
        self._boundary_gains: dict[bool, Gains] = {}
        for is_final, costs in BOUNDARY_COSTS.items():
            by_edge = np.array([costs[edge] for edge in Edge])
            self._boundary_gains[is_final] = habits - by_edge[text.edges]
        self._added_gains = _running_sums(ADDED_SHARE * self._weights)
        self._bands = bands(references[0], tokens)
        self._gain = 0
        self._sentences: list[list[_Sentence]] = []
        for alternatives in zip(*references, strict=True):
            self._sentences.append(list(map(self._prepare, alternatives)))

    def _prepare(self, tokens: list[str]) -> _Sentence:
        ids = [self._ids.get(token, -1) for token in tokens]
        stems = [self._stem_ids.get(stem, -1) for stem in _stems(tokens)]
        return _Sentence(
            ids=_array(ids),
            stems=_array(stems),
            words=_array(map(is_word, tokens), bool),
            weights=_array(map(self._resegmenter.weight, tokens)),
            first=self._edge_id(tokens[0]) if tokens else -1,
            last=self._edge_id(tokens[-1]) if tokens else -1,
            is_final=ends_a_sentence(tokens),
        )

    def _edge_id(self, token: str) -> int:
        """Return the id, for a closing quotation mark the opening one's."""
        if token == "”" and "“" in self._ids:
            token = "“"
        return self._ids.get(token, -1)

    def best_spans(self) -> list[TokenSpan]:
        """Return the spans of the best split, with additions between them."""
        band = slice(0, len(self._columns))
        if self._bands:
            band = self._bands[0]
        gains = np.where(self._columns[band], _IMPOSSIBLE, 0)
        tracebacks = []
        for number in range(len(self._sentences)):
            gains = _shifted(gains, band, self._bands[number])
            band = self._bands[number]
            gains, previous_stops = self._with_addition(gains, band)
            row = self._row_of_sentence(number, gains, band)
            gains, starts = np.divmod(row, self._unit)
            traceback = _Traceback(
                band.start, starts.astype(np.int32), previous_stops.astype(np.int32)
            )
            tracebacks.append(traceback)
        gains, previous_stops = self._with_addition(gains, band)
        self._gain = int(gains[-1])
        stop = int(previous_stops[-1])
        spans = []
        for traceback in reversed(tracebacks):
            start = int(traceback.starts[stop - traceback.first_column])
            spans.append(TokenSpan(start, stop))
            stop = int(traceback.previous_stops[start - traceback.first_column])
        return spans[::-1]

    def _row_of_sentence(self, number: int, gains: Gains, band: slice) -> Gains:
        omitted = gains + self._omission(number)
        row = self._packed(omitted, band)
        for sentence in self._sentences[number]:
            translated = self._row_of_translated(number, sentence, gains, band)
            row = np.maximum(row, translated)
        return row

    def is_clearly_better(self, spans: Sequence[TokenSpan], lines: Sequence[str]) -> bool:
        """Return whether a stretch of the split gains clearly more than its lines."""
        lengths = [len(tokens_of(line)) for line in lines]
        stops = np.cumsum(lengths).tolist()
        if not stops or stops[-1] != len(self._tokens):
            return True  # a token reaches over the end of a line
        starts = [0, *stops[:-1]]
        line_spans = list(map(TokenSpan, starts, stops))
        gained = self._gains_after(spans) - self._gains_after(line_spans)
        last = len(line_spans) - 1
        before = 0
        largest = 0
        for number, span in enumerate(spans):
            if span.stop == stops[number] or number == last:
                largest = max(largest, int(gained[number]) - before)
                before = int(gained[number])
        weight = 0
        tokens = 0
        for sentence in chain.from_iterable(self._sentences):
            weight += int(sentence.weights.sum())
            tokens += len(sentence.weights)
        average = weight / max(1, tokens)
        return largest > CLEARLY_BETTER * average

    def _gains_after(self, spans: Sequence[TokenSpan]) -> Gains:
        gain = 0
        column = 0
        gains = []
        for number, (start, stop) in enumerate(spans):
            gain += self._addition(column, start)
            if start == stop:
                gain += self._omission(number)
            else:
                gain = self._gain_of_span(number, start, stop, gain)
            column = stop
            gains.append(gain)
        gains[-1] += self._addition(column, len(self._tokens))
        return np.array(gains)

    def _gain_of_span(self, number: int, start: int, stop: int, gain: int) -> int:
        band = slice(start, stop + 1)
        gains = np.full(stop - start + 1, _IMPOSSIBLE)
        gains[0] = gain
        ends = []
        for sentence in self._sentences[number]:
            row = self._row_of_translated(number, sentence, gains, band)
            ends.append(int(row[-1]))
        return max(ends) // self._unit

    def _addition(self, start: int, stop: int) -> int:
        opening = int(self._boundary_gains[True][stop]) - OPENING_COST
        if start == stop:
            return max(0, opening)
        return int(self._added_gains[stop] - self._added_gains[start]) + opening

    def split(self, sentence_spans: Sequence[TokenSpan], moved: bool) -> Split:
        """Return the split with these spans; text between them is added."""
        token_count = len(self._tokens)
        owners: list[int] = []  # for each token, its sentence
        sentences = []
        lengths = []
        for number, span in enumerate(_with_additions(sentence_spans, token_count)):
            length = span.stop - span.start
            owners += [number] * length
            sentences.append(self._text.part(span.start, span.stop))
            lengths.append(length)
        omitted = []
        for number, span in enumerate(sentence_spans):
            if span.start == span.stop:
                omitted.append(number)
        added = []
        previous_stop = 0
        # An empty sentence at the end stands for an addition behind the last sentence.
        end = TokenSpan(token_count, token_count)
        for number, span in enumerate([*sentence_spans, end]):
            length = span.start - previous_stop
            if length > 0:
                text = self._text.part(previous_stop, span.start)
                added.append(Addition(number, owners[previous_stop], text, length))
            previous_stop = span.stop
        return Split(
            sentences=sentences,
            omitted=omitted,
            added=added,
            tokens=lengths,
            gain=self._gain,
            moved=moved,
        )

    # --- parts of the sum ---------------------------------------------------------------

    def _packed(self, gains: Gains, band: slice) -> Gains:
        packed: Gains = gains * self._unit + self._columns[band]
        return packed

    def _row_of_translated(
        self,
        number: int,
        sentence: _Sentence,
        gains: Gains,
        band: slice,
    ) -> Gains:
        """Return the row at the end of a sentence with at least one token.

        In column j it has the largest sum, over starts i < j, of the gain at i, an edit distance
        of tokens i .. j to the sentence, moved tokens, and the end. Moved tokens gain M(j) - M(i)
        with running sums M: the gain at i takes -M(i), the end M(j).
        """
        moved = self._moved_gains(sentence, band)
        at_start = self._packed(gains - moved, band)
        best_start: Gains = np.maximum.accumulate(at_start)  # in this column or before
        # A sentence has at least one token; an omitted sentence has a price of its own.
        impossible = _IMPOSSIBLE * self._unit
        row = np.append(impossible, best_start[:-1])
        for token_gains in self._token_gains(sentence, band):
            before = np.maximum(row, best_start)[:-1]
            matched = before + token_gains
            row[1:] = np.maximum(matched, row[1:])
            row = np.maximum.accumulate(row)
        at_end = moved + self._end_gains(number, sentence, band)
        result: Gains = row + at_end * self._unit
        return result

    def _end_gains(self, number: int, sentence: _Sentence, band: slice) -> Gains:
        """Return the gain of the end of a sentence at each column.

        It costs nothing between the last token of this sentence and the next one's first.
        """
        boundary = self._boundary_gains[sentence.is_final][band]
        firsts: list[int] = []
        if number + 1 < len(self._sentences):
            firsts = [following.first for following in self._sentences[number + 1]]
        is_last = self._edge_ids[:-1][band] == sentence.last
        is_first = np.isin(self._edge_ids[1:][band], firsts)
        free = np.maximum(boundary, 0)
        ends: Gains = np.where(is_last & is_first, free, boundary)
        return ends

    def _token_gains(self, sentence: _Sentence, band: slice) -> Iterator[Gains]:
        between = slice(band.start, band.stop - 1)
        tokens = self._tokens[between]
        stems = self._stems[between]
        words = self._words[between]
        for begin in range(0, len(sentence.ids), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            weights = sentence.weights[part, None]
            both_words = sentence.words[part, None] == words
            gains = np.where(both_words, SUBSTITUTION, 0)
            stem_gains = (STEM_SHARE * weights).astype(np.int64)
            stem_gains = np.maximum(SUBSTITUTION, stem_gains)
            same_stem = sentence.stems[part, None] == stems
            gains = np.where(same_stem, stem_gains, gains)
            equal = sentence.ids[part, None] == tokens
            gains = np.where(equal, weights, gains)
            yield from gains * self._unit

    def _moved_gains(self, sentence: _Sentence, band: slice) -> Gains:
        """Return running sums over tokens that are anywhere in a sentence."""
        between = slice(band.start, band.stop - 1)
        is_present = np.isin(self._tokens[between], sentence.ids)
        gains = MOVED_SHARE * self._weights[between]
        return _running_sums(gains * is_present)

    def _omission(self, number: int) -> int:
        alternatives = self._sentences[number]
        total = 0
        for sentence in alternatives:
            total += int(sentence.weights.sum())
        return int(OMITTED_SHARE * total / len(alternatives)) - OPENING_COST

    def _with_addition(self, gains: Gains, band: slice) -> tuple[Gains, Gains]:
        """Return gains with an optional added stretch, and its first column."""
        running = self._added_gains[band]
        without = self._packed(gains, band)
        at_start = self._packed(gains - running, band)
        at_end = running - OPENING_COST + self._boundary_gains[True][band]
        with_stretch = np.maximum.accumulate(at_start) + at_end * self._unit
        best = np.maximum(without, with_stretch)
        gains, starts = np.divmod(best, self._unit)
        return gains, starts


def _numbered(tokens: Sequence[str], ids: dict[str, int]) -> Gains:
    numbers = []
    for token in tokens:
        numbers.append(ids.setdefault(token, len(ids)))
    return _array(numbers)


def _stems(tokens: Sequence[str]) -> list[str]:
    return [token[:STEM_LETTERS] for token in tokens]


def _array(values: Iterable[Any], kind: type = np.int64) -> NDArray[Any]:
    return np.array(list(values), dtype=kind)


def _with_additions(spans: Sequence[TokenSpan], token_count: int) -> list[TokenSpan]:
    """Extend sentences by the additions behind them."""
    widened = list(spans)
    translated = []
    for number, span in enumerate(spans):
        if span.stop > span.start:
            translated.append(number)
    if not translated and widened:
        widened[0] = TokenSpan(0, token_count)
    stop = token_count
    for number in reversed(translated):
        start = 0 if number == translated[0] else spans[number].start
        widened[number] = TokenSpan(start, stop)
        stop = start
    return widened


def bands(reference: Sequence[list[str]], tokens: list[str]) -> list[slice]:
    """Return the columns in which each sentence of a reference is searched.

    :data:`ANCHORS` on either side bound them; a quarter may be wrong.
    """
    last = len(tokens)
    if last <= LONG_DOCUMENT:
        return [slice(0, last + 1)] * len(reference)
    all_tokens = list(chain.from_iterable(reference))
    reference_places, places = _anchors(all_tokens, tokens).T
    wrong = ANCHORS // 4
    firsts = []
    lasts = []
    begin = 0
    for sentence in reference:
        end = begin + len(sentence)
        before, behind = np.searchsorted(reference_places, (begin - 2, end))
        left = np.sort(places[max(0, before - ANCHORS) : before])
        right = np.sort(places[behind : behind + ANCHORS])
        first = 0
        stop = last
        if len(left) == ANCHORS:
            first = max(0, int(left[wrong]) - BAND_MARGIN)
        if len(right) == ANCHORS:
            stop = min(last, int(right[-1 - wrong]) + BAND_MARGIN)
        firsts.append(first)
        lasts.append(stop)
        begin = end
    # Starts and stops ascend, and each band meets the next one.
    starts = np.minimum.accumulate(firsts[::-1])[::-1]
    next_starts = [*starts[1:], last]
    ascending_stops = np.maximum.accumulate(lasts)
    stops = np.maximum(ascending_stops, next_starts) + 1
    return list(map(slice, starts.tolist(), stops.tolist()))


def _anchors(reference: list[str], tokens: list[str]) -> Gains:
    """Return places of three tokens that occur once on both sides, (anchors, 2)."""
    places_there = _unique_trigrams(tokens)
    anchors = []
    for trigram, place in _unique_trigrams(reference).items():
        if trigram in places_there:
            anchor = place, places_there[trigram]
            anchors.append(anchor)
    return _array(anchors).reshape(-1, 2)


def _unique_trigrams(tokens: list[str]) -> dict[tuple[str, ...], int]:
    seconds = tokens[1:]
    thirds = tokens[2:]
    trigrams = list(zip(tokens, seconds, thirds, strict=False))
    counts = Counter(trigrams)
    places: dict[tuple[str, ...], int] = {}
    for place, trigram in enumerate(trigrams):
        if counts[trigram] == 1:
            places[trigram] = place
    return places


def _shifted(row: Gains, old: slice, new: slice) -> Gains:
    shifted = np.full(new.stop - new.start, _IMPOSSIBLE)
    first = max(old.start, new.start)
    stop = min(old.stop, new.stop)
    common = row[first - old.start : stop - old.start]
    shifted[first - new.start : stop - new.start] = common
    return shifted


def _running_sums(values: NDArray[Any]) -> Gains:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return sums.astype(np.int64)


# --- what a translation leaves out and adds -------------------------------------------------------


@dataclass(frozen=True)
class OmittedSentence:
    """A sentence without a translation; numbers are from 1."""

    document: int
    doc_id: str | None
    sentence: int
    segment_id: str | None
    reference: str


@dataclass(frozen=True)
class AddedText:
    """Text that fits no sentence, behind a sentence from 1; 0: before all of them."""

    document: int
    doc_id: str | None
    after_sentence: int
    text: str


@dataclass(frozen=True)
class Coverage:
    """Omitted and added text of a translation.

    Attributes:
        omitted, added: percentage of the reference's and of the translation's tokens.
    """

    omitted: float
    added: float
    omitted_sentences: list[OmittedSentence]
    added_text: list[AddedText]


def coverage(
    splits: Sequence[Split],
    references: Sequence[Documents],
    counted: Sequence[Sequence[bool]],
    ids: DocumentsWithIds | None = None,
) -> Coverage:
    """Return the coverage of one system.

    Args:
        references: a sentence has their mean length.
        counted: which sentences count, with their additions.
    """
    documents = list(ids.documents.items()) if ids is not None else []
    expected = 0.0
    omitted_tokens = 0.0
    tokens = 0
    added_tokens = 0
    omitted_sentences = []
    added_text = []
    for number, split in enumerate(splits):
        flags = counted[number]
        doc_id = None
        segment_ids = [""] * len(flags)
        if documents:
            doc_id, segments = documents[number]
            segment_ids = [segment.name for segment in segments]
        lengths = _lengths([reference[number] for reference in references])
        expected += sum(compress(lengths, flags))
        tokens += sum(compress(split.tokens, flags))
        for sentence in split.omitted:
            if not flags[sentence]:
                continue
            omitted_tokens += lengths[sentence]
            omitted = OmittedSentence(
                document=number + 1,
                doc_id=doc_id,
                sentence=sentence + 1,
                segment_id=segment_ids[sentence] or None,
                reference=references[0][number][sentence],
            )
            omitted_sentences.append(omitted)
        for addition in split.added:
            if not flags[addition.part_of]:
                continue
            added_tokens += addition.tokens
            added = AddedText(number + 1, doc_id, addition.after, addition.text)
            added_text.append(added)
    return Coverage(
        omitted=100 * omitted_tokens / max(1.0, expected),
        added=100 * added_tokens / max(1, tokens),
        omitted_sentences=omitted_sentences,
        added_text=added_text,
    )


def _lengths(references: Sequence[Sequence[str]]) -> list[float]:
    lengths = []
    for alternatives in zip(*references, strict=True):
        tokens = sum(len(tokens_of(text)) for text in alternatives)
        lengths.append(tokens / len(references))
    return lengths


_RECORD = "resegmented.json"
"""Digests of the files that were written into a folder."""


def check_documents_folder(folder: Path, systems: Iterable[str], force: bool) -> None:
    """Raise GtransError if :func:`write_documents` would replace files of others."""
    try:
        digests = read_object(folder / _RECORD).get("files", {})
    except (FileNotFoundError, GtransError):
        digests = {}
    names = {_file_name(f"hyp.{system}.txt") for system in systems}
    names.add("src.txt")
    for path in sorted(folder.glob("*.txt")):
        if path.name in names or _REFERENCE.fullmatch(path.name):
            is_unchanged = partial(_is_unchanged, digests)
            check_replaceable("--resegment-dir", path, is_unchanged, force)


_REFERENCE = re.compile(r"ref\d*\.txt")


def _is_unchanged(digests: Mapping[str, str], path: Path) -> bool:
    return digests.get(path.name) == digest(path)


def _file_name(name: str) -> str:
    return name.replace("/", "_")


def write_documents(
    folder: Path,
    texts: Mapping[str, Documents],
    inputs: Sequence[StrPath],
) -> None:
    """Write a file for each text: sentences in lines, empty lines between documents."""
    files = {}
    for name, documents in texts.items():
        path = folder / _file_name(name)
        files[path] = documents
    if len(files) < len(texts):
        raise GtransError(
            "`--resegment-dir`: names of systems differ in '/' and '_' alone, which are the same "
            "in names of files; give others with --hyp NAME=FILE"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, documents in files.items():
            with atomic_writer(path, inputs) as file:
                blocks = ["\n".join(document) for document in documents]
                file.write("\n\n".join(blocks) + "\n")
        digests = {path.name: digest(path) for path in files}
        with atomic_writer(folder / _RECORD) as file:
            record = with_schema("resegmented", {"files": digests})
            file.write(f"{json_text(record)}\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
