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

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gtrans.data.units import UnitSpan
from gtrans.decoding.force_decode import (
    Reading,
    Row,
    Rows,
    Side,
    Text,
    flat,
    score_tokens,
    sentences_of,
)
from gtrans.modules.embedding import Embedder
from gtrans.modules.layout import DocumentLayout

SIDES = ("source", "target")

TOGETHER = 3
"""Most words that are replaced together."""

SLIGHT = 0.05
"""Losses below say nothing, in nats."""

ALIKE = 0.5
"""Suspects with at least this share of the highest bound may say the same as the first one."""

CANDIDATES = 5
"""As many words of the text that stand at the same places as a word are considered as a replacement
of it, and as many with the nearest embeddings."""

REPLACEMENTS = 3
"""Most of them that are tried."""

_EDGE = ""
_Neighbour = tuple[bool, str]  # whether it comes after the word; the neighbour


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
                (:func:`gtrans.decoding.force_decode.token_scores`).
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


# --- gradients at words ---------------------------------------------------------------------------


# Gradients are taken at the word embedding, before its scale, its position and a LayerNorm are
# applied. Words that a model does not embed itself, such as those that only a frozen BERT reads,
# have none.


@dataclass(frozen=True)
class Question:
    """A word of a row whose gradient is wanted.

    Attributes:
        sentence: number of its sentence among those that the row writes.
        tokens: numbers of its tokens in that sentence.
        decisive: number of the token in that sentence at which ``rival`` is another choice.
        rival: id of the other token; None: the gradient is that of the word's log-probability,
            otherwise of its difference to that of the rival.
    """

    sentence: int
    tokens: range
    decisive: int
    rival: int | None


@dataclass(frozen=True)
class Gradient:
    """The gradient of one word.

    Attributes:
        value: what was differentiated, in nats.
        vectors: for each model and side the gradient ``(row length, dim)`` at the word
            embeddings of the row; NaN at marks, and where the model embeds no word.
    """

    value: float
    vectors: tuple[Mapping[str, Tensor], ...]


