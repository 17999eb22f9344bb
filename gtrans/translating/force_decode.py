"""Log-probabilities of given translations (force decoding)."""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import torch
from fairseq.data import Dictionary
from torch import Tensor
from tqdm import tqdm

from gtrans.data.examples import Example, ExampleBuilder, source_of
from gtrans.data.frame import Frame
from gtrans.data.units import ChunkStreamUnit, UnitSpan
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item
from gtrans.modules.chunked_loss import DecoderStates, rows_of
from gtrans.modules.group_attention import DocumentLayout, shared_prefixes
from gtrans.search.generator import not_finite
from gtrans.text.pipeline import TextPipeline

MAX_TOKENS = 2000

Models = Sequence[Any]
"""One model, or an ensemble."""
TokenScores = list[list[Tensor]]
"""For each document and each of its sentences ``(tokens, 1 or 3)``, see :func:`score_tokens`."""
EncodedDocument = tuple[Sequence[str], Sequence[str]]
"""As many source as target sentences, each as subwords separated by spaces."""


@dataclass
class ScoredRow:
    """One row of a batch.

    Attributes:
        source: equal for rows with the same source.
        first: the first scored sentence, where ``scores`` begin.
    """

    source: Hashable
    example: Example
    first: int
    scores: list[Tensor]

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        source = int(self.example["source"].numel())
        target = int(self.example["target"].numel())
        return max(source, target)


def score_documents(
    models: Models, task: Any, documents: Sequence[EncodedDocument], **options: Any
) -> list[list[float]]:
    """Return the log-probability of every target sentence, from :func:`score_tokens`."""
    scores = []
    for sentences in score_tokens(models, task, documents, **options):
        sums = [float(tokens[:, 0].sum()) for tokens in sentences]
        scores.append(sums)
    return scores


def score_tokens(
    models: Models,
    task: Any,
    documents: Sequence[EncodedDocument],
    *,
    first: Sequence[int] | None = None,
    plain: Sequence[Sequence[str]] | None = None,
    whole: bool = True,
    max_tokens: int = MAX_TOKENS,
    progress: str | None = None,
    rivals: bool = False,
    rows: RowPool | None = None,
) -> TokenScores:
    """Return the log-probability of every target token, end tokens included.

    The probabilities of several models are averaged. Equal rows are scored once.

    Args:
        first: the first sentence to score in each document (default: 0), after its context.
        plain: the source sentences as plain text, for models with BERT.
        whole: whole documents; False: cut by ``max_doc_tokens``, as in training.
        max_tokens: most tokens of a batch on its longer side, with padding.
        progress: name of a progress bar.
        rivals: also find the most probable other token at every place.
        rows: a pool of an earlier call, whose encoded sentences are used again.

    Returns:
        ``(tokens, 1)`` natural logarithms (float64) of each sentence; with ``rivals``
        ``(tokens, 3)``: also the logarithm and the id of the rival.
    """
    pool = RowPool(task, whole) if rows is None else rows.emptied()
    starts = first or [0] * len(documents)
    plain_sources: Sequence[Sequence[str] | None] = plain or [None] * len(documents)
    rows_of_documents = []
    for document, start, plain_source in zip(documents, starts, plain_sources, strict=True):
        source, target = document
        rows_of_documents.append(pool.rows_of(source, target, start, plain_source))
    for model in models:
        model.eval()
    hides_bar = None if progress else True  # None: only outside of a terminal
    with tqdm(total=len(pool.distinct), desc=progress, disable=hides_bar) as bar:
        for batch in _batches(pool.distinct, max_tokens):
            scores_of_rows = _score(models, pool, batch, rivals)
            for row, scores in zip(batch, scores_of_rows, strict=True):
                row.scores = scores
            bar.update(len(batch))
    scores_of_documents = []
    for rows_of_document in rows_of_documents:
        scores_of_document: list[Tensor] = []
        for placed in rows_of_document:
            start = placed.scored.start - placed.row.first
            stop = placed.scored.stop - placed.row.first
            scores_of_document += placed.row.scores[start:stop]
        scores_of_documents.append(scores_of_document)
    return scores_of_documents


