"""Log-probabilities of given translations (force decoding).

A document is read as its model was trained, in the rows of its unit. Rows of different
translations of one source stand next to each other in a batch, sorted: the model encodes their
source once, reads what they have in common once, and projects to the vocabulary only what
counts (:meth:`gtrans.models.base.contract.DocumentModel.forward`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor
from tqdm import tqdm

from gtrans.data.examples import Example, ExampleBuilder, source_of
from gtrans.data.units import UnitSpan
from gtrans.errors import GtransError
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.shared_prefix import SharedPrefixLayout

MAX_TOKENS = 2000

EncodedDocument = tuple[Sequence[str], Sequence[str]]
"""Source and target sentences, as many on both sides, each as BPE tokens between spaces."""


@dataclass
class _Row:
    """What a model reads at once.

    Attributes:
        source: the same for rows that read the same source.
        example: see :meth:`gtrans.data.examples.ExampleBuilder.example`.
        first: number, among the sentences that the row writes, of the first one whose score is
            wanted.
        scores: of the sentences from ``first`` on, once they are known.
    """

    source: Hashable
    example: Example
    first: int
    scores: list[float]

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        return int(max(self.example["source"].numel(), self.example["target"].numel()))


def score_documents(
    models: Sequence[Any],
    task: Any,
    documents: Sequence[EncodedDocument],
    *,
    first: Sequence[int] | None = None,
    plain: Sequence[Sequence[str]] | None = None,
    whole: bool = True,
    max_tokens: int = MAX_TOKENS,
    progress: str | None = None,
) -> list[list[float]]:
    """Log-probability of every target sentence, given its source and what precedes it.

    It is natural, unsmoothed, and the sum over the words of the sentence and its end mark.
    Several models are an ensemble: their probabilities are averaged. A row that occurs
    several times is scored once, so equal ones get scores that are equal to the last bit.

    Args:
        models: on one device; they are put into evaluation mode.
        task: a :class:`~gtrans.tasks.document_translation.DocumentTranslationTask`, whose
            unit is that of the models.
        documents: see :data:`EncodedDocument`.
        first: for each document the number of the first sentence to score (default: 0).
            A document unit is read as a whole all the same.
        plain: for each document its source sentences as plain text, which models with BERT
            need besides their own tokens.
        whole: a document unit is never cut, however long; False: it is cut by the task's
            ``max_doc_tokens``, as for training.
        max_tokens: most tokens of a batch, rows times the longest side of any; a longer
            row stands alone.
        progress: name of a progress bar on standard error, drawn at a terminal only.

    Returns:
        For each document the scores of its sentences from ``first`` on.

    Raises:
        GtransError: a sentence holds a literal sentence mark.
        ValueError: the two sides of a document have different numbers of sentences.
    """
    starts = [0] * len(documents) if first is None else first
    pool = _Pool(task, whole)
    texts: Sequence[Sequence[str] | None] = plain or [None] * len(documents)
    of_document = [
        pool.rows_of(source, target, start, text)
        for (source, target), start, text in zip(documents, starts, texts, strict=True)
    ]
    distinct = pool.distinct
    for model in models:
        model.eval()
    with tqdm(total=len(distinct), desc=progress, disable=None if progress else True) as bar:
        for batch in _batches(distinct, max_tokens):
            for row, scores in zip(batch, _score(models, pool, batch), strict=True):
                row.scores = scores
            bar.update(len(batch))
    return [
        [
            score
            for row, wanted in parts
            for score in row.scores[wanted.start - row.first : wanted.stop - row.first]
        ]
        for parts in of_document
    ]


class _Pool:
    """All different rows of the documents."""

    def __init__(self, task: Any, whole: bool) -> None:
        examples: ExampleBuilder = task.examples
        self.examples = replace(examples, unit=examples.unit.unlimited()) if whole else examples
        self._frame = examples.frame
        self._dictionaries: tuple[Dictionary, Dictionary] = (
            task.source_dictionary,
            task.target_dictionary,
        )
        self._ids: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        self._word_pieces: dict[str, Tensor] = {}
        self._to_word_pieces = task.word_pieces
        self.complete_input = task.complete_input
        self._rows: dict[Any, _Row] = {}

    @property
    def distinct(self) -> list[_Row]:
        """Each row once."""
        return list(self._rows.values())

    def rows_of(
        self,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None = None,
    ) -> list[tuple[_Row, range]]:
        """The rows that tell a document's scores, each with its sentences to take."""
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sentences, but {len(target)} target sentences")
        words = [self._encoded(sentence, 0).numel() - 1 for sentence in source]
        return [
            self._row(span, source, target, max(span.current.start, first), plain)
            for span in self.examples.unit.cut(words)
            if span.current.stop > first
        ]

    def _row(
        self,
        span: UnitSpan,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None,
    ) -> tuple[_Row, range]:
        texts = tuple(source[n] for n in span.source), tuple(target[n] for n in span.target)
        words: tuple[str, ...] = ()
        if self.examples.word_pieces is not None and plain is not None:
            words = tuple(plain[n] for n in span.source)
        begin, end = (number - span.written.start for number in (first, span.current.stop))
        read = (texts[0], words, span.current.start - span.source.start)
        key = (read, texts[1])
        row = self._rows.get(key)
        if row is None:
            own, other = ([self._encoded(t, side) for t in texts[side]] for side in (0, 1))
            pieces = [self._in_word_pieces(sentence) for sentence in words]
            example = self.examples.example(span, own, other, pieces)
            row = self._rows[key] = _Row(read, example, begin, [])
        row.first = min(row.first, begin)
        return row, range(begin, end)

    def _in_word_pieces(self, sentence: str) -> Tensor:
        if sentence not in self._word_pieces:
            (self._word_pieces[sentence],) = self._to_word_pieces([sentence])
        return self._word_pieces[sentence]

    def _encoded(self, sentence: str, side: int) -> Tensor:
        """``(words + 1,)`` ids with the end mark."""
        known = self._ids[side].get(sentence)
        if known is None:
            known = self._dictionaries[side].encode_line(sentence, add_if_not_exist=False).long()
            marks = known[:-1].eq(self._frame.bos) | known[:-1].eq(self._frame.eos)
            if bool(marks.any()):
                raise GtransError(
                    f"the sentence '{sentence}' holds a literal sentence mark; escape it (the "
                    "pipeline of `gtrans prepare` does)."
                )
            self._ids[side][sentence] = known
        return known


