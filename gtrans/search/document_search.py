"""Beam search over whole documents (G-Transformer, §4.3).

A document is translated by one beam search from start to end. The search, not the model, decides
the number of sentences: after the end of a sentence it opens the next one until the document has
as many sentences as its source, and every sentence has its own length limit. So K source
sentences always give exactly K target sentences. A single sentence is a document with K = 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gtrans.models.base.model import DocumentModel
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import Ints, to_device
from gtrans.search.options import SearchOptions


@dataclass(frozen=True)
class SearchVocabulary:
    """Vocabulary entries that a search treats in a special way.

    Attributes:
        opening: id of the token that opens the decoder's input and every sentence:
            ``<s>``, ``</s>`` if the end of a sentence opens the next one, or a language token
            (:class:`gtrans.data.frame.Frame`).
        document_token: id of the token that opens the decoder's input instead, once, and that a
            model predicts at the end of a document, or None.
        eos: id of ``</s>``.
        pad: id of padding.
        unk: id of the unknown word.
        forbidden: ids that are not words and are never generated.
        prefix: id of the token that follows the opening token of every sentence, or None.
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
    document_token: int | None = None

    @property
    def first(self) -> int:
        """The token that opens the decoder's input."""
        return self.opening if self.document_token is None else self.document_token


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
            power of ``lenpen``. Special tokens that the search itself sets count in the length
            and have log-probability 0.
        tokens: all ids after the first opening token, with sentence separators.
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
                be translated, without special tokens.
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
        source = sources[0]
        prefix_longest = source["prefix"].size(1) if "prefix" in source else None
        device = source["src_tokens"].device
        kind = _FreeProgress if self.options.free else SearchProgress
        progress = kind(self.vocabulary, self.options, source_lengths, device, prefix_longest)
        if "prefix" in source:
            progress.prefix_lengths = source["prefix"].ne(self.vocabulary.pad).sum(1)[:, None]
        states = []
        for model, inputs in zip(models, sources, strict=True):
            states.append(model.begin_decoding(inputs, self.options.beam))
        while progress.is_active.any():
            tokens, opens = progress.tokens.flatten(), progress.opens.flatten()
            parents = progress.extend(self._log_probs(models, states, tokens, opens))
            for state in states:
                state.reorder(parents)
            if progress.is_worth_dropping():
                numbers = torch.from_numpy(np.flatnonzero(progress.is_active))
                for state in states:
                    state.keep(numbers)
                progress.keep(numbers)
        return progress.hypotheses()

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


# The share of rows whose documents have ended, from which they are dropped. A CPU drops them at
# once, because the time of a step grows with its rows; on a GPU it hardly does, and dropping
# copies all keys.
_SHARE_TO_DROP = 0.25
# Words of a sentence that is closed: more than any limit.
_CLOSED = 1 << 24


