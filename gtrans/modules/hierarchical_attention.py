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

import numpy as np
import torch
from torch import Tensor

from gtrans.modules.decode_state import SharedSources, Sources
from gtrans.modules.group_attention import (
    AttentionPlan,
    DocumentLayout,
    PlanPart,
    Segments,
    attention_plan,
)
from gtrans.modules.transformer import (
    Gate,
    LayerSpec,
    Linear,
    MultiheadAttention,
    PackedContext,
    ResidualLayer,
)


@dataclass(frozen=True)
class SentenceAtDistance(PlanPart):
    """The attention to the words of a sentence some sentences before the current one.

    Attributes:
        tokens: ``(n,)`` the current tokens with such a sentence.
        attention: lets them see its words.
    """

    tokens: Tensor
    attention: AttentionPlan


@dataclass(frozen=True)
class SentencesBefore(PlanPart):
    """The sentences before the last one of every row.

    Attributes:
        by_distance: the nearest sentence first.
        tokens: ``(m,)`` the current tokens with a sentence before them; None: there are none.
        mask: ``(m, 1, 1, distances)`` True where these tokens have a sentence.
    """

    by_distance: Sequence[SentenceAtDistance]
    tokens: Tensor | None = None
    mask: Tensor | None = None


def sentences_before(
    layout: DocumentLayout, visible_lengths: Tensor, shapes: str
) -> SentencesBefore:
    """Plan, on the host, the attention to the sentences before the last one of every row.

    Args:
        layout: sentences of the rows.
        visible_lengths: ``(sentences,)`` first tokens of each sentence that are attended to.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """
    counts = layout.sentence_counts.numpy()
    lengths = layout.sentence_lengths.numpy()
    starts = layout.sentence_starts.numpy()
    current = counts.cumsum() - 1  # the last sentence of each row
    row_of_token = np.arange(len(counts)).repeat(lengths[current])
    by_distance: list[SentenceAtDistance] = []
    has_sentence = []
    for distance in range(1, layout.most_sentences):
        rows = np.flatnonzero(counts > distance)
        before = current[rows] - distance
        is_in_rows = np.isin(row_of_token, rows)
        tokens = np.flatnonzero(is_in_rows)
        queries = Segments.of_lengths(layout.sentence_lengths[current[rows]])
        keys = Segments(starts[before], visible_lengths.numpy()[before])
        size = len(tokens), layout.tokens
        attention = attention_plan(queries, keys, size, shapes=shapes)
        by_distance.append(SentenceAtDistance(torch.from_numpy(tokens), attention))
        has_sentence.append(is_in_rows)
    if not by_distance:
        return SentencesBefore([])
    # A token with a sentence farther away has the nearest one, too.
    with_any = np.flatnonzero(has_sentence[0])
    mask = np.stack(has_sentence, 1)[with_any]
    return SentencesBefore(
        by_distance,
        tokens=torch.from_numpy(with_any),
        mask=torch.from_numpy(mask[:, None, None, :]),
    )


class HierarchicalAttention(ResidualLayer):
    """Hierarchical attention on one side."""

    def __init__(self, spec: LayerSpec) -> None:
        # The output of attention is normalised in pre-norm models, too.
        super().__init__(replace(spec, pre_norm=False))
        dim, heads = spec.dim, spec.heads
        self.word_query = Linear(dim, dim)
        self.sentence_query = Linear(dim, dim)
        self.word_attn = MultiheadAttention(dim, heads, spec.attention_dropout)
        self.sentence_attn = MultiheadAttention(dim, heads, spec.attention_dropout)
        self.gate = Gate(dim)

    def forward(self, h: Tensor, keys: Tensor, before: SentencesBefore) -> Tensor:
        """Refine the states of the current sentences.

        Args:
            h: ``(tokens, dim)``, as the result.
            keys: ``(key tokens, dim)`` states of the sentences before.
            before: which tokens see which of them.
        """
        tokens = before.tokens
        if tokens is None:
            if not self.training:
                return h
            # DistributedDataParallel wants a gradient, if only zero, for every parameter.
            return h + 0.0 * sum(p.sum() for p in self.parameters())
        queries = self.word_query(h)
        summaries: list[Tensor] = []  # (tokens, dim) by distance, zeros without a sentence
        for sentence in before.by_distance:
            query = queries[sentence.tokens]
            summary = self.word_attn(query, keys, keys, sentence.attention)
            zeros = summary.new_zeros(h.shape)
            summaries.append(zeros.index_copy(0, sentence.tokens, summary))
        sentences = torch.stack(summaries, 1)[tokens]
        refined = self._refined(h[tokens], sentences, before.mask)
        return h.index_copy(0, tokens, refined.to(h))

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
        summaries = []
        for sources in before:
            key, value, mask = sources.for_layer(group)
            summaries.append(self.word_attn.attend(query, key, value, mask))
        sentences = torch.stack(summaries, 1)
        return self._refined(h, sentences, None)

    def sources(self, sentence: PackedContext) -> SharedSources:
        """Project the keys and values of a sentence of each document.

        ``sentence.states (words, groups * dim)`` hold one group of layers or several.
        """
        sources: Sources = {}
        states_of_groups = torch.split(sentence.states, self.spec.dim, 1)
        for group, h in enumerate(states_of_groups):
            keys = self.word_attn.k_proj(h)
            aligned_keys = sentence.align(keys)
            values = self.word_attn.v_proj(h)
            aligned_values = sentence.align(values)
            sources[group] = aligned_keys, aligned_values
        return SharedSources(sources, sentence.lengths)

    def _refined(self, h: Tensor, sentences: Tensor, mask: Tensor | None) -> Tensor:
        """Apply sentence level and gate: ``h (words, dim)``, ``sentences (words, k, dim)``."""
        attention = self.sentence_attn
        key = attention.k_proj(sentences)
        value = attention.v_proj(sentences)
        query = self.sentence_query(h)
        attended = attention.attend(query, key, value, mask)
        summary = self._feed_forward(attended)
        mixed: Tensor = self.gate(h, summary)
        return mixed
