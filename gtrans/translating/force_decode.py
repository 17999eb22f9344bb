"""Log-probabilities of given translations (force decoding).

A document is read in the rows of the unit that its model was trained with. Different
translations of one source are sorted and stand next to each other in a batch: the model encodes
their source once, reads a common prefix once, and projects only the states whose words are scored
(:meth:`gtrans.models.base.model.DocumentModel.forward`), some at a time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from torch import Tensor
from tqdm import tqdm

from gtrans.data.examples import Example, ExampleBuilder, source_of
from gtrans.data.units import ChunkStreamUnit, UnitSpan
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive import Item
from gtrans.modules.chunked_loss import DecoderStates, rows_of
from gtrans.modules.group_attention import DocumentLayout, shared_prefixes
from gtrans.search.generator import not_finite
from gtrans.text.pipeline import TextPipeline

MAX_TOKENS = 2000

EncodedDocument = tuple[Sequence[str], Sequence[str]]
"""Source and target sentences, the same number, each as BPE tokens separated by spaces."""


@dataclass
class ScoredRow:
    """One row of a batch.

    Attributes:
        source: a key that is the same for rows with the same source.
        example: see :meth:`gtrans.data.examples.ExampleBuilder.example`.
        first: the first sentence to score, counted among those that the row writes.
        scores: of the tokens of each sentence from ``first`` on, see
            :func:`score_tokens`; empty until they are known.
    """

    source: Hashable
    example: Example
    first: int
    scores: list[Tensor]

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        return int(max(self.example["source"].numel(), self.example["target"].numel()))


def score_documents(
    models: Sequence[Any], task: Any, documents: Sequence[EncodedDocument], **options: Any
) -> list[list[float]]:
    """Log-probability of every target sentence, given its source and the target before it.

    It is the sum of the natural, unsmoothed log-probabilities of the words of the sentence and
    its end token, for each document of its sentences from ``first`` on. Arguments: see
    :func:`score_tokens`.
    """
    return [
        [float(tokens[:, 0].sum()) for tokens in sentences]
        for sentences in score_tokens(models, task, documents, **options)
    ]


def score_tokens(
    models: Sequence[Any],
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
) -> list[list[Tensor]]:
    """Log-probability of every token of every target sentence, its end token included.

    Several models are an ensemble: their probabilities are averaged. A row that occurs several
    times is scored once, so equal rows get exactly equal scores.

    Args:
        models: on one device; they are put into evaluation mode.
        task: a :class:`~gtrans.tasks.document_translation.DocumentTranslationTask`, whose
            unit is the models'.
        documents: see :data:`EncodedDocument`.
        first: for each document the number of the first sentence to score (default: 0).
            Sentences before it are read as context.
        plain: for each document its source sentences as plain text, which models with BERT
            need besides their own tokens.
        whole: True: a document unit is read as a whole, however long it is; False: it is cut by
            the task's ``max_doc_tokens``, as in training.
        max_tokens: most tokens of a batch on its longer side, with padding; a longer row is a
            batch of its own.
        progress: name of a progress bar on standard error, shown on a terminal only.
        rivals: also find the most probable other token at every place.
        rows: of a text with many of the same sentences, cut as ``whole`` says.

    Returns:
        For each document and each of its sentences from ``first`` on natural logarithms in double
        precision, ``(tokens, 1)``; with ``rivals`` ``(tokens, 3)``, also its rival's, and its id.

    Raises:
        GtransError: a sentence holds a literal special token.
        ValueError: the two sides of a document have different numbers of sentences.
    """
    starts = first or [0] * len(documents)
    pool = RowPool(task, whole) if rows is None else rows.emptied()
    texts: Sequence[Sequence[str] | None] = plain or [None] * len(documents)
    placed = [
        pool.rows_of(source, target, start, text)
        for (source, target), start, text in zip(documents, starts, texts, strict=True)
    ]
    for model in models:
        model.eval()
    with tqdm(total=len(pool.distinct), desc=progress, disable=None if progress else True) as bar:
        for batch in _batches(pool.distinct, max_tokens):
            for row, scores in zip(batch, _score(models, pool, batch, rivals), strict=True):
                row.scores = scores
            bar.update(len(batch))
    scores_of_documents = []
    for document in placed:
        scores = []
        for row, _, scored in document:
            scores += row.scores[scored.start - row.first : scored.stop - row.first]
        scores_of_documents.append(scores)
    return scores_of_documents


class RowPool:
    """All different rows of some documents."""

    def __init__(self, task: Any, whole: bool) -> None:
        examples: ExampleBuilder = task.examples
        unit = examples.unit
        if isinstance(unit, ChunkStreamUnit) and unit.overlap:
            raise GtransError(
                f"`--overlap {unit.overlap}`: with a memory between chunks, given translations are "
                "scored without it; leave it out (translations may have both)."
            )
        self.examples = replace(examples, unit=unit.unlimited()) if whole else examples
        self._frame = examples.frame
        self._encode = [
            cache(partial(self._ids, dictionary))
            for dictionary in (task.source_dictionary, task.target_dictionary)
        ]
        self._bert_subwords = cache(lambda sentence: task.bert_subwords([sentence])[0])
        self.complete_input = task.complete_input
        self._rows: dict[Any, ScoredRow] = {}

    def emptied(self) -> RowPool:
        """No rows, but the ids of the same sentences."""
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
    ) -> list[tuple[ScoredRow, UnitSpan, range]]:
        """The rows of a document, each with its sentences and those that are scored in it.

        The latter are counted among those that the row writes.
        """
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sentences, but {len(target)} target sentences")
        lengths = [self._encode[0](sentence).numel() - 1 for sentence in source]
        return [
            self._row(span, source, target, max(span.kept.start, first), plain)
            for span in self.examples.unit.cut(lengths)
            if span.kept.stop > first
        ]

    def _row(
        self,
        span: UnitSpan,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None,
    ) -> tuple[ScoredRow, UnitSpan, range]:
        sources = tuple(source[number] for number in span.source)
        targets = tuple(target[number] for number in span.target)
        plain_sources: tuple[str, ...] = ()
        if self.examples.bert_subwords is not None and plain is not None:
            plain_sources = tuple(plain[number] for number in span.source)
        begin, end = first - span.predicted.start, span.kept.stop - span.predicted.start
        source_key = (sources, plain_sources, span.kept.start - span.source.start)
        key = (source_key, targets)
        row = self._rows.get(key)
        if row is None:
            unit = self.examples.unit
            source_ids, target_ids = (
                list(map(encode, texts))
                for encode, texts in zip(self._encode, (sources, targets), strict=True)
            )
            chunks = None
            if isinstance(unit, ChunkStreamUnit):  # as in translation, by the source alone
                chunks = unit.steps([ids.numel() - 1 for ids in source_ids])
            subwords = [self._bert_subwords(sentence) for sentence in plain_sources]
            example = self.examples.example(span, source_ids, target_ids, subwords, chunks)
            row = self._rows[key] = ScoredRow(source_key, example, begin, [])
        row.first = min(row.first, begin)
        return row, span, range(begin, end)

    def _ids(self, dictionary: Dictionary, sentence: str) -> Tensor:
        """``(words + 1,)`` ids with the end token."""
        ids: Tensor = dictionary.encode_line(sentence, add_if_not_exist=False).long()
        if bool((ids[:-1].eq(self._frame.bos) | ids[:-1].eq(self._frame.eos)).any()):
            raise GtransError(
                f"the sentence '{sentence}' holds a literal special token; escape it (the "
                "pipeline of `gtrans prepare` does)."
            )
        return ids


def _batches(rows: list[ScoredRow], max_tokens: int) -> Iterator[list[ScoredRow]]:
    """Batches of rows of similar length, each at most ``max_tokens`` with padding.

    The longest rows come first, so that a batch that does not fit into memory is the first one.
    Rows of one source stay together if they fit into a batch, and are sorted, so that
    neighbours have long common prefixes.
    """
    by_source: dict[Hashable, list[ScoredRow]] = {}
    for row in rows:
        by_source.setdefault(row.source, []).append(row)
    groups = [
        sorted(group, key=lambda row: row.example["prev_output_tokens"].tolist())
        for group in by_source.values()
    ]
    batch: list[ScoredRow] = []
    longest = 0
    for group in sorted(groups, key=_group_size, reverse=True):
        longest = longest if batch else _group_size(group)[0]
        if batch and (len(batch) + len(group)) * longest > max_tokens:
            yield batch
            batch, longest = [], _group_size(group)[0]
        for row in group:
            if batch and (len(batch) + 1) * longest > max_tokens:
                yield batch
                batch = []
            batch.append(row)
    if batch:
        yield batch


def _group_size(group: Sequence[ScoredRow]) -> tuple[int, int]:
    """Tokens of the longest row, and of the source."""
    return max(row.size for row in group), group[0].example["source"].numel()


@torch.no_grad()
def _score(
    models: Sequence[Any], pool: RowPool, batch: Sequence[ScoredRow], rivals: bool
) -> list[list[Tensor]]:
    """Scores of the tokens of each sentence of each row, from its ``first`` on."""
    frame = pool.examples.frame
    device = next(models[0].parameters()).device
    sample = pool.examples.collate([row.example for row in batch])
    target, inputs = sample["target"], sample["net_input"]["prev_output_tokens"]
    sentence = sentences_of(target, frame.eos)
    first = torch.tensor([row.first for row in batch])
    # What follows the last sentence, the end of the document, belongs to none.
    counts = target.eq(frame.eos).sum(1)
    wanted = target.ne(frame.pad) & sentence.ge(first[:, None]) & sentence.lt(counts[:, None])
    # A common prefix has the same probabilities in all rows of a source: it is scored once.
    numbers: dict[Hashable, int] = {}
    sources = torch.tensor([numbers.setdefault(row.source, len(numbers)) for row in batch])
    layout = DocumentLayout.of_target(inputs, frame.pad, frame.bos, frame.eos)
    shared = shared_prefixes(layout, inputs, sources)
    # `state_of_word`: for each wanted word the number of the state that predicts it.
    chosen, state_of_word = torch.unique(
        shared.choose(torch.arange(shared.tokens), wanted), return_inverse=True
    )
    predict_at = torch.zeros(wanted.numel(), dtype=torch.bool)
    predict_at[shared.index[chosen]] = True
    predict_at = predict_at.view_as(wanted)
    state_of_word, words = state_of_word.to(device), target[wanted].to(device)
    states = [_states(model, pool, batch, sources, predict_at, device) for model in models]
    scored = _scores_of_words(models, states, state_of_word, words, rivals).cpu()
    if not bool(scored[:, 0].isfinite().all()):
        raise not_finite(models)
    # (rows, sentences): how many tokens of each sentence are scored
    lengths = torch.zeros(len(batch), int(counts.max()), dtype=torch.long)
    row = wanted.nonzero()[:, 0]
    lengths.index_put_((row, sentence[wanted]), torch.ones_like(row), accumulate=True)
    tokens_of_row = torch.split(scored, lengths.sum(1).tolist())
    return [
        list(torch.split(tokens, row_lengths[row.first : count]))
        for row, tokens, row_lengths, count in zip(
            batch, tokens_of_row, lengths.tolist(), counts.tolist(), strict=True
        )
    ]


def sentences_of(target: Tensor, eos: int) -> Tensor:
    """``(rows, length)``: number of each token's sentence, to which its end token belongs."""
    ends = target.eq(eos).long()
    return ends.cumsum(1) - ends