class SearchProgress:
    """A search in progress: ``width`` rows, a document each, with ``beam`` hypotheses.

    Documents that have ended stay in their rows until it is worth dropping some of them.

    Attributes:
        begins_with_token: sentences begin with a token other than ``</s>``.
        end: id of the last token of a document.
        numbers: ``(width,)`` numbers of the documents in the batch, on the host.
        is_active: ``(width,)`` whether a document has not ended, on the host.
        last: ``(width, 1)`` number of the last sentence of each.
        facts: ``(width, sentences, 3)`` of each sentence the most words of its translation, and
            what can follow its end: log-probabilities, 0 or ``-inf``, of the document's end and of
            another sentence.
        tokens: ``(width, beam)`` the newest token of each hypothesis.
        counters: ``(2, width, beam)`` number of the sentence that it writes, and words of that
            sentence so far.
        closed: ``(width, beam)`` whether the newest token has ended a sentence that is followed by
            a separator.
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
        prefix_longest: int | None = None,
    ) -> None:
        """The beginning of a search.

        Args:
            vocabulary: tokens with a meaning for the search.
            options: of the search.
            source_lengths: for each document the words of every source sentence.
            device: of the models.
            prefix_longest: most tokens of a prefix; None: there is none.
        """
        documents, beam = len(source_lengths), options.beam
        self.vocabulary = vocabulary
        self.options = options
        self.begins_with_token = vocabulary.opening != vocabulary.eos
        self.end = vocabulary.eos
        self.device = device
        self.numbers = np.arange(documents)
        self.is_active = np.ones(documents, dtype=bool)
        self._found = np.zeros(documents, dtype=np.int64)
        self._share_to_drop = 0.0 if device.type == "cpu" else _SHARE_TO_DROP
        self._most_sentences = max((len(lengths) for lengths in source_lengths), default=0)
        facts, last = self._facts_of(source_lengths)
        self.facts, self.last = to_device(facts, device), to_device(last, device)
        self.forbidden = to_device(torch.tensor(vocabulary.forbidden, dtype=torch.long), device)
        self._never = torch.full((), float("-inf"), device=device)
        self._offsets = torch.arange(documents, device=device)[:, None] * beam
        # Behind a prefix, a sentence is opened and no document.
        first = vocabulary.first if prefix_longest is None else vocabulary.opening
        self.prefix_lengths: Tensor | None = None
        self._prefix_longest = prefix_longest or 0
        self.tokens = torch.full((documents, beam), first, device=device)
        self.counters = self.tokens.new_zeros(2, documents, beam)
        self.closed = torch.zeros_like(self.tokens, dtype=torch.bool)
        self.history = self.tokens.new_zeros(documents, beam, 0)
        # At first all hypotheses are the same, so only one of them is alive.
        self.scores = torch.full((documents, beam), float("-inf"), device=device)
        self.scores[:, 0] = 0.0
        self.opens = torch.full_like(self.closed, prefix_longest is not None)
        # (width, 1) documents that have ended but are still in their rows
        self._lingering: Tensor | None = None
        self.step = 0
        self._trace = SearchTrace(documents, beam)

    def _facts_of(self, source_lengths: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """:attr:`facts` and :attr:`last` on the host."""
        facts = torch.ones(len(source_lengths), self._most_sentences, 3)
        limits = facts[:, :, 0].numpy()
        for document, lengths in enumerate(source_lengths):
            for number, words in enumerate(lengths):
                limits[document, number] = min(self.options.limit(words), _CLOSED)
        last = torch.tensor([[len(lengths) - 1] for lengths in source_lengths])
        is_last = torch.arange(self._most_sentences) == last
        never = float("-inf")
        facts[:, :, 1] = torch.zeros(is_last.shape).masked_fill_(~is_last, never)
        facts[:, :, 2] = torch.zeros(is_last.shape).masked_fill_(is_last, never)
        return facts, last

    @property
    def width(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def sentence(self) -> Tensor:
        """``(width, beam)`` number of the sentence that each hypothesis writes."""
        return self.counters[0]

    @property
    def written(self) -> Tensor:
        """``(width, beam)`` words of that sentence so far."""
        return self.counters[1]

    def extend(self, log_probs: Tensor) -> Tensor:
        """Choose the next token of every hypothesis.

        Args:
            log_probs: ``(hypotheses, vocabulary)``; changed.

        Returns:
            ``(hypotheses,)`` the old hypothesis that each new one continues.
        """
        beam, vocabulary_size, never = self.options.beam, log_probs.size(1), float("-inf")
        totals = self._totals(log_probs.view(self.width, beam, -1)).flatten(1)
        best, index = largest(totals, min(2 * beam, totals.size(1)))
        candidates = index.new_empty(2, *index.shape)
        origin, token = candidates
        torch.div(index, vocabulary_size, rounding_mode="floor", out=origin)
        torch.remainder(index, vocabulary_size, out=token)
        # (width, candidates + 1): which candidates end their document, and, last, whether any
        # hypothesis goes on. All that the host must know, in one transfer.
        flags = torch.empty(self.width, token.size(1) + 1, dtype=torch.bool, device=self.device)
        ends, goes_on = flags[:, :-1], flags[:, -1:]
        torch.logical_and(self._ends(token, origin), best.gt(never), out=ends)
        # As in fairseq: candidates that end a document are finished if they are among the best
        # `beam`; of the candidates that do not end, the best `beam` continue. So candidates that
        # do not end come first, the best before the others.
        chosen = ends.view(torch.uint8).sort(dim=1, stable=True).indices[:, :beam]
        if chosen.size(1) < beam:
            chosen = torch.cat([chosen, chosen[:, :1].expand(-1, beam - chosen.size(1))], 1)
        self.scores = best.masked_fill(ends, never).gather(1, chosen)
        picked = candidates.gather(2, chosen.expand(2, -1, -1))
        self._trace.add(self.numbers, picked, self.scores)
        self._advance(*picked)
        # The first hypothesis is the best one.
        torch.gt(self.scores[:, :1], never, out=goes_on)
        on_host = flags.cpu().numpy()
        is_end, is_alive = on_host[:, :beam], on_host[:, -1]
        if is_end.any():
            self._trace.add_ends(ends[:, :beam], origin[:, :beam], best[:, :beam])
            self._found += is_end.sum(1)
        is_active = self.is_active & is_alive & (self._found < beam)
        self._let_linger(is_active)
        return (picked[0] + self._offsets[: self.width]).flatten()

    def _let_linger(self, is_active: NDArray[np.bool_]) -> None:
        """Store which documents have not ended."""
        has_changed = bool((is_active != self.is_active).any())
        self.is_active = is_active
        if has_changed and not self.is_worth_dropping():
            ended = torch.from_numpy(~is_active)[:, None]
            self._lingering = to_device(ended, self.device)
        if self._lingering is not None:
            # Their positions begin again and again, so that no table of positions is too short.
            self.opens = self.opens | self._lingering

    def is_worth_dropping(self) -> bool:
        """Whether so many documents have ended that their rows should be dropped, but not all."""
        ended = self.width - int(self.is_active.sum())
        return 0 < ended < self.width and ended >= self._share_to_drop * self.width

    def _facts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the sentence of each hypothesis :attr:`facts`, ``(width, beam)`` each."""
        facts = self.facts
        if self._most_sentences > 1:
            index = self.sentence[:, :, None].expand(-1, -1, facts.size(2))
            facts = facts.gather(1, index)
        limit, closing, reopening = facts.unbind(2)
        return limit, closing, reopening

    def _totals(self, log_probs: Tensor) -> Tensor:
        """Scores of all continuations, ``-inf`` for tokens that cannot follow.

        ``log_probs (width, beam, vocabulary)`` is changed, and becomes the result.
        """
        vocabulary, options = self.vocabulary, self.options
        never = float("-inf")
        self._forbid(log_probs)
        limit, closing, reopening = self._facts()
        written = self.written
        end = log_probs[:, :, vocabulary.eos].masked_fill(written < options.min_len, never)
        if options.no_repeat_ngram_size:
            forbid_repetitions(
                log_probs.flatten(0, 1),
                self.history.flatten(0, 1),
                written.flatten(),
                options.no_repeat_ngram_size,
            )
        given = {vocabulary.eos: end}
        if self.begins_with_token:
            # After </s> comes <s> or, in the last sentence, the end of the document.
            given[vocabulary.eos] = torch.where(self.closed, closing, end)
            given[vocabulary.opening] = torch.where(self.closed, reopening, self._never)
        barred = written >= limit
        if self._may_lack_room():
            barred |= self._no_room_left()
        if vocabulary.prefix is not None:
            opened = self.tokens.eq(vocabulary.opening)
            barred |= opened
            for token, scores in given.items():
                given[token] = scores.masked_fill(opened, never)
            given[vocabulary.prefix] = torch.zeros_like(self.scores).masked_fill_(~opened, never)
        return self._added(log_probs, barred, given)

    def _forbid(self, log_probs: Tensor) -> None:
        """Bar special tokens, and make the unknown word less probable."""
        log_probs.index_fill_(2, self.forbidden, float("-inf"))
        if self.options.unkpen:
            log_probs[:, :, self.vocabulary.unk].sub_(self.options.unkpen)

    def _added(self, log_probs: Tensor, barred: Tensor, given: Mapping[int, Tensor]) -> Tensor:
        """``log_probs`` plus the scores so far, in place: large, so changed in one pass only.

        Args:
            log_probs: ``(width, beam, vocabulary)``.
            barred: ``(width, beam)`` True if nothing but the tokens of ``given`` can follow.
            given: log-probabilities ``(width, beam)`` of some tokens, instead of those above.
        """
        log_probs += self.scores.masked_fill(barred, float("-inf"))[:, :, None]
        for token, log_prob in given.items():
            torch.add(self.scores, log_prob, out=log_probs[:, :, token])
        return log_probs

    def _shortest_sentence(self) -> int:
        """Fewest tokens of a sentence that is still to come, with its special tokens."""
        special_tokens = 1 + int(self.begins_with_token or self.vocabulary.prefix is not None)
        return max(self.options.min_len, 1) + special_tokens

    def _may_lack_room(self) -> bool:
        """Whether :meth:`_no_room_left` can be true of any hypothesis."""
        limit = self.vocabulary.max_input_tokens
        following = (self._most_sentences - 1) * self._shortest_sentence()
        most = self.step + 1 + int(self.begins_with_token) + following + self._prefix_longest
        return limit is not None and most >= limit

    def _no_room_left(self) -> Tensor:
        """``(width, beam)`` whether the sentence must end to leave room for those after it."""
        following = self.last - self.sentence
        # Tokens of the decoder's input if this step ends the sentence and all others are as
        # short as possible. The decoder reads the last `</s>` only if special tokens follow.
        used = self.step + 1 + int(self.begins_with_token) + following * self._shortest_sentence()
        if self.prefix_lengths is not None:
            used = used + self.prefix_lengths
        is_full: Tensor = used >= self.vocabulary.max_input_tokens
        return is_full.logical_and_(self.written >= self.options.min_len)

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        """``(width, candidates)`` whether a candidate, if it can follow, ends its document."""
        is_end = token.eq(self.vocabulary.eos)
        # What follows the end of a sentence that is not the last one is never `</s>`.
        if self.begins_with_token:
            return is_end.logical_and_(self.closed.gather(1, origin))
        if self._most_sentences > 1:
            return is_end.logical_and_(self.sentence.eq(self.last).gather(1, origin))
        return is_end

    def _advance(self, origin: Tensor, tokens: Tensor) -> None:
        """Make the chosen ``tokens (width, beam)``, which continue ``origin``, the newest ones."""
        vocabulary = self.vocabulary
        self.tokens = tokens
        self.counters = self.counters.gather(2, origin.expand(2, -1, -1))
        self.opens = tokens.eq(vocabulary.opening)
        written, begins = self.written, self.opens
        written += 1
        if self.begins_with_token:
            self.closed = tokens.eq(vocabulary.eos)
            written.masked_fill_(self.closed, _CLOSED)
        if vocabulary.prefix is not None:
            begins = begins | tokens.eq(vocabulary.prefix)
        # A new sentence has no words yet, and special tokens are none.
        written.masked_fill_(begins, 0)
        if self._most_sentences > 1:
            sentence = self.sentence
            sentence += self.opens
            torch.minimum(sentence, self.last, out=sentence)
        if self.options.no_repeat_ngram_size:
            earlier = self.history.gather(1, origin[:, :, None].expand_as(self.history))
            self.history = torch.cat([earlier, tokens[:, :, None]], 2)
        self.step += 1

    def keep(self, numbers: Tensor) -> None:
        """Drop all rows but ``numbers (n,)``, which are on the host."""
        rows = to_device(numbers, self.device)
        kept = numbers.numpy()
        self.numbers, self.is_active = self.numbers[kept], self.is_active[kept]
        self._found = self._found[kept]
        self._lingering = None
        self.counters = self.counters.index_select(1, rows)
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths.index_select(0, rows)
        self.history = self.history.index_select(0, rows)
        for name in ("last", "facts", "tokens", "closed", "scores", "opens"):
            setattr(self, name, getattr(self, name).index_select(0, rows))

    def hypotheses(self) -> list[list[DocumentHypothesis]]:
        """Of every document the finished hypotheses, the best first."""
        found: list[list[DocumentHypothesis]] = [[] for _ in self._trace.documents]
        for document, tokens, scores, total in self._trace.finished():
            tokens.append(self.end)
            score = self.options.normalized(total, len(tokens))
            sentences = self._sentences(tokens, scores)
            found[document].append(DocumentHypothesis(sentences, score, tokens, scores))
        return [sorted(hypotheses, key=lambda each: -each.score) for hypotheses in found]

    def _sentences(self, tokens: list[int], scores: list[float]) -> list[SentenceHypothesis]:
        """The sentences of a document, without the special tokens between them."""
        eos = self.vocabulary.eos
        separator = self.vocabulary.opening if self.begins_with_token else self.vocabulary.prefix
        sentences = []
        begin = 0
        for _ in range(tokens.count(eos)):
            if tokens[begin] == separator:
                begin += 1
            end = tokens.index(eos, begin) + 1
            sentences.append(SentenceHypothesis(tokens[begin:end], scores[begin:end]))
            begin = end
        # With separators the last token is the end of the document, not of a sentence.
        return sentences[:-1] if self.begins_with_token else sentences


