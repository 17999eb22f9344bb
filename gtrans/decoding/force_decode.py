"""Log-probabilities of given translations (force decoding).

A document is read as its model was trained, in the rows of its unit; but a ``document``
unit is never cut here. Only ``forward`` of a model is used, so every model of a task can
be asked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor
from tqdm import tqdm

from gtrans.data.rows import Item, Rows
from gtrans.data.units import Piece
from gtrans.errors import GtransError

MAX_TOKENS = 2000

EncodedDocument = tuple[Sequence[str], Sequence[str]]
"""Source and target sentences, as many on both sides, each as BPE tokens between spaces."""


@dataclass
class _Row:
    """What a model reads at once.

    Attributes:
        item: see :meth:`gtrans.data.rows.Rows.item`.
        first: number, in the row's target, of the first sentence whose score is wanted.
        scores: of the sentences from ``first`` on, once they are known.
    """

    item: Item
    first: int
    scores: list[float]

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        return int(max(self.item["source"].numel(), self.item["target"].numel()))


def score_documents(
    models: Sequence[Any],
    task: Any,
    documents: Sequence[EncodedDocument],
    *,
    first: Sequence[int] | None = None,
    plain: Sequence[Sequence[str]] | None = None,
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
            need beside their own tokens.
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
    pool = _Pool(task)
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

    def __init__(self, task: Any) -> None:
        rows: Rows = task.rows
        # What belongs to one item is read as a whole, however long it is.
        self.rows = replace(rows, unit=replace(rows.unit, max_doc_tokens=sys.maxsize))
        self._frame = rows.frame
        self._dictionaries: tuple[Dictionary, Dictionary] = (
            task.source_dictionary,
            task.target_dictionary,
        )
        self._ids: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        self._pieces: dict[str, Tensor] = {}
        self._word_pieces = task.word_pieces
        self.ready = task.ready
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
            self._row(piece, source, target, max(piece.current.start, first), plain)
            for piece in self.rows.unit.pieces(words)
            if piece.current.stop > first
        ]

    def _row(
        self,
        piece: Piece,
        source: Sequence[str],
        target: Sequence[str],
        first: int,
        plain: Sequence[str] | None,
    ) -> tuple[_Row, range]:
        texts = tuple(source[n] for n in piece.source), tuple(target[n] for n in piece.target)
        words: tuple[str, ...] = ()
        if self.rows.pieces is not None and plain is not None:
            words = tuple(plain[n] for n in piece.source)
        begin, end = (number - piece.target.start for number in (first, piece.current.stop))
        key = (texts, words, piece.current.start - piece.source.start)
        row = self._rows.get(key)
        if row is None:
            own, other = ([self._encoded(t, side) for t in texts[side]] for side in (0, 1))
            pieces = [self._in_pieces(sentence) for sentence in words]
            row = self._rows[key] = _Row(self.rows.item(piece, own, other, pieces), begin, [])
        row.first = min(row.first, begin)
        return row, range(begin, end)

    def _in_pieces(self, sentence: str) -> Tensor:
        if sentence not in self._pieces:
            (self._pieces[sentence],) = self._word_pieces([sentence])
        return self._pieces[sentence]

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

    The order lets a batch that does not fit into memory be the first one.
    """
    batch: list[_Row] = []
    for row in sorted(rows, key=lambda row: (row.size, row.item["source"].numel()), reverse=True):
        if batch and (len(batch) + 1) * batch[0].size > max_tokens:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


@torch.no_grad()
def _score(models: Sequence[Any], pool: _Pool, batch: Sequence[_Row]) -> list[list[float]]:
    """Scores of the sentences of each row, from its ``first`` on."""
    rows = pool.rows
    device = next(models[0].parameters()).device
    sample = rows.batch([row.item for row in batch])
    net_input = pool.ready(
        {name: tensor.to(device) for name, tensor in sample["net_input"].items()}
    )
    target = sample["target"]
    # (rows, length): the number of each token's sentence; an end mark belongs to its own
    ends = target.eq(rows.frame.eos).long()
    sentence = ends.cumsum(1) - ends
    first = torch.tensor([row.first for row in batch])
    row, column = (target.ne(rows.frame.pad) & sentence.ge(first[:, None])).nonzero(as_tuple=True)
    wanted = target[row, column].to(device)
    places = row.to(device), column.to(device)
    each = []
    for model in models:
        logits = model(**net_input)[0]
        # Of all positions only those that count go through the softmax.
        scored = logits[places].float()
        each.append(scored.gather(1, wanted[:, None]).squeeze(1) - scored.logsumexp(1))
    words = torch.stack(each).logsumexp(0) - math.log(len(each))
    # (rows, sentences), in double precision: the difference of two sums decides an item
    sums = torch.zeros(len(batch), int(ends.sum(1).max()), dtype=torch.float64)
    sums.index_put_((row, sentence[row, column]), words.cpu().double(), accumulate=True)
    return [
        scores[row.first : count]
        for row, scores, count in zip(batch, sums.tolist(), ends.sum(1).tolist(), strict=True)
    ]
