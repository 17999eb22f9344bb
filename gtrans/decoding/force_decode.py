"""Log-probabilities of given translations (force decoding).

A document is read as its model was trained: with unit ``document`` as one unit, which
is never cut here, with unit ``sentence`` sentence by sentence. Only ``forward`` of a
model is used, so every model of a task can be asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor
from tqdm import tqdm

from gtrans.data.document_dataset import Frame
from gtrans.errors import GtransError

MAX_TOKENS = 2000

EncodedDocument = tuple[Sequence[str], Sequence[str]]
"""Source and target sentences, as many on both sides, each as BPE tokens between spaces."""


@dataclass
class _Unit:
    """What a model reads at once.

    Attributes:
        source: ``(source length,)``.
        decoder_input, target: ``(target length,)``; padding in ``target`` is not scored.
        first: number of the first sentence whose score is wanted.
        scores: of the sentences from ``first`` on, once they are known.
    """

    source: Tensor
    decoder_input: Tensor
    target: Tensor
    first: int
    scores: list[float]

    @property
    def size(self) -> int:
        """Tokens of the longer side."""
        return max(self.source.numel(), self.target.numel())


def score_documents(
    models: Sequence[Any],
    task: Any,
    documents: Sequence[EncodedDocument],
    *,
    first: Sequence[int] | None = None,
    max_tokens: int = MAX_TOKENS,
    progress: str | None = None,
) -> list[list[float]]:
    """Log-probability of every target sentence, given its source and what precedes it.

    It is natural, unsmoothed, and the sum over the words of the sentence and its end mark.
    Several models are an ensemble: their probabilities are averaged. A unit that occurs
    several times is scored once, so equal ones get scores that are equal to the last bit.

    Args:
        models: on one device; they are put into evaluation mode.
        task: a :class:`~gtrans.tasks.document_translation.DocumentTranslationTask`, whose
            ``cfg.unit`` is that of the models.
        documents: see :data:`EncodedDocument`.
        first: for each document the number of the first sentence to score (default: 0).
            A document unit is read as a whole all the same.
        max_tokens: most tokens of a batch, units times the longest side of any; a longer
            unit stands alone.
        progress: name of a progress bar on standard error, drawn at a terminal only.

    Returns:
        For each document the scores of its sentences from ``first`` on.

    Raises:
        GtransError: a sentence holds a literal sentence mark.
        ValueError: the two sides of a document have different numbers of sentences.
    """
    starts = [0] * len(documents) if first is None else first
    pool = _UnitPool(task)
    of_document = [
        pool.units(source, target, start)
        for (source, target), start in zip(documents, starts, strict=True)
    ]
    units = pool.all_units
    frame: Frame = task.frame
    for model in models:
        model.eval()
    with tqdm(total=len(units), desc=progress, disable=None if progress else True) as bar:
        for batch in _batches(units, max_tokens):
            for unit, scores in zip(batch, _score(models, frame, batch), strict=True):
                unit.scores = scores
            bar.update(len(batch))
    return [
        [score for unit, start in parts for score in unit.scores[start - unit.first :]]
        for parts in of_document
    ]


class _UnitPool:
    """All different units of the documents."""

    def __init__(self, task: Any) -> None:
        self._by_sentence = str(task.cfg.unit) == "sentence"
        self._frame: Frame = task.frame
        self._dictionaries: tuple[Dictionary, Dictionary] = (
            task.source_dictionary,
            task.target_dictionary,
        )
        self._ids: tuple[dict[str, Tensor], dict[str, Tensor]] = ({}, {})
        self._units: dict[tuple[tuple[str, ...], tuple[str, ...]], _Unit] = {}

    @property
    def all_units(self) -> list[_Unit]:
        return list(self._units.values())

    def units(
        self, source: Sequence[str], target: Sequence[str], first: int
    ) -> list[tuple[_Unit, int]]:
        """The units that tell a document's scores, each with the first sentence to take."""
        if len(source) != len(target):
            raise ValueError(f"{len(source)} source sentences, but {len(target)} target sentences")
        if not self._by_sentence:
            return [(self._unit(tuple(source), tuple(target), first), first)]
        pairs = zip(source[first:], target[first:], strict=True)
        return [(self._unit((one,), (other,), 0), 0) for one, other in pairs]

    def _unit(self, source: tuple[str, ...], target: tuple[str, ...], first: int) -> _Unit:
        unit = self._units.get((source, target))
        if unit is None:
            decoder_input, expected = self._frame.target([self._encoded(t, 1) for t in target])
            framed = self._frame.source([self._encoded(s, 0) for s in source])
            unit = _Unit(framed, decoder_input, expected, first, [])
            self._units[source, target] = unit
        unit.first = min(unit.first, first)
        return unit

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


def _batches(units: list[_Unit], max_tokens: int) -> Iterator[list[_Unit]]:
    """Units of similar length, together at most ``max_tokens`` padded; the longest first.

    The order lets a batch that does not fit into memory be the first one.
    """
    batch: list[_Unit] = []
    for unit in sorted(units, key=lambda unit: (unit.size, unit.source.numel()), reverse=True):
        if batch and (len(batch) + 1) * batch[0].size > max_tokens:
            yield batch
            batch = []
        batch.append(unit)
    if batch:
        yield batch


@torch.no_grad()
def _score(models: Sequence[Any], frame: Frame, batch: Sequence[_Unit]) -> list[list[float]]:
    """Scores of the sentences of each unit, from its ``first`` on."""
    device = next(models[0].parameters()).device
    source = _merge([unit.source for unit in batch], frame).to(device)
    decoder_input = _merge([unit.decoder_input for unit in batch], frame).to(device)
    target = _merge([unit.target for unit in batch], frame)
    # (units, length): the number of each token's sentence; an end mark belongs to its own
    ends = target.eq(frame.eos).long()
    sentence = ends.cumsum(1) - ends
    first = torch.tensor([unit.first for unit in batch])
    row, column = (target.ne(frame.pad) & sentence.ge(first[:, None])).nonzero(as_tuple=True)
    wanted = target[row, column].to(device)
    places = row.to(device), column.to(device)
    each = []
    for model in models:
        logits = model(source, source.ne(frame.pad).sum(1), decoder_input)[0]
        # Of all positions only those that count go through the softmax.
        scored = logits[places].float()
        each.append(scored.gather(1, wanted[:, None]).squeeze(1) - scored.logsumexp(1))
    words = torch.stack(each).logsumexp(0) - math.log(len(each))
    # (units, sentences), in double precision: the difference of two sums decides an item
    sums = torch.zeros(len(batch), int(ends.sum(1).max()), dtype=torch.float64)
    sums.index_put_((row, sentence[row, column]), words.cpu().double(), accumulate=True)
    return [
        scores[unit.first : count]
        for unit, scores, count in zip(batch, sums.tolist(), ends.sum(1).tolist(), strict=True)
    ]


def _merge(rows: list[Tensor], frame: Frame) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        rows, batch_first=True, padding_value=float(frame.pad)
    )
