"""Beam search over whole documents (G-Transformer, §4.3).

A document is translated by one beam search from start to end. The search, not the model, decides
the number of sentences: after the end of a sentence it opens the next one until the document has
as many sentences as its source, and every sentence has its own length limit. So K source
sentences always give exactly K target sentences. A single sentence is a document with K = 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gtrans.models.base.model import DocumentModel
from gtrans.modules.decode_state import DecodeState
from gtrans.search.options import SearchOptions


@dataclass(frozen=True)
class SearchVocabulary:
    """Symbols that a search treats in a special way.

    Attributes:
        opening: id of the symbol that opens the decoder's input and every sentence:
            ``<s>``, ``</s>`` if the end of a sentence opens the next one, or a language symbol
            (:class:`gtrans.data.frame.Frame`).
        document_mark: id of the symbol that opens the decoder's input instead, once, and that a
            model predicts at the end of a document, or None.
        eos: id of ``</s>``.
        pad: id of padding.
        unk: id of the unknown word.
        forbidden: ids that are not words and are never generated.
        prefix: id of the symbol that follows the opening symbol of every sentence, or None.
        max_input_tokens: most tokens of the decoder's input; the search ends sentences early
            enough to leave room for those after them. None: there is no limit.
    """

    opening: int
    eos: int
    pad: int
    unk: int
    forbidden: tuple[int, ...]
    prefix: int | None = None
    max_input_tokens: int | None = None
    document_mark: int | None = None

    @property
    def first(self) -> int:
        """The symbol that opens the decoder's input."""
        return self.opening if self.document_mark is None else self.document_mark


class SentenceHypothesis(NamedTuple):
    """The translation of one sentence: ids and their log-probabilities, ``</s>`` included."""

    tokens: list[int]
    scores: list[float]

    @property
    def words(self) -> int:
        """Number of its words."""
        return len(self.tokens) - 1


@dataclass(frozen=True)
class DocumentHypothesis:
    """The translation of a document.

    Attributes:
        sentences: one per source sentence.
        score: sum of log-probabilities, divided by the length to the
            power of ``lenpen``. Marks that the search itself sets count in the length and have
            log-probability 0.
        tokens: all ids after the first opening symbol, with sentence marks.
        scores: log-probability of each of them.
    """

    sentences: list[SentenceHypothesis]
    score: float
    tokens: list[int]
    scores: list[float]


