"""Attention to the words of earlier sentences, then to the sentences (HAN).

Miculicich, Ram, Pappas and Henderson, "Document-Level Neural Machine Translation with
Hierarchical Attention Networks", EMNLP 2018, §2.1-2.2. With h_t of a word of the current
sentence and h^j of the words of the j-th sentence before it, in the last layer:

==========  ==========================================================================
word        ``s_j = MHA(f_w(h_t), h^j, h^j)`` for each of the k sentences before
sentence    ``d_t = FFN(MHA(f_s(h_t), s, s))`` with ``s = (s_1, .., s_k)``
gate        ``l = sigmoid(W_h h_t + W_d d_t)``, and ``l h_t + (1 - l) d_t`` is handed on
==========  ==========================================================================

``f_w`` and ``f_s`` are linear; FFN has residual and LayerNorm. A first sentence keeps its states.
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
    """Which sentences stand before the last ones of rows.

    Attributes:
        words: for each distance from 1 the current tokens ``(n,)`` with a sentence so far before
            them, and their plan of attention to its words.
        some: ``(m,)`` the current tokens with any sentence before them, or None.
        mask: ``(m, 1, 1, distances)`` True where they have one.
    """

    words: Sequence[Sequence[Any]]
    some: Tensor | None = None
    mask: Tensor | None = None


def sentences_before(layout: DocumentLayout, words: Tensor, shapes: str) -> SentencesBefore:
    """Plan, on the host, the attention to the sentences before the last one of every row.

    Args:
        layout: sentences of the rows.
        words: ``(sentences,)`` tokens of each that are attended to.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """
    counts = layout.sentence_counts.numpy()
    lengths = layout.sentence_lengths.numpy()
    starts = layout.sentence_starts.numpy()
    last = counts.cumsum() - 1
    row_of_token = np.arange(len(counts)).repeat(lengths[last])
    read, has_sentence = [], []
    for distance in range(1, layout.most_sentences):
        rows = np.flatnonzero(counts > distance)
        sentences = last[rows] - distance
        has_sentence.append(np.isin(row_of_token, rows))
        tokens = np.flatnonzero(has_sentence[-1])
        asking = Segments.of_lengths(layout.sentence_lengths[last[rows]])
        asked = Segments(starts[sentences], words.numpy()[sentences])
        plan = attention_plan(asking, asked, (len(tokens), layout.tokens), shapes=shapes)
        read.append((torch.from_numpy(tokens), plan))
    if not read:
        return SentencesBefore([])
    # A token with a sentence farther away has the nearest one, too.
    some = np.flatnonzero(has_sentence[0])
    mask = np.stack(has_sentence, 1)[some]
    return SentencesBefore(read, torch.from_numpy(some), torch.from_numpy(mask[:, None, None, :]))


class HierarchicalAttention(ResidualLayer):
    """Hierarchical attention on one side."""

    def __init__(self, spec: LayerSpec) -> None:
        # The output of attention is normalised in pre-norm models, too.
        super().__init__(replace(spec, pre_norm=False))
        self.word_query = Linear(spec.dim, spec.dim)
        self.sentence_query = Linear(spec.dim, spec.dim)
        self.word_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.sentence_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.gate = Gate(spec.dim)

    def forward(self, h: Tensor, keys: Tensor, before: SentencesBefore) -> Tensor:
        """Refine the states of the current sentences.

        Args:
            h: ``(tokens, dim)`` of the current sentences, as the result.
            keys: ``(key tokens, dim)`` states of the sentences before.
            before: the plan of this batch.
        """
        if before.some is None:
            if not self.training:
                return h
            # DistributedDataParallel wants a gradient, if only zero, for every parameter.
            return h + 0.0 * sum(p.sum() for p in self.parameters())
        queries = self.word_query(h)
        read: list[Tensor] = []
        for tokens, plan in before.words:
            words = self.word_attn(queries[tokens], keys, keys, plan)
            read.append(words.new_zeros(h.shape).index_copy(0, tokens, words))
        sentences = torch.stack(read, 1)[before.some]
        refined = self._refined(h[before.some], sentences, before.mask)
        return h.index_copy(0, before.some, refined.to(h))

    def step(self, h: Tensor, before: Sequence[SharedSources], group: int = 0) -> Tensor:
        """Refine the states of the newest words of hypotheses.

        Args:
            h: ``(hypotheses, dim)``, as the result.
            before: :meth:`sources`, the nearest sentence first.
            group: the group of layers to attend to.
        """
        if not before:
            return h
        query = self.word_query(h)
        words = [self.word_attn.attend(query, *sources.for_layer(group)) for sources in before]
        return self._refined(h, torch.stack(words, 1), None)

    def sources(self, sentence: PackedContext) -> SharedSources:
        """Project the keys and values of a sentence of each document.

        ``sentence.states (words, groups * dim)`` hold one group of layers or several.
        """
        attention = self.word_attn
        pairs = {}
        for group, h in enumerate(torch.split(sentence.states, self.spec.dim, 1)):
            keys = sentence.align(attention.k_proj(h))
            values = sentence.align(attention.v_proj(h))
            pairs[group] = keys, values
        return SharedSources(pairs, sentence.lengths)

    def _refined(self, h: Tensor, sentences: Tensor, mask: Tensor | None) -> Tensor:
        """Apply sentence level and gate: ``h (words, dim)``, ``sentences (words, k, dim)``."""
        attention = self.sentence_attn
        key = attention.k_proj(sentences)
        value = attention.v_proj(sentences)
        summary = attention.attend(self.sentence_query(h), key, value, mask)
        mixed: Tensor = self.gate(h, self._feed_forward(summary))
        return mixed
