"""Attention to the context of a sentence, combined with a layer's own attention.

Context attention has the same queries as one of the layer's own attentions; their outputs are
combined.

Guo Zhiyu, "Incorporating BERT into Document-Level Neural Machine Translation", master's thesis,
2021 (Eq 3.4, a figure there, is inferred from figure 3.3 and Eq 3.8):

========  =================================================================================
Eq 3.4    ``D = MultiHead(S, C, C)`` next to self-attention ``B`` in the encoder, inferred
Eq 3.5    ``A = g * B + (1 - g) * D``, ``g = sigmoid([B, D] W + b)``
Eq 3.8    ``F = MultiHead(E, C, C)`` next to cross-attention ``G`` in the decoder
Eq 3.10   ``H = d * F + (1 - d) * G``, ``d = sigmoid([F, G] W + b)``
========  =================================================================================

BERT-fused (Zhu et al. 2020) has their mean instead of a gate, and in training drop-net (Eq
2.16-2.17): with a given probability only one of the two.

In the document-aware Transformer (Zhang et al. 2018) context attention is not next to another
attention but a sublayer of its own, behind self-attention on both sides, with the output of
self-attention as queries. The gate stands where other sublayers have the residual connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtrans.modules.attention import Gate, MultiheadAttention

COMBINATIONS = ("gate", "mean")
PLACES = ("beside", "behind")


@dataclass(frozen=True)
class PackedContext:
    """The context of every row of a batch.

    Attributes:
        states: ``(context tokens, width)``, row after row.
        lengths: ``(batch,)`` number of context tokens of each row, at least one.
    """

    states: Tensor
    lengths: Tensor

    def chosen(self, rows: Tensor) -> PackedContext:
        """The contexts of ``rows (n,)``, repeated or reordered."""
        lengths = self.lengths[rows]
        starts = self.lengths.cumsum(0) - self.lengths
        begins = lengths.cumsum(0) - lengths
        shift = torch.repeat_interleave(starts[rows] - begins, lengths)
        index = torch.arange(shift.numel(), device=shift.device) + shift
        return PackedContext(self.states[index], lengths)

    @classmethod
    def joined(cls, contexts: Sequence[PackedContext]) -> PackedContext:
        """The rows of several batches, one batch after the other."""
        states = torch.cat([context.states for context in contexts])
        return cls(states, torch.cat([context.lengths for context in contexts]))

    def align(self, packed: Tensor) -> Tensor:
        """``(context tokens, ..) -> (batch, longest, ..)``, zeros after a row's end."""
        parts = torch.split(packed, self.lengths.tolist())
        return nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


class ContextAttention(nn.Module):
    """Attention to a context, combined with the output of a layer's own attention."""

    def __init__(
        self,
        attention: MultiheadAttention,
        combine: str,
        *,
        context_first: bool,
        gate_bias: float | None = None,
        drop_net: float = 1.0,
        norm: nn.Module | None = None,
    ) -> None:
        """Combine ``attention`` with a layer's own attention.

        Args:
            attention: with queries of the layer's width and keys of the context's width.
            combine: one of :data:`COMBINATIONS`.
            context_first: order of the two sides in the equations; False in encoders, True in
                decoders.
            gate_bias: see :class:`gtrans.modules.attention.Gate`.
            drop_net: with ``mean``, the probability that training uses only one of the two.
            norm: LayerNorm of a sublayer of its own, behind self-attention; None: it is next to
                the layer's own attention.
        """
        super().__init__()
        self.attention = attention
        self.context_first = context_first
        self.drop_net = drop_net
        self.layer_norm = norm
        self.gate: Gate | None = None
        if combine == "gate":
            self.gate = Gate(attention.dim, gate_bias, context_first)

    def combine(self, own: Tensor, context: Tensor) -> Tensor:
        """The gated sum or the mean of two ``(.., dim)`` states; in training with drop-net."""
        if self.gate is not None:
            mixed: Tensor = self.gate(own, context)
            return mixed
        share = self.context_share(float(torch.rand(()))) if self.training else 0.5
        return (1 - share) * own + share * context

    def context_share(self, u: float) -> float:
        """The share of the context for the random number ``u`` in 0 .. 1 (Eq 2.16-2.17)."""
        half = self.drop_net / 2
        if u < half:
            return 1.0 if self.context_first else 0.0
        if u > 1 - half:
            return 0.0 if self.context_first else 1.0
        return 0.5