class DocumentSearch:
    """Beam search for one or several models (probabilities averaged) over documents."""

    def __init__(self, vocabulary: SearchVocabulary, options: SearchOptions) -> None:
        self.vocabulary = vocabulary
        self.options = options

    @torch.no_grad()
    def search(
        self,
        models: Sequence[DocumentModel],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
        finished: Any = None,
    ) -> list[list[DocumentHypothesis]]:
        """Translate a batch of documents.

        Args:
            models: one, or an ensemble.
            source: ``net_input`` without the decoder's input, for the models'
                ``begin_decoding``.
            source_lengths: for each document the words of every source sentence that is to
                be translated, without marks.
            finished: keeps the parts of documents, in searches that translate part by part
                (:class:`gtrans.search.part_search.Parts`).

        Returns:
            for each document its hypotheses, the best first, ``beam`` at most.
        """
        return self.run(models, [source] * len(models), source_lengths)

    def run(
        self,
        models: Sequence[DocumentModel],
        sources: Sequence[Mapping[str, Any]],
        source_lengths: Sequence[Sequence[int]],
    ) -> list[list[DocumentHypothesis]]:
        """As :meth:`search`, with a source for each model.

        With ``prefix (documents, longest)`` in the sources, the first sentences of every document
        are translated already, and these are their translations
        (:meth:`gtrans.data.frame.Frame.read_before`); hypotheses are without them. ``memory`` is
        the model's own.
        """
        source, prefix_lengths = sources[0], None
        if "prefix" in source:
            prefix_lengths = source["prefix"].ne(self.vocabulary.pad).sum(1)
        device = source["src_tokens"].device
        kind = _FreeRun if self.options.free else Run
        run = kind(self.vocabulary, self.options, source_lengths, device, prefix_lengths)
        states = [
            model.begin_decoding(inputs, self.options.beam)
            for model, inputs in zip(models, sources, strict=True)
        ]
        while run.numbers:
            log_probs = self._log_probs(models, states, run.tokens.flatten(), run.opens.flatten())
            parents, remaining = run.extend(log_probs)
            for state in states:
                state.reorder(parents)
            if len(remaining) < run.width:
                documents = torch.tensor(remaining, dtype=torch.long, device=parents.device)
                for state in states:
                    state.keep(documents)
                run.keep(remaining, documents)
        return [sorted(hypotheses, key=lambda each: -each.score) for hypotheses in run.finished]

    def _log_probs(
        self,
        models: Sequence[DocumentModel],
        states: Sequence[DecodeState],
        tokens: Tensor,
        opens: Tensor,
    ) -> Tensor:
        """``(hypotheses, vocabulary)`` of the next token, averaged over the models."""
        log_probs = []
        for model, state in zip(models, states, strict=True):
            logits = model.decode_step(tokens, opens, state).float()
            if self.options.temperature != 1.0:
                logits = logits / self.options.temperature
            log_probs.append(model.search_scores(logits))
        if len(log_probs) == 1:
            return log_probs[0]
        return torch.logsumexp(torch.stack(log_probs), 0) - math.log(len(models))