class PlacedRow(NamedTuple):
    """A row of a document; ``scored``: its scored sentences, counted in the row."""

    row: ScoredRow
    span: UnitSpan
    scored: range


class RowPool:
    """The distinct rows of documents."""

    def __init__(self, task: Any, whole: bool) -> None:
        examples: ExampleBuilder = task.examples
        unit = examples.unit
        if isinstance(unit, ChunkStreamUnit) and unit.overlap:
            raise GtransError(
                f"`--overlap {unit.overlap}`: with a memory between chunks, given translations are "
                "scored without it; leave it out (translations may have both)."
            )
        if whole:
            examples = replace(examples, unit=unit.unlimited())
        self.examples = examples
        self._frame = examples.frame
        self._source_ids = cache(partial(self._ids, task.source_dictionary))
        self._target_ids = cache(partial(self._ids, task.target_dictionary))
        self._bert_subwords = cache(lambda sentence: task.bert_subwords([sentence])[0])
        self.complete_input = task.complete_input
        self._rows: dict[Any, ScoredRow] = {}

    def emptied(self) -> RowPool:
        """Return a pool without rows that keeps the ids of encoded sentences."""
        other = copy(self)
        other._rows = {}
        return other

    @property
    def distinct(self) -> list[ScoredRow]:
        """Each row once."""
        return list(self._rows.values())

    def rows_of(
        self,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None = None,
    ) -> list[PlacedRow]:
        """Return a document's rows from its sentence ``first`` on."""
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sentences, but {len(target)} target sentences")
        lengths = [self._source_ids(sentence).numel() - 1 for sentence in source]
        rows = []
        for span in self.examples.unit.cut(lengths):
            if span.kept.stop <= first:
                continue
            start = max(span.kept.start, first)
            rows.append(self._placed(span, source, target, start, plain))
        return rows

    def _placed(
        self,
        span: UnitSpan,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None,
    ) -> PlacedRow:
        sources = tuple(source[number] for number in span.source)
        targets = tuple(target[number] for number in span.target)
        plain_sources: tuple[str, ...] = ()
        if self.examples.bert_subwords is not None and plain is not None:
            plain_sources = tuple(plain[number] for number in span.source)
        start = first - span.predicted.start
        stop = span.kept.stop - span.predicted.start
        source_key = (sources, plain_sources, span.kept.start - span.source.start)
        key = (source_key, targets)
        row = self._rows.get(key)
        if row is None:
            example = self._example(span, sources, targets, plain_sources)
            row = ScoredRow(source_key, example, start, [])
            self._rows[key] = row
        row.first = min(row.first, start)
        return PlacedRow(row, span, range(start, stop))

    def _example(
        self,
        span: UnitSpan,
        sources: Sequence[str],
        targets: Sequence[str],
        plain_sources: Sequence[str],
    ) -> Example:
        source_ids = [self._source_ids(sentence) for sentence in sources]
        target_ids = [self._target_ids(sentence) for sentence in targets]
        subwords = [self._bert_subwords(sentence) for sentence in plain_sources]
        unit = self.examples.unit
        chunks = None
        if isinstance(unit, ChunkStreamUnit):  # as in translation, by the source alone
            lengths = [ids.numel() - 1 for ids in source_ids]
            chunks = unit.steps(lengths)
        return self.examples.example(span, source_ids, target_ids, subwords, chunks)

    def _ids(self, dictionary: Dictionary, sentence: str) -> Tensor:
        ids: Tensor = dictionary.encode_line(sentence, add_if_not_exist=False).long()
        words = ids[:-1]
        is_special = words.eq(self._frame.bos) | words.eq(self._frame.eos)
        if bool(is_special.any()):
            raise GtransError(
                f"the sentence '{sentence}' holds a literal special token; escape it (the "
                "pipeline of `gtrans prepare` does)."
            )
        return ids


