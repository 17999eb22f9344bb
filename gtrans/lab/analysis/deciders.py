"""Which words of the context decided a word of the translation.

The word's *rival* is the token that would be most probable without context at the place where the
word gained most. The gradient of the difference of the two log-probabilities says how much each
word of the context can have to do with it: the bound ``|g| |e - m|`` on the first-order effect of
its embedding e, m being the mean embedding of the words of the text. The words with the highest
bounds are *suspects*. They are replaced by other words of the text, and
the model reads the document anew, so that it is seen what they decide, and not only estimated:

1. the first suspect by the word that favours the rival most: in the translation that is the
   rival's own word, if the text has it, elsewhere the one that the gradient prefers;
2. if the decision stands and the suspect is of the translation, with it others of the translation
   that matter about as much, because they may say the same, such as two mentions;
3. if it still stands, the other suspects, and other replacements of each;
4. at last several suspects together, those with the largest loss first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gtrans.data.units import UnitSpan
from gtrans.decoding.context_use import Reading, Text
from gtrans.decoding.force_decode import Row, Rows, score_tokens
from gtrans.lab.analysis.replacements import REPLACEMENTS, Vocabulary
from gtrans.lab.analysis.word_gradients import SIDES, Gradient, Question, word_gradients

TOGETHER = 3
"""Most words that are replaced together."""

SLIGHT = 0.05
"""Losses below say nothing, in nats."""

ALIKE = 0.5
"""Suspects with at least this share of the highest bound may say the same as the first one."""


@dataclass(frozen=True)
class Asked:
    """A word of the translation.

    Attributes:
        document, sentence, word: numbers from 0.
        decisive: number of the token of the sentence that gained most.
        rival: id of the token that is most probable there without context, besides its own.
    """

    document: int
    sentence: int
    word: int
    decisive: int
    rival: int


@dataclass(frozen=True)
class ContextWord:
    """A word of the context: its side, and numbers from 0."""

    side: str
    sentence: int
    word: int


@dataclass(frozen=True)
class Suspect:
    """A word of the context that may have decided another.

    Attributes:
        word: which.
        bound: on its first-order effect, in nats; None if the model does not embed it.
        by: other words of the text for its place, those that favour the rival first.
    """

    word: ContextWord
    bound: float | None
    by: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """A word of the context, and what is put in its place."""

    suspect: Suspect
    by: str


@dataclass(frozen=True)
class Try:
    """Changes of the context, and the word of the translation to look at."""

    asked: Asked
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Outcome:
    """What becomes of a word of the translation.

    Attributes:
        value: its log-probability.
        flips: whether another token is the most probable one at the decisive place.
    """

    value: float
    flips: bool


@dataclass(frozen=True)
class Decision:
    """What decided a word of the translation.

    Attributes:
        changes: the words of the context, each with its replacement; empty if the model reads
            no context that could be replaced.
        loss: log-probability that the word loses if they are replaced, in nats.
        flips: whether the decision falls: the word's token was the most probable one at the
            decisive place, and is no longer.
    """

    changes: tuple[Change, ...]
    loss: float
    flips: bool


class Deciders:
    """Finds the words that decided others.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: what they read.
        max_tokens: largest batch in tokens.
        most: most suspects of a word.
    """

    def __init__(
        self, models: Sequence[Any], task: Any, text: Text, max_tokens: int, most: int
    ) -> None:
        self.most = most
        self.models, self.task, self.text, self.max_tokens = models, task, text, max_tokens
        self._rows = Rows(task, not text.cuts_units)
        self._spans = self._placed()
        self._symbols = torch.tensor(self._rows.examples.frame.symbols)
        tables = {
            "source": [model.encoder.embed_tokens.weight for model in models],
            "target": [model.decoder.embed_tokens.weight for model in models],
        }
        dictionaries = {"source": task.source_dictionary, "target": task.target_dictionary}
        self._vocabulary = {
            side: Vocabulary(text.sides[side], dictionaries[side], tables[side]) for side in SIDES
        }

    def _placed(self) -> dict[tuple[int, int], tuple[Reading, Row, UnitSpan]]:
        """The row in which each sentence of each document is scored."""
        spans = {}
        for reading in self.text.readings:
            first = reading.first - reading.begin
            source, target = self.text.encoded(reading)
            for row, span, _ in self._rows.rows_of(source, target, first, self.text.plain(reading)):
                for sentence in span.current:
                    spans[reading.document, sentence + reading.begin] = reading, row, span
        return spans

    def decisions(
        self, asked: Sequence[Asked], scores: Sequence[Sequence[Tensor]]
    ) -> list[Decision]:
        """What decided each word.

        Args:
            asked: the words.
            scores: those of all sentences with their context and their rivals
                (:func:`gtrans.decoding.context_use.token_scores`).
        """
        before = [self.outcome(one, scores[one.document][one.sentence]) for one in asked]
        suspects = self.suspects(asked)
        tried: list[list[Decision]] = [[] for _ in asked]

        def attempt(tries: Sequence[tuple[int, tuple[Change, ...]]]) -> None:
            """Replace, unless the word's decision has fallen before."""
            tries = [(n, one) for n, one in tries if not any(d.flips for d in tried[n])]
            outcomes = self.replaced([Try(asked[n], one) for n, one in tries])
            for (n, one), outcome in zip(tries, outcomes, strict=True):
                flips = outcome.flips and not before[n].flips
                tried[n].append(Decision(one, before[n].value - outcome.value, flips))

        def single(ranks: slice, number: int) -> list[tuple[int, tuple[Change, ...]]]:
            return [
                (n, (Change(suspect, suspect.by[number]),))
                for n, of_word in enumerate(suspects)
                for suspect in of_word[ranks]
                if number < len(suspect.by)
            ]

        attempt(single(slice(1), 0))
        attempt([(n, one) for n, of_word in enumerate(suspects) for one in _group(of_word)])
        for number in range(1, REPLACEMENTS + 1):
            attempt(single(slice(1), number) + single(slice(1, None), number - 1))
        attempt([(n, one) for n, of_word in enumerate(tried) for one in _joined(of_word)])
        none = Decision((), 0.0, False)
        return [max(of_word, key=_strength, default=none) for of_word in tried]

    def suspects(self, asked: Sequence[Asked]) -> list[list[Suspect]]:
        """For each word the words of its context with the highest bounds, :attr:`most` of them.

        Words of the context that the model does not embed are all there.
        """
        found: list[list[Suspect]] = [[] for _ in asked]
        by_row: dict[int, list[int]] = {}
        rows: dict[int, Row] = {}
        for number, one in enumerate(asked):
            _, row, _ = self._spans[one.document, one.sentence]
            rows[id(row)] = row
            by_row.setdefault(id(row), []).append(number)
        # A batch is differentiated as often as the row with the most words needs.
        keys = sorted(by_row, key=lambda key: (-len(by_row[key]), -rows[key].size))
        for batch in _together(keys, [rows[key].size for key in keys], self.max_tokens):
            questions = [[self._question(asked[n]) for n in by_row[key]] for key in batch]
            of_batch = word_gradients(
                self.models, self._rows, [rows[key] for key in batch], questions
            )
            for row_number, place, gradient in of_batch:
                number = by_row[batch[row_number]][place]
                found[number] = self._suspects(asked[number], gradient)
        return found

    def _question(self, one: Asked) -> Question:
        reading, _, span = self._spans[one.document, one.sentence]
        return Question(
            one.sentence - reading.begin - span.written.start,
            self.text.target.words[one.document][one.sentence].pieces[one.word],
            one.decisive,
            one.rival,
        )

    def _suspects(self, one: Asked, gradient: Gradient) -> list[Suspect]:
        reading, row, span = self._spans[one.document, one.sentence]
        bounds: list[Tensor] = []
        words: list[tuple[ContextWord, list[Tensor], int]] = []
        for side, sentences, tokens in zip(
            SIDES,
            (span.source, span.target),
            (row.example["source"], row.example["prev_output_tokens"]),
            strict=True,
        ):
            numbers = [sentence + reading.begin for sentence in sentences]
            of_side = [self.text.sides[side].words[one.document][number] for number in numbers]
            places = [
                ContextWord(side, number, word)
                for number, each in zip(numbers, of_side, strict=True)
                for word in range(len(each.pieces))
            ]
            summed = self._by_word(
                [len(piece) for each in of_side for piece in each.pieces],
                tokens,
                [vectors[side] for vectors in gradient.vectors],
            )
            vocabulary = self._vocabulary[side]
            own = torch.tensor([vocabulary.numbers[t] for each in of_side for t in each.texts])
            bound = torch.stack(
                [
                    g.norm(dim=1) * size[own]
                    for g, size in zip(summed, vocabulary.sizes, strict=True)
                ]
            ).sum(0)
            kept = [
                number
                for number, place in enumerate(places)
                if place.sentence < one.sentence
                or (place.sentence > one.sentence and side == "source")
            ]
            bounds.append(bound[kept])
            words += [(places[number], summed, number) for number in kept]
        values = torch.cat(bounds)
        unknown = values.isnan()
        order = values.nan_to_num(nan=-1.0).argsort(descending=True, stable=True).tolist()
        suspects: list[Suspect] = []
        pieces = self._rival(one)
        known = 0
        for number in order:
            place, summed, word_number = words[number]
            blind = bool(unknown[number])
            if known == self.most and not blind:
                continue
            text = self._text(one.document, place)
            vocabulary = self._vocabulary[place.side]
            gradients = None if blind else [g[word_number] for g in summed]
            rival = pieces if place.side == "target" else []
            by = vocabulary.replacements(text, gradients, rival)
            if by:
                known += not blind
                suspects.append(Suspect(place, None if blind else float(values[number]), by))
        return suspects

    def _rival(self, one: Asked) -> list[int]:
        """Ids of the first pieces of the rival's word."""
        symbols = self.text.target.encoded[one.document][one.sentence].split()
        first = self.text.target.words[one.document][one.sentence].pieces[one.word].start
        index = self.task.target_dictionary.index
        return [*map(index, symbols[first : one.decisive]), one.rival]

    def _by_word(
        self, lengths: Sequence[int], tokens: Tensor, gradients: Sequence[Tensor]
    ) -> list[Tensor]:
        """For each model ``(words, dim)``: sums over the pieces of the words of a row."""
        places = (~torch.isin(tokens, self._symbols)).nonzero().squeeze(1)
        if sum(lengths) != places.numel():  # the row has other pieces than the words
            return [torch.full((len(lengths), g.size(1)), torch.nan) for g in gradients]
        words = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
        return [
            g.new_zeros(len(lengths), g.size(1)).index_add_(0, words, g[places]) for g in gradients
        ]

    def _text(self, document: int, word: ContextWord) -> str:
        return self.text.sides[word.side].words[document][word.sentence].texts[word.word]

    def replaced(self, tries: Sequence[Try]) -> list[Outcome]:
        """What becomes of each word when the model reads its document with other words."""
        documents, plain, first = [], [], []
        for one in tries:
            reading, _, _ = self._spans[one.asked.document, one.asked.sentence]
            encoded = dict(zip(SIDES, map(list, self.text.encoded(reading)), strict=True))
            texts = list(self.text.plain(reading))
            by_line: dict[tuple[str, int], dict[int, str]] = {}
            for change in one.changes:
                word = change.suspect.word
                by_line.setdefault((word.side, word.sentence), {})[word.word] = change.by
            for (side, sentence), changes in by_line.items():
                text = self.text.sides[side]
                changed = text.words[one.asked.document][sentence].with_other(changes)
                encoded[side][sentence - reading.begin] = text.pipeline.encode(changed)
                if side == "source":
                    texts[sentence - reading.begin] = changed
            documents.append((encoded["source"], encoded["target"]))
            plain.append(texts)
            first.append(one.asked.sentence - reading.begin)
        found = score_tokens(
            self.models, self.task, documents, first=first, plain=plain,
            whole=not self.text.cuts_units, max_tokens=self.max_tokens, rivals=True,
            rows=self._rows,
        )  # fmt: skip
        return [
            self.outcome(one.asked, sentences[0])
            for one, sentences in zip(tries, found, strict=True)
        ]

    def outcome(self, asked: Asked, scores: Tensor) -> Outcome:
        """What the scores of the sentence ``(tokens, 3)`` say of a word in it."""
        tokens = self.text.target.words[asked.document][asked.sentence].pieces[asked.word]
        own, best, _ = scores[asked.decisive].tolist()
        return Outcome(float(scores[tokens.start : tokens.stop, 0].sum()), best > own)