class Run:
    """A search in progress: ``width`` active documents with ``beam`` hypotheses each.

    Attributes:
        marked: sentences begin with a symbol other than ``</s>``.
        end: id of the last symbol of a document.
        numbers: numbers of the active documents in the batch.
        finished: of every document the finished hypotheses, as they were found.
        counts: ``(width,)`` sentences of each.
        limits: ``(width, sentences)`` most words of each translation.
        tokens: ``(width, beam)`` the newest token of each hypothesis.
        sentence: ``(width, beam)`` number of the sentence that it writes.
        written: ``(width, beam)`` words of that sentence so far.
        closed: ``(width, beam)`` whether the newest token has ended a sentence.
        history: ``(width, beam, length)`` all tokens so far, if no n-gram may be repeated.
        opens: ``(width, beam)`` whether the newest token has opened a sentence.
        prefix_lengths: ``(width, 1)`` tokens of the prefix; None: there is none.
        scores: ``(width, beam)`` sums of log-probabilities.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: Sequence[Sequence[int]],
        device: torch.device,
        prefix_lengths: Tensor | None = None,
    ) -> None:
        documents, beam = len(source_lengths), options.beam
        self.vocabulary = vocabulary
        self.options = options
        self.marked = vocabulary.opening != vocabulary.eos
        self.end = vocabulary.eos
        self.counts = torch.tensor([len(lengths) for lengths in source_lengths], device=device)
        limits = [
            torch.tensor([options.limit(n) for n in lengths], dtype=torch.long, device=device)
            for lengths in source_lengths
        ]
        self.limits = torch.nn.utils.rnn.pad_sequence(limits, batch_first=True, padding_value=1)
        self.numbers = list(range(documents))
        self.forbidden = torch.tensor(vocabulary.forbidden, dtype=torch.long, device=device)
        # Behind a prefix, a sentence is opened and no document.
        first = vocabulary.first if prefix_lengths is None else vocabulary.opening
        self.prefix_lengths = None if prefix_lengths is None else prefix_lengths[:, None]
        self.tokens = torch.full((documents, beam), first, device=device)
        self.sentence = torch.zeros_like(self.tokens)
        self.written = torch.zeros_like(self.tokens)
        self.closed = torch.zeros_like(self.tokens, dtype=torch.bool)
        self.history = self.tokens.new_zeros(documents, beam, 0)
        # At first all hypotheses are the same, so only one of them is alive.
        self.scores = torch.full((documents, beam), float("-inf"), device=device)
        self.scores[:, 0] = 0.0
        self.opens = torch.full_like(self.closed, prefix_lengths is not None)
        self.step = 0
        self.trace = SearchTrace(documents, beam, device)
        self.finished: list[list[DocumentHypothesis]] = [[] for _ in range(documents)]

    @property
    def width(self) -> int:
        """Number of active documents."""
        return len(self.numbers)

    def extend(self, log_probs: Tensor) -> tuple[Tensor, list[int]]:
        """Choose the next token of every hypothesis.

        Args:
            log_probs: ``(hypotheses, vocabulary)``; changed.

        Returns:
            ``(hypotheses,)`` the old hypothesis that each new one continues, and the indices,
            among the active documents, of those that are not finished.
        """
        beam = self.options.beam
        vocabulary_size = log_probs.size(1)
        totals = self._totals(log_probs).view(self.width, -1)
        best, index = largest(totals, min(2 * beam, totals.size(1)))
        origin = torch.div(index, vocabulary_size, rounding_mode="floor")
        token = index % vocabulary_size
        ends = self._ends(token, origin) & best.gt(float("-inf"))
        # As in fairseq: candidates that end a document are finished if they are among the best
        # `beam`; of the candidates that do not end, the best `beam` continue.
        ending = ends[:, :beam]
        # Candidates that do not end, the best first, and then the others.
        chosen = ends.long().argsort(dim=1, stable=True)[:, :beam]
        if chosen.size(1) < beam:
            chosen = torch.cat([chosen, chosen[:, :1].expand(-1, beam - chosen.size(1))], 1)
        before = self.scores.gather(1, origin)
        self._advance(chosen, best, origin, token, ends)
        first_hypotheses = torch.arange(self.width, device=best.device)[:, None] * beam
        parents = (first_hypotheses + self.origin).flatten()
        alive = self.scores.gt(float("-inf")).any(1)
        # All that the host must know of a step in which no document ends, in one transfer.
        active, any_ends = torch.stack([alive, ending.any(1)]).tolist()
        if any(any_ends):
            table = torch.stack([ending, *(item[:, :beam] for item in (origin, best, before))], 2)
            for document, candidates in enumerate(table.tolist()):
                if any_ends[document] and self._finish(document, candidates):
                    active[document] = False
        return parents, [document for document in range(self.width) if active[document]]

    def _totals(self, log_probs: Tensor) -> Tensor:
        """Scores of all continuations, ``-inf`` for tokens that cannot follow.

        ``log_probs (hypotheses, vocabulary)`` is changed, and becomes the result.
        """
        vocabulary, options = self.vocabulary, self.options
        never = float("-inf")
        log_probs.index_fill_(1, self.forbidden, never)
        log_probs[:, vocabulary.unk] -= options.unkpen
        written, closed = self.written.flatten(), self.closed.flatten()
        limit = self.limits.gather(1, self.sentence).flatten()
        end = log_probs[:, vocabulary.eos].masked_fill(written < options.min_len, never)
        if options.no_repeat_ngram_size:
            forbid_repetitions(
                log_probs, self.history.flatten(0, 1), written, options.no_repeat_ngram_size
            )
        given = {vocabulary.eos: end}
        if self.marked:
            # After </s> comes <s> or, in the last sentence, the end of the document.
            last = self._in_last_sentence().flatten()
            given[vocabulary.eos] = end.masked_fill(closed, never).masked_fill(closed & last, 0.0)
            given[vocabulary.opening] = torch.where(closed & ~last, 0.0, never)
        barred = (written >= limit) | self._no_room_left() | closed
        if vocabulary.prefix is not None:
            opened = self.tokens.flatten().eq(vocabulary.opening)
            barred = barred | opened
            given = {token: scores.masked_fill(opened, never) for token, scores in given.items()}
            given[vocabulary.prefix] = torch.where(opened, 0.0, never)
        return self._added(log_probs, barred, given)

    def _added(self, log_probs: Tensor, barred: Tensor, given: Mapping[int, Tensor]) -> Tensor:
        """``log_probs`` plus the scores so far, in place: large, so changed in one pass only.

        Args:
            log_probs: ``(hypotheses, vocabulary)``.
            barred: ``(hypotheses,)`` True if nothing but the tokens of ``given`` can follow.
            given: log-probabilities ``(hypotheses,)`` of some tokens, instead of those above.
        """
        scores = self.scores.flatten()
        log_probs += scores.masked_fill(barred, float("-inf"))[:, None]
        for token, log_prob in given.items():
            log_probs[:, token] = scores + log_prob
        return log_probs

    def _no_room_left(self) -> Tensor | bool:
        """``(hypotheses,)`` whether the sentence must end to leave room for those after it."""
        limit, least = self.vocabulary.max_input_tokens, self.options.min_len
        if limit is None:
            return False
        marks = 1 + int(self.marked or self.vocabulary.prefix is not None)
        following = self.counts[:, None] - 1 - self.sentence
        # Tokens of the decoder's input if this step ends the sentence and all others are as
        # short as possible. The decoder reads the last end of a sentence only if marks follow.
        used = self.step + 1 + int(self.marked) + following * (max(least, 1) + marks)
        if self.prefix_lengths is not None:
            used = used + self.prefix_lengths
        return ((used >= limit) & (self.written >= least)).flatten()

    def _in_last_sentence(self) -> Tensor:
        return self.sentence == self.counts[:, None] - 1

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        """``(width, candidates)`` whether a candidate ends its document."""
        may_end = self._in_last_sentence()
        if self.marked:
            may_end &= self.closed
        return token.eq(self.vocabulary.eos) & may_end.gather(1, origin)

    def _finish(self, document: int, candidates: Sequence[Sequence[float]]) -> bool:
        """Store the candidates that end a document.

        Args:
            document: its index among the active documents.
            candidates: of each whether it ends, its origin, its score and that of its origin.

        Returns:
            whether the document has enough of them.
        """
        hypotheses = self.finished[self.numbers[document]]
        for ends, origin, total, before in candidates:
            if ends and len(hypotheses) < self.options.beam:
                hypotheses.append(self._hypothesis(document, int(origin), total, total - before))
        return len(hypotheses) == self.options.beam

    def _hypothesis(
        self, document: int, parent: int, total: float, last: float
    ) -> DocumentHypothesis:
        tokens, scores = self.trace.follow(document, self.step - 1, parent)
        tokens, scores = [*tokens, self.end], [*scores, last]
        score = self.options.normalized(total, len(tokens))
        return DocumentHypothesis(self._split(tokens, scores), score, tokens, scores)

    def _split(self, tokens: list[int], scores: list[float]) -> list[SentenceHypothesis]:
        mark = self.vocabulary.opening if self.marked else self.vocabulary.prefix
        written = [pair for pair in zip(tokens, scores, strict=True) if pair[0] != mark]
        # With marks the last token is the end of the document, not of a sentence.
        ends = [n for n, (token, _) in enumerate(written) if token == self.vocabulary.eos]
        return [
            SentenceHypothesis(*map(list, zip(*written[last + 1 : end + 1], strict=True)))
            for last, end in pairwise([-1, *(ends[:-1] if self.marked else ends)])
        ]

    def _advance(
        self, chosen: Tensor, best: Tensor, origin: Tensor, token: Tensor, ends: Tensor
    ) -> None:
        eos = self.vocabulary.eos
        self.origin = origin.gather(1, chosen)
        parent_scores = self.scores.gather(1, self.origin)
        self.scores = best.gather(1, chosen).masked_fill(ends.gather(1, chosen), float("-inf"))
        self.tokens = token.gather(1, chosen)
        sentence = self.sentence.gather(1, self.origin)
        written = self.written.gather(1, self.origin)
        is_end = self.tokens.eq(eos)
        self.opens = self.tokens.eq(self.vocabulary.opening)
        # Marks are not words.
        is_word = ~(is_end | self.opens)
        if self.vocabulary.prefix is not None:
            is_word &= self.tokens.ne(self.vocabulary.prefix)
        gained = self.scores - parent_scores
        gained = torch.where(self.scores.gt(float("-inf")), gained, 0.0)
        self.trace.add(self.step, self.tokens, self.origin, gained)
        if self.options.no_repeat_ngram_size:
            earlier = self.history.gather(1, self.origin[:, :, None].expand_as(self.history))
            self.history = torch.cat([earlier, self.tokens[:, :, None]], 2)
        last = self.counts[:, None] - 1
        self.sentence = torch.minimum(sentence + self.opens.long(), last)
        # A new sentence has no words yet.
        self.written = torch.where(self.opens, 0, written + is_word.long())
        self.closed = is_end if self.marked else torch.zeros_like(is_end)
        self.step += 1

    def keep(self, remaining: Sequence[int], documents: Tensor) -> None:
        """Drop all documents but ``remaining``; ``documents`` are the same as a tensor."""
        self.numbers = [self.numbers[document] for document in remaining]
        self.trace.keep(documents)
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths[documents]
        for name in (
            "counts", "limits", "tokens", "sentence", "written", "closed", "history", "scores",
            "opens",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name)[documents])


class _FreeRun(Run):
    """A search in progress in which the model decides where sentences and the document end.

    So the papers decode the document Transformer. It needs a model that has learnt where documents
    end (:attr:`gtrans.data.frame.Frame.document_mark`), and its translation cannot be aligned with
    the source sentence by sentence. The whole document counts as one sentence of the base class.
    The document mark can follow ``</s>`` only. A document is ended when it is as long as all its
    sentences could be together.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: Sequence[Sequence[int]],
        device: torch.device,
        prefix_lengths: Tensor | None = None,
    ) -> None:
        if vocabulary.document_mark is None:
            raise ValueError("a free search needs a symbol that ends documents")
        totals = [[sum(lengths)] for lengths in source_lengths]
        super().__init__(vocabulary, options, totals, device, prefix_lengths)
        self.end = vocabulary.document_mark
        # (documents, 1): most tokens, ends of sentences included
        longest = [sum(options.limit(words) + 1 for words in lengths) for lengths in source_lengths]
        self.limits = torch.tensor(longest, device=device)[:, None]

    def _totals(self, log_probs: Tensor) -> Tensor:
        vocabulary, never = self.vocabulary, float("-inf")
        document_end = log_probs[:, self.end].clone()
        log_probs.index_fill_(1, self.forbidden, never)
        log_probs[:, vocabulary.unk] -= self.options.unkpen
        ended = self.tokens.flatten().eq(vocabulary.eos)
        full = (self.limits <= self.step + 1).expand_as(self.tokens).flatten()
        longest = vocabulary.max_input_tokens
        if longest is not None and self.step + 2 >= longest:
            full = torch.ones_like(full)
        sentence_end = log_probs[:, vocabulary.eos].clone()
        size = self.options.no_repeat_ngram_size
        if size:  # the whole document is one sequence, as in fairseq
            length = torch.full_like(self.written, self.step).flatten()
            forbid_repetitions(log_probs, self.history.flatten(0, 1), length, size)
        too_short = ~full & self.written.flatten().lt(self.options.min_len)
        sentence_end.masked_fill_(too_short | (full & ended), never)
        given = {vocabulary.eos: sentence_end, self.end: document_end.masked_fill(~ended, never)}
        return self._added(log_probs, full, given)

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        return token.eq(self.end)