def _batches(rows: list[ScoredRow], max_tokens: int) -> Iterator[list[ScoredRow]]:
    """Yield batches of rows of similar length, each at most ``max_tokens`` with padding.

    The longest come first, so that memory runs out at once or never. Rows of one source are
    neighbours, sorted so that they have long common prefixes.
    """
    by_source: dict[Hashable, list[ScoredRow]] = {}
    for row in rows:
        group = by_source.setdefault(row.source, [])
        group.append(row)
    for group in by_source.values():
        group.sort(key=_target_input)
    groups = sorted(by_source.values(), key=_group_size, reverse=True)
    batch: list[ScoredRow] = []
    longest = 0
    for group in groups:
        if batch and (len(batch) + len(group)) * longest > max_tokens:
            yield batch
            batch = []
        if not batch:
            longest = _group_size(group).longest
        for row in group:
            if batch and (len(batch) + 1) * longest > max_tokens:
                yield batch
                batch = []
            batch.append(row)
    if batch:
        yield batch


def _target_input(row: ScoredRow) -> list[int]:
    tokens: list[int] = row.example["prev_output_tokens"].tolist()
    return tokens


class _GroupSize(NamedTuple):
    longest: int
    source: int


def _group_size(group: Sequence[ScoredRow]) -> _GroupSize:
    longest = max(row.size for row in group)
    return _GroupSize(longest, group[0].example["source"].numel())


@torch.no_grad()
def _score(
    models: Models, pool: RowPool, batch: Sequence[ScoredRow], rivals: bool
) -> list[list[Tensor]]:
    frame = pool.examples.frame
    device = next(models[0].parameters()).device
    sample = pool.examples.collate([row.example for row in batch])
    target = sample["target"]
    sentence = sentences_of(target, frame.eos)
    first = torch.tensor([row.first for row in batch])
    counts = target.eq(frame.eos).sum(1)
    # Tokens behind the last sentence, which end the document, belong to no sentence.
    is_in_sentence = sentence.lt(counts[:, None])
    is_scored = target.ne(frame.pad) & sentence.ge(first[:, None]) & is_in_sentence
    inputs = sample["net_input"]["prev_output_tokens"]
    predictions = _predictions(batch, inputs, is_scored, frame)
    state_of_word = predictions.state_of_word.to(device)
    words = target[is_scored].to(device)
    states = []
    for model in models:
        states.append(_states(model, pool, batch, predictions, device))
    scored = _scores_of_words(models, states, state_of_word, words, rivals).cpu()
    if not bool(scored[:, 0].isfinite().all()):
        raise not_finite(models)
    # (rows, sentences): how many tokens of each sentence are scored
    lengths = torch.zeros(len(batch), int(counts.max()), dtype=torch.long)
    row_of_word = is_scored.nonzero()[:, 0]
    sentence_of_word = sentence[is_scored]
    ones = torch.ones_like(row_of_word)
    lengths.index_put_((row_of_word, sentence_of_word), ones, accumulate=True)
    tokens_of_rows = torch.split(scored, lengths.sum(1).tolist())
    scores = []
    for number, row in enumerate(batch):
        lengths_of_row = lengths[number, row.first : int(counts[number])].tolist()
        tokens_of_sentences = torch.split(tokens_of_rows[number], lengths_of_row)
        scores.append(list(tokens_of_sentences))
    return scores


class _Predictions(NamedTuple):
    """Where a batch predicts its scored words.

    Attributes:
        sources: ``(rows,)`` number of each row's source, in order of appearance.
        predict_at: ``(rows, length)`` True where the decoder predicts a scored word.
        state_of_word: ``(words,)`` number of the state that predicts each scored word.
    """

    sources: Tensor
    predict_at: Tensor
    state_of_word: Tensor


