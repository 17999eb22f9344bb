"""Multi-head attention on packed states: group, global, and both combined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gtrans.modules.decode_state import Keys
from gtrans.modules.group_attention import (
    AttentionPlan,
    dense_attention,
    scaled_attention,
    segment_attention,
)
from gtrans.modules.linear import Linear, lowered
from gtrans.modules.varlen_attention import suits, varlen_attention


@dataclass(frozen=True)
class Pairs:
    """Who attends to whom in attention that has no plan; ``visible``: ``(queries, keys)``."""

    visible: Tensor


# Called after every attention with its weights (heads, queries, keys) and who attends to whom.
WeightObserver = Callable[[Tensor, AttentionPlan | Pairs], None]

KINDS = ("group", "global", "combined")


class MultiheadAttention(nn.Module):
    """Multi-head attention (Eq 5) inside segments.

    Parameter names are those of fairseq's ``MultiheadAttention``.

    Attributes:
        backend: one of :data:`gtrans.modules.group_attention.BACKENDS`.
        observer: called with the attention weights; None: weights are not computed apart.
    """

    def __init__(
        self, dim: int, heads: int, dropout: float = 0.0, key_dim: int | None = None
    ) -> None:
        """``key_dim``: width of keys and values; None: ``dim``."""
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.dropout = dropout
        self.backend = "auto"
        self.observer: WeightObserver | None = None
        self.q_proj = Linear(dim, dim)
        self.k_proj = Linear(key_dim or dim, dim)
        self.v_proj = Linear(key_dim or dim, dim)
        self.out_proj = Linear(dim, dim)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, plan: AttentionPlan) -> Tensor:
        """``query (queries, dim)``, ``key`` and ``value (keys, key_dim)`` -> ``(queries, dim)``."""
        q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
        dropout = self.dropout if self.training else 0.0
        if self.observer is not None or self.backend == "dense":
            attended, weights = dense_attention(q, k, v, plan, self.heads, dropout)
            if self.observer is not None:
                self.observer(weights, plan)
        elif self.backend == "auto" and q.is_cuda and suits(q, plan, self.heads, dropout):
            attended = varlen_attention(q, k, v, plan, self.heads)
        else:
            attended = segment_attention(q, k, v, plan, self.heads, dropout)
        output: Tensor = self.out_proj(attended)
        return output

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to keys and values that are already projected, in a decoding or memory step.

        Args:
            query: ``(groups * queries, dim)``, not projected.
            key: ``(groups, keys, dim)``.
            value: ``(groups, keys, dim)``.
            mask: ``(groups, 1, 1 or queries, keys)``: True where a key may be seen, or a number
                that is added to the scores; None: every key may be.

        Returns:
            ``(groups * queries, dim)``.
        """
        groups = key.size(0)
        q, k, v = (
            x.reshape(groups, -1, self.heads, key.size(2) // self.heads).transpose(1, 2)
            for x in (self.q_proj(query), key, value)
        )
        if self.observer is not None:
            self._show(self.observer, q, k, mask)
        attended = scaled_attention(q, k, v, mask, self.dropout if self.training else 0.0)
        output: Tensor = self.out_proj(attended.transpose(1, 2).reshape(query.shape))
        return output

    def _show(self, observer: WeightObserver, q: Tensor, k: Tensor, mask: Tensor | None) -> None:
        """The weights of :meth:`attend`, group by group; ``q, k (groups, heads, .., head_dim)``."""
        scores = torch.matmul(q, k.transpose(2, 3)).float() / q.size(3) ** 0.5
        visible = torch.ones_like(scores[:, :1], dtype=torch.bool)
        if mask is not None and mask.dtype == torch.bool:
            visible = visible & mask
            scores = scores.masked_fill(~visible, float("-inf"))
        elif mask is not None:
            scores = scores + mask
        for weights, seen in zip(scores.softmax(-1), visible[:, 0], strict=True):
            observer(weights, Pairs(seen))


class Gate(nn.Module):
    """Mixes a layer's own state with another: Eq 10 of G-Transformer, and the gates of others.

    ``H = g H_own + (1 - g) H_other`` with ``g = sigmoid([H_own, H_other] W + b)`` or, if the other
    state comes first in the equation, ``H = g H_other + (1 - g) H_own`` with
    ``g = sigmoid([H_other, H_own] W + b)``.
    """

    def __init__(self, dim: int, bias: float | None = None, other_first: bool = False) -> None:
        """``bias``: every gate begins at ``sigmoid(bias)`` on the own side; None: random gates."""
        super().__init__()
        self.other_first = other_first
        self.proj = Linear(2 * dim, dim)
        if bias is not None:
            nn.init.zeros_(self.proj.weight)
            nn.init.constant_(self.proj.bias, -bias if other_first else bias)

    def forward(self, own: Tensor, other: Tensor) -> Tensor:
        """Mix two ``(.., dim)`` states element by element."""
        pair = (other, own) if self.other_first else (own, other)
        gate = self.proj(torch.cat(pair, -1))
        # Computed directly: 1 - g would round a small share to 0, and a gate that begins closed
        # would get no gradient; and a share of 0 leaves the own state as it is to the last bit.
        share = torch.sigmoid(gate if self.other_first else -gate)
        return own + share * (other - own)


class DocumentAttention(MultiheadAttention):
    """The attention of a document model: group, global, or both combined by a gate.

    The projections of the class itself belong to group attention in a combined layer. They have
    the names of a sentence Transformer's attention, so that its checkpoints fit without
    renaming; ``global_attn`` and ``gate`` are added.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        dropout: float = 0.0,
        kind: str = "group",
        gate_bias: float | None = None,
    ) -> None:
        super().__init__(dim, heads, dropout)
        self.kind = kind
        self.global_attn: MultiheadAttention | None = None
        self.gate: Gate | None = None
        if kind == "combined":
            self.global_attn = MultiheadAttention(dim, heads, dropout)
            self.gate = Gate(dim, gate_bias)

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        plans: Mapping[str, AttentionPlan],
        query_order: Tensor | None = None,
        key_order: Tensor | None = None,
    ) -> Tensor:
        """Attend from ``query (queries, dim)`` to ``key (keys, dim)``.

        Args:
            query: packed queries.
            key: packed keys and values.
            plans: of ``group`` and ``global`` attention, as far as the kind needs them.
            query_order: ``(queries, dim)`` embedded sentence numbers, added to the queries of
                global attention; None: positions count through the document.
            key_order: ``(keys, dim)``, the same for the keys.

        Returns:
            ``(queries, dim)``.
        """
        query, key = lowered(query, key)
        attend = MultiheadAttention.forward
        if self.kind == "group":
            return attend(self, query, key, key, plans["group"])
        ordered_query = query if query_order is None else query + query_order
        ordered_key = key if key_order is None else key + key_order
        if self.global_attn is None or self.gate is None:
            return attend(self, ordered_query, ordered_key, key, plans["global"])
        output: Tensor = self.gate(
            attend(self, query, key, key, plans["group"]),
            self.global_attn(ordered_query, ordered_key, key, plans["global"]),
        )
        return output

    def step_self(self, x: Tensor, keys: Mapping[str, Keys], order: Tensor | None) -> Tensor:
        """Self-attention of one new token of each hypothesis.

        Args:
            x: ``(hypotheses, dim)``.
            keys: of each kind of attention those so far; the last columns are written.
            order: ``(hypotheses, dim)`` as ``query_order`` in :meth:`forward`.

        Returns:
            ``(hypotheses, dim)``.
        """

        def attend(attention: MultiheadAttention, kind: str, query: Tensor) -> Tensor:
            key, value, mask = keys[kind]
            new = x.view(key.size(0), -1, x.size(1))  # (documents, beam, dim)
            key[:, -new.size(1) :] = attention.k_proj(query).view_as(new)
            value[:, -new.size(1) :] = attention.v_proj(x).view_as(new)
            return attention.attend(query, key, value, mask)

        return self._step(x, order, attend)

    def step_cross(self, x: Tensor, keys: Mapping[str, Keys], order: Tensor | None) -> Tensor:
        """Cross-attention of one new token of each hypothesis; as :meth:`step_self`."""

        def attend(attention: MultiheadAttention, kind: str, query: Tensor) -> Tensor:
            return attention.attend(query, *keys[kind])

        return self._step(x, order, attend)

    def _step(
        self,
        x: Tensor,
        order: Tensor | None,
        attend: Callable[[MultiheadAttention, str, Tensor], Tensor],
    ) -> Tensor:
        if self.kind == "group":
            return attend(self, "group", x)
        ordered = x if order is None else x + order
        if self.global_attn is None or self.gate is None:
            return attend(self, "global", ordered)
        output: Tensor = self.gate(
            attend(self, "group", x), attend(self.global_attn, "global", ordered)
        )
        return output