def forbid_repetitions(log_probs: Tensor, history: Tensor, written: Tensor, size: int) -> None:
    """Give ``-inf`` to subwords that would end a second n-gram of ``size`` in their sentence.

    Args:
        log_probs: ``(hypotheses, vocabulary)``; changed in place.
        history: ``(hypotheses, length)`` all tokens so far.
        written: ``(hypotheses,)`` how many of the last tokens are subwords of the sentence that is
            being written; those before are marks and other sentences.
        size: of the n-grams.
    """
    length = history.size(1)
    if length < size:
        return
    ngrams = history.unfold(1, size, 1)  # (hypotheses, places, size)
    places = ngrams.size(1)
    begin = length - written  # of the sentence
    newest = history[:, length - size + 1 :]
    repeated = ngrams[:, :, :-1].eq(newest[:, None]).all(2)
    repeated &= history.new_ones(places).cumsum(0).sub(1) >= begin[:, None]
    # Added everywhere, so that the host need not know where the repetitions are.
    added = torch.where(repeated, float("-inf"), 0.0).to(log_probs)
    log_probs.scatter_add_(1, ngrams[:, :, -1], added)


_BLOCK = 64


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """What ``topk(count, 1)`` of ``numbers (rows, columns)`` returns, several times faster.

    Of equal numbers it may choose other columns than ``topk``, which promises no order of them.

    A block of columns can hold one of the largest numbers only if its own largest number is one of
    the ``count`` largest of all blocks. So one fast pass finds the blocks, and only those are
    searched.

    Returns:
        the numbers, the largest first, and their columns, each ``(rows, count)``.
    """
    rows, columns = numbers.shape
    blocks = columns // _BLOCK
    if blocks <= 2 * count:
        return numbers.topk(count, 1)
    covered = blocks * _BLOCK
    candidates = numbers[:, :covered].view(rows, blocks, _BLOCK).amax(2).topk(count, 1).indices
    inside = torch.arange(_BLOCK, device=numbers.device)
    index = (candidates[:, :, None] * _BLOCK + inside).flatten(1)
    if covered < columns:
        uncovered = torch.arange(covered, columns, device=numbers.device)
        index = torch.cat([index, uncovered.expand(rows, -1)], 1)
    best, position = numbers.gather(1, index).topk(count, 1)
    return best, index.gather(1, position)