def _batches(rows: list[_Row], max_tokens: int) -> Iterator[list[_Row]]:
    """Rows of similar length, together at most ``max_tokens`` padded; the longest first.

    The order lets a batch that does not fit into memory be the first one. Rows of one
    source stay together where they fit, sorted, so that neighbours begin alike.
    """
    of_source: dict[Hashable, list[_Row]] = {}
    for row in rows:
        of_source.setdefault(row.source, []).append(row)
    groups = [
        sorted(group, key=lambda row: row.example["prev_output_tokens"].tolist())
        for group in of_source.values()
    ]
    batch: list[_Row] = []
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


def _group_size(group: Sequence[_Row]) -> tuple[int, int]:
    """Tokens of the longest row, and of the source."""
    return max(row.size for row in group), group[0].example["source"].numel()


@torch.no_grad()
def _score(models: Sequence[Any], pool: _Pool, batch: Sequence[_Row]) -> list[list[float]]:
    """Scores of the sentences of each row, from its ``first`` on."""
    frame = pool.examples.frame
    device = next(models[0].parameters()).device
    sample = pool.examples.collate([row.example for row in batch])
    target, read = sample["target"], sample["net_input"]["prev_output_tokens"]
    # (rows, length): the number of each token's sentence; an end mark belongs to its own
    ends = target.eq(frame.eos).long()
    sentence = ends.cumsum(1) - ends
    first = torch.tensor([row.first for row in batch])
    wanted = target.ne(frame.pad) & sentence.ge(first[:, None])
    # What rows of a source begin with has the same probability in all of them.
    number: dict[Hashable, int] = {}
    sources = torch.tensor([number.setdefault(row.source, len(number)) for row in batch])
    whole = DocumentLayout.of_target(read, frame.pad, frame.bos, frame.eos)
    shared = SharedPrefixLayout.of(whole, read, sources)
    chosen, of_word = torch.unique(
        shared.choose(torch.arange(shared.tokens), wanted), return_inverse=True
    )
    predict_at = torch.zeros(wanted.numel(), dtype=torch.bool)
    predict_at[shared.index[chosen]] = True
    predict_at = predict_at.view_as(wanted)
    each = []
    of_word, words = of_word.to(device), target[wanted].to(device)
    for model in models:
        scored = _logits(model, pool, batch, sources, predict_at, device).float()
        each.append(scored[of_word, words] - scored.logsumexp(1)[of_word])
    scores = torch.stack(each).logsumexp(0) - math.log(len(each))
    # (rows, sentences), in double precision: the difference of two sums decides an item
    sums = torch.zeros(len(batch), int(ends.sum(1).max()), dtype=torch.float64)
    row = wanted.nonzero()[:, 0]
    sums.index_put_((row, sentence[wanted]), scores.cpu().double(), accumulate=True)
    return [
        found[row.first : count]
        for row, found, count in zip(batch, sums.tolist(), ends.sum(1).tolist(), strict=True)
    ]


def _logits(
    model: Any,
    pool: _Pool,
    batch: Sequence[_Row],
    sources: Tensor,
    predict_at: Tensor,
    device: torch.device,
) -> Tensor:
    """``(True entries of predict_at, vocabulary)``.

    Args:
        model: a model of the task.
        pool: where the rows come from.
        batch: what the model reads.
        sources: ``(rows,)`` number of each row's source, counted in order of appearance.
        predict_at: ``(rows, length)`` chooses among the target's tokens.
        device: the model's.
    """
    builder, examples = pool.examples, [row.example for row in batch]
    once = dict(zip(sources.tolist(), examples, strict=True))
    read = builder.collate([once[number] for number in range(len(once))])["net_input"]
    net_input = {
        **source_of(read),
        "prev_output_tokens": builder.collate(examples)["net_input"]["prev_output_tokens"],
        "source_of_row": sources,
        "predict_at": predict_at,
    }
    net_input = pool.complete_input({n: tensor.to(device) for n, tensor in net_input.items()})
    logits: Tensor = model(**net_input)[0]
    return logits
