"""Attention to the words of earlier sentences, then to the sentences (HAN).

Miculicich, Ram, Pappas and Henderson, "Document-Level Neural Machine Translation with
Hierarchical Attention Networks", EMNLP 2018, §2.1-2.2. On the states h of the last layer, with
h_t of a word of the current sentence and h^j of the words of the j-th sentence before it:

==========  ==========================================================================
word        ``s_j = MHA(f_w(h_t), h^j, h^j)`` for each of the k sentences before
sentence    ``d_t = FFN(MHA(f_s(h_t), s, s))`` with ``s = (s_1, .., s_k)``
gate        ``l = sigmoid(W_h h_t + W_d d_t)``, and ``l h_t + (1 - l) d_t`` is handed on
==========  ==========================================================================

``f_w`` and ``f_s`` are linear, and FFN has its residual and LayerNorm around it, as in a layer.
A sentence that has none before it keeps its states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.modules.decode_state import SharedSources
from gtrans.modules.group_attention import DocumentLayout, PlanPart, Segments, attention_plan
from gtrans.modules.transformer import (
    Gate,
    LayerSpec,
    Linear,
    MultiheadAttention,
    PackedContext,
    ResidualLayer,
)


@dataclass(frozen=True)
class SentencesBefore(PlanPart):
    """Which sentences stand before the last ones of rows; made by :func:`sentences_before`.

    Attributes:
        words: for each distance from 1 the current tokens ``(n,)`` that have a sentence so far
            before them, and the plan by which they attend to its words.
        some: ``(m,)`` the current tokens that have any; None: there is none.
        mask: ``(m, 1, 1, distances)`` True where they have one.
    """

    words: Sequence[Sequence[Any]]
    some: Tensor | None = None
    mask: Tensor | None = None


def sentences_before(layout: DocumentLayout, words: Tensor, shapes: str) -> SentencesBefore:
    """The sentences before the last one of every row, by distance, on the host.

    Args:
        layout: of the rows.
        words: ``(sentences,)`` how many tokens of each are attended to.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """
    counts, lengths = layout.sentence_counts.numpy(), layout.sentence_lengths.numpy()
    last, starts = counts.cumsum() - 1, layout.sentence_starts.numpy()
    row = np.arange(len(counts)).repeat(lengths[last])
    read, known = [], []
    for distance in range(1, layout.most_sentences):
        rows = np.flatnonzero(counts > distance)
        sentences = last[rows] - distance
        known.append(np.isin(row, rows))
        tokens = np.flatnonzero(known[-1])
        asking = Segments.of(layout.sentence_lengths[last[rows]])
        asked = Segments(starts[sentences], words.numpy()[sentences])
        plan = attention_plan(asking, asked, (len(tokens), layout.tokens), shapes=shapes)
        read.append((torch.from_numpy(tokens), plan))
    if not read:
        return SentencesBefore([])
    # Whoever has a sentence farther away has the nearest one, too.
    some = np.flatnonzero(known[0])
    mask = torch.from_numpy(np.stack(known, 1)[some][:, None, None, :])
    return SentencesBefore(read, torch.from_numpy(some), mask)


class HierarchicalAttention(ResidualLayer):
    """Hierarchical attention on one side."""

    def __init__(self, spec: LayerSpec) -> None:
        # What attention gives is normalised whatever the layers of the model do.
        super().__init__(replace(spec, pre_norm=False))
        self.word_query = Linear(spec.dim, spec.dim)
        self.sentence_query = Linear(spec.dim, spec.dim)
        self.word_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.sentence_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.gate = Gate(spec.dim)

    def forward(self, h: Tensor, keys: Tensor, before: SentencesBefore) -> Tensor:
        """New states of the current sentences.

        Args:
            h: ``(tokens, dim)`` of the current sentences, one after the other.
            keys: ``(key tokens, dim)`` states that hold the sentences before them.
            before: which of them are before which.

        Returns:
            ``(tokens, dim)``.
        """
        if before.some is None:
            # DistributedDataParallel wants a gradient, if only zero, for every parameter.
            return h + 0.0 * sum(p.sum() for p in self.parameters()) if self.training else h
        queries = self.word_query(h)
        read: list[Tensor] = []
        for tokens, plan in before.words:
            words = self.word_attn(queries[tokens], keys, keys, plan)
            read.append(words.new_zeros(h.shape).index_copy(0, tokens, words))
        sentences = torch.stack(read, 1)[before.some]
        refined = self._refined(h[before.some], sentences, before.mask)
        return h.index_copy(0, before.some, refined.to(h))

    def step(self, h: Tensor, before: Sequence[SharedSources], group: int = 0) -> Tensor:
        """New states of the newest words of hypotheses.

        Args:
            h: ``(hypotheses, dim)``.
            before: for each distance from 1, as far as there are sentences, what
                :meth:`sources` gives.
            group: which of the states of the sentences before are read.

        Returns:
            ``(hypotheses, dim)``.
        """
        if not before:
            return h
        query = self.word_query(h)
        words = [self.word_attn.attend(query, *sources.for_layer(group)) for sources in before]
        return self._refined(h, torch.stack(words, 1), None)

    def sources(self, sentence: PackedContext) -> SharedSources:
        """Keys and values of a sentence of each document, projected once for all hypotheses.

        ``sentence.states (words, groups * dim)`` hold one group of layers or several.
        """
        attention = self.word_attn
        pairs = {
            group: (sentence.align(attention.k_proj(h)), sentence.align(attention.v_proj(h)))
            for group, h in enumerate(torch.split(sentence.states, self.spec.dim, 1))
        }
        return SharedSources(pairs, sentence.lengths)

    def _refined(self, h: Tensor, sentences: Tensor, mask: Tensor | None) -> Tensor:
        """Sentence level and gate: ``h (words, dim)``, ``sentences (words, k, dim)``."""
        attention = self.sentence_attn
        key, value = attention.k_proj(sentences), attention.v_proj(sentences)
        summary = attention.attend(self.sentence_query(h), key, value, mask)
        mixed: Tensor = self.gate(h, self._feed_forward(summary))
        return mixed