class SearchTrace:
    """Tokens, parents and scores of all steps, so that the search never copies a history."""

    def __init__(self, documents: int, beam: int, device: torch.device) -> None:
        """An empty history of ``documents`` searches with ``beam`` hypotheses each."""
        # (documents, steps, what, beam): doubles hold ids and single precision exactly
        self._data = torch.zeros(documents, 64, 3, beam, dtype=torch.double, device=device)

    def add(self, step: int, tokens: Tensor, parents: Tensor, scores: Tensor) -> None:
        """Store a step.

        Args:
            step: number of the step.
            tokens: ``(documents, beam)`` ids.
            parents: ``(documents, beam)`` the hypotheses that are continued.
            scores: ``(documents, beam)`` log-probabilities of the tokens.
        """
        if step == self._data.size(1):
            self._data = torch.cat([self._data, torch.zeros_like(self._data)], 1)
        for number, values in enumerate((tokens, parents, scores)):
            self._data[:, step, number] = values

    def follow(self, document: int, steps: int, hypothesis: int) -> tuple[list[int], list[float]]:
        """The tokens and scores of a hypothesis after ``steps`` steps."""
        tokens, scores = [], []
        for step in reversed(self._data[document, :steps].tolist()):
            token, parent, score = (values[hypothesis] for values in step)
            tokens.append(int(token))
            scores.append(score)
            hypothesis = int(parent)
        return tokens[::-1], scores[::-1]

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data = self._data[documents]