def _scores_of_words(
    models: Sequence[Any],
    states: Sequence[DecoderStates],
    state_of_word: Tensor,
    words: Tensor,
    rivals: bool,
) -> Tensor:
    """Columns as :func:`score_tokens` has them, the logits of some states in memory at a time.

    Args:
        models: an ensemble.
        states: of each model those that predict words.
        state_of_word: ``(words,)`` the number of the state that predicts each word.
        words: ``(words,)`` ids.
        rivals: see :func:`score_tokens`.

    Returns:
        ``(words, 1 or 3)`` in double precision.
    """
    tokens = states[0].features.size(1)
    rows = rows_of(states[0].projection.size(0), cuda=words.is_cuda)
    scores = torch.empty(len(words), 3 if rivals else 1, dtype=torch.float64, device=words.device)
    for begin in range(0, tokens, rows):
        part = slice(begin, begin + rows)
        log_probs: Tensor | None = None
        for model, state in zip(models, states, strict=True):
            new = model.project(state.features[:, part]).float().log_softmax(1)
            log_probs = new if log_probs is None else log_probs.logaddexp(new)
        assert log_probs is not None
        log_probs -= math.log(len(models))
        index = ((state_of_word >= begin) & (state_of_word < begin + rows)).nonzero().squeeze(1)
        position = state_of_word[index] - begin
        scores[index, 0] = log_probs[position, words[index]].double()
        if rivals:
            best, ids = (two[position] for two in log_probs.topk(2, 1))
            other = ids[:, 0].eq(words[index]).long()[:, None]
            scores[index, 1] = best.gather(1, other).squeeze(1).double()
            scores[index, 2] = ids.gather(1, other).squeeze(1).double()
    return scores


