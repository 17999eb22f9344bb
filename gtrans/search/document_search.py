"""Beam search over whole documents (G-Transformer, §4.3).

One beam search translates a document from start to end. The search, not the model, decides the
number of sentences: after the end of a sentence it opens the next one until there are as many as
in the source. So K source sentences always give exactly K target sentences.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gtrans.models.base.model import DocumentModel
from gtrans.modules.decode_state import DecodeState, WrittenSentences
from gtrans.modules.group_attention import Ints, to_device
from gtrans.search.options import SearchOptions
from gtrans.search.trace import SearchTrace


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

    @property
    def has_opening(self) -> bool:
        """Whether a token other than ``</s>`` opens sentences."""
        return self.opening != self.eos

    @property
    def separators(self) -> list[int]:
        """The tokens between the words of two sentences, which the search itself decides on."""
        separators = [self.eos]
        if self.has_opening:
            separators.append(self.opening)
        if self.prefix is not None:
            separators.append(self.prefix)
        return separators


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


SourceLengths = Sequence[Sequence[int]]
"""Words of every sentence of every document to translate, without special tokens."""


class DocumentSearch:
    """Beam search over documents for one or several models (probabilities averaged)."""

    def __init__(self, vocabulary: SearchVocabulary, options: SearchOptions) -> None:
        self.vocabulary = vocabulary
        self.options = options
        self._moves: Tensor | None = None

    @torch.no_grad()
    def search(
        self,
        models: Sequence[DocumentModel],
        source: Mapping[str, Tensor],
        source_lengths: SourceLengths,
        finished: Any = None,
    ) -> list[list[DocumentHypothesis]]:
        """Translate a batch of documents; return at most ``beam`` hypotheses each, the best first.

        Args:
            models: one, or an ensemble.
            source: ``net_input`` without the decoder's input.
            source_lengths: see :data:`SourceLengths`.
            finished: the :class:`gtrans.search.part_search.Parts` of a search part by part.
        """
        return self.run(models, [source] * len(models), source_lengths)

    def run(
        self,
        models: Sequence[DocumentModel],
        sources: Sequence[Mapping[str, Any]],
        source_lengths: SourceLengths,
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
            written = progress.written_sentences()
            for state in states:
                state.written = written
            tokens, opens = progress.tokens.flatten(), progress.opens.flatten()
            log_probs = self._log_probs(models, states, tokens, opens)
            parents = progress.extend(log_probs, self._moves_of(log_probs))
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
        total: Tensor = torch.logsumexp(torch.stack(log_probs), 0)
        return total - math.log(len(models))

    def _moves_of(self, log_probs: Tensor) -> Tensor:
        entries, device = log_probs.size(1), log_probs.device
        earlier = self._moves
        if earlier is not None and earlier.size(1) == entries and earlier.device == device:
            return earlier
        on_host = token_moves(self.vocabulary, entries, self.options.free)
        moves: Tensor = to_device(on_host, device)
        self._moves = moves
        return moves


# The share of rows whose documents have ended, from which they are dropped. A CPU drops them at
# once, because the time of a step grows with its rows; on a GPU it hardly does, and dropping
# copies all keys.
_SHARE_TO_DROP = 0.25
_NEVER = float("-inf")
# More words than any sentence has; single precision counts so far.
_MOST_WORDS = 1 << 24
# Rows of the candidates of a step: the token, its origin (a hypothesis), and the counters of the
# hypothesis after the token. The host reads the first three.
_TOKEN, _ORIGIN, _SENTENCE, _PLACE, _WORDS = range(5)
_ROWS, _ROWS_ON_HOST = 5, 3
_COUNTERS = slice(_SENTENCE, _ROWS)
# Columns of `SearchProgress.rules`.
_LIMIT, _LEAST, _FIRST_GIVEN = range(3)


def token_moves(vocabulary: SearchVocabulary, entries: int, is_free: bool = False) -> Tensor:
    """Return ``(3, entries)``: what each token adds to a hypothesis' sentence, place and words.

    ``is_free``: for :class:`_FreeProgress`.
    """
    moves = torch.zeros(_ROWS - _SENTENCE, entries, dtype=torch.long)
    sentence, place, words = moves
    words[:] = 1
    separators = vocabulary.separators
    if is_free and vocabulary.document_token is not None:
        separators = [vocabulary.document_token]
    else:
        sentence[vocabulary.opening] = 1
    place[separators] = 1
    # A new sentence has no words yet, and special tokens are none.
    words[vocabulary.opening] = -_MOST_WORDS
    if vocabulary.prefix is not None:
        words[vocabulary.prefix] = -_MOST_WORDS
    return moves


class SearchProgress:
    """A search in progress: ``width`` rows, a document each, with ``beam`` hypotheses.

    Ended documents stay in their rows until dropping some of them is worthwhile.

    A hypothesis has a *place*, the number of separators that it has written. A sentence has up to
    three places: before its prefix (if it has one), among its words, and before the token that
    opens the next sentence (if that is not ``</s>``). The last place is the end of the document.

    Attributes:
        end: the last token of a document.
        numbers: ``(width,)`` numbers of the documents in the batch, on the host.
        is_active: ``(width,)`` whether a document has not ended, on the host.
        last: ``(width, 1)`` number of each document's last sentence.
        rules: ``(width, places, 2 + given tokens)``. From the number of words in the first column
            on only given tokens follow; from the one in the second on ``</s>`` may, with the
            model's probability. The others are log-probabilities, 0 or ``-inf``, of the given
            tokens: ``</s>``, the other separators, forbidden ones.
        newest: ``(5, width, beam)`` the candidates chosen last: token, origin (the hypothesis that
            it continues), sentence, place and words.
        history: ``(width, beam, length)`` all tokens so far, if no n-gram may be repeated.
        opens: ``(width, beam)`` whether the newest token has opened a sentence.
        prefix_lengths: ``(width, 1)`` tokens, or None.
        scores: ``(width, beam)`` sums of log-probabilities.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: SourceLengths,
        device: torch.device,
        prefix_longest: int | None = None,
    ) -> None:
        """Begin a search; ``prefix_longest``: most tokens of a prefix, or None."""
        documents, beam = len(source_lengths), options.beam
        self.vocabulary = vocabulary
        self.options = options
        self.end = vocabulary.eos
        self.device = device
        self.numbers = np.arange(documents)
        self.is_active = np.ones(documents, dtype=bool)
        self._found = np.zeros(documents, dtype=np.int64)
        self._share_to_drop = 0.0 if device.type == "cpu" else _SHARE_TO_DROP
        self._most_sentences = max(map(len, source_lengths), default=0)
        # Each once: forbidden tokens may be separators, too.
        given = dict.fromkeys(vocabulary.separators)
        given.update(dict.fromkeys(vocabulary.forbidden))
        given_tokens = torch.tensor(list(given))
        self._given = to_device(given_tokens, device)
        last = torch.tensor([[len(lengths) - 1] for lengths in source_lengths])
        rules = self._rules_of(source_lengths, last)
        most = self._most_of(last)
        self.last = to_device(last, device)
        self.rules = to_device(rules, device)
        # (3, width, 1) bounds of sentence, place and words
        self._most = to_device(most, device)
        self._least = torch.zeros_like(self._most)
        rows = torch.arange(documents, device=device)
        self._offsets = rows[:, None] * beam
        self.prefix_lengths: Tensor | None = None
        self._prefix_longest = prefix_longest or 0
        is_behind_prefix = prefix_longest is not None
        # Behind a prefix, a sentence is opened and no document.
        first = vocabulary.opening if is_behind_prefix else vocabulary.first
        shape = documents, beam
        self.newest = torch.zeros(_ROWS, *shape, dtype=torch.long, device=device)
        self.newest[_TOKEN] = first
        self.newest[_PLACE] = self._first_place(first)
        self.history = self.newest.new_zeros(documents, beam, 0)
        # At first all hypotheses are the same, so only one of them is alive.
        self.scores = torch.full(shape, _NEVER, device=device)
        self.scores[:, 0] = 0.0
        self._none_opens = torch.zeros(shape, dtype=torch.bool, device=device)
        self.opens = torch.full_like(self._none_opens, is_behind_prefix)
        self._any_opens = is_behind_prefix
        self._sentence_on_host = np.zeros(shape, dtype=np.int64)
        # (width, 1) documents that have ended but are still in their rows
        self._lingering: Tensor | None = None
        self.step = 0
        self._trace = SearchTrace(documents, beam)

    def _rules_of(self, source_lengths: SourceLengths, last: Tensor) -> Tensor:
        vocabulary = self.vocabulary
        separators = vocabulary.separators
        documents, sentences = len(source_lengths), self._most_sentences
        places = len(separators)
        columns = _FIRST_GIVEN + self._given.numel()
        all_places = sentences * places + 1
        rules = torch.full((documents, all_places, columns), _NEVER)
        # Outside of words only given tokens follow.
        rules[:, :, _LIMIT] = 0.0
        rules[:, :, _LEAST] = float("inf")
        before_end = rules[:, :-1]
        by_sentence = before_end.view(documents, sentences, places, columns)
        if vocabulary.prefix is not None:
            column = _FIRST_GIVEN + separators.index(vocabulary.prefix)
            by_sentence[:, :, 0, column] = 0.0
        place_of_words = 0 if vocabulary.prefix is None else 1
        among_words = by_sentence[:, :, place_of_words]
        among_words[:, :, _LIMIT] = self._limits(source_lengths)
        among_words[:, :, _LEAST] = self.options.min_len
        if vocabulary.has_opening:
            # After </s> comes <s> or, in the last sentence, the end of the document.
            is_last = torch.arange(sentences) == last
            closed = by_sentence[:, :, -1]
            end = _FIRST_GIVEN + separators.index(vocabulary.eos)
            opening = _FIRST_GIVEN + separators.index(vocabulary.opening)
            closed[:, :, end].masked_fill_(is_last, 0.0)
            closed[:, :, opening].masked_fill_(~is_last, 0.0)
        return rules

    def _limits(self, source_lengths: SourceLengths) -> Tensor:
        """Return ``(documents, sentences)``, the most words of each translation."""
        shape = len(source_lengths), self._most_sentences
        limits = np.zeros(shape, dtype=np.float32)
        for document, lengths in enumerate(source_lengths):
            for number, words in enumerate(lengths):
                limit = self.options.limit(words)
                limits[document, number] = min(limit, _MOST_WORDS)
        return torch.from_numpy(limits)

    def _most_of(self, last: Tensor) -> Tensor:
        """Return ``(3, width, 1)``: the last sentence, the last place and no limit of words."""
        sentences = last + 1
        end = sentences * len(self.vocabulary.separators)
        unlimited = torch.full_like(last, _MOST_WORDS)
        return torch.stack([last, end, unlimited])

    def _first_place(self, first: int) -> int:
        has_prefix = self.vocabulary.prefix is not None
        return 1 if has_prefix and first != self.vocabulary.opening else 0

    @property
    def width(self) -> int:
        """Number of rows."""
        return len(self.numbers)

    @property
    def tokens(self) -> Tensor:
        """``(width, beam)`` newest tokens."""
        return self.newest[_TOKEN]

    @property
    def sentence(self) -> Tensor:
        """``(width, beam)`` the sentence that each hypothesis writes."""
        return self.newest[_SENTENCE]

    @property
    def words(self) -> Tensor:
        """``(width, beam)`` words of that sentence."""
        return self.newest[_WORDS]

    def written_sentences(self) -> WrittenSentences | None:
        """Return the sentences that hypotheses write, for the decoders."""
        return WrittenSentences(self.sentence.flatten(), self._sentence_on_host, self._any_opens)

    def extend(self, log_probs: Tensor, moves: Tensor) -> Tensor:
        """Choose the next tokens; return the hypotheses that they continue, ``(hypotheses,)``.

        Args:
            log_probs: ``(hypotheses, vocabulary)``; changed.
            moves: see :func:`token_moves`.
        """
        beam, width = self.options.beam, self.width
        log_probs = log_probs.view(width, beam, -1)
        totals = self._totals(log_probs).flatten(1)
        # best, index: (width, candidates)
        count = min(2 * beam, totals.size(1))
        best, index = largest(totals, count)
        candidates = self._candidates(moves, index)
        results = _StepResults(width, beam, count, self.device)
        torch.gt(best, _NEVER, out=results.is_possible)
        at_end = candidates[_PLACE] >= self._most[_PLACE - _SENTENCE]
        torch.logical_and(at_end, results.is_possible, out=results.ends)
        chosen = self._chosen(results.ends)
        going_on = best.masked_fill(results.ends, _NEVER)
        self.scores = going_on.gather(1, chosen)
        index = chosen.expand(_ROWS, -1, -1)
        torch.gather(candidates, 2, index, out=results.picked)
        on_host = results.on_host()
        self._advance(results.picked, on_host.picked)
        tokens, origins = on_host.picked[_TOKEN], on_host.picked[_ORIGIN]
        self._trace.add(self.numbers, tokens, origins, self.scores)
        is_end = on_host.ends[:, :beam]
        if is_end.any():
            origin = candidates[_ORIGIN, :, :beam]
            self._trace.add_ends(is_end, origin, best[:, :beam])
            self._found += is_end.sum(1)
        has_enough = self._found >= beam
        self._let_linger(self.is_active & on_host.is_alive() & ~has_enough)
        parents = self.newest[_ORIGIN] + self._offsets[:width]
        return parents.flatten()

    def _candidates(self, moves: Tensor, index: Tensor) -> Tensor:
        """Return ``(5, width, candidates)``; rows as in :attr:`newest`."""
        entries = moves.size(1)
        candidates = index.new_empty(_ROWS, *index.shape)
        token = candidates[_TOKEN]
        origin = candidates[_ORIGIN]
        counters = candidates[_COUNTERS]
        torch.remainder(index, entries, out=token)
        torch.div(index, entries, rounding_mode="floor", out=origin)
        origins = origin.expand_as(counters)
        torch.gather(self.newest[_COUNTERS], 2, origins, out=counters)
        counters += moves[:, token]
        counters.clamp_(self._least, self._most)
        return candidates

    def _chosen(self, ends: Tensor) -> Tensor:
        """Return ``(width, beam)`` candidates that go on.

        As in fairseq: candidates that end a document are finished if they are among the best
        ``beam``; the best ``beam`` of the others continue.
        """
        beam = self.options.beam
        ends_last = ends.view(torch.uint8).sort(dim=1, stable=True)
        chosen: Tensor = ends_last.indices[:, :beam]
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
            self._any_opens = True

    def is_worth_dropping(self) -> bool:
        """Whether enough documents have ended to drop them, but not all."""
        ended = self.width - int(self.is_active.sum())
        return 0 < ended < self.width and ended >= self._share_to_drop * self.width

    def _totals(self, log_probs: Tensor) -> Tensor:
        """Return scores of all continuations, ``-inf`` for tokens that cannot follow.

        ``log_probs (width, beam, vocabulary)`` becomes the result.
        """
        vocabulary, options = self.vocabulary, self.options
        self._penalize_unknown(log_probs)
        place = self.newest[_PLACE]
        columns = self.rules.size(2)
        index = place[:, :, None].expand(-1, -1, columns)
        rules = self.rules.gather(1, index)  # (width, beam, 2 + given tokens)
        words = self.words
        has_reached = words[:, :, None] >= rules[:, :, :_FIRST_GIVEN]
        barred, may_end = has_reached.unbind(2)
        given = rules[:, :, _FIRST_GIVEN:]
        end = given[:, :, 0]
        end_of_model = log_probs[:, :, vocabulary.eos]
        torch.where(may_end, end_of_model, end, out=end)
        if options.no_repeat_ngram_size:
            forbid_repetitions(
                log_probs.flatten(0, 1),
                self.history.flatten(0, 1),
                words.flatten(),
                options.no_repeat_ngram_size,
            )
        if self._may_lack_room():
            barred |= self._no_room_left()
        return self._add_scores(log_probs, barred, given)

    def _penalize_unknown(self, log_probs: Tensor) -> None:
        if self.options.unkpen:
            unknown = log_probs[:, :, self.vocabulary.unk]
            unknown -= self.options.unkpen

    def _add_scores(self, log_probs: Tensor, barred: Tensor, given: Tensor) -> Tensor:
        """Add the scores so far to ``log_probs (width, beam, vocabulary)``, in place.

        Args:
            barred: ``(width, beam)`` True if only given tokens can follow.
            given: ``(width, beam, given tokens)`` log-probabilities instead of the model's;
                changed.
        """
        scores = self.scores.masked_fill(barred, _NEVER)
        log_probs += scores[:, :, None]
        given += self.scores[:, :, None]
        return log_probs.index_copy_(2, self._given, given)

    def _shortest_sentence(self) -> int:
        """Return the fewest tokens of a sentence to come, special tokens included."""
        special_tokens = 1
        if self.vocabulary.has_opening or self.vocabulary.prefix is not None:
            special_tokens = 2
        return max(self.options.min_len, 1) + special_tokens

    def _may_lack_room(self) -> bool:
        limit = self.vocabulary.max_input_tokens
        if limit is None:
            return False
        following = (self._most_sentences - 1) * self._shortest_sentence()
        used = self.step + 1 + int(self.vocabulary.has_opening) + self._prefix_longest
        return used + following >= limit

    def _no_room_left(self) -> Tensor:
        """``(width, beam)`` whether the sentence must end to leave room for the rest."""
        following = self.last - self.sentence
        # Tokens of the decoder's input if this step ends the sentence and all others are as
        # short as possible. The decoder reads the last `</s>` only if special tokens follow.
        own = self.step + 1 + int(self.vocabulary.has_opening)
        used = own + following * self._shortest_sentence()
        if self.prefix_lengths is not None:
            used = used + self.prefix_lengths
        is_full: Tensor = used >= self.vocabulary.max_input_tokens
        return is_full.logical_and_(self.words >= self.options.min_len)

    def _advance(self, newest: Tensor, on_host: Ints) -> None:
        """Go on with ``newest (5, width, beam)``; ``on_host``: the first three rows."""
        self.newest = newest
        self._sentence_on_host = on_host[_SENTENCE]
        is_opening = on_host[_TOKEN] == self.vocabulary.opening
        self._any_opens = bool(is_opening.any())
        self.opens = self._none_opens
        if self._any_opens:
            self.opens = self.tokens.eq(self.vocabulary.opening)
        if self.options.no_repeat_ngram_size:
            origin = newest[_ORIGIN]
            index = origin[:, :, None].expand_as(self.history)
            earlier = self.history.gather(1, index)
            newest_tokens = self.tokens[:, :, None]
            self.history = torch.cat([earlier, newest_tokens], 2)
        self.step += 1

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but ``rows (n,)``, on the host."""
        on_host = rows.numpy()
        self.numbers = self.numbers[on_host]
        self.is_active = self.is_active[on_host]
        self._found = self._found[on_host]
        self._sentence_on_host = self._sentence_on_host[on_host]
        self._lingering = None
        rows = to_device(rows, self.device)
        self.newest = self.newest.index_select(1, rows)
        if self.prefix_lengths is not None:
            self.prefix_lengths = self.prefix_lengths.index_select(0, rows)
        self.history = self.history.index_select(0, rows)
        self.last = self.last.index_select(0, rows)
        self.rules = self.rules.index_select(0, rows)
        self._most = self._most.index_select(1, rows)
        self._least = self._least[:, : self.width]
        self._none_opens = self._none_opens[: self.width]
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
        has_opening = self.vocabulary.has_opening
        separator = self.vocabulary.opening if has_opening else self.vocabulary.prefix
        sentences = []
        begin = 0
        for _ in range(tokens.count(eos)):
            if tokens[begin] == separator:
                begin += 1
            end = tokens.index(eos, begin) + 1
            sentences.append(SentenceHypothesis(tokens[begin:end], scores[begin:end]))
            begin = end
        # With separators the last token is the end of the document, not of a sentence.
        return sentences[:-1] if has_opening else sentences


class _HostResults(NamedTuple):
    """The results of a step that the host must know; see :class:`_StepResults`."""

    is_possible: NDArray[np.bool_]
    ends: NDArray[np.bool_]
    picked: Ints

    def is_alive(self) -> NDArray[np.bool_]:
        """Return ``(width,)``: whether the best candidate that is no end is possible."""
        best = self.ends.argmin(1)
        goes_on = self.is_possible & ~self.ends
        documents = np.arange(len(best))
        alive: NDArray[np.bool_] = goes_on[documents, best]
        return alive


class _StepResults:
    """Memory for the results of a step, which one transfer reads.

    Attributes:
        is_possible: ``(width, candidates)`` whether a candidate may follow.
        ends: ``(width, candidates)`` whether it ends its document.
        picked: ``(5, width, beam)`` the chosen candidates; see :attr:`SearchProgress.newest`.
    """

    def __init__(self, width: int, beam: int, candidates: int, device: torch.device) -> None:
        self._flags_shape = 2, width, candidates
        self._picked_shape = width, beam
        # Numbers of 8 bytes begin at a multiple of 8.
        self._flags = 2 * width * candidates
        self._begin = (self._flags + 7) // 8 * 8
        self._row = 8 * width * beam
        size = self._begin + _ROWS * self._row
        self._memory = torch.empty(size, dtype=torch.uint8, device=device)
        flags = self._memory[: self._flags].view(torch.bool)
        self.is_possible, self.ends = flags.view(self._flags_shape)
        picked = self._memory[self._begin :].view(torch.long)
        self.picked = picked.view(_ROWS, width, beam)

    def on_host(self) -> _HostResults:
        """Wait for the device, and read."""
        end = self._begin + _ROWS_ON_HOST * self._row
        memory = self._memory[:end].cpu().numpy()
        flags = memory[: self._flags].view(np.bool_)
        is_possible, ends = flags.reshape(self._flags_shape)
        picked = memory[self._begin :].view(np.int64)
        picked = picked.reshape(_ROWS_ON_HOST, *self._picked_shape)
        return _HostResults(is_possible, ends, picked)


class _FreeProgress(SearchProgress):
    """A search in which the model decides where sentences and the document end.

    So the papers decode the document Transformer (:attr:`gtrans.data.frame.Frame.document_token`).
    To the base class the document is one sentence. The document token follows ``</s>`` only.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: SourceLengths,
        device: torch.device,
        prefix_longest: int | None = None,
    ) -> None:
        if vocabulary.document_token is None:
            raise ValueError("a free search needs a token that ends documents")
        super().__init__(vocabulary, options, source_lengths, device, prefix_longest)
        self.end = vocabulary.document_token
        self._most_sentences = 1
        forbidden = torch.tensor(vocabulary.forbidden, dtype=torch.long)
        given = torch.tensor([vocabulary.eos, self.end])
        self._forbidden = to_device(forbidden, device)
        self._given = to_device(given, device)

    def _rules_of(self, source_lengths: SourceLengths, last: Tensor) -> Tensor:
        """Return ``(width, 1)`` limits of all tokens of a document."""
        limits = torch.zeros(len(source_lengths), 1, dtype=torch.long)
        for document, lengths in enumerate(source_lengths):
            for words in lengths:
                limits[document] += self.options.limit(words) + 1
        return limits

    def _most_of(self, last: Tensor) -> Tensor:
        sentence = torch.zeros_like(last)
        end = torch.ones_like(last)
        unlimited = torch.full_like(last, _MOST_WORDS)
        return torch.stack([sentence, end, unlimited])

    def _first_place(self, first: int) -> int:
        return 0

    def written_sentences(self) -> None:
        """Return None: the decoders themselves count what the model decides."""

    def _totals(self, log_probs: Tensor) -> Tensor:
        vocabulary = self.vocabulary
        document_end = log_probs[:, :, self.end].clone()
        self._penalize_unknown(log_probs)
        log_probs.index_fill_(2, self._forbidden, _NEVER)
        after_sentence = self.tokens.eq(vocabulary.eos)
        is_full = self.rules <= self.step + 1
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
        sentence_end.masked_fill_(is_too_short | only_document_end, _NEVER)
        document_end.masked_fill_(~after_sentence, _NEVER)
        given = torch.stack([sentence_end, document_end], 2)
        return self._add_scores(log_probs, is_full, given)


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
    beginnings = ngrams[:, :, :-1]
    ends = ngrams[:, :, -1]
    newest = history[:, None, length - size + 1 :]
    repeated = beginnings.eq(newest).all(2)
    ones = history.new_ones(ngrams.size(1))
    places = ones.cumsum(0).sub(1)
    sentence_begin = length - written
    repeated &= places >= sentence_begin[:, None]
    # Added everywhere, so that the host need not know where the repetitions are.
    added = torch.where(repeated, _NEVER, 0.0)
    log_probs.scatter_add_(1, ends, added.to(log_probs))


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
    index = torch.add(inside, candidates[:, :, None], alpha=_BLOCK)
    index = index.flatten(1)  # (rows, count * _BLOCK)
    if covered < columns:
        uncovered = torch.arange(covered, columns, device=numbers.device)
        uncovered = uncovered.expand(rows, -1)
        index = torch.cat([index, uncovered], 1)
    best, position = numbers.gather(1, index).topk(count, 1)
    return best, index.gather(1, position)