def _predictions(
    batch: Sequence[ScoredRow], inputs: Tensor, is_scored: Tensor, frame: Frame
) -> _Predictions:
    # A common prefix has the same probabilities in all rows of a source: it is scored once.
    sources = _numbers_of_sources(batch)
    layout = DocumentLayout.of_target(inputs, frame.pad, frame.bos, frame.eos)
    shared = shared_prefixes(layout, inputs, sources)
    shared_tokens = shared.choose(torch.arange(shared.tokens), is_scored)
    chosen, state_of_word = torch.unique(shared_tokens, return_inverse=True)
    predict_at = torch.zeros(is_scored.numel(), dtype=torch.bool)
    predict_at[shared.index[chosen]] = True
    return _Predictions(sources, predict_at.view_as(is_scored), state_of_word)


def _numbers_of_sources(batch: Sequence[ScoredRow]) -> Tensor:
    known: dict[Hashable, int] = {}
    numbers = [known.setdefault(row.source, len(known)) for row in batch]
    return torch.tensor(numbers)


def sentences_of(target: Tensor, eos: int) -> Tensor:
    """Return ``(rows, length)``: the sentence of each token; an end token is its last."""
    ends = target.eq(eos).long()
    return ends.cumsum(1) - ends


def _scores_of_words(
    models: Models,
    states: Sequence[DecoderStates],
    state_of_word: Tensor,
    words: Tensor,
    rivals: bool,
) -> Tensor:
    """Return ``(words, 1 or 3)`` scores; the logits of a part of the states are in memory.

    ``state_of_word``: ``(words,)`` the number of the state that predicts each word.
    """
    tokens = states[0].features.size(1)
    rows = rows_of(states[0].projection.size(0), cuda=words.is_cuda)
    columns = 3 if rivals else 1
    scores = torch.empty(len(words), columns, dtype=torch.float64, device=words.device)
    for start in range(0, tokens, rows):
        stop = start + rows
        log_probs = _log_probs(models, states, slice(start, stop))
        is_here = (state_of_word >= start) & (state_of_word < stop)
        index = is_here.nonzero().squeeze(1)
        state = state_of_word[index] - start
        word = words[index]
        scores[index, 0] = log_probs[state, word].double()
        if rivals:
            best = log_probs.topk(2, 1)
            best_scores = best.values[state]
            best_ids = best.indices[state]
            # The second best where the best is the word itself.
            rival = best_ids[:, 0].eq(word).long()[:, None]
            scores[index, 1] = best_scores.gather(1, rival).squeeze(1).double()
            scores[index, 2] = best_ids.gather(1, rival).squeeze(1).double()
    return scores


def _log_probs(models: Models, states: Sequence[DecoderStates], part: slice) -> Tensor:
    """Return ``(states, entries)`` log-probabilities of an ensemble."""
    total: Tensor | None = None
    for model, state in zip(models, states, strict=True):
        log_probs = model.project(state.features[:, part]).float().log_softmax(1)
        total = log_probs if total is None else total.logaddexp(log_probs)
    assert total is not None
    total -= math.log(len(models))
    return total


def _states(
    model: Any,
    pool: RowPool,
    batch: Sequence[ScoredRow],
    predictions: _Predictions,
    device: torch.device,
) -> DecoderStates:
    builder = pool.examples
    examples = [row.example for row in batch]
    # Numbers of sources are in order of appearance, and so are the examples kept for them.
    sources = predictions.sources.tolist()
    example_of_source = dict(zip(sources, examples, strict=True))
    distinct = list(example_of_source.values())
    source_inputs = builder.collate(distinct)["net_input"]
    target_inputs = builder.collate(examples)["net_input"]
    net_input = {
        **source_of(source_inputs),
        "prev_output_tokens": target_inputs["prev_output_tokens"],
        "source_of_row": predictions.sources,
        "predict_at": predictions.predict_at,
    }
    on_device = {name: tensor.to(device) for name, tensor in net_input.items()}
    completed = pool.complete_input(on_device)
    states: DecoderStates = model(**completed, states_only=True)[0]
    return states


