"""Multi-head attention on packed states, alone and combined (group + global)."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import AttentionPlan, dense_attention, segment_attention
from gtrans.modules.linear import Linear
from gtrans.modules.varlen_attention import suits, varlen_attention

# Called with (weights (heads, queries, keys), plan) of every attention that runs.
WeightObserver = Callable[[Tensor, AttentionPlan], None]

KINDS = ("group", "global", "combined")


class MultiheadAttention(nn.Module):
    """Projections of multi-head attention (Eq 5) around attention inside segments.

    Parameter names are those of fairseq's ``MultiheadAttention``.
    """

    def __init__(
        self, dim: int, heads: int, dropout: float = 0.0, key_dim: int | None = None
    ) -> None:
        """``key_dim``: width of keys and values where it is not ``dim``."""
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.dropout = dropout
        self.backend = "regroup"
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
        elif self.backend == "varlen" and suits(q, plan, self.heads, dropout):
            attended = varlen_attention(q, k, v, plan, self.heads)
        else:
            attended = segment_attention(q, k, v, plan, self.heads, dropout)
        output: Tensor = self.out_proj(attended)
        return output

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to keys and values that are projected already (a step of decoding or of a memory).

        Args:
            query: ``(groups * queries, dim)``, not projected.
            key: ``(groups, keys, dim)``.
            value: ``(groups, keys, dim)``.
            mask: ``(groups, 1, 1, keys)`` True where a key may be seen, or None.

        Returns:
            ``(groups * queries, dim)``.
        """
        groups = key.size(0)
        q, k, v = (
            x.reshape(groups, -1, self.heads, key.size(2) // self.heads).transpose(1, 2)
            for x in (self.q_proj(query), key, value)
        )
        attended = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0
        )
        output: Tensor = self.out_proj(attended.transpose(1, 2).reshape(query.shape))
        return output


class GlobalGate(nn.Module):
    """``H = H_L * g + H_G * (1 - g)`` with ``g = sigmoid([H_L, H_G] W + b)`` (Eq 10)."""

    def __init__(self, dim: int, bias: float | None = None) -> None:
        """``bias``: begin with ``g = sigmoid(bias)`` whatever the input; None: random."""
        super().__init__()
        self.proj = Linear(2 * dim, dim)
        if bias is not None:
            nn.init.zeros_(self.proj.weight)
            nn.init.constant_(self.proj.bias, bias)

    def forward(self, group: Tensor, global_: Tensor) -> Tensor:
        """Mix two ``(.., dim)`` states element by element."""
        # The share of the global side is computed as such: 1 - g would round a small
        # share to 0 and leave a gate that begins closed without a gradient.
        share = torch.sigmoid(-self.proj(torch.cat([group, global_], -1)))
        return group + share * (global_ - group)


class DocumentAttention(MultiheadAttention):
    """The attention of a document model: group, global, or both behind a gate.

    The projections of the class itself are those of a sentence Transformer's
    attention (group attention in a combined layer), so that a sentence model's
    checkpoint fits without renaming; ``global_attn`` and ``gate`` come on top.
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
        self.gate: GlobalGate | None = None
        if kind == "combined":
            self.global_attn = MultiheadAttention(dim, heads, dropout)
            self.gate = GlobalGate(dim, gate_bias)

    def forward(  # type: ignore[override]
        self,
        query: Tensor,
        key: Tensor,
        group_plan: Callable[[], AttentionPlan],
        global_plan: Callable[[], AttentionPlan],
        query_order: Tensor | None = None,
        key_order: Tensor | None = None,
    ) -> Tensor:
        """Attend from ``query (queries, dim)`` to ``key (keys, dim)``.

        Args:
            query: packed queries.
            key: packed keys and values.
            group_plan: gives the plan of group attention, when it is needed.
            global_plan: gives the plan of global attention, when it is needed.
            query_order: ``(queries, dim)`` added to the queries of global attention
                to tell the order of sentences (None: positions tell it).
            key_order: the same for the keys.
        """

        def over_group(attention: MultiheadAttention) -> Tensor:
            return MultiheadAttention.forward(attention, query, key, key, group_plan())

        def over_document(attention: MultiheadAttention) -> Tensor:
            ordered_query = query if query_order is None else query + query_order
            ordered_key = key if key_order is None else key + key_order
            plan = global_plan()
            return MultiheadAttention.forward(attention, ordered_query, ordered_key, key, plan)

        return self._combine(over_group, over_document)

    def step_self(
        self, x: Tensor, state: DecodeState, layer: int, order: Tensor | None
    ) -> Tensor:
        """Self-attention of one new token of each row: ``(rows, dim) -> (rows, dim)``."""

        def over_group(attention: MultiheadAttention) -> Tensor:
            if state.in_one_sentence(self.kind):
                return over_document(attention, None)
            keys, values = state.extend_group(layer, attention.k_proj(x), attention.v_proj(x))
            return attention.attend(x, keys, values, state.group_mask)

        def over_document(
            attention: MultiheadAttention, order: Tensor | None = order
        ) -> Tensor:
            ordered = x if order is None else x + order
            key, value = attention.k_proj(ordered), attention.v_proj(x)
            keys, values = state.extend_global(layer, key, value)
            return attention.attend(ordered, keys, values, None)

        return self._combine(over_group, over_document)

    def step_cross(
        self, x: Tensor, state: DecodeState, layer: int, order: Tensor | None
    ) -> Tensor:
        """Attention of one new token of each row to the source: ``(rows, dim)``."""

        def over_group(attention: MultiheadAttention) -> Tensor:
            if state.in_one_sentence(self.kind):
                return over_document(attention, None)
            return attention.attend(x, *state.group_source(layer))

        def over_document(
            attention: MultiheadAttention, order: Tensor | None = order
        ) -> Tensor:
            ordered = x if order is None else x + order
            return attention.attend(ordered, *state.global_source(layer))

        return self._combine(over_group, over_document)

    def _combine(
        self,
        over_group: Callable[[MultiheadAttention], Tensor],
        over_document: Callable[[MultiheadAttention], Tensor],
    ) -> Tensor:
        if self.kind == "group":
            return over_group(self)
        if self.global_attn is None or self.gate is None:
            return over_document(self)
        output: Tensor = self.gate(over_group(self), over_document(self.global_attn))
        return output


def new_parameters(module: nn.Module) -> set[str]:
    """Names of the parameters that a sentence Transformer does not have."""
    return {
        f"{name}.{parameter}" if name else parameter
        for name, child in module.named_modules()
        if isinstance(child, DocumentAttention)
        for parameter, _ in child.named_parameters()
        if parameter.startswith(("global_attn.", "gate."))
    }
