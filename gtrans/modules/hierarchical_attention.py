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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.modules.attention import Gate, MultiheadAttention
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.decode_state import SharedSources
from gtrans.modules.group_attention import AttentionPlan, Entries, Ints, Segments, attention_plan
from gtrans.modules.linear import Linear
from gtrans.modules.transformer import LayerSpec, ResidualLayer


@dataclass(frozen=True)
class SentencesBefore:
    """Which sentences stand before the current ones; made by :func:`sentences_before`.

    Attributes:
        words: for each distance from 1 the current tokens ``(n,)`` that have a sentence so far
            before them, and the plan by which they attend to its words.
        some: ``(m,)`` the current tokens that have any; None: there is none.
        mask: ``(m, 1, 1, distances)`` True where they have one.
    """

    words: Sequence[tuple[Tensor, AttentionPlan]]
    some: Tensor | None
    mask: Tensor | None

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> SentencesBefore:
        """What :func:`sentences_before` has made, wherever its tensors are now."""
        words = [(tokens, AttentionPlan.of(plan)) for tokens, plan in entries["words"]]
        return cls(words, entries["some"], entries["mask"])


def sentences_before(
    current: Ints, before: Sequence[tuple[Ints, Segments]], keys: int, shapes: str = "exact"
) -> Entries:
    """The entries of :class:`SentencesBefore` on the host.

    Args:
        current: ``(sentences,)`` tokens of the current sentences, which follow each other.
        before: for each distance from 1 the numbers of the current sentences that have a sentence
            so far before them, and the runs of those among the keys.
        keys: number of key tokens.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """
    sentence = np.arange(len(current)).repeat(current)
    words, known = [], []
    for numbers, runs in before:
        known.append(np.isin(sentence, numbers))
        tokens = torch.from_numpy(np.flatnonzero(known[-1]))
        asking = Segments.of(torch.from_numpy(current[numbers]))
        words.append((tokens, attention_plan(asking, runs, (len(tokens), keys), shapes=shapes)))
    if not words:
        return {"words": [], "some": None, "mask": None}
    # Whoever has a sentence farther away has the nearest one, too.
    some = np.flatnonzero(known[0])
    mask = np.stack(known, 1)[some][:, None, None, :]
    return {"words": words, "some": torch.from_numpy(some), "mask": torch.from_numpy(mask)}


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

        ``sentence.states (words, groups * dim)`` are those of one group or of several.
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
