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


class SentencesBefore:
    """Which sentences stand before the current ones: the plan of hierarchical attention.

    Attributes:
        words: for each distance from 1 the current tokens ``(n,)`` that have a sentence so far
            before them, and the plan by which they attend to its words.
        some: ``(m,)`` the current tokens that have any; None: there is none.
        mask: ``(m, 1, 1, distances)`` True where they have one.
    """

    def __init__(
        self,
        asking: Segments,
        before: Sequence[tuple[Tensor, Segments]],
        keys: int,
        shapes: str = "exact",
        backend: str = "regroup",
    ) -> None:
        """Plan on the host.

        Args:
            asking: the runs of the current sentences.
            before: for each distance from 1 the numbers of the current sentences that have a
                sentence so far before them, and the runs of those among the keys.
            keys: number of key tokens.
            shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
            backend: for which attention is prepared.
        """
        self.words: list[tuple[Tensor, AttentionPlan]] = []
        self.some = self.mask = None
        total = int(asking.lengths.sum())
        known: list[Tensor] = []
        for numbers, runs in before:
            if not numbers.numel():
                break
            tokens = _tokens_of(asking.chosen(numbers))
            lengths = asking.lengths[numbers]
            own = Segments(lengths.cumsum(0) - lengths, lengths)
            plan = AttentionPlan(own, runs, tokens.numel(), keys, False, shapes)
            plan.prepare(backend)
            self.words.append((tokens, plan))
            known.append(torch.zeros(total, dtype=torch.bool).index_fill(0, tokens, True))
        if known:
            # Whoever has a sentence farther away has the nearest one, too.
            self.some = known[0].nonzero().squeeze(1)
            self.mask = torch.stack(known, 1)[self.some][:, None, None, :]


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

        ``sentence.states (words, groups * dim)`` are those of one group or of several.
        """
        attention = self.word_attn
        pairs = {
            group: (sentence.align(attention.k_proj(h)), sentence.align(attention.v_proj(h)))
            for group, h in enumerate(torch.split(sentence.states, self.spec.dim, 1))
        }
        return SharedSources.of_layers(pairs, sentence.lengths)

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
