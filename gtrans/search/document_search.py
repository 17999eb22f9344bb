"""Beam search over whole documents (G-Transformer, §4.3).

One beam search translates a document from start to end. The search, not the model, decides the
number of sentences: after the end of a sentence it opens the next one until there are as many as
in the source. So K source sentences always give exactly K target sentences.
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
    """Vocabulary entries with a meaning for a search.

    Attributes:
        opening: opens the decoder's input and every sentence: ``<s>``, ``</s>`` if the end of a
            sentence opens the next one, or a language token (:class:`gtrans.data.frame.Frame`).
        forbidden: entries that are never generated.
        prefix: follows the opening token of every sentence, or None.
        max_input_tokens: of the decoder; sentences end early enough to leave room for the rest.
        document_token: opens the decoder's input instead of ``opening``, and is predicted at the
            end of a document; or None.
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
    """The translation of one sentence: ids and log-probabilities, ``</s>`` included."""

    tokens: list[int]
    scores: list[float]

    @property
    def words(self) -> int:
        """The number of tokens without ``</s>``."""
        return len(self.tokens) - 1


@dataclass(frozen=True)
class DocumentHypothesis:
    """The translation of a document.

    Attributes:
        sentences: one per source sentence.
        score: sum of log-probabilities, divided by ``length ** lenpen``. Special tokens that the
            search sets count in the length and have log-probability 0.
        tokens: all ids after the first opening token, with sentence separators.
        scores: the log-probability of each token.
    """

    sentences: list[SentenceHypothesis]
    score: float
    tokens: list[int]
    scores: list[float]


