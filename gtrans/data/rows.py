"""Rows of batches: sentences joined into the token sequences that models read.

Training, decoding and force decoding build their batches here, so that a model meets
the same rows in all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.data.units import Piece, UnitOptions
from gtrans.modules.bert import context_row

__all__ = ["ContextText", "Frame", "Item", "Rows", "source_of"]

Item = dict[str, Any]


@dataclass(frozen=True)
class ContextText:
    """What stands in the place of a neighbour when the context is not the true one.

    Attributes:
        words: ids ``first, .., last - 1`` of the vocabulary's real words.
        fixed: ``(words + 1,)`` ids of the fixed sentence, end symbol included.
        seed: random words depend on it and on the text, never on the batch, the
            command or the number of processes.
    """

    words: tuple[int, int]
    fixed: Tensor
    seed: int = 1

    def instead(self, kind: str, sentence: Tensor, current: Tensor) -> Tensor:
        """What is read instead of the neighbour ``sentence`` of the sentence ``current``."""
        if kind == "fixed":
            return self.fixed.to(sentence)
        key = [zlib.crc32(part.cpu().numpy().tobytes()) for part in (sentence, current)]
        numbers = np.random.default_rng([self.seed, *key]).integers(
            *self.words, size=sentence.numel() - 1
        )
        return torch.cat([sentence.new_tensor(numbers), sentence[-1:]])


@dataclass(frozen=True)
class PieceRows:
    """Rows of BERT's word pieces, ``[CLS] context [SEP] sentence [SEP]``.

    Attributes:
        longest: most pieces of a row.
        context: as in :class:`Rows`, in word pieces.
    """

    longest: int
    context: ContextText | None = None


@dataclass(frozen=True)
class Rows:
    """Builds the rows of a task.

    Attributes:
        frame: how sentences are marked.
        unit: how documents are cut.
        context: needed for ``context_kind`` ``fixed`` and ``random``.
        pieces: how rows of word pieces are made, where a model reads them beside the source.
    """

    frame: Frame
    unit: UnitOptions
    context: ContextText | None = None
    pieces: PieceRows | None = None

    def item(
        self,
        piece: Piece,
        source: Sequence[Tensor],
        target: Sequence[Tensor] | None = None,
        pieces: Sequence[Tensor] | None = None,
    ) -> Item:
        """One row, not yet padded.

        Args:
            piece: which sentences.
            source: the sentences ``piece.source``, each with its end symbol.
            target: the sentences ``piece.target``, or None where there is no target.
            pieces: the sentences ``piece.source`` in BERT's word pieces, with ``[SEP]``;
                needed where the rows have them.

        Returns:
            ``source (length,)``, ``current`` (number, in the row, of the first sentence
            that is translated), ``written`` (sentences on the target side) and, with a
            target, ``prev_output_tokens`` and ``target``, both ``(length,)``; with word
            pieces ``pieces (pieces,)``.
        """
        current = piece.current.start - piece.source.start
        item: Item = {
            "source": self.frame.source(self._replaced(source, current, self.context)),
            "current": current,
            "written": len(piece.target),
        }
        if target is not None:
            item["prev_output_tokens"], item["target"] = self.frame.target(target)
        if self.pieces is not None:
            if pieces is None:
                raise ValueError("this row needs the word pieces of its sentences")
            texts = self._replaced(pieces, current, self.pieces.context)
            neighbours = texts[:current] + texts[current + 1 :]
            item["pieces"] = context_row(neighbours, texts[current], self.pieces.longest)
        return item

    def _replaced(
        self, sentences: Sequence[Tensor], current: int, context: ContextText | None
    ) -> list[Tensor]:
        kind = self.unit.context_kind
        if self.unit.unit != "window" or context is None or kind in ("true", "none"):
            return list(sentences)
        return [
            sentence
            if number == current
            else context.instead(kind, sentence, sentences[current])
            for number, sentence in enumerate(sentences)
        ]

    def batch(self, items: Sequence[Item]) -> dict[str, Any]:
        """Rows as a batch: ``net_input``, ``target``, ``ntokens``, ``nsentences``.

        ``net_input`` holds what the model's ``forward`` takes: ``src_tokens (batch, length)``,
        ``src_lengths (batch,)``, in windows ``current (batch,)``, and with a target
        ``prev_output_tokens (batch, length)``; all padded on the right. Rows with word pieces
        also have ``pieces (batch, pieces)``, which the task replaces by BERT's output before
        a model sees it.
        """
        frame = self.frame
        source = frame.pad_rows([item["source"] for item in items])
        lengths = source.ne(frame.pad).sum(1)
        net_input: dict[str, Tensor] = {"src_tokens": source, "src_lengths": lengths}
        if self.unit.unit == "window":
            net_input["current"] = torch.tensor([item["current"] for item in items])
        if self.pieces is not None:
            net_input["pieces"] = frame.pad_rows([item["pieces"] for item in items])
        target = None
        if "target" in items[0]:
            target = frame.pad_rows([item["target"] for item in items])
            net_input["prev_output_tokens"] = frame.pad_rows(
                [item["prev_output_tokens"] for item in items]
            )
        return {
            "nsentences": sum(item["written"] for item in items),
            "ntokens": int((source if target is None else target).ne(frame.pad).sum()),
            "net_input": net_input,
            "target": target,
        }

    def written(self, source: Mapping[str, Tensor]) -> list[list[Tensor]]:
        """The source sentences, with their end symbols, that each row of a batch translates.

        Args:
            source: ``net_input`` of :meth:`batch`.
        """
        rows = [self.frame.sentences(row) for row in source["src_tokens"]]
        if self.unit.unit != "window" or self.unit.context_sides == "both":
            return rows
        current = source["current"].tolist()
        return [[row[number]] for row, number in zip(rows, current, strict=True)]

    def wanted(self, source: Mapping[str, Tensor]) -> list[slice]:
        """Which of the written sentences each row is there for."""
        if self.unit.unit == "window" and self.unit.context_sides == "both":
            return [slice(number, number + 1) for number in source["current"].tolist()]
        return [slice(None)] * source["src_tokens"].size(0)


def source_of(net_input: Mapping[str, Any]) -> dict[str, Any]:
    """The part of ``net_input`` that is known before the translation."""
    return {name: value for name, value in net_input.items() if name != "prev_output_tokens"}