def _states(
    model: Any,
    pool: RowPool,
    batch: Sequence[ScoredRow],
    sources: Tensor,
    predict_at: Tensor,
    device: torch.device,
) -> DecoderStates:
    """The decoder states of the True entries of ``predict_at``.

    Args:
        model: a model of the task.
        pool: the pool of the rows.
        batch: the rows that the model reads.
        sources: ``(rows,)`` number of each row's source, in order of appearance.
        predict_at: ``(rows, length)`` True on the target's tokens whose states are wanted.
        device: the model's device.
    """
    builder, examples = pool.examples, [row.example for row in batch]
    distinct = dict(zip(sources.tolist(), examples, strict=True))
    inputs = builder.collate([distinct[number] for number in range(len(distinct))])["net_input"]
    net_input = {
        **source_of(inputs),
        "prev_output_tokens": builder.collate(examples)["net_input"]["prev_output_tokens"],
        "source_of_row": sources,
        "predict_at": predict_at,
    }
    net_input = pool.complete_input({name: tensor.to(device) for name, tensor in net_input.items()})
    states: DecoderStates = model(**net_input, states_only=True)[0]
    return states


@dataclass(frozen=True, eq=False)
class CorpusSide:
    """One side of a corpus.

    Attributes:
        pipeline: encodes it.
        documents: its sentences as plain text.
    """

    pipeline: TextPipeline
    documents: Sequence[Sequence[str]]

    @cached_property
    def encoded(self) -> list[list[str]]:
        """Its sentences as subwords separated by spaces."""
        return [[self.pipeline.encode(line) for line in document] for document in self.documents]