@dataclass(frozen=True, eq=False)
class CorpusSide:
    """One side of a corpus: plain sentences, and their pipeline."""

    pipeline: TextPipeline
    documents: Sequence[Sequence[str]]

    @cached_property
    def encoded(self) -> list[list[str]]:
        """Sentences as subwords separated by spaces."""
        encoded = []
        for document in self.documents:
            encoded.append([self.pipeline.encode(sentence) for sentence in document])
        return encoded


@dataclass(frozen=True)
class ScoredSpan:
    """Sentences ``begin .. end - 1`` of a document, scored from sentence ``first`` on."""

    document: int
    begin: int
    end: int
    first: int


@dataclass(frozen=True)
class ScoredCorpus:
    """A parallel corpus whose sentences are scored in context.

    ``context``: most sentences before each; None: documents are cut as for training.
    """

    source: CorpusSide
    target: CorpusSide
    context: int | None = None

    @property
    def sides(self) -> dict[str, CorpusSide]:
        """Both sides by name."""
        return {"source": self.source, "target": self.target}

    @cached_property
    def spans(self) -> list[ScoredSpan]:
        """The spans to score, in order."""
        spans = []
        for number, document in enumerate(self.source.documents):
            if self.context is None:
                if document:
                    spans.append(ScoredSpan(number, 0, len(document), 0))
                continue
            for sentence in range(len(document)):
                begin = max(sentence - self.context, 0)
                spans.append(ScoredSpan(number, begin, sentence + 1, sentence))
        return spans

    @property
    def cuts_units(self) -> bool:
        """Whether documents are cut as for training."""
        return self.context is None

    def encoded(self, span: ScoredSpan) -> EncodedDocument:
        """Return the subwords of a span."""
        source = self.source.encoded[span.document]
        target = self.target.encoded[span.document]
        return source[span.begin : span.end], target[span.begin : span.end]

    def plain(self, span: ScoredSpan) -> Sequence[str]:
        """Return the source of a span as plain text."""
        document = self.source.documents[span.document]
        return document[span.begin : span.end]


def token_scores(
    models: Models, task: Any, text: ScoredCorpus, max_tokens: int, rivals: bool = False
) -> TokenScores:
    """Return :func:`score_tokens` of all sentences in their context."""
    documents = []
    first = []
    plain = []
    for span in text.spans:
        documents.append(text.encoded(span))
        first.append(span.first - span.begin)
        plain.append(text.plain(span))
    results = score_tokens(
        models,
        task,
        documents,
        first=first,
        plain=plain,
        whole=not text.cuts_units,
        max_tokens=max_tokens,
        progress="documents" if text.cuts_units else "sentences",
        rivals=rivals,
    )
    scores: TokenScores = [[] for _ in text.source.documents]
    for span, sentences in zip(text.spans, results, strict=True):
        scores[span.document] += sentences
    return scores


def token_scores_without_context(
    models: Models, task: Any, text: ScoredCorpus, max_tokens: int, rivals: bool = False
) -> TokenScores:
    """Return :func:`token_scores` with each sentence as a document."""
    lengths = [len(document) for document in text.source.documents]
    count = sum(lengths)
    cut = _rearranged(text, range(count), [1] * count, None)
    scores = flat(token_scores(models, task, cut, max_tokens, rivals))
    return cut_into_documents(scores, lengths)


def token_scores_in_shuffled_context(
    models: Models, task: Any, text: ScoredCorpus, max_tokens: int
) -> TokenScores:
    """Return :func:`token_scores` with the sentences of all documents shuffled."""
    lengths = [len(document) for document in text.source.documents]
    order = shuffled_order(sum(lengths))
    shuffled = _rearranged(text, order, lengths, text.context)
    scores = flat(token_scores(models, task, shuffled, max_tokens))
    return cut_into_documents(put_back(scores, order), lengths)


