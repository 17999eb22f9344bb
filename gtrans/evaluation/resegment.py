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
from itertools import chain, compress
from math import log10
from pathlib import Path
from typing import Any

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
        self._references: list[list[list[list[str]]]] = []
        self._counts = Counter[str]()
        sentences: list[list[str]] = []
        for documents in references:
            tokens_of_documents = []
            for document in documents:
                tokens = [tokens_of(sentence) for sentence in document]
                tokens_of_documents.append(tokens)
                self._counts.update(chain.from_iterable(tokens))
                sentences += [cased_tokens(sentence) for sentence in document]
            self._references.append(tokens_of_documents)
        self._total = max(1, sum(self._counts.values()))
        self.weight = cache(self._weight)
        self.habits = Habits(sentences)

    def split(self, document: int, lines: Sequence[str]) -> Split:
        """Split the translation of a document.

        The reference itself has its own sentences. As many lines as the reference has sentences
        stay unless another split is clearly better (:data:`CLEARLY_BETTER`): where one sentence is
        missing and another one has two lines, all lines between them are in wrong places.

        Args:
            document: its number in the references, from 0.
            lines: the translation, in lines of any kind.
        """
        characters = _without_spaces(lines)
        for sentences in self._sentences[document]:
            if characters == _without_spaces(sentences):
                return _as_it_is(sentences, sentences)
        text = TokenisedText("\n".join(lines))
        references = [documents[document] for documents in self._references]
        search = _Search(self, text, references)
        spans = search.best_spans()
        has_as_many = len(lines) == len(references[0])
        may_stay = has_as_many and not self._always
        if may_stay and not search.is_clearly_better(spans, lines):
            return _as_it_is(lines, self._sentences[document][0])
        return search.split(spans, moved=may_stay)

    def _weight(self, token: str) -> int:
        """The gain of a match."""
        rarity = log10(self._total / max(1, self._counts[token]))
        return int(min(RAREST, COMMONEST + RARER * rarity))


