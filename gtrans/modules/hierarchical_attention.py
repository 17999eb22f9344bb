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
from dataclasses import replace

import torch
from torch import Tensor

from gtrans.modules.attention import GlobalGate, MultiheadAttention
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.layout import Segments
from gtrans.modules.linear import Linear
from gtrans.modules.residual import LayerSpec, ResidualLayer
from gtrans.modules.shared_keys import SharedSources


class HierarchicalAttention(ResidualLayer):
    """Hierarchical attention on one side; with ``gate_bias`` the gate begins at its sigmoid."""

    def __init__(self, spec: LayerSpec, gate_bias: float | None = None) -> None:
        # What attention gives is normalised whatever the layers of the model do.
        super().__init__(replace(spec, pre_norm=False))
        self.word_query = Linear(spec.dim, spec.dim)
        self.sentence_query = Linear(spec.dim, spec.dim)
        self.word_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.sentence_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.gate = GlobalGate(spec.dim, gate_bias)

    def forward(
        self, h: Tensor, asking: Segments, keys: Tensor, before: Sequence[tuple[Tensor, Segments]]
    ) -> Tensor:
        """New states of the current sentences.

        Args:
            h: ``(tokens, dim)`` of the current sentences, one after the other.
            asking: their runs in ``h``.
            keys: ``(key tokens, dim)`` states that hold the sentences before them.
            before: for each distance from 1 the numbers of the current sentences that have a
                sentence so far before them, and the runs of those in ``keys``.

        Returns:
            ``(tokens, dim)``.
        """
        if not before or not before[0][0].numel():
            # DistributedDataParallel wants a gradient, if only zero, for every parameter.
            return h + 0.0 * sum(p.sum() for p in self.parameters()) if self.training else h
        queries = self.word_query(h)
        read: list[Tensor] = []
        known: list[Tensor] = []
        for numbers, runs in before:
            tokens = _tokens_of(asking.chosen(numbers))
            lengths = asking.lengths[numbers]
            own = Segments(lengths.cumsum(0) - lengths, lengths)
            plan = AttentionPlan(own, runs, tokens.numel(), keys.size(0), causal=False)
            words = self.word_attn(queries[tokens], keys, keys, plan)
            read.append(words.new_zeros(h.shape).index_copy(0, tokens, words))
            known.append(h.new_zeros(h.size(0), dtype=torch.bool).index_fill(0, tokens, True))
        # Whoever has a sentence farther away has the nearest one, too.
        some = known[0].nonzero().squeeze(1)
        sentences = torch.stack(read, 1)[some]
        mask = torch.stack(known, 1)[some][:, None, None, :]
        refined = self._refined(h[some], sentences, mask)
        return h.index_copy(0, some, refined.to(h))

    def step(self, h: Tensor, before: Sequence[SharedSources]) -> Tensor:
        """New states of the newest words of hypotheses.

        Args:
            h: ``(hypotheses, dim)``.
            before: for each distance from 1, as far as there are sentences, what
                :meth:`sources` gives.

        Returns:
            ``(hypotheses, dim)``.
        """
        if not before:
            return h
        query = self.word_query(h)
        words = [self.word_attn.attend(query, *sources.for_layer(0)) for sources in before]
        return self._refined(h, torch.stack(words, 1), None)

    def sources(self, sentence: PackedContext) -> SharedSources:
        """Keys and values of a sentence of each document, projected once for all hypotheses."""
        attention = self.word_attn
        key, value = attention.k_proj(sentence.states), attention.v_proj(sentence.states)
        pair = sentence.align(key), sentence.align(value)
        return SharedSources.of_layers({0: pair}, sentence.lengths)

    def _refined(self, h: Tensor, sentences: Tensor, mask: Tensor | None) -> Tensor:
        """Sentence level and gate: ``h (words, dim)``, ``sentences (words, k, dim)``."""
        attention = self.sentence_attn
        key, value = attention.k_proj(sentences), attention.v_proj(sentences)
        summary = attention.attend(self.sentence_query(h), key, value, mask)
        mixed: Tensor = self.gate(h, self._feed_forward(summary))
        return mixed


def _tokens_of(runs: Segments) -> Tensor:
    """``(tokens,)`` numbers of the tokens of some runs, one run after the other."""
    begins = runs.lengths.cumsum(0) - runs.lengths
    total = int(runs.lengths.sum())
    shift = torch.repeat_interleave(runs.starts - begins, runs.lengths, output_size=total)
    return torch.arange(total, device=shift.device) + shift
