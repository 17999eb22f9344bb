"""Split a translated document into the sentences of its reference.

Dynamic programming aligns both, as mwerSegmenter does (Matusov et al., 2005, "Evaluating Machine
Translation Output with Automatic Sentence Segmentation"), here for the largest sum of gains:

* A token gains its weight from the same token of the reference, a share of it (:data:`STEM`) from
  another form of the word, :data:`SUBSTITUTION` from another word, and :data:`MOVED` of its weight
  out of order.
* A boundary costs more where sentences seldom end, see :data:`COSTS` and
  :class:`gtrans.evaluation.boundaries.Habits`.
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
from gtrans.text.reader import DocumentsWithIds

SIGNATURE = "resegmented:edit-distance.6"
"""Part of a signature; the number counts versions of this algorithm."""

# The unit of gains is a tenth of the match of the most frequent token.
COMMONEST, RARER, RAREST = 10, 5.0, 40
"""Weight of a token: COMMONEST, and RARER more for each factor of ten, at most RAREST."""
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
"""Cost of a boundary behind a reference sentence with final punctuation (True) or without."""
STEM, STEM_LETTERS = 0.5, 5
"""Share of its weight that a token gains from a token with the same first letters."""
OMITTED, ADDED, OPENING = 0.08, 0.22, 30
"""An omitted sentence, or an added stretch, gains this share of its weight, less OPENING."""

CLEARLY_BETTER = 4
"""As many lines as sentences stay unless a stretch of the best split gains this many average tokens
more."""

LONG, ANCHORS, ROOM = 4000, 16, 100
"""More than LONG tokens are searched between ANCHORS on either side, with ROOM tokens around."""

_ROWS_AT_ONCE = 64
_IMPOSSIBLE = -(10**8)

Gains = NDArray[np.int64]
Span = tuple[int, int]
"""First token of a sentence, and the token behind it."""


@dataclass(frozen=True)
class Addition:
    """A stretch of the translation that fits no sentence.

    Attributes:
        after: number of sentences before it.
        part_of: the sentence that contains it in the split.
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
    """Splits translations into the sentences of one or more references.

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
        """Split a translation, whose lines may be of any kind.

        As many lines as sentences may stay (:data:`CLEARLY_BETTER`).
        """
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
        return int(min(RAREST, COMMONEST + RARER * rarity))


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
        ids, stems: ids of the same tokens, or first letters, in the translation, or -1; (tokens,).
        first, last: see :meth:`_Search._edge_id`.
        final: it ends in a final punctuation mark.
    """

    ids: Gains
    stems: Gains
    words: NDArray[np.bool_]
    weights: Gains
    first: int
    last: int
    final: bool