def _without_spaces(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def _as_it_is(lines: Sequence[str], reference: Sequence[str]) -> Split:
    """A document whose lines are the translations of the sentences; empty ones are omitted."""
    omitted = []
    for place, (line, sentence) in enumerate(zip(lines, reference, strict=True)):
        if sentence and not line:
            omitted.append(place)
    tokens = [len(tokens_of(line)) for line in lines]
    return Split(list(lines), omitted, added=[], tokens=tokens, gain=0)


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
    band the largest gain with which the references up to some token can be followed to it. Its
    lower bits are the column where the sentence began, so that the shorter of two sentences with
    equal gains counts.
    """

    def __init__(
        self,
        model: Resegmenter,
        text: TokenisedText,
        references: Sequence[Sequence[list[str]]],
    ) -> None:
        self._text = text
        self._model = model
        tokens = text.tokens
        self._ids: dict[str, int] = {}
        self._stem_ids: dict[str, int] = {}
        self._tokens = _numbered(tokens, self._ids)
        self._stems = _numbered([token[:STEM_LETTERS] for token in tokens], self._stem_ids)
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
        self._sentences: list[list[_Sentence]] = []
        for alternatives in zip(*references, strict=True):
            self._sentences.append([self._prepare(tokens) for tokens in alternatives])

    def _prepare(self, tokens: list[str]) -> _Sentence:
        """A sentence of a reference, in the numbers of the translation's tokens."""
        ids = [self._ids.get(token, -1) for token in tokens]
        stems = [self._stem_ids.get(token[:STEM_LETTERS], -1) for token in tokens]
        edges = (-1, -1)
        if tokens:
            edges = self._edge(tokens[0]), self._edge(tokens[-1])
        return _Sentence(
            ids=np.array(ids, dtype=np.int64),
            stems=np.array(stems, dtype=np.int64),
            words=np.array([is_word(token) for token in tokens], dtype=bool),
            weights=np.array([self._model.weight(token) for token in tokens], dtype=np.int64),
            edges=edges,
            final=ends_a_sentence(tokens),
        )

    def _edge(self, token: str) -> int:
        """The number of a token; a mark that closes a quotation has the number of one that opens.

        -1: the translation does not have it.
        """
        if token == "”" and "“" in self._ids:
            token = "“"
        return self._ids.get(token, -1)

    def best_spans(self) -> list[Span]:
        """The begin and end of each sentence in the best split; additions are between them."""
        band = self._bands[0] if self._bands else slice(0, len(self._columns))
        ends = np.where(self._columns[band], _IMPOSSIBLE, 0)
        stops = []  # for each sentence, where the one before it ends
        starts = []  # for each sentence, where it begins
        for number, alternatives in enumerate(self._sentences):
            own = self._bands[number]
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
        for number in reversed(range(len(self._sentences))):
            first = self._bands[number].start
            begin = int(starts[number][column - first])
            spans.append((begin, column))
            column = int(stops[number][begin - first])
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
        last = len(own) - 1
        before = 0
        largest = 0  # gain of a stretch
        for number, (span, line) in enumerate(zip(spans, own, strict=True)):
            if span[1] == line[1] or number == last:
                largest = max(largest, int(gained[number]) - before)
                before = int(gained[number])
        weight = 0
        tokens = 0
        for sentence in chain.from_iterable(self._sentences):
            weight += int(sentence.weights.sum())
            tokens += len(sentence.weights)
        return largest > CLEARLY_BETTER * weight / max(1, tokens)

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
        """The split with these spans of sentences; stretches between them are added."""
        last = len(self._tokens)
        spans = _with_additions(best, last)
        omitted = []
        for number, (start, stop) in enumerate(best):
            if start == stop:
                omitted.append(number)
        owners: list[int] = []  # for each token, its sentence
        for number, (start, stop) in enumerate(spans):
            owners += [number] * (stop - start)
        added = []
        ends = [0] + [stop for _, stop in best]
        begins = [start for start, _ in best] + [last]
        for number, (start, stop) in enumerate(zip(ends, begins, strict=True)):
            if stop > start:
                text = self._text.part(start, stop)
                added.append(Addition(number, owners[start], text, stop - start))
        return Split(
            sentences=[self._text.part(start, stop) for start, stop in spans],
            omitted=omitted,
            added=added,
            tokens=[stop - start for start, stop in spans],
            gain=self._gain,
            moved=moved,
        )

    # --- parts of the sum ---------------------------------------------------------------

    def _follow(self, number: int, sentence: _Sentence, starts: Gains, own: slice) -> Gains:
        """The row at the end of a sentence of the reference, from the gains at its begin."""
        moved = self._moved(sentence, own)
        packed = (starts - moved) * self._unit + self._columns[own]
        before: Gains = np.maximum.accumulate(packed)
        # A sentence has at least one token; one without any is omitted, which has its own price.
        row = np.concatenate([[_IMPOSSIBLE * self._unit], before[:-1]])
        for gains in self._gains(sentence, own):
            reached = np.maximum(row, before)[:-1] + gains
            row[1:] = np.maximum(reached, row[1:])
            row = np.maximum.accumulate(row)
        end = self._end(number, sentence, own)
        found: Gains = row + (moved + end) * self._unit
        return found

    def _end(self, number: int, sentence: _Sentence, own: slice) -> Gains:
        """The gain of the end of a sentence at each place.

        The place costs nothing where the sentence's last token stands before it, and the first one
        of the next sentence behind it.
        """
        cost = self._boundary[sentence.final][own]
        following = self._sentences[number + 1 : number + 2]
        firsts = [other.edges[0] for others in following for other in others]
        behind = np.isin(self._around[1:][own], firsts)
        before = self._around[:-1][own] == sentence.edges[1]
        certain = behind & before
        ends: Gains = np.where(certain, np.maximum(cost, 0), cost)
        return ends

    def _gains(self, sentence: _Sentence, own: slice) -> Iterator[Gains]:
        """For each token of the reference, its gain with each token of the translation."""
        between = slice(own.start, own.stop - 1)
        tokens = self._tokens[between]
        stems = self._stems[between]
        words = self._words[between]
        for begin in range(0, len(sentence.ids), _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            weights = sentence.weights[part, None]
            both_words = sentence.words[part, None] == words
            gains = np.where(both_words, SUBSTITUTION, 0)
            of_stem = (STEM * weights).astype(np.int64)
            alike = np.maximum(SUBSTITUTION, of_stem)
            same_stem = sentence.stems[part, None] == stems
            gains = np.where(same_stem, alike, gains)
            equal = sentence.ids[part, None] == tokens
            gains = np.where(equal, weights, gains)
            yield from gains * self._unit

    def _moved(self, sentence: _Sentence, own: slice) -> Gains:
        """Sums over the tokens of the translation that occur in a sentence, in any order."""
        between = slice(own.start, own.stop - 1)
        present = np.isin(self._tokens[between], sentence.ids)
        weights = MOVED * self._weight[between]
        return _running(weights * present)

    def _omission(self, number: int) -> int:
        weights = [int(sentence.weights.sum()) for sentence in self._sentences[number]]
        return int(OMITTED * sum(weights) / len(weights)) - OPENING

    def _with_addition(self, ends: Gains, own: slice) -> tuple[Gains, Gains]:
        """The gains before the next sentence, which an added stretch may precede; its begin."""
        adding = self._adding[own]
        columns = self._columns[own]
        without = ends * self._unit + columns
        jump = np.maximum.accumulate((ends - adding) * self._unit + columns)
        price = adding - OPENING + self._boundary[True][own]
        jump += price * self._unit
        gains, begins = np.divmod(np.maximum(without, jump), self._unit)
        return gains, begins


def _numbered(tokens: Sequence[str], ids: dict[str, int]) -> Gains:
    """The numbers of tokens, which ``ids`` gets if it does not have them."""
    return np.array([ids.setdefault(token, len(ids)) for token in tokens], dtype=np.int64)


def _with_additions(spans: Sequence[Span], last: int) -> list[Span]:
    """The spans of sentences with the additions behind them.

    An addition goes to the last sentence before it that has a translation; one at the beginning of
    the text goes to the first sentence with a translation.

    Args:
        spans: without additions.
        last: the number of tokens.
    """
    present = [number for number, (start, stop) in enumerate(spans) if stop > start]
    widened = list(spans)
    if not present:
        return [(0, last), *widened[1:]] if widened else []
    begins = [0] + [spans[number][0] for number in present[1:]]
    ends = [*begins[1:], last]
    for number, begin, end in zip(present, begins, ends, strict=True):
        widened[number] = begin, end
    return widened


def bands(reference: Sequence[list[str]], tokens: list[str]) -> list[slice]:
    """The columns in which each sentence of a reference is searched; all of a short text.

    Three tokens that occur once on both sides are an anchor. A sentence stands between those before
    and behind it; a quarter of the nearest :data:`ANCHORS` may be in wrong places.
    """
    last = len(tokens)
    if last <= LONG:
        return [slice(0, last + 1)] * len(reference)
    here = _once(list(chain.from_iterable(reference)))
    there = _once(tokens)
    anchors = [(place, there[words]) for words, place in here.items() if words in there]
    pairs = np.array(anchors).reshape(-1, 2)
    wrong = ANCHORS // 4
    firsts = []
    lasts = []
    begin = 0
    for sentence in reference:
        end = begin + len(sentence)
        before, behind = np.searchsorted(pairs[:, 0], (begin - 2, end))
        left = np.sort(pairs[max(0, before - ANCHORS) : before, 1])
        right = np.sort(pairs[behind : behind + ANCHORS, 1])
        first = 0
        stop = last
        if len(left) == ANCHORS:
            anchor = int(left[wrong])
            first = max(0, anchor - ROOM)
        if len(right) == ANCHORS:
            anchor = int(right[-1 - wrong])
            stop = min(last, anchor + ROOM)
        firsts.append(first)
        lasts.append(stop)
        begin = end
    # Neither goes back, and each band meets the next one.
    starts = np.minimum.accumulate(firsts[::-1])[::-1]
    stops = np.maximum(np.maximum.accumulate(lasts), [*starts[1:], last]) + 1
    return [slice(int(start), int(end)) for start, end in zip(starts, stops, strict=True)]


def _once(tokens: list[str]) -> dict[tuple[str, ...], int]:
    """The place of every three tokens that stand together once only, in their order."""
    trigrams = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
    counts = Counter(trigrams)
    return {trigram: place for place, trigram in enumerate(trigrams) if counts[trigram] == 1}


def _fitted(row: Gains, band: slice, own: slice) -> Gains:
    """A row of one band in the columns of the next one; columns that it lacks are out of reach."""
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
        counted: for each sentence of each document whether it counts. Added sentences count if
            the sentence does that it is a part of.
        ids: the reference's documents and segments, if they have ids.
    """
    documents = list(ids.documents.items()) if ids is not None else []
    expected, omitted_tokens = 0.0, 0.0
    tokens, added_tokens = 0, 0
    omitted_sentences: list[dict[str, Any]] = []
    added_text: list[dict[str, Any]] = []
    for number, split in enumerate(splits):
        flags = counted[number]
        place: dict[str, Any] = {"document": number + 1}
        if documents:
            place["doc_id"] = documents[number][0]
        lengths = _lengths([reference[number] for reference in references])
        expected += sum(compress(lengths, flags))
        tokens += sum(compress(split.tokens, flags))
        for sentence in split.omitted:
            if not flags[sentence]:
                continue
            omitted_tokens += lengths[sentence]
            entry = place | {"sentence": sentence + 1}
            if documents and documents[number][1][sentence].name:
                entry["segment_id"] = documents[number][1][sentence].name
            omitted_sentences.append(entry | {"reference": references[0][number][sentence]})
        for addition in split.added:
            if flags[addition.part_of]:
                added_tokens += addition.tokens
                entry = {"after_sentence": addition.after, "text": addition.text}
                added_text.append(place | entry)
    return Coverage(
        omitted=100 * omitted_tokens / max(1.0, expected),
        added=100 * added_tokens / max(1, tokens),
        omitted_sentences=omitted_sentences,
        added_text=added_text,
    )


def _lengths(references: Sequence[Sequence[str]]) -> list[float]:
    """The number of tokens of each sentence of a document, the mean over its references."""
    lengths = []
    for alternatives in zip(*references, strict=True):
        tokens = sum(len(tokens_of(text)) for text in alternatives)
        lengths.append(tokens / len(references))
    return lengths


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
            file.write(f"{json_text(with_schema('resegmented', {'files': digests}))}\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