def word_gradients(
    models: Sequence[Any], rows: Rows, batch: Sequence[Row], questions: Sequence[Sequence[Question]]
) -> Iterator[tuple[int, int, Gradient]]:
    """Differentiate the words that are asked for, one of every row at a time.

    Args:
        models: one model, or an ensemble, whose probabilities are averaged.
        rows: those that ``batch`` is from.
        batch: rows that are read together.
        questions: the words of each row.

    Yields:
        number of the row, number of its word, its gradient.
    """
    frame = rows.examples.frame
    device = next(models[0].parameters()).device
    marks = torch.tensor(frame.symbols, device=device)
    sample = rows.examples.collate([row.example for row in batch])
    target = sample["target"]
    sentence = sentences_of(target, frame.eos)
    net_input = rows.complete_input(
        {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
    )
    predict_at = torch.zeros_like(target, dtype=torch.bool)
    places = []
    for number, of_row in enumerate(questions):
        for question in of_row:
            at = (target[number].ne(frame.pad) & sentence[number].eq(question.sentence)).nonzero()
            at = at.squeeze(1)
            places.append((number, at[question.tokens.start : question.tokens.stop], at))
            predict_at[number, places[-1][1]] = True
    index = torch.full_like(target, -1)
    index[predict_at] = torch.arange(int(predict_at.sum()))
    with torch.enable_grad(), ExitStack() as stack:
        embedded: list[dict[str, _Calls]] = []
        by_model = []
        for model in models:
            calls = stack.enter_context(_embedded(model))
            logits = model(**net_input, predict_at=predict_at.to(device))[0].float()
            by_model.append(logits.log_softmax(1))
            embedded.append(
                {side: _Calls.of(model, net_input, side, calls[side], marks) for side in SIDES}
            )
        log_probs = torch.stack(by_model).logsumexp(0) - torch.tensor(float(len(models))).log()
        values: list[list[Tensor]] = []
        flat = iter(places)
        for number, of_row in enumerate(questions):
            values.append([])
            for question in of_row:
                _, tokens, at = next(flat)
                words = target[number, tokens].to(device)
                value = log_probs[index[number, tokens].to(device), words].sum()
                if question.rival is not None:
                    place = index[number, at[question.decisive]]
                    value = value - log_probs[place, question.rival]
                values[-1].append(value)
        every = [leaf for sides in embedded for calls in sides.values() for leaf in calls.leaves]
        most = max(map(len, values))
        for number in range(most):
            asked = [of_words[number] for of_words in values if len(of_words) > number]
            gradients = iter(
                torch.autograd.grad(
                    torch.stack(asked).sum(), every, retain_graph=number < most - 1,
                    allow_unused=True,
                )
            )  # fmt: skip
            vectors = [
                {
                    side: calls.in_rows([next(gradients) for _ in calls.leaves])
                    for side, calls in sides.items()
                }
                for sides in embedded
            ]
            for row, of_words in enumerate(values):
                if len(of_words) > number:
                    of_word = tuple({side: grid[row] for side, grid in v.items()} for v in vectors)
                    yield row, number, Gradient(float(of_words[number].detach()), of_word)


@contextmanager
def _embedded(model: Any) -> Iterator[dict[str, list[tuple[Tensor, Tensor]]]]:
    """Collect ids and word embeddings of every call, the latter as leaves of autograd."""
    found: dict[str, list[tuple[Tensor, Tensor]]] = {side: [] for side in SIDES}

    def hook(side: str) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        def with_leaf(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            tokens, positions, table, *rest = given
            leaf = table(tokens).detach().requires_grad_()
            found[side].append((tokens, leaf))
            return (tokens, positions, lambda _: leaf, *rest)

        return with_leaf

    handles = []
    for side, part in zip(SIDES, (model.encoder, model.decoder), strict=True):
        assert isinstance(part.embed, Embedder)
        handles.append(part.embed.register_forward_pre_hook(hook(side)))
    wanted = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield found
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class _Calls:
    """The embedded words of a side of a batch.

    Attributes:
        shape: ``(rows, length)`` of the side.
        leaves: for each call of the embedder its word embeddings ``(tokens, dim)``.
        words: for each call which of its tokens are words of the rows, ``(tokens,)``.
        places: for each call the places of these words in the flattened rows.
    """

    shape: tuple[int, int]
    leaves: list[Tensor]
    words: list[Tensor]
    places: list[Tensor]

    @classmethod
    def of(
        cls,
        model: Any,
        net_input: Mapping[str, Tensor],
        side: str,
        calls: list[tuple[Tensor, Tensor]],
        marks: Tensor,
    ) -> _Calls:
        """Find the places of what was embedded.

        A call embeds the words of all sentences of the rows, or of the current ones, or of the
        others, and perhaps other ``marks`` than the rows have. Of other calls no place is known.
        """
        tokens = net_input["src_tokens" if side == "source" else "prev_output_tokens"]
        layouts = model.layouts(net_input["src_tokens"], net_input["prev_output_tokens"])
        layout: DocumentLayout = layouts[SIDES.index(side)]
        ids = layout.pack(tokens)
        parts = [~torch.isin(ids, marks)]
        if "current" in net_input and side == "source":
            current = layout.sentence.eq(net_input["current"][layout.row])
            parts += [parts[0] & current, parts[0] & ~current]
        found = cls((tokens.size(0), tokens.size(1)), [leaf for _, leaf in calls], [], [])
        for embedded, _ in calls:
            words = ~torch.isin(embedded, marks)
            part = next((part for part in parts if torch.equal(ids[part], embedded[words])), None)
            found.words.append(words if part is not None else torch.zeros_like(words))
            found.places.append(layout.index[part] if part is not None else layout.index[:0])
        return found

    def in_rows(self, gradients: Sequence[Tensor | None]) -> Tensor:
        """``(rows, length, dim)`` from the gradients of the leaves, NaN at other places."""
        dim = self.leaves[0].size(1) if self.leaves else 1
        grid = torch.full((self.shape[0] * self.shape[1], dim), torch.nan)
        for gradient, words, places in zip(gradients, self.words, self.places, strict=True):
            if gradient is not None:
                grid[places.cpu()] = gradient[words].float().cpu()
        return grid.view(*self.shape, dim)


# --- replacements ---------------------------------------------------------------------------------


class Vocabulary:
    """The words of one side of a text, their substitutes and their mean embeddings.

    Args:
        side: of the text.
        dictionary: fairseq's, of this side.
        tables: for each model its word embeddings ``(symbols, dim)`` of this side.
    """

    def __init__(self, side: Side, dictionary: Any, tables: Sequence[Tensor]) -> None:
        self.substitutes = Substitutes(words.texts for words in flat(side.words))
        self.numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        pieces: list[Tensor] = []
        self._beginning: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for words, encoded in zip(flat(side.words), flat(side.encoded), strict=True):
            symbols = encoded.split()
            self._counts.update(words.texts)
            for text, of_word in zip(words.texts, words.pieces, strict=True):
                if text not in self.numbers:
                    self.numbers[text] = len(pieces)
                    ids = [dictionary.index(symbols[piece]) for piece in of_word]
                    pieces.append(torch.tensor(ids))
                    for count in range(len(ids)):
                        self._beginning[tuple(ids[: count + 1])].append(text)
        every = torch.cat(pieces)
        offsets = torch.tensor([0, *map(len, pieces[:-1])]).cumsum(0)
        self.vectors = [
            torch.nn.functional.embedding_bag(every, table.detach().float().cpu(), offsets)
            for table in tables
        ]
        centred = [vectors - vectors.mean(0) for vectors in self.vectors]
        self.sizes = [vectors.norm(dim=1) for vectors in centred]
        self.directions = [
            vectors / size[:, None].clamp(min=1e-9)
            for vectors, size in zip(centred, self.sizes, strict=True)
        ]
        self.texts = list(self.numbers)
        self._known: dict[str, tuple[list[str], list[str]]] = {}

    def replacements(
        self, word: str, gradients: Sequence[Tensor] | None, rival: Sequence[int] = ()
    ) -> tuple[str, ...]:
        """Substitutes for a word, at most :data:`REPLACEMENTS`, those to try first in front.

        They are of different kinds, as none is the best one for all words: the rival itself, if the
        word is of the translation; of all candidates and of those at the same places the one that
        lowers most what ``gradients`` are of; and the candidate with the nearest embedding.

        Args:
            word: a word of the text.
            gradients: one for each model; None: those most like the word are first.
            rival: ids of the first pieces of the word that the model would say without context.
        """
        places, near = self._candidates(word)
        candidates = list(dict.fromkeys([*places, *near]))
        if not candidates or gradients is None:
            return tuple(candidates[:REPLACEMENTS])
        numbers = torch.tensor([self.numbers[other] for other in candidates])
        values = torch.zeros(len(candidates))
        for vectors, gradient in zip(self.vectors, gradients, strict=True):
            values += vectors[numbers] @ gradient
        order = [candidates[number] for number in values.argsort(stable=True).tolist()]
        first = [order[0], *[other for other in order if other in places][:1], *near[:1]]
        found = dict.fromkeys([*self._rivals(word, rival), *first, *order])
        return tuple(found)[:REPLACEMENTS]

    def _rivals(self, word: str, pieces: Sequence[int]) -> list[str]:
        """The word of the text that begins with ``pieces``, in the case of ``word``; or none."""
        others = [
            other
            for other in self._beginning.get(tuple(pieces), ())
            if is_word(other) and other.lower() != word.lower()
        ]
        upper = word[0].isupper()
        others.sort(key=lambda other: (other[0].isupper() == upper, self._counts[other]))
        return others[-1:]

    def _candidates(self, word: str) -> tuple[list[str], list[str]]:
        """The words of the text at the same places, and those with the nearest embeddings."""
        if not is_word(word):
            return [], []
        if word not in self._known:
            places = self.substitutes.of(word, CANDIDATES)
            own = self.numbers[word]
            alike = torch.zeros(len(self.texts))
            for directions in self.directions:
                alike += directions @ directions[own]
            near = []
            for number in alike.argsort(descending=True).tolist():
                other = self.texts[number]
                if is_word(other) and other.lower() != word.lower():
                    near.append(other)
                if len(near) == CANDIDATES:
                    break
            self._known[word] = places, near
        return self._known[word]


class Substitutes:
    """The words of a text by the words next to them.

    Two words are alike if they have the same words before and after them: the measure is the
    cosine of their vectors, which have the logarithm of a neighbour's count, weighted by how rare
    it is to have that neighbour.

    Args:
        sentences: the words of each sentence, punctuation marks included.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        counts: defaultdict[str, Counter[_Neighbour]] = defaultdict(Counter)
        for words in sentences:
            framed = [_EDGE, *words, _EDGE]
            for before, word, after in zip(framed, words, framed[2:], strict=False):
                if is_word(word):
                    counts[word].update([(False, before), (True, after)])
        having = Counter(neighbour for of_word in counts.values() for neighbour in of_word)
        self._vectors: dict[str, dict[_Neighbour, float]] = {}
        self._with: defaultdict[_Neighbour, list[tuple[str, float]]] = defaultdict(list)
        for word, of_word in counts.items():
            vector = {
                neighbour: (1 + math.log(count)) * math.log(1 + len(counts) / having[neighbour])
                for neighbour, count in of_word.items()
            }
            length = math.hypot(*vector.values())
            self._vectors[word] = {one: value / length for one, value in vector.items()}
            for neighbour, value in self._vectors[word].items():
                self._with[neighbour].append((word, value))
        self._known: dict[tuple[str, int], list[str]] = {}

    def of(self, word: str, most: int) -> list[str]:
        """The words that are most like a word of the text, at most ``most`` of them.

        Other forms of case of the word itself are left out. It is empty for a punctuation mark.
        """
        if (word, most) not in self._known:
            alike: defaultdict[str, float] = defaultdict(float)
            for neighbour, value in self._vectors.get(word, {}).items():
                for other, weight in self._with[neighbour]:
                    alike[other] += value * weight
            others = [other for other in alike if other.lower() != word.lower()]
            others.sort(key=lambda other: (-alike[other], other))
            self._known[word, most] = others[:most]
        return self._known[word, most]


def is_word(word: str) -> bool:
    """Whether a word has a letter or a digit."""
    return any(map(str.isalnum, word))