class _FreeProgress(SearchProgress):
    """A search in progress in which the model decides where sentences and the document end.

    So the papers decode the document Transformer. It needs a model that has learnt where documents
    end (:attr:`gtrans.data.frame.Frame.document_token`), and its translation cannot be aligned with
    the source sentence by sentence. The whole document counts as one sentence of the base class.
    The document token can follow ``</s>`` only. A document is ended when it is as long as all its
    sentences could be together.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: Sequence[Sequence[int]],
        device: torch.device,
        prefix_longest: int | None = None,
    ) -> None:
        if vocabulary.document_token is None:
            raise ValueError("a free search needs a token that ends documents")
        super().__init__(vocabulary, options, source_lengths, device, prefix_longest)
        self.end = vocabulary.document_token

    def _facts_of(self, source_lengths: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """The most tokens of each document, ends of sentences included; all is one sentence."""
        self._most_sentences = 1
        facts = torch.zeros(len(source_lengths), 1, 3, dtype=torch.long)
        for document, lengths in enumerate(source_lengths):
            facts[document] = sum(self.options.limit(words) + 1 for words in lengths)
        return facts, torch.zeros(len(source_lengths), 1, dtype=torch.long)

    def _totals(self, log_probs: Tensor) -> Tensor:
        vocabulary, never = self.vocabulary, float("-inf")
        document_end = log_probs[:, :, self.end].clone()
        self._forbid(log_probs)
        ended = self.tokens.eq(vocabulary.eos)
        full = (self.facts[:, :, 0] <= self.step + 1).expand_as(self.tokens)
        longest = vocabulary.max_input_tokens
        if longest is not None and self.step + 2 >= longest:
            full = torch.ones_like(full)
        sentence_end = log_probs[:, :, vocabulary.eos].clone()
        size = self.options.no_repeat_ngram_size
        if size:  # the whole document is one sequence, as in fairseq
            length = torch.full_like(self.tokens, self.step).flatten()
            history = self.history.flatten(0, 1)
            forbid_repetitions(log_probs.flatten(0, 1), history, length, size)
        too_short = ~full & self.written.lt(self.options.min_len)
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
            being written; before them are special tokens and other sentences.
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


class _Step(NamedTuple):
    """The choices of a step.

    Attributes:
        numbers: ``(width,)`` the documents of the rows, on the host.
        picked: ``(2, width, beam)`` the hypotheses that are continued, and ids.
        scores: ``(width, beam)`` sums of log-probabilities.
        ends: ``(width, beam)`` each of the candidates: which end a document, the hypotheses that
            they continue, sums of log-probabilities; None: no document ends.
    """

    numbers: Ints
    picked: Tensor
    scores: Tensor
    ends: tuple[Tensor, Tensor, Tensor] | None = None


class SearchTrace:
    """All steps of a search, from which its finished hypotheses are read at the end.

    So no step copies a history, the host reads the device a few times for a whole batch, and it
    follows all hypotheses at once.
    """

    def __init__(self, documents: int, beam: int) -> None:
        """The trace of a search of so many documents, with ``beam`` hypotheses each."""
        self.documents = range(documents)
        self._beam = beam
        self._steps: list[_Step] = []

    def add(self, numbers: Ints, picked: Tensor, scores: Tensor) -> None:
        """Store a step; see :class:`_Step`."""
        self._steps.append(_Step(numbers, picked, scores))

    def add_ends(self, ends: Tensor, origin: Tensor, totals: Tensor) -> None:
        """Store the candidates of the last step, some end a document."""
        self._steps[-1] = self._steps[-1]._replace(ends=(ends, origin, totals))

    def finished(self) -> Iterator[tuple[int, list[int], list[float], float]]:
        """Follow every finished hypothesis back to its beginning, in the order of their ends.

        Yields:
            its document, its tokens but the last, the log-probabilities of all, and their sum.
        """
        found = self._found()
        if not len(found.document):
            return
        tokens, sums = self._followed(found)
        before = np.zeros_like(sums)
        before[:, 1:] = sums[:, :-1]
        gains = sums - before
        final = np.take_along_axis(np.pad(sums, ((0, 0), (1, 0))), found.step[:, None], 1)[:, 0]
        # As Python computes it, in double precision.
        last = found.total.astype(np.float64) - final.astype(np.float64)
        for number in range(len(found.document)):
            step = int(found.step[number])
            scores = gains[number, :step].tolist()
            scores.append(float(last[number]))
            document, total = int(found.document[number]), float(found.total[number])
            yield document, tokens[number, :step].tolist(), scores, total

    def _found(self) -> _FoundEnds:
        """The candidates that have ended documents, document by document."""
        all_ends: list[Tensor] = []
        all_origins: list[Tensor] = []
        all_totals: list[Tensor] = []
        all_documents: list[Ints] = []
        numbers: list[int] = []
        widths: list[int] = []
        for number, step in enumerate(self._steps):
            if step.ends is None:
                continue
            ended, continued, sums = step.ends
            all_ends.append(ended)
            all_origins.append(continued)
            all_totals.append(sums)
            all_documents.append(step.numbers)
            numbers.append(number)
            widths.append(len(step.numbers))
        if not numbers:
            empty = np.zeros(0, dtype=np.int64)
            return _FoundEnds(empty, empty, empty, np.zeros(0, dtype=np.float32))
        ends = torch.cat(all_ends).cpu().numpy()
        origins = torch.cat(all_origins).cpu().numpy()
        totals = torch.cat(all_totals).cpu().numpy()
        documents = np.concatenate(all_documents)
        rows, candidates = np.nonzero(ends)
        # As they were found: the best first in a step, one step after the other.
        order = np.argsort(documents[rows], kind="stable")
        rows, candidates = rows[order], candidates[order]
        document = documents[rows]
        # A document has enough when it has as many as the beam.
        rank = np.arange(len(document)) - np.searchsorted(document, document)
        rows, candidates = rows[rank < self._beam], candidates[rank < self._beam]
        return _FoundEnds(
            documents[rows],
            np.repeat(numbers, widths)[rows],
            origins[rows, candidates],
            totals[rows, candidates],
        )

    def _followed(self, found: _FoundEnds) -> tuple[Ints, NDArray[np.float32]]:
        """``(hypotheses, steps)`` tokens, and sums of log-probabilities, back to the beginning."""
        longest = int(found.step.max())
        steps = self._steps[:longest]
        shape = (len(found.step), longest)
        tokens, sums = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        if not steps:
            return tokens, sums
        picked = torch.cat([step.picked for step in steps], 1).cpu().numpy()
        scores = torch.cat([step.scores for step in steps]).cpu().numpy()
        begins = np.cumsum([0, *(len(step.numbers) for step in steps)])
        row_of = np.zeros(len(self.documents), np.int64)
        # The longest first, so that those that have a step are the first of them.
        order = np.argsort(-found.step, kind="stable")
        ends = -found.step[order]
        hypothesis, documents = found.origin[order], found.document[order]
        for number in range(longest - 1, -1, -1):
            here = steps[number].numbers
            if number == longest - 1 or here is not steps[number + 1].numbers:
                row_of[here] = np.arange(len(here))
            active = int(np.searchsorted(ends, -number))
            rows = begins[number] + row_of[documents[:active]]
            current = hypothesis[:active]
            tokens[order[:active], number] = picked[1, rows, current]
            sums[order[:active], number] = scores[rows, current]
            hypothesis[:active] = picked[0, rows, current]
        return tokens, sums


class _FoundEnds(NamedTuple):
    """Finished hypotheses, document by document.

    Attributes:
        document: ``(hypotheses,)`` the number of the document.
        step: ``(hypotheses,)`` the step that has ended it.
        origin: ``(hypotheses,)`` the hypothesis that it continues with its end.
        total: ``(hypotheses,)`` the sum of its log-probabilities.
    """

    document: Ints
    step: Ints
    origin: Ints
    total: NDArray[np.float32]