class DocumentSearch:
    """Beam search over documents for one or several models (probabilities averaged)."""

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
        """Translate a batch of documents; return at most ``beam`` hypotheses each, the best first.

        Args:
            models: one, or an ensemble.
            source: ``net_input`` without the decoder's input.
            source_lengths: words of every sentence to translate, without special tokens.
            finished: the :class:`gtrans.search.part_search.Parts` of a search part by part.
        """
        return self.run(models, [source] * len(models), source_lengths)

    def run(
        self,
        models: Sequence[DocumentModel],
        sources: Sequence[Mapping[str, Any]],
        source_lengths: Sequence[Sequence[int]],
    ) -> list[list[DocumentHypothesis]]:
        """Translate as :meth:`search`, with a source for each model.

        ``prefix (documents, longest)`` in the sources holds earlier translations
        (:meth:`gtrans.data.frame.Frame.read_before`), which hypotheses do not contain.
        """
        source = sources[0]
        prefix = source.get("prefix")
        prefix_longest = None if prefix is None else prefix.size(1)
        device = source["src_tokens"].device
        kind = _FreeProgress if self.options.free else SearchProgress
        progress = kind(self.vocabulary, self.options, source_lengths, device, prefix_longest)
        if prefix is not None:
            real = prefix.ne(self.vocabulary.pad)
            progress.prefix_lengths = real.sum(1)[:, None]
        states = []
        for model, inputs in zip(models, sources, strict=True):
            states.append(model.begin_decoding(inputs, self.options.beam))
        while progress.is_active.any():
            tokens, opens = progress.tokens.flatten(), progress.opens.flatten()
            log_probs = self._log_probs(models, states, tokens, opens)
            parents = progress.extend(log_probs)
            for state in states:
                state.reorder(parents)
            if progress.is_worth_dropping():
                rows = torch.from_numpy(np.flatnonzero(progress.is_active))
                for state in states:
                    state.keep(rows)
                progress.keep(rows)
        return progress.hypotheses()

    def _log_probs(
        self,
        models: Sequence[DocumentModel],
        states: Sequence[DecodeState],
        tokens: Tensor,
        opens: Tensor,
    ) -> Tensor:
        """Return ``(hypotheses, vocabulary)`` of the next token, averaged over the models."""
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

    Ended documents stay in their rows until dropping some of them is worthwhile.

    Attributes:
        has_opening: a token other than ``</s>`` opens sentences.
        end: the last token of a document.
        numbers: ``(width,)`` numbers of the documents in the batch, on the host.
        is_active: ``(width,)`` whether a document has not ended, on the host.
        last: ``(width, 1)`` number of each document's last sentence.
        facts: ``(width, sentences, 3)``: most words of the translation, and log-probabilities, 0 or
            ``-inf``, of the document's end and of another sentence after this one.
        tokens: ``(width, beam)`` newest tokens.
        counters: ``(2, width, beam)``: :attr:`sentence` and :attr:`words`.
        closed: ``(width, beam)`` whether the newest token has ended a sentence before a separator.
        history: ``(width, beam, length)`` all tokens so far, if no n-gram may be repeated.
        opens: ``(width, beam)`` whether the newest token has opened a sentence.
        prefix_lengths: ``(width, 1)`` tokens, or None.
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
        """Begin a search; ``prefix_longest``: most tokens of a prefix, or None."""
        documents, beam = len(source_lengths), options.beam
        self.vocabulary = vocabulary
        self.options = options
        self.has_opening = vocabulary.opening != vocabulary.eos
        self.end = vocabulary.eos
        self.device = device
        self.numbers = np.arange(documents)
        self.is_active = np.ones(documents, dtype=bool)
        self._found = np.zeros(documents, dtype=np.int64)
        self._share_to_drop = 0.0 if device.type == "cpu" else _SHARE_TO_DROP
        self._most_sentences = max(map(len, source_lengths), default=0)
        facts, last = self._facts_of(source_lengths)
        self.facts = to_device(facts, device)
        self.last = to_device(last, device)
        forbidden = torch.tensor(vocabulary.forbidden, dtype=torch.long)
        self.forbidden = to_device(forbidden, device)
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
        facts = torch.ones(len(source_lengths), self._most_sentences, 3)
        limits = facts[:, :, 0].numpy()
        closing, reopening = facts[:, :, 1], facts[:, :, 2]
        for document, lengths in enumerate(source_lengths):
            for number, words in enumerate(lengths):
                limits[document, number] = min(self.options.limit(words), _CLOSED)
        last = torch.tensor([[len(lengths) - 1] for lengths in source_lengths])
        is_last = torch.arange(self._most_sentences) == last
        closing.zero_().masked_fill_(~is_last, float("-inf"))
        reopening.zero_().masked_fill_(is_last, float("-inf"))
        return facts, last

    @property
    def width(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def sentence(self) -> Tensor:
        """``(width, beam)`` the sentence that each hypothesis writes."""
        return self.counters[0]

    @property
    def words(self) -> Tensor:
        """``(width, beam)`` words of that sentence."""
        return self.counters[1]

    def extend(self, log_probs: Tensor) -> Tensor:
        """Choose the next tokens; return the hypotheses that they continue, ``(hypotheses,)``.

        ``log_probs (hypotheses, vocabulary)`` is changed.
        """
        beam, never = self.options.beam, float("-inf")
        entries = log_probs.size(1)
        log_probs = log_probs.view(self.width, beam, entries)
        totals = self._totals(log_probs).flatten(1)
        # best, index, origin, token: (width, candidates)
        count = min(2 * beam, totals.size(1))
        best, index = largest(totals, count)
        candidates = index.new_empty(2, *index.shape)
        origin, token = candidates
        torch.div(index, entries, rounding_mode="floor", out=origin)
        torch.remainder(index, entries, out=token)
        # Which candidates end their document, and, last, whether any hypothesis goes on: all that
        # the host must know, in one transfer.
        shape = self.width, token.size(1) + 1
        flags = torch.empty(shape, dtype=torch.bool, device=self.device)
        ends = flags[:, :-1]
        goes_on = flags[:, -1:]
        is_possible = best.gt(never)
        torch.logical_and(self._ends(token, origin), is_possible, out=ends)
        chosen = self._chosen(ends)
        self.scores = best.masked_fill(ends, never).gather(1, chosen)
        picked = candidates.gather(2, chosen.expand(2, -1, -1))
        self._trace.add(self.numbers, picked, self.scores)
        new_origin, new_token = picked
        self._advance(new_origin, new_token)
        # The first hypothesis is the best one.
        torch.gt(self.scores[:, :1], never, out=goes_on)
        on_host = flags.cpu().numpy()
        is_end, is_alive = on_host[:, :beam], on_host[:, -1]
        if is_end.any():
            self._trace.add_ends(ends[:, :beam], origin[:, :beam], best[:, :beam])
            self._found += is_end.sum(1)
        has_enough = self._found >= beam
        self._let_linger(self.is_active & is_alive & ~has_enough)
        parents: Tensor = new_origin + self._offsets[: self.width]
        return parents.flatten()

    def _chosen(self, ends: Tensor) -> Tensor:
        """Return ``(width, beam)`` candidates that go on.

        As in fairseq: candidates that end a document are finished if they are among the best
        ``beam``; the best ``beam`` of the others continue.
        """
        beam = self.options.beam
        order: Tensor = ends.view(torch.uint8).sort(dim=1, stable=True).indices
        chosen = order[:, :beam]
        missing = beam - chosen.size(1)
        if missing > 0:
            copies = chosen[:, :1].expand(-1, missing)
            chosen = torch.cat([chosen, copies], 1)
        return chosen

    def _let_linger(self, is_active: NDArray[np.bool_]) -> None:
        has_changed = bool((is_active != self.is_active).any())
        self.is_active = is_active
        if has_changed and not self.is_worth_dropping():
            ended = torch.from_numpy(~is_active)[:, None]
            self._lingering = to_device(ended, self.device)
        if self._lingering is not None:
            # Their positions begin again and again, so that no table of positions is too short.
            self.opens = self.opens | self._lingering

    def is_worth_dropping(self) -> bool:
        """Whether enough documents have ended to drop them, but not all."""
        ended = self.width - int(self.is_active.sum())
        return 0 < ended < self.width and ended >= self._share_to_drop * self.width

    def _current_facts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return :attr:`facts` of the sentence of each hypothesis, ``(width, beam)`` each."""
        facts = self.facts
        if self._most_sentences > 1:
            index = self.sentence[:, :, None].expand(-1, -1, facts.size(2))
            facts = facts.gather(1, index)
        limit, closing, reopening = facts.unbind(2)
        return limit, closing, reopening

    def _totals(self, log_probs: Tensor) -> Tensor:
        """Return scores of all continuations, ``-inf`` for tokens that cannot follow.

        ``log_probs (width, beam, vocabulary)`` becomes the result.
        """
        vocabulary, options = self.vocabulary, self.options
        never = float("-inf")
        self._forbid(log_probs)
        limit, closing, reopening = self._current_facts()
        words = self.words
        is_too_short = words < options.min_len
        end = log_probs[:, :, vocabulary.eos].masked_fill(is_too_short, never)
        if options.no_repeat_ngram_size:
            forbid_repetitions(
                log_probs.flatten(0, 1),
                self.history.flatten(0, 1),
                words.flatten(),
                options.no_repeat_ngram_size,
            )
        # Log-probabilities of the tokens that the search itself decides on.
        given = {vocabulary.eos: end}
        if self.has_opening:
            # After </s> comes <s> or, in the last sentence, the end of the document.
            given[vocabulary.eos] = torch.where(self.closed, closing, end)
            given[vocabulary.opening] = torch.where(self.closed, reopening, self._never)
        barred = words >= limit
        if self._may_lack_room():
            barred |= self._no_room_left()
        if vocabulary.prefix is not None:
            opened = self.tokens.eq(vocabulary.opening)
            barred |= opened
            for token, scores in given.items():
                given[token] = scores.masked_fill(opened, never)
            prefix = torch.zeros_like(self.scores)
            given[vocabulary.prefix] = prefix.masked_fill_(~opened, never)
        return self._add_scores(log_probs, barred, given)

    def _forbid(self, log_probs: Tensor) -> None:
        log_probs.index_fill_(2, self.forbidden, float("-inf"))
        if self.options.unkpen:
            log_probs[:, :, self.vocabulary.unk].sub_(self.options.unkpen)

    def _add_scores(self, log_probs: Tensor, barred: Tensor, given: Mapping[int, Tensor]) -> Tensor:
        """Add the scores so far to ``log_probs (width, beam, vocabulary)``, in place.

        Args:
            barred: ``(width, beam)`` True if only the tokens of ``given`` can follow.
            given: log-probabilities ``(width, beam)`` of some tokens, instead of the model's.
        """
        scores = self.scores.masked_fill(barred, float("-inf"))
        log_probs += scores[:, :, None]
        for token, log_prob in given.items():
            torch.add(self.scores, log_prob, out=log_probs[:, :, token])
        return log_probs

    def _shortest_sentence(self) -> int:
        """Return the fewest tokens of a sentence to come, special tokens included."""
        special_tokens = 1
        if self.has_opening or self.vocabulary.prefix is not None:
            special_tokens = 2
        return max(self.options.min_len, 1) + special_tokens

    def _may_lack_room(self) -> bool:
        limit = self.vocabulary.max_input_tokens
        if limit is None:
            return False
        following = (self._most_sentences - 1) * self._shortest_sentence()
        used = self.step + 1 + int(self.has_opening) + self._prefix_longest
        return used + following >= limit

    def _no_room_left(self) -> Tensor:
        """``(width, beam)`` whether the sentence must end to leave room for the rest."""
        following = self.last - self.sentence
        # Tokens of the decoder's input if this step ends the sentence and all others are as
        # short as possible. The decoder reads the last `</s>` only if special tokens follow.
        own = self.step + 1 + int(self.has_opening)
        used = own + following * self._shortest_sentence()
        if self.prefix_lengths is not None:
            used = used + self.prefix_lengths
        is_full: Tensor = used >= self.vocabulary.max_input_tokens
        return is_full.logical_and_(self.words >= self.options.min_len)

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        """``(width, candidates)`` whether a possible candidate ends its document."""
        is_end = token.eq(self.vocabulary.eos)
        # What follows the end of a sentence that is not the last one is never `</s>`.
        if self.has_opening:
            return is_end.logical_and_(self.closed.gather(1, origin))
        if self._most_sentences > 1:
            in_last = self.sentence.eq(self.last)
            return is_end.logical_and_(in_last.gather(1, origin))
        return is_end

    def _advance(self, origin: Tensor, tokens: Tensor) -> None:
        """Make ``tokens (width, beam)``, which continue ``origin``, the newest ones."""
        vocabulary = self.vocabulary
        self.tokens = tokens
        self.counters = self.counters.gather(2, origin.expand(2, -1, -1))
        self.opens = tokens.eq(vocabulary.opening)
        words, no_words = self.words, self.opens
        words += 1
        if self.has_opening:
            self.closed = tokens.eq(vocabulary.eos)
            words.masked_fill_(self.closed, _CLOSED)
        if vocabulary.prefix is not None:
            no_words = no_words | tokens.eq(vocabulary.prefix)
        # A new sentence has no words yet, and special tokens are none.
        words.masked_fill_(no_words, 0)
        if self._most_sentences > 1:
            sentence = self.sentence
            sentence += self.opens
            torch.minimum(sentence, self.last, out=sentence)
        if self.options.no_repeat_ngram_size:
            index = origin[:, :, None].expand_as(self.history)
            earlier = self.history.gather(1, index)
            self.history = torch.cat([earlier, tokens[:, :, None]], 2)
        self.step += 1

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but ``rows (n,)``, on the host."""
        on_host = rows.numpy()
        self.numbers = self.numbers[on_host]
        self.is_active = self.is_active[on_host]
        self._found = self._found[on_host]
        self._lingering = None
        rows = to_device(rows, self.device)
        self.counters = self.counters.index_select(1, rows)
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths.index_select(0, rows)
        self.history = self.history.index_select(0, rows)
        self.last = self.last.index_select(0, rows)
        self.facts = self.facts.index_select(0, rows)
        self.tokens = self.tokens.index_select(0, rows)
        self.closed = self.closed.index_select(0, rows)
        self.scores = self.scores.index_select(0, rows)
        self.opens = self.opens.index_select(0, rows)

    def hypotheses(self) -> list[list[DocumentHypothesis]]:
        """Return the finished hypotheses of every document, the best first."""
        hypotheses: list[list[DocumentHypothesis]] = [[] for _ in self._trace.documents]
        for found in self._trace.finished():
            tokens = [*found.tokens, self.end]
            score = self.options.normalized(found.total, len(tokens))
            sentences = self._sentences(tokens, found.scores)
            hypothesis = DocumentHypothesis(sentences, score, tokens, found.scores)
            hypotheses[found.document].append(hypothesis)
        for row in hypotheses:
            row.sort(key=lambda hypothesis: -hypothesis.score)
        return hypotheses

    def _sentences(self, tokens: list[int], scores: list[float]) -> list[SentenceHypothesis]:
        eos = self.vocabulary.eos
        separator = self.vocabulary.opening if self.has_opening else self.vocabulary.prefix
        sentences = []
        begin = 0
        for _ in range(tokens.count(eos)):
            if tokens[begin] == separator:
                begin += 1
            end = tokens.index(eos, begin) + 1
            sentences.append(SentenceHypothesis(tokens[begin:end], scores[begin:end]))
            begin = end
        # With separators the last token is the end of the document, not of a sentence.
        return sentences[:-1] if self.has_opening else sentences


class _FreeProgress(SearchProgress):
    """A search in which the model decides where sentences and the document end.

    So the papers decode the document Transformer (:attr:`gtrans.data.frame.Frame.document_token`).
    To the base class the document is one sentence. The document token follows ``</s>`` only.
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
        documents = len(source_lengths)
        self._most_sentences = 1
        facts = torch.zeros(documents, 1, 3, dtype=torch.long)
        for document, lengths in enumerate(source_lengths):
            facts[document] = sum(self.options.limit(words) + 1 for words in lengths)
        return facts, torch.zeros(documents, 1, dtype=torch.long)

    def _totals(self, log_probs: Tensor) -> Tensor:
        vocabulary, never = self.vocabulary, float("-inf")
        document_end = log_probs[:, :, self.end].clone()
        self._forbid(log_probs)
        after_sentence = self.tokens.eq(vocabulary.eos)
        is_full = self.facts[:, :, 0] <= self.step + 1
        is_full = is_full.expand_as(self.tokens)
        longest = vocabulary.max_input_tokens
        if longest is not None and self.step + 2 >= longest:
            is_full = torch.ones_like(is_full)
        sentence_end = log_probs[:, :, vocabulary.eos].clone()
        size = self.options.no_repeat_ngram_size
        if size:  # the whole document is one sequence, as in fairseq
            length = torch.full_like(self.tokens, self.step).flatten()
            history = self.history.flatten(0, 1)
            forbid_repetitions(log_probs.flatten(0, 1), history, length, size)
        is_too_short = ~is_full & self.words.lt(self.options.min_len)
        only_document_end = is_full & after_sentence
        sentence_end.masked_fill_(is_too_short | only_document_end, never)
        document_end.masked_fill_(~after_sentence, never)
        given = {vocabulary.eos: sentence_end, self.end: document_end}
        return self._add_scores(log_probs, is_full, given)

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        return token.eq(self.end)


def forbid_repetitions(log_probs: Tensor, history: Tensor, written: Tensor, size: int) -> None:
    """Give ``-inf`` to subwords that would repeat an n-gram of ``size`` in their sentence.

    Args:
        log_probs: ``(hypotheses, vocabulary)``; changed in place.
        history: ``(hypotheses, length)`` all tokens so far.
        written: ``(hypotheses,)`` how many of the last tokens are subwords of the sentence.
        size: of the n-grams.
    """
    length = history.size(1)
    if length < size:
        return
    ngrams = history.unfold(1, size, 1)  # (hypotheses, places, size)
    beginnings, ends = ngrams[:, :, :-1], ngrams[:, :, -1]
    newest = history[:, None, length - size + 1 :]
    repeated = beginnings.eq(newest).all(2)
    places = history.new_ones(ngrams.size(1)).cumsum(0).sub(1)
    sentence_begin = length - written
    repeated &= places >= sentence_begin[:, None]
    # Added everywhere, so that the host need not know where the repetitions are.
    added = torch.where(repeated, float("-inf"), 0.0).to(log_probs)
    log_probs.scatter_add_(1, ends, added)


_BLOCK = 64


def largest(numbers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ``topk(count, 1)`` of ``numbers (rows, columns)``, several times faster.

    Only the ``count`` blocks with the largest maxima can hold the largest numbers. Of equal numbers
    it may choose other columns than ``topk``.
    """
    rows, columns = numbers.shape
    blocks = columns // _BLOCK
    if blocks <= 2 * count:
        return numbers.topk(count, 1)
    covered = blocks * _BLOCK
    blocked = numbers[:, :covered].view(rows, blocks, _BLOCK)
    candidates = blocked.amax(2).topk(count, 1).indices  # (rows, count)
    inside = torch.arange(_BLOCK, device=numbers.device)
    index = candidates[:, :, None] * _BLOCK + inside
    index = index.flatten(1)  # (rows, count * _BLOCK)
    if covered < columns:
        uncovered = torch.arange(covered, columns, device=numbers.device)
        index = torch.cat([index, uncovered.expand(rows, -1)], 1)
    best, position = numbers.gather(1, index).topk(count, 1)
    return best, index.gather(1, position)


class _EndingCandidates(NamedTuple):
    """Candidates of a step in which documents end, ``(width, beam)`` each."""

    ends: Tensor
    origin: Tensor
    total: Tensor


@dataclass
class _Step:
    """The choices of a step.

    Attributes:
        numbers: ``(width,)`` the documents of the rows, on the host.
        picked: ``(2, width, beam)`` the hypotheses that are continued, and ids.
        scores: ``(width, beam)`` sums of log-probabilities.
        ending: None: no document ends.
    """

    numbers: Ints
    picked: Tensor
    scores: Tensor
    ending: _EndingCandidates | None = None


class _FoundEnds(NamedTuple):
    """The ends of finished hypotheses, by document, ``(hypotheses,)`` each.

    ``origin`` is the hypothesis that the end continues.
    """

    document: Ints
    step: Ints
    origin: Ints
    total: NDArray[np.float32]


class _FinishedHypothesis(NamedTuple):
    """A finished hypothesis; ``tokens`` lack the last one, ``scores`` do not."""

    document: int
    tokens: list[int]
    scores: list[float]
    total: float


class SearchTrace:
    """All steps of a search, from which finished hypotheses are read at the end.

    So no step copies a history, and the host reads the device only a few times.
    """

    def __init__(self, documents: int, beam: int) -> None:
        self.documents = range(documents)
        self._beam = beam
        self._steps: list[_Step] = []

    def add(self, numbers: Ints, picked: Tensor, scores: Tensor) -> None:
        """Store a step; see :class:`_Step`."""
        self._steps.append(_Step(numbers, picked, scores))

    def add_ends(self, ends: Tensor, origin: Tensor, totals: Tensor) -> None:
        """Store the candidates of the last step, which end documents."""
        self._steps[-1].ending = _EndingCandidates(ends, origin, totals)

    def finished(self) -> Iterator[_FinishedHypothesis]:
        """Follow every finished hypothesis back, in the order of their ends."""
        found = self._found()
        if not len(found.document):
            return
        # tokens, sums, gains: (hypotheses, steps)
        tokens, sums = self._followed(found)
        before = np.zeros_like(sums)
        before[:, 1:] = sums[:, :-1]
        gains = sums - before
        sums_from_zero = np.pad(sums, ((0, 0), (1, 0)))
        final = np.take_along_axis(sums_from_zero, found.step[:, None], 1)[:, 0]
        # As Python computes it, in double precision.
        last = found.total.astype(np.float64) - final.astype(np.float64)
        for number in range(len(found.document)):
            step = int(found.step[number])
            scores = gains[number, :step].tolist()
            scores.append(float(last[number]))
            yield _FinishedHypothesis(
                document=int(found.document[number]),
                tokens=tokens[number, :step].tolist(),
                scores=scores,
                total=float(found.total[number]),
            )

    def _found(self) -> _FoundEnds:
        all_ends: list[Tensor] = []
        all_origins: list[Tensor] = []
        all_totals: list[Tensor] = []
        all_documents: list[Ints] = []
        all_steps: list[Ints] = []
        for number, step in enumerate(self._steps):
            if step.ending is None:
                continue
            all_ends.append(step.ending.ends)
            all_origins.append(step.ending.origin)
            all_totals.append(step.ending.total)
            all_documents.append(step.numbers)
            all_steps.append(np.full(len(step.numbers), number))
        if not all_ends:
            empty = np.zeros(0, dtype=np.int64)
            return _FoundEnds(empty, empty, empty, np.zeros(0, dtype=np.float32))
        ends = torch.cat(all_ends).cpu().numpy()
        origins = torch.cat(all_origins).cpu().numpy()
        totals = torch.cat(all_totals).cpu().numpy()
        documents = np.concatenate(all_documents)
        steps = np.concatenate(all_steps)
        rows, candidates = np.nonzero(ends)
        # As they were found: the best first in a step, one step after the other.
        order = np.argsort(documents[rows], kind="stable")
        rows, candidates = rows[order], candidates[order]
        document = documents[rows]
        # A document has enough when it has as many as the beam.
        first_of_document = np.searchsorted(document, document)
        rank = np.arange(len(document)) - first_of_document
        is_wanted = rank < self._beam
        rows, candidates = rows[is_wanted], candidates[is_wanted]
        return _FoundEnds(
            document=documents[rows],
            step=steps[rows],
            origin=origins[rows, candidates],
            total=totals[rows, candidates],
        )

    def _followed(self, found: _FoundEnds) -> tuple[Ints, NDArray[np.float32]]:
        """Return ``(hypotheses, steps)`` tokens, and sums of log-probabilities."""
        longest = int(found.step.max())
        steps = self._steps[:longest]
        shape = (len(found.step), longest)
        tokens = np.zeros(shape, np.int64)
        sums = np.zeros(shape, np.float32)
        if not steps:
            return tokens, sums
        # The rows of all steps, one step after the other.
        picked = torch.cat([step.picked for step in steps], 1).cpu().numpy()
        scores = torch.cat([step.scores for step in steps]).cpu().numpy()
        widths = [len(step.numbers) for step in steps]
        begins = np.cumsum([0, *widths])
        row_of = np.zeros(len(self.documents), np.int64)
        # The longest first, so that those that have a step are the first of them.
        order = np.argsort(-found.step, kind="stable")
        ends = -found.step[order]
        hypothesis, documents = found.origin[order], found.document[order]
        numbers: Ints | None = None
        for number in range(longest - 1, -1, -1):
            if steps[number].numbers is not numbers:
                numbers = steps[number].numbers
                row_of[numbers] = np.arange(len(numbers))
            active = int(np.searchsorted(ends, -number))
            rows = begins[number] + row_of[documents[:active]]
            current = hypothesis[:active]
            tokens[order[:active], number] = picked[1, rows, current]
            sums[order[:active], number] = scores[rows, current]
            hypothesis[:active] = picked[0, rows, current]
        return tokens, sums
