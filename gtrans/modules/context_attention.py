"""Attention to the context of a sentence, and how its output is combined.

A layer with a context has a second attention next to one it has anyway, with the same
queries; what is handed on is a combination of both outputs.

Wu, "Document-level machine translation with BERT as context encoder":

========  =================================================================================
Eq 3.4    ``D = MultiHead(S, C, C)`` next to self-attention ``B`` in the encoder
Eq 3.5    ``A = g * B + (1 - g) * D``, ``g = sigmoid([B, D] W + b)``
Eq 3.8    ``F = MultiHead(E, C, C)`` next to attention to the encoder ``G`` in the decoder
Eq 3.10   ``H = d * F + (1 - d) * G``, ``d = sigmoid([F, G] W + b)``
========  =================================================================================

BERT-fused (Zhu et al. 2020) has the mean of the two instead of a gate, and in training
drop-net (Eq 2.16-2.17 there): now and then only one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.layout import Segments
from gtrans.modules.linear import Linear

COMBINATIONS = ("gate", "mean")


@dataclass(frozen=True)
class PackedContext:
    """The context of every row of a batch.

    Attributes:
        states: ``(context tokens, width)``, those of a row next to each other.
        lengths: ``(batch,)`` context tokens of each row, at least one.
    """

    states: Tensor
    lengths: Tensor

    @cached_property
    def segments(self) -> Segments:
        """The rows' runs of context tokens."""
        return Segments(self.lengths.cumsum(0) - self.lengths, self.lengths)

    def plan(self, rows: Segments, tokens: int, chosen: Tensor | None = None) -> AttentionPlan:
        """Every one of ``tokens`` packed tokens in ``rows`` sees the context of its row.

        ``chosen (rows,)``: the row of the batch whose context each has; None: its own.
        """
        context = self.segments if chosen is None else self.segments.chosen(chosen)
        return AttentionPlan(rows, context, tokens, self.states.size(0), causal=False)

    def chosen(self, rows: Tensor) -> PackedContext:
        """The contexts of ``rows (n,)``, repeated or reordered."""
        lengths = self.lengths[rows]
        begins = lengths.cumsum(0) - lengths
        shift = torch.repeat_interleave(self.segments.starts[rows] - begins, lengths)
        index = torch.arange(shift.numel(), device=shift.device) + shift
        return PackedContext(self.states[index], lengths)

    def align(self, packed: Tensor) -> Tensor:
        """``(context tokens, ..) -> (batch, longest, ..)``, zeros after a row's end."""
        parts = torch.split(packed, self.segments.sizes)
        return nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


class ContextGate(nn.Module):
    """Eq 3.5 (``context_first`` False: the gate is the share of the layer's own) and Eq 3.10."""

    def __init__(self, dim: int, context_first: bool, bias: float | None = None) -> None:
        """``bias``: begin with ``sigmoid(bias)`` on the layer's own side; None: random."""
        super().__init__()
        self.context_first = context_first
        self.proj = Linear(2 * dim, dim)
        if bias is not None:
            nn.init.zeros_(self.proj.weight)
            nn.init.constant_(self.proj.bias, -bias if context_first else bias)

    def forward(self, own: Tensor, context: Tensor) -> Tensor:
        """Mix two ``(.., dim)`` states element by element."""
        pair = (context, own) if self.context_first else (own, context)
        gate = self.proj(torch.cat(pair, -1))
        # The share of the context is computed as such, so that none at all leaves the
        # layer's own output as it is, to the last bit.
        share = torch.sigmoid(gate if self.context_first else -gate)
        return own + share * (context - own)


class ContextAttention(nn.Module):
    """Attention to a context and its combination with the output of the layer's own."""

    def __init__(
        self,
        attention: MultiheadAttention,
        combine: str,
        *,
        context_first: bool,
        gate_bias: float | None = None,
        drop_net: float = 1.0,
    ) -> None:
        """Combine ``attention`` with another one.

        Args:
            attention: from the layer's width to the context's.
            combine: one of :data:`COMBINATIONS`.
            context_first: the order of the equations: False in encoders, True in decoders.
            gate_bias: see :class:`ContextGate`.
            drop_net: with ``mean``, how often training has only one of the two.
        """
        super().__init__()
        self.attention = attention
        self.context_first = context_first
        self.drop_net = drop_net
        self.gate: ContextGate | None = None
        if combine == "gate":
            self.gate = ContextGate(attention.dim, context_first, gate_bias)

    def forward(
        self, query: Tensor, own: Tensor, context: PackedContext, plan: AttentionPlan
    ) -> Tensor:
        """``query`` and ``own (tokens, dim)`` -> ``(tokens, dim)``.

        Args:
            query: what both attentions ask with.
            own: output of the layer's own attention.
            context: of the batch's rows.
            plan: :meth:`PackedContext.plan` of the queries.
        """
        states = context.states.to(query)
        return self.combine(own, self.attention(query, states, states, plan))

    def step(
        self, query: Tensor, own: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        """One decoding step; arguments as :meth:`MultiheadAttention.attend`."""
        return self.combine(own, self.attention.attend(query, keys, values, mask))

    def combine(self, own: Tensor, context: Tensor) -> Tensor:
        """Gate, or mean; a mean in training is subject to drop-net."""
        if self.gate is not None:
            mixed: Tensor = self.gate(own, context)
            return mixed
        share = self.context_share(float(torch.rand(()))) if self.training else 0.5
        return (1 - share) * own + share * context

    def context_share(self, lot: float) -> float:
        """Eq 2.16-2.17: the context's share where ``U`` is ``lot``."""
        half = self.drop_net / 2
        if lot < half:
            return 1.0 if self.context_first else 0.0
        if lot > 1 - half:
            return 0.0 if self.context_first else 1.0
        return 0.5