def _rearranged(
    text: ScoredCorpus, order: Iterable[int], lengths: Sequence[int], context: int | None
) -> ScoredCorpus:
    sides = []
    for side in (text.source, text.target):
        sentences = flat(side.documents)
        reordered = [sentences[number] for number in order]
        documents = cut_into_documents(reordered, lengths)
        sides.append(CorpusSide(side.pipeline, documents))
    return ScoredCorpus(sides[0], sides[1], context)


def flat(documents: Iterable[Iterable[Any]]) -> list[Any]:
    """Return the sentences of all documents."""
    return list(chain.from_iterable(documents))


_Item = TypeVar("_Item")
_SEED = 1


def shuffled_order(count: int) -> list[int]:
    """Return ``0 .. count - 1`` in a random order, always the same."""
    order = list(range(count))
    random.Random(_SEED).shuffle(order)
    return order


def put_back(items: Iterable[_Item], order: Sequence[int]) -> list[_Item]:
    """Undo an ``order`` of items."""
    places = sorted(zip(order, items, strict=True), key=itemgetter(0))
    return [item for _, item in places]


def cut_into_documents(items: Iterable[_Item], lengths: Iterable[int]) -> list[list[_Item]]:
    """Cut items into documents of these lengths."""
    remaining = iter(items)
    return [list(islice(remaining, length)) for length in lengths]


# ---- contrastive items ---------------------------------------------------------------------------


def score_items(
    models: Models,
    task: Any,
    pipelines: tuple[TextPipeline, TextPipeline],
    items: Sequence[Item],
    **options: Any,
) -> list[list[float]]:
    """Return for each item the log-probabilities of its candidates, the correct one first.

    The sums begin where candidates differ. ``options`` go to :func:`score_tokens`.
    """
    # The same context sentences occur in many candidates, and tokenising is slow.
    encode_source = cache(pipelines[0].encode)
    encode_target = cache(pipelines[1].encode)
    documents = []
    first = []
    plain = []
    for item in items:
        source = [encode_source(sentence) for sentence in item.source]
        for candidate in item.candidates:
            target = [encode_target(sentence) for sentence in candidate]
            documents.append((source, target))
            first.append(item.context)
            plain.append(item.source)
    scores = score_documents(models, task, documents, first=first, plain=plain, **options)
    totals = [sum(sentences) for sentences in scores]
    candidates = [len(item.candidates) for item in items]
    return cut_into_documents(totals, candidates)


def with_cue_places(
    task: Any, encoder: TextPipeline, items: Sequence[Item], plain: Sequence[Item], whole: bool
) -> list[Item]:
    """Return items grouped by the place of their cue, if documents are cut into chunks.

    The group ``cue``: in the chunk of the last sentence, in its context, or before it. Another is
    ``cue at distance``. ``plain``: the items as text.
    """
    unit = task.examples.unit
    has_chunks = unit.has_chunks or not whole
    if unit.name not in ("document", "stream") or not has_chunks:
        return list(items)
    encode = cache(encoder.encode)
    grouped = []
    for item, text in zip(items, plain, strict=True):
        groups = dict(item.groups)
        if item.distance is not None:
            lengths = [len(encode(sentence).split()) for sentence in text.source]
            chunk = unit.parts(lengths)[-1]
            cue = len(text.source) - 1 - item.distance
            if cue not in chunk.source:
                place = "before the chunk"
            elif cue in chunk.kept:
                place = "in the chunk"
            else:
                place = "in its context" if unit.has_context else "in its overlap"
            groups["cue"] = place
            groups["cue at distance"] = f"{item.distance} {place}"
        grouped.append(replace(item, groups=groups))
    return grouped