class _Search:
    """The search for the best split of one document.

    Columns are places between tokens of the translation, 0 to n. A row has the largest gain up to
    each column of a band. Its lower bits are the first column of the sentence, so that the shorter
    of two equal sentences wins.
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
        self._weight = _array(map(resegmenter.weight, tokens))
        self._columns = np.arange(len(tokens) + 1)
        self._unit = 1 << len(tokens).bit_length()  # a gain of 1, above the bits of the column
        habits = resegmenter.habits.gains(text)
        self._boundary: dict[bool, Gains] = {}
        for final, costs in COSTS.items():
            by_edge = np.array([costs[edge] for edge in Edge])
            self._boundary[final] = habits - by_edge[text.edges]
        self._adding = _running(ADDED * self._weight)
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
            final=ends_a_sentence(tokens),
        )

    def _edge_id(self, token: str) -> int:
        """Return a token's id; a closing quotation mark has the opening one's."""
        if token == "”" and "“" in self._ids:
            token = "“"
        return self._ids.get(token, -1)

    def best_spans(self) -> list[Span]:
        """Return the span of each sentence in the best split; additions are between spans."""
        band = self._bands[0] if self._bands else slice(0, len(self._columns))
        gains = np.where(self._columns[band], _IMPOSSIBLE, 0)
        previous_stops = []  # for each sentence and start, the end of the sentence before
        starts = []  # for each sentence and stop, its start
        for number, alternatives in enumerate(self._sentences):
            own_band = self._bands[number]
            gains = _shifted(gains, band, own_band)
            gains, previous_stop = self._with_addition(gains, own_band)
            omitted = gains + self._omission(number)
            row = omitted * self._unit + self._columns[own_band]
            for sentence in alternatives:
                translated = self._follow(number, sentence, gains, own_band)
                row = np.maximum(row, translated)
            gains, start = np.divmod(row, self._unit)
            previous_stops.append(previous_stop.astype(np.int32))
            starts.append(start.astype(np.int32))
            band = own_band
        gains, previous_stop = self._with_addition(gains, band)
        self._gain = int(gains[-1])
        stop = int(previous_stop[-1])
        spans = []
        for number in reversed(range(len(self._sentences))):
            offset = self._bands[number].start
            begin = int(starts[number][stop - offset])
            spans.append((begin, stop))
            stop = int(previous_stops[number][begin - offset])
        return spans[::-1]

    def is_clearly_better(self, spans: Sequence[Span], lines: Sequence[str]) -> bool:
        """Return whether a stretch of the split gains clearly more than the same lines."""
        lengths = [len(tokens_of(line)) for line in lines]
        stops = np.cumsum(lengths).tolist()
        if not stops or stops[-1] != len(self._tokens):
            return True  # a token reaches over the end of a line
        line_spans = list(zip([0, *stops[:-1]], stops, strict=True))
        gained = self._gains_after(spans) - self._gains_after(line_spans)
        last = len(line_spans) - 1
        before = 0
        largest = 0
        for number, (_, stop) in enumerate(spans):
            if stop == stops[number] or number == last:
                largest = max(largest, int(gained[number]) - before)
                before = int(gained[number])
        weight = 0
        tokens = 0
        for sentence in chain.from_iterable(self._sentences):
            weight += int(sentence.weights.sum())
            tokens += len(sentence.weights)
        average = weight / max(1, tokens)
        return largest > CLEARLY_BETTER * average

    def _gains_after(self, spans: Sequence[Span]) -> Gains:
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
            row = self._follow(number, sentence, gains, band)
            ends.append(int(row[-1]))
        return max(ends) // self._unit

    def _addition(self, start: int, stop: int) -> int:
        """Return the gain of an added stretch, at least 0 for an empty one."""
        opening = int(self._boundary[True][stop]) - OPENING
        if start == stop:
            return max(0, opening)
        return int(self._adding[stop] - self._adding[start]) + opening

    def split(self, sentence_spans: Sequence[Span], moved: bool) -> Split:
        """Return the split with these spans; text between them is added."""
        token_count = len(self._tokens)
        spans = _with_additions(sentence_spans, token_count)
        owners: list[int] = []  # for each token, its sentence
        sentences = []
        lengths = []
        for number, (start, stop) in enumerate(spans):
            owners += [number] * (stop - start)
            sentences.append(self._text.part(start, stop))
            lengths.append(stop - start)
        omitted = []
        added = []
        previous_stop = 0
        # An empty sentence at the end stands for an addition behind the last sentence.
        end = token_count, token_count
        for number, (start, stop) in enumerate([*sentence_spans, end]):
            if start > previous_stop:
                text = self._text.part(previous_stop, start)
                length = start - previous_stop
                added.append(Addition(number, owners[previous_stop], text, length))
            if start == stop and number < len(sentence_spans):
                omitted.append(number)
            previous_stop = stop
        return Split(
            sentences=sentences,
            omitted=omitted,
            added=added,
            tokens=lengths,
            gain=self._gain,
            moved=moved,
        )

    # --- parts of the sum ---------------------------------------------------------------

    def _follow(self, number: int, sentence: _Sentence, gains: Gains, band: slice) -> Gains:
        """Return the row at the end of a reference sentence, from gains at its start."""
        moved = self._moved(sentence, band)
        packed = (gains - moved) * self._unit + self._columns[band]
        before: Gains = np.maximum.accumulate(packed)
        # A sentence has at least one token; an omitted sentence has a price of its own.
        impossible = _IMPOSSIBLE * self._unit
        row = np.concatenate([[impossible], before[:-1]])
        for token_gains in self._token_gains(sentence, band):
            reached = np.maximum(row, before)[:-1] + token_gains
            row[1:] = np.maximum(reached, row[1:])
            row = np.maximum.accumulate(row)
        end = self._end(number, sentence, band)
        result: Gains = row + (moved + end) * self._unit
        return result

    def _end(self, number: int, sentence: _Sentence, band: slice) -> Gains:
        """Return the gain of the end of a sentence at each column.

        It costs nothing between the last token of this sentence and the first of the next.
        """
        boundary = self._boundary[sentence.final][band]
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
            of_stem = (STEM * weights).astype(np.int64)
            alike = np.maximum(SUBSTITUTION, of_stem)
            same_stem = sentence.stems[part, None] == stems
            gains = np.where(same_stem, alike, gains)
            equal = sentence.ids[part, None] == tokens
            gains = np.where(equal, weights, gains)
            yield from gains * self._unit

    def _moved(self, sentence: _Sentence, band: slice) -> Gains:
        between = slice(band.start, band.stop - 1)
        present = np.isin(self._tokens[between], sentence.ids)
        weights = MOVED * self._weight[between]
        return _running(weights * present)

    def _omission(self, number: int) -> int:
        total = 0
        for sentence in self._sentences[number]:
            total += int(sentence.weights.sum())
        return int(OMITTED * total / len(self._sentences[number])) - OPENING

    def _with_addition(self, gains: Gains, band: slice) -> tuple[Gains, Gains]:
        """Return gains with an optional added stretch, and the column where it starts."""
        adding = self._adding[band]
        columns = self._columns[band]
        without = gains * self._unit + columns
        packed = (gains - adding) * self._unit + columns
        added = np.maximum.accumulate(packed)
        price = adding - OPENING + self._boundary[True][band]
        added += price * self._unit
        best = np.maximum(without, added)
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


def _with_additions(spans: Sequence[Span], token_count: int) -> list[Span]:
    """Return spans that cover all tokens: an addition extends the sentence before it."""
    translated = [number for number, (start, stop) in enumerate(spans) if stop > start]
    widened = list(spans)
    if not translated and widened:
        widened[0] = 0, token_count
    stop = token_count
    for number in reversed(translated):
        start = 0 if number == translated[0] else spans[number][0]
        widened[number] = start, stop
        stop = start
    return widened


def bands(reference: Sequence[list[str]], tokens: list[str]) -> list[slice]:
    """Return the columns in which each sentence of a reference is searched.

    A sentence stands between anchors. A quarter of the nearest :data:`ANCHORS` may be wrong.
    """
    last = len(tokens)
    if last <= LONG:
        return [slice(0, last + 1)] * len(reference)
    reference_places, places = _anchors(list(chain.from_iterable(reference)), tokens).T
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
            first = max(0, int(left[wrong]) - ROOM)
        if len(right) == ANCHORS:
            stop = min(last, int(right[-1 - wrong]) + ROOM)
        firsts.append(first)
        lasts.append(stop)
        begin = end
    # Starts and stops ascend, and each band meets the next one.
    starts = np.minimum.accumulate(firsts[::-1])[::-1]
    next_starts = [*starts[1:], last]
    stops = np.maximum(np.maximum.accumulate(lasts), next_starts) + 1
    return list(map(slice, starts.tolist(), stops.tolist()))


def _anchors(reference: list[str], tokens: list[str]) -> Gains:
    """Return the places of three tokens that occur once on both sides, (anchors, 2)."""
    places_there = _unique_trigrams(tokens)
    anchors = []
    for trigram, place in _unique_trigrams(reference).items():
        if trigram in places_there:
            anchors.append((place, places_there[trigram]))
    return _array(anchors).reshape(-1, 2)


def _unique_trigrams(tokens: list[str]) -> dict[tuple[str, ...], int]:
    trigrams = list(zip(tokens, tokens[1:], tokens[2:], strict=False))
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


def _running(values: NDArray[Any]) -> Gains:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return sums.astype(np.int64)


# --- what a translation leaves out and adds -------------------------------------------------------


@dataclass(frozen=True)
class OmittedSentence:
    """A sentence of the reference without a translation; numbers are from 1."""

    document: int
    doc_id: str | None
    sentence: int
    segment_id: str | None
    reference: str


@dataclass(frozen=True)
class AddedText:
    """A stretch of the translation that fits no sentence; numbers are from 1.

    Attributes:
        after_sentence: the sentence before it; 0: none.
    """

    document: int
    doc_id: str | None
    after_sentence: int
    text: str


@dataclass(frozen=True)
class Coverage:
    """Omitted and added text of a translation.

    Attributes:
        omitted, added: percentage of the reference's or the translation's tokens.
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
            added_text.append(AddedText(number + 1, doc_id, addition.after, addition.text))
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
                blocks = ["\n".join(document) for document in documents]
                file.write("\n\n".join(blocks) + "\n")
        digests = {path.name: digest(path) for path in files}
        with atomic_writer(folder / _RECORD) as file:
            file.write(f"{json_text(with_schema('resegmented', {'files': digests}))}\n")
    except OSError as error:
        raise unwritable(f"`--resegment-dir` '{folder}'", error) from None