@dataclass(frozen=True)
class ScoredSpan:
    """Consecutive sentences of a document that a model reads, and the sentences that it scores.

    Attributes:
        document: number of the document.
        begin, end: its sentences, ``end`` excluded.
        first: the first sentence that is scored.
    """

    document: int
    begin: int
    end: int
    first: int


@dataclass(frozen=True)
class ScoredCorpus:
    """A corpus as a model reads it.

    Attributes:
        source, target: the same sentences.
        context: most sentences before a sentence that are read; None: as many as the unit
            reads, a document unit being cut as for training.
    """

    source: CorpusSide
    target: CorpusSide
    context: int | None = None

    @property
    def sides(self) -> dict[str, CorpusSide]:
        """Both sides by name."""
        return {"source": self.source, "target": self.target}

    @cached_property
    def readings(self) -> list[ScoredSpan]:
        """The parts to read so that every sentence is scored once, in order."""
        lengths = list(enumerate(map(len, self.source.documents)))
        if self.context is None:
            return [ScoredSpan(number, 0, length, 0) for number, length in lengths if length]
        spans = []
        for number, length in lengths:
            for sentence in range(length):
                begin = max(sentence - self.context, 0)
                spans.append(ScoredSpan(number, begin, sentence + 1, sentence))
        return spans

    @property
    def cuts_units(self) -> bool:
        """Whether a document unit is cut as for training."""
        return self.context is None

    def encoded(self, reading: ScoredSpan) -> EncodedDocument:
        """The subwords of a reading."""
        document, sentences = reading.document, slice(reading.begin, reading.end)
        return self.source.encoded[document][sentences], self.target.encoded[document][sentences]

    def plain(self, reading: ScoredSpan) -> Sequence[str]:
        """The source of a reading as plain text."""
        return self.source.documents[reading.document][reading.begin : reading.end]


def token_scores(
    models: Sequence[Any], task: Any, text: ScoredCorpus, max_tokens: int, rivals: bool = False
) -> list[list[Tensor]]:
    """Scores of the tokens of every sentence of every document, given its context.

    Args:
        models: one model, or an ensemble.
        task: their task.
        text: the text to score.
        max_tokens, rivals: see :func:`gtrans.translating.force_decode.score_tokens`.
    """
    results = score_tokens(
        models,
        task,
        [text.encoded(reading) for reading in text.readings],
        first=[reading.first - reading.begin for reading in text.readings],
        plain=[text.plain(reading) for reading in text.readings],
        whole=not text.cuts_units,
        max_tokens=max_tokens,
        progress="documents" if text.cuts_units else "sentences",
        rivals=rivals,
    )
    scores: list[list[Tensor]] = [[] for _ in text.source.documents]
    for reading, sentences in zip(text.readings, results, strict=True):
        scores[reading.document] += sentences
    return scores


def alone(
    models: Sequence[Any], task: Any, text: ScoredCorpus, max_tokens: int, rivals: bool = False
) -> list[list[Tensor]]:
    """As :func:`token_scores`, but every sentence is a document of its own."""
    count = sum(map(len, text.source.documents))
    cut = _rearranged(text, range(count), [1] * count, None)
    scores = flat(token_scores(models, task, cut, max_tokens, rivals))
    return in_documents(scores, map(len, text.source.documents))