def _group(suspects: Sequence[Suspect]) -> list[tuple[Change, ...]]:
    """The first suspect together with those of the translation that may say the same."""
    first = suspects[0] if suspects else None
    if first is None or first.bound is None or first.word.side != "target":
        return []
    least = ALIKE * first.bound
    alike = [s for s in suspects if s.word.side == "target" and (s.bound or 0) >= least]
    return [tuple(Change(one, one.by[0]) for one in alike)] if len(alike) > 1 else []


def _joined(tried: Sequence[Decision]) -> list[tuple[Change, ...]]:
    """The strongest changes of two words together, of three, ..., up to :data:`TOGETHER`."""
    best: dict[ContextWord, Decision] = {}
    for one in sorted((one for one in tried if len(one.changes) == 1), key=_strength):
        best[one.changes[0].suspect.word] = one
    order = sorted(best.values(), key=_strength, reverse=True)[:TOGETHER]
    changes = [one.changes[0] for one in order]
    return [tuple(changes[:count]) for count in range(2, len(changes) + 1)]


def _strength(decision: Decision) -> tuple[bool, int, float]:
    """Decisions that fall are stronger, then those by fewer words, then larger losses.

    Among slight losses the gradient knows better: the first one is tried first.
    """
    loss = decision.loss if decision.loss >= SLIGHT else 0.0
    return decision.flips, -len(decision.changes), loss


def _together(keys: Sequence[int], sizes: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Batches of neighbours within ``max_tokens``, padding included."""
    batch: list[int] = []
    longest = 0
    for key, size in zip(keys, sizes, strict=True):
        longest = max(longest, size)
        if batch and (len(batch) + 1) * longest > max_tokens:
            yield batch
            batch, longest = [], size
        batch.append(key)
    if batch:
        yield batch