def in_shuffled_context(
    models: Sequence[Any], task: Any, text: ScoredCorpus, max_tokens: int
) -> list[list[Tensor]]:
    """As :func:`token_scores`, in documents as long, with sentences from anywhere in the text.

    Returns:
        The scores in the order of ``text``.
    """
    lengths = [len(document) for document in text.source.documents]
    order = shuffled_order(sum(lengths))
    shuffled = _rearranged(text, order, lengths, text.context)
    scores = flat(token_scores(models, task, shuffled, max_tokens))
    return in_documents(put_back(scores, order), lengths)


def _rearranged(
    text: ScoredCorpus, order: Iterable[int], lengths: Sequence[int], context: int | None
) -> ScoredCorpus:
    """The sentences of a text in another order, in documents of these lengths."""
    source, target = (
        CorpusSide(
            side.pipeline, in_documents(map(flat(side.documents).__getitem__, order), lengths)
        )
        for side in (text.source, text.target)
    )
    return ScoredCorpus(source, target, context)


def flat(documents: Iterable[Iterable[Any]]) -> list[Any]:
    """The sentences of all documents."""
    return list(chain.from_iterable(documents))


_Item = TypeVar("_Item")
_SEED = 1


def shuffled_order(count: int) -> list[int]:
    """The numbers of ``count`` sentences in a random order, always the same one."""
    order = list(range(count))
    random.Random(_SEED).shuffle(order)
    return order


def put_back(items: Iterable[_Item], order: Sequence[int]) -> list[_Item]:
    """What stands in ``order``, such as scores of shuffled sentences, in the order of the text."""
    return [item for _, item in sorted(zip(order, items, strict=True), key=itemgetter(0))]


def in_documents(items: Iterable[_Item], lengths: Iterable[int]) -> list[list[_Item]]:
    """Documents of these lengths, one after the other; ``items`` are as many as they need."""
    remaining = iter(items)
    return [[next(remaining) for _ in range(length)] for length in lengths]


# ---- contrastive items ---------------------------------------------------------------------------


def score_items(
    models: Sequence[Any],
    task: Any,
    pipelines: tuple[TextPipeline, TextPipeline],
    items: Sequence[Item],
    **options: Any,
) -> list[list[float]]:
    """For each item the log-probabilities of its candidates, the correct one first.

    The sum leaves out the sentences before the first one in which the candidates of an item
    differ: their probability is the same for all candidates.

    Args:
        models: one model, or an ensemble.
        task: their task; ``task.cfg.unit`` says whether documents or sentences are read.
        pipelines: of source and target, for example from
            :func:`gtrans.text.prepared_folder.load_pipeline`.
        items: any number of items, in plain text (:meth:`Item.as_text`).
        options: ``whole``, ``max_tokens`` and ``progress`` of :func:`score_tokens`.
    """
    # The same context sentences occur in many candidates, and tokenising is slow.
    encode, encode_target = (cache(pipeline.encode) for pipeline in pipelines)
    pairs = []
    for item in items:
        pairs += [(item, candidate) for candidate in item.candidates]
    scores = iter(
        score_documents(
            models,
            task,
            [
                (list(map(encode, item.source)), list(map(encode_target, candidate)))
                for item, candidate in pairs
            ],
            first=[item.context for item, _ in pairs],
            plain=[item.source for item, _ in pairs],
            **options,
        )
    )
    return [[sum(next(scores)) for _ in item.candidates] for item in items]


def with_places(
    task: Any, encoder: TextPipeline, items: Sequence[Item], plain: Sequence[Item], whole: bool
) -> list[Item]:
    """Items grouped by the place of their cue, where documents are cut into chunks.

    Args:
        task, whole: as in :func:`score_items`.
        encoder: the pipeline of the source.
        items: any number of items.
        plain: the same in plain text.

    Returns:
        the items. Those whose cue has a known distance have the group ``cue``: in the chunk
        of the last sentence, in what this chunk reads besides, or before it; and the same
        with the distance as ``cue at distance``.
    """
    unit = task.examples.unit
    if unit.name not in ("document", "stream") or not (unit.has_chunks or not whole):
        return list(items)
    encode = cache(encoder.encode)
    grouped = []
    for item, text in zip(items, plain, strict=True):
        place = None
        if item.distance is not None:
            last = unit.parts([len(encode(sentence).split()) for sentence in text.source])[-1]
            cue = len(text.source) - 1 - item.distance
            besides = "in its context" if unit.has_context else "in its overlap"
            place = "in the chunk" if cue in last.kept else besides
            place = place if cue in last.source else "before the chunk"
        groups = {"cue": place, "cue at distance": f"{item.distance} {place}"} if place else {}
        grouped.append(replace(item, groups={**item.groups, **groups}))
    return grouped
