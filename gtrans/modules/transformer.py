"""Transformer layers on packed states, with the parameter names of fairseq's layers.

Attention is over groups (sentences), over documents, or both combined by a gate. A layer reads
:class:`LayerInputs`, in a search :class:`gtrans.modules.decode_state.LayerKeys`. A model may add
two parts to it: ``context_attn`` and ``memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gtrans.modules.decode_state import Keys, LayerKeys, TokenKeys
from gtrans.modules.group_attention import (
    AttentionPlan,
    dense_attention,
    scaled_attention,
    segment_attention,
)
from gtrans.modules.precision import autocast_dtype
from gtrans.modules.varlen_attention import suits, varlen_attention

# Measured with MKL: with more states torch's own product is faster.
_FEW_STATES = 8
# Of dropout: probabilities are multiples of 1 / _LEVELS.
_LEVELS = 1 << 16

# ---- linear maps and dropout, made fast ----------------------------------------------------------


def lowered(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Convert both to the precision of autocast, once for several projections."""
    dtype = autocast_dtype(query.device)
    if dtype is None:
        return query, key
    low_query = query.to(dtype)
    if key is query:
        return low_query, low_query
    low_key = key.to(dtype)
    return low_query, low_key


class Linear(nn.Linear):
    """``nn.Linear``, faster by a third for the few states of a decoding step on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """``(.., in) -> (.., out)``."""
        is_few = input.dim() == 2 and input.size(0) <= _FEW_STATES
        is_single_on_cpu = input.is_cpu and input.dtype == torch.float32
        if not is_few or not is_single_on_cpu or torch.is_grad_enabled():
            return super().forward(input)
        # A step reads all weights of the model for few states: the weight is the left factor.
        product = torch.mm(self.weight, input.t())
        if self.bias is not None:
            product += self.bias[:, None]
        return product.t().contiguous()


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Zero each element with ``probability``, scale the others so that the mean stays.

    On a CPU one random 64-bit number decides on four elements, which is faster than torch;
    probabilities are rounded to multiples of ``2 ** -16``.
    """
    if not x.is_cpu:
        return F.dropout(x, probability, training)
    dropped = round(probability * _LEVELS)
    if not training or dropped == 0 or x.numel() == 0:
        return x
    if dropped == _LEVELS:
        return x * 0.0
    lowest = torch.iinfo(torch.int64).min
    quarter = (x.numel() + 3) // 4
    numbers = torch.empty(quarter, dtype=torch.int64).random_(lowest, None)
    levels = numbers.view(torch.int16)[: x.numel()]
    levels = levels.view(x.shape)
    lowest_kept = dropped - _LEVELS // 2
    kept = levels.ge(lowest_kept).to(x.dtype)
    scale = _LEVELS / (_LEVELS - dropped)
    kept.mul_(scale)
    return x * kept


# ---- attention -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairs:
    """Who attends to whom where there is no plan; ``visible (queries, keys)``."""

    visible: Tensor


# Called after every attention with its weights (heads, queries, keys) and who attends to whom.
WeightObserver = Callable[[Tensor, AttentionPlan | Pairs], None]

ATTENTION_KINDS = ("group", "global", "combined")


class MultiheadAttention(nn.Module):
    """Multi-head attention (Eq 5) inside segments, with fairseq's parameter names.

    Attributes:
        backend: one of :data:`gtrans.modules.group_attention.BACKENDS`.
        observer: called with the attention weights.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        dropout: float = 0.0,
        key_dim: int | None = None,
    ) -> None:
        """``key_dim``: width of keys and values; None: ``dim``."""
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.dropout = dropout
        self.backend = "auto"
        self.observer: WeightObserver | None = None
        key_dim = key_dim or dim
        self.q_proj = Linear(dim, dim)
        self.k_proj = Linear(key_dim, dim)
        self.v_proj = Linear(key_dim, dim)
        self.out_proj = Linear(dim, dim)
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        plan: AttentionPlan,
    ) -> Tensor:
        """``query (queries, dim)``, ``key`` and ``value (keys, key_dim)`` -> ``(queries, dim)``."""
        q = self.q_proj(query)
        k = self.k_proj(key)
        v = self.v_proj(value)
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

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """Attend to keys and values that are already projected, in a decoding or memory step.

        Args:
            query: ``(batch * queries, dim)``, not projected; as the result.
            key, value: ``(batch, keys, dim)``.
            mask: ``(batch, 1, 1 or queries, keys)``: True on visible keys, or a number added to
                the scores; None: all keys are visible.
        """
        batch, _, dim = key.shape
        head_dim = dim // self.heads
        shape = batch, -1, self.heads, head_dim
        # q, k, v: (batch, heads, queries or keys, head_dim)
        q = self.q_proj(query).reshape(shape).transpose(1, 2)
        k = key.reshape(shape).transpose(1, 2)
        v = value.reshape(shape).transpose(1, 2)
        if self.observer is not None:
            self._show(self.observer, q, k, mask)
        if self.training or torch.is_grad_enabled() or q.is_cuda:
            dropout = self.dropout if self.training else 0.0
            attended = scaled_attention(q, k, v, mask, dropout)
        else:  # one of many steps of a search on a CPU
            attended = F.scaled_dot_product_attention(q, k, v, mask)
        joined = attended.transpose(1, 2).reshape(query.shape)
        output: Tensor = self.out_proj(joined)
        return output

    def write_keys(self, key: Tensor, value: Tensor, newest: Tensor) -> None:
        """Project the keys and values ``(hypotheses, dim)`` of a decoding step.

        ``newest (keys and values, documents, beam, dim)`` is written.
        """
        if key.is_cpu or torch.is_grad_enabled() or autocast_dtype(key.device) is not None:
            newest[0] = self.k_proj(key).view_as(newest[0])
            newest[1] = self.v_proj(value).view_as(newest[1])
            return
        # On a GPU a step takes as long as it has operations: one copy instead of two.
        pair = key.new_empty(2, *key.shape)
        torch.addmm(self.k_proj.bias, key, self.k_proj.weight.t(), out=pair[0])
        torch.addmm(self.v_proj.bias, value, self.v_proj.weight.t(), out=pair[1])
        newest.copy_(pair.view_as(newest))

    def _show(
        self,
        observer: WeightObserver,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
    ) -> None:
        """Show the weights of :meth:`attend`; ``q, k (batch, heads, .., head_dim)``."""
        head_dim = q.size(3)
        products = torch.matmul(q, k.transpose(2, 3)).float()
        scores = products / head_dim**0.5
        visible = torch.ones_like(scores[:, :1], dtype=torch.bool)
        if mask is not None and mask.dtype == torch.bool:
            visible = visible & mask
            scores = scores.masked_fill(~visible, float("-inf"))
        elif mask is not None:
            visible = visible & mask.eq(0.0)
            scores = scores + mask
        all_weights = scores.softmax(-1)
        for weights, seen in zip(all_weights, visible[:, 0], strict=True):
            observer(weights, Pairs(seen))


class Gate(nn.Module):
    """Mixes a layer's own state with another (Eq 10 of G-Transformer).

    ``H = g H_own + (1 - g) H_other`` with ``g = sigmoid([H_own, H_other] W + b)``; with
    ``other_first``, own and other change places.
    """

    def __init__(self, dim: int, bias: float | None = None, other_first: bool = False) -> None:
        """``bias``: gates begin at ``sigmoid(bias)`` on the own side; None: random."""
        super().__init__()
        self.other_first = other_first
        self.proj = Linear(2 * dim, dim)
        if bias is not None:
            first_bias = -bias if other_first else bias
            nn.init.zeros_(self.proj.weight)
            nn.init.constant_(self.proj.bias, first_bias)

    def forward(self, own: Tensor, other: Tensor) -> Tensor:
        """Mix two ``(.., dim)`` states element by element."""
        # The share of the other state is computed directly: 1 - g would round a small share to 0,
        # and a gate near 1 would get no gradient; a share of 0 leaves the own state as it is.
        if self.other_first:
            pair = torch.cat((other, own), -1)
            share = torch.sigmoid(self.proj(pair))
        else:
            pair = torch.cat((own, other), -1)
            share = torch.sigmoid(-self.proj(pair))
        difference = other - own
        return own + share * difference


class DocumentAttention(MultiheadAttention):
    """The attention of a document model: group, global, or both combined by a gate.

    In a combined layer the class's own projections are of group attention, so that checkpoints of
    a sentence Transformer fit.
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
        """Attend from packed ``query (queries, dim)`` to ``key (keys, dim)``: ``(queries, dim)``.

        Args:
            query, key: packed states; values are the keys.
            plans: of ``group`` and ``global`` attention, as the kind needs them.
            query_order: ``(queries, dim)`` embedded sentence numbers, added in global attention;
                None: positions count through the document.
            key_order: ``(keys, dim)``, the same for the keys.
        """
        query, key = lowered(query, key)
        attend = MultiheadAttention.forward
        if self.kind == "group":
            return attend(self, query, key, key, plans["group"])
        ordered_query, ordered_key = query, key
        if query_order is not None:
            ordered_query = query + query_order
        if key_order is not None:
            ordered_key = key + key_order
        if self.global_attn is None or self.gate is None:
            return attend(self, ordered_query, ordered_key, key, plans["global"])
        in_group = attend(self, query, key, key, plans["group"])
        in_document = self.global_attn(ordered_query, ordered_key, key, plans["global"])
        output: Tensor = self.gate(in_group, in_document)
        return output

    def step_self(self, x: Tensor, keys: Mapping[str, TokenKeys], order: Tensor | None) -> Tensor:
        """Attend to the translation so far from a new token of each hypothesis.

        Args:
            x: ``(hypotheses, dim)``, as the result.
            keys: by kind of attention; the last columns are written.
            order: ``(hypotheses, dim)`` as ``query_order`` in :meth:`forward`.
        """

        def attend(attention: MultiheadAttention, kind: str, query: Tensor) -> Tensor:
            all_keys, newest = keys[kind]
            attention.write_keys(query, x, newest)
            return attention.attend(query, *all_keys)

        return self._step(x, order, attend)

    def step_cross(self, x: Tensor, keys: Mapping[str, Keys], order: Tensor | None) -> Tensor:
        """Attend to the source; arguments as in :meth:`step_self`."""

        def attend(attention: MultiheadAttention, kind: str, query: Tensor) -> Tensor:
            key, value, mask = keys[kind]
            return attention.attend(query, key, value, mask)

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
        in_group = attend(self, "group", x)
        in_document = attend(self.global_attn, "global", ordered)
        output: Tensor = self.gate(in_group, in_document)
        return output


# ---- attention to a context ----------------------------------------------------------------------

COMBINATIONS = ("gate", "mean")
PLACES = ("beside", "behind")


@dataclass(frozen=True)
class PackedContext:
    """The context of every row of a batch.

    Attributes:
        states: ``(context tokens, width)``, row after row.
        lengths: ``(batch,)`` context tokens of each row, at least one.
    """

    states: Tensor
    lengths: Tensor

    def chosen(self, rows: Tensor) -> PackedContext:
        """Return the contexts of ``rows (n,)``, repeated or reordered."""
        lengths = self.lengths[rows]
        old_begins = self.lengths.cumsum(0) - self.lengths
        begins = lengths.cumsum(0) - lengths
        shift_of_row = old_begins[rows] - begins
        shift = torch.repeat_interleave(shift_of_row, lengths)
        tokens = torch.arange(shift.numel(), device=shift.device)
        index = tokens + shift
        return PackedContext(self.states[index], lengths)

    @classmethod
    def joined(cls, contexts: Sequence[PackedContext]) -> PackedContext:
        """Join the rows of several batches."""
        states = [context.states for context in contexts]
        lengths = [context.lengths for context in contexts]
        return cls(torch.cat(states), torch.cat(lengths))

    def align(self, packed: Tensor) -> Tensor:
        """``(context tokens, ..) -> (batch, longest, ..)``, zeros after a row's end."""
        parts = torch.split(packed, self.lengths.tolist())
        return nn.utils.rnn.pad_sequence(list(parts), batch_first=True)


class ContextAttention(nn.Module):
    """Attention to the context of a sentence, combined with a layer's own attention.

    Guo Zhiyu, "Incorporating BERT into Document-Level Neural Machine Translation", master's thesis,
    2021 (Eq 3.4 is inferred from figure 3.3 and Eq 3.8):

    ========  =============================================================================
    Eq 3.4    ``D = MultiHead(S, C, C)`` next to self-attention ``B`` in the encoder
    Eq 3.5    ``A = g * B + (1 - g) * D``, ``g = sigmoid([B, D] W + b)``
    Eq 3.8    ``F = MultiHead(E, C, C)`` next to cross-attention ``G`` in the decoder
    Eq 3.10   ``H = d * F + (1 - d) * G``, ``d = sigmoid([F, G] W + b)``
    ========  =============================================================================

    BERT-fused (Zhu et al. 2020) takes the mean, in training with drop-net (Eq 2.16-2.17): with a
    given probability only one of the two. In the document-aware Transformer (Zhang et al. 2018)
    context attention is a sublayer with a gate for its residual.
    """

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
            attention: queries have the layer's width, keys the context's.
            combine: one of :data:`COMBINATIONS`.
            context_first: as in the equations of decoders.
            gate_bias: see :class:`Gate`.
            drop_net: with ``mean``, the probability that training uses only one of the two.
            norm: LayerNorm of a sublayer; None: context attention stands beside the layer's own.
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
        """Return the gated sum or the mean of two ``(.., dim)`` states."""
        if self.gate is not None:
            mixed: Tensor = self.gate(own, context)
            return mixed
        share = 0.5
        if self.training:
            u = float(torch.rand(()))
            share = self.context_share(u)
        return (1 - share) * own + share * context

    def context_share(self, u: float) -> float:
        """Return the context's share for a random ``u`` in 0 .. 1 (Eq 2.16-2.17)."""
        half = self.drop_net / 2
        if u < half:
            return 1.0 if self.context_first else 0.0
        if u > 1 - half:
            return 0.0 if self.context_first else 1.0
        return 0.5


# ---- layers --------------------------------------------------------------------------------------

# Attends from queries ``(tokens, dim)`` to the context.
_AttendToContext = Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
}
ACTIVATIONS = tuple(_ACTIVATIONS)
FFN_INITS = ("xavier", "linear")


@dataclass(frozen=True)
class LayerSpec:
    """The sizes and switches shared by all layers of one side.

    Attributes:
        dim, ffn_dim: widths of the model and the feed-forward network.
        heads: attention heads.
        dropout, attention_dropout, activation_dropout: probabilities.
        activation: one of :data:`ACTIVATIONS`.
        pre_norm: LayerNorm before each sublayer instead of after its residual.
        rezero: no LayerNorm; sublayers' outputs times a learned scalar, at first 0 (Bachlechner et
            al. 2020).
        gate_bias: see :class:`Gate`.
        norm_eps: epsilon of LayerNorm (1e-12 in BERT).
        ffn_init: one of :data:`FFN_INITS`: Xavier's uniform weights and no bias, or the default of
            ``nn.Linear``.
        two_feed_forwards: decoder layers have a feed-forward network before cross-attention, too.
    """

    dim: int
    ffn_dim: int
    heads: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    activation: str = "relu"
    pre_norm: bool = False
    rezero: bool = False
    gate_bias: float | None = None
    norm_eps: float = 1e-5
    ffn_init: str = "xavier"
    two_feed_forwards: bool = False

    def feed_forward(self) -> tuple[Linear, Linear]:
        """Return two new matrices of a feed-forward network."""
        inner = Linear(self.dim, self.ffn_dim)
        outer = Linear(self.ffn_dim, self.dim)
        if self.ffn_init == "xavier":
            for linear in (inner, outer):
                nn.init.xavier_uniform_(linear.weight)
                nn.init.zeros_(linear.bias)
        return inner, outer

    def norm(self) -> nn.Module:
        """Return a new LayerNorm; with ``rezero`` the identity."""
        if self.rezero:
            return nn.Identity()
        return nn.LayerNorm(self.dim, self.norm_eps)

    def attention(self, kind: str) -> DocumentAttention:
        """Return a new attention; ``kind``: one of :data:`ATTENTION_KINDS`."""
        return DocumentAttention(
            self.dim,
            self.heads,
            dropout=self.attention_dropout,
            kind=kind,
            gate_bias=self.gate_bias,
        )


class ResidualLayer(nn.Module):
    """The residuals, norms and feed-forward network of every layer."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.fc1, self.fc2 = spec.feed_forward()
        self.final_layer_norm = spec.norm()
        self.residual_scale: nn.Parameter | None = None
        if spec.rezero:
            self.residual_scale = nn.Parameter(torch.zeros(1))

    def _residual(
        self,
        x: Tensor,
        norm: nn.Module,
        sublayer: Callable[[Tensor], Tensor],
    ) -> Tensor:
        normalised = norm(x) if self.spec.pre_norm else x
        h = sublayer(normalised)
        if self.training:
            h = dropout(h, self.spec.dropout, True)
        if self.residual_scale is not None:
            h = self.residual_scale * h
        total = x + h
        if self.spec.pre_norm:
            return total
        output: Tensor = norm(total)
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self._network(x, self.fc1, self.fc2, self.final_layer_norm)

    def _network(
        self,
        x: Tensor,
        inner: nn.Module,
        outer: nn.Module,
        norm: nn.Module,
    ) -> Tensor:
        activation = _ACTIVATIONS[self.spec.activation]

        def network(x: Tensor) -> Tensor:
            hidden = activation(inner(x))
            if self.spec.activation_dropout:
                hidden = dropout(hidden, self.spec.activation_dropout, self.training)
            output: Tensor = outer(hidden)
            return output

        return self._residual(x, norm, network)


@dataclass(frozen=True)
class LayerInputs:
    """The inputs of all layers of one side in a pass, besides their states.

    Attributes:
        own: plans of self-attention (``group``, ``global``) and context attention (``context``).
        cross: plans of cross-attention (``group``, ``global``).
        order: ``(tokens, dim)`` embedded sentence numbers; None: positions count through the
            document.
        source_order: ``(source tokens, dim)``, the same for the source.
        context: the context of each source.
        memory: the :class:`~gtrans.modules.memory.MemoryFlow` of the batch.
        memory_plan: the :class:`~gtrans.modules.memory.MemoryPlan` of this side.
    """

    own: Mapping[str, AttentionPlan]
    cross: Mapping[str, AttentionPlan]
    order: Tensor | None = None
    source_order: Tensor | None = None
    context: PackedContext | None = None
    memory: Any = None
    memory_plan: Any = None


class TransformerLayer(ResidualLayer):
    """A layer of the encoder or decoder, with the parts that a model may switch on.

    Attributes:
        checkpoints: in training keep only the layer's input and compute the rest again for the
            gradient, with the same dropout (Chen et al. 2016).
        context_attn: attention to a context.
        memory: a :class:`~gtrans.modules.memory.RecurrentMemory`.
    """

    context_attn: ContextAttention | None
    memory: Any

    def __init__(self, spec: LayerSpec, attention: str) -> None:
        super().__init__(spec)
        self.context_attn = None
        self.memory = None
        self.checkpoints = False
        self.self_attn = spec.attention(attention)
        self.self_attn_layer_norm = spec.norm()

    def _computed(
        self,
        run: Callable[[Tensor, LayerInputs], Tensor],
        x: Tensor,
        inputs: LayerInputs,
    ) -> Tensor:
        """Return ``run(x, inputs)``, which may run again for the gradient."""
        has_gradient = self.training and torch.is_grad_enabled()
        if not self.checkpoints or not has_gradient:
            return run(x, inputs)
        if self.memory is not None and inputs.memory is not None:
            run = _repeatable(run, inputs.memory)
        # What is random depends on the device of the arguments: `x` must be one.
        output: Tensor = checkpoint(run, x, inputs, use_reentrant=False)
        return output

    def _attend_to_self(self, x: Tensor, inputs: LayerInputs, context_beside: bool) -> Tensor:
        """Apply self-attention, context attention and the memory: ``(tokens, dim)``.

        ``context_beside``: context attention may stand beside self-attention, too.
        """
        attend_to_context = self._context_attention(inputs)

        def attend(h: Tensor) -> Tensor:
            own: Tensor = self.self_attn(h, h, inputs.own, inputs.order, inputs.order)
            if not context_beside:
                return own
            return self._combined_with_context(h, own, attend_to_context)

        x = self._residual(x, self.self_attn_layer_norm, attend)
        x = self._context_sublayer(x, attend_to_context)
        if self.memory is not None and inputs.memory is not None:
            x = self.memory(x, inputs.memory, inputs.memory_plan)
        return x

    def _context_attention(self, inputs: LayerInputs) -> _AttendToContext | None:
        part, context = self.context_attn, inputs.context
        if part is None or context is None:
            return None
        states = context.states.to(part.attention.k_proj.weight)
        return partial(part.attention, key=states, value=states, plan=inputs.own["context"])

    def _combined_with_context(
        self,
        query: Tensor,
        own: Tensor,
        attend_to_context: _AttendToContext | None,
    ) -> Tensor:
        """Combine ``own (tokens, dim)`` with context attention beside it, if any."""
        part = self.context_attn
        if part is None or attend_to_context is None or part.layer_norm is not None:
            return own
        context = attend_to_context(query)
        return part.combine(own, context)

    def _context_sublayer(self, x: Tensor, attend_to_context: _AttendToContext | None) -> Tensor:
        """Apply context attention that is a sublayer of its own, if any."""
        part = self.context_attn
        if part is None or attend_to_context is None or part.layer_norm is None:
            return x
        query = part.layer_norm(x) if self.spec.pre_norm else x
        context = attend_to_context(query)
        x = part.combine(x, context)
        return x if self.spec.pre_norm else part.layer_norm(x)


def _repeatable(
    run: Callable[[Tensor, LayerInputs], Tensor], flow: Any
) -> Callable[[Tensor, LayerInputs], Tensor]:
    """Let all calls of ``run`` find the memories as they are now; only the first writes."""
    before = flow.copy()
    calls = count()

    def repeated(x: Tensor, inputs: LayerInputs) -> Tensor:
        own = before.copy()
        output = run(x, replace(inputs, memory=own))
        if next(calls) == 0:
            flow.update(own)
        return output

    return repeated


class EncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network."""

    def forward(self, x: Tensor, inputs: LayerInputs) -> Tensor:
        """Packed states ``(tokens, dim) -> (tokens, dim)``."""

        def run(x: Tensor, inputs: LayerInputs) -> Tensor:
            x = self._attend_to_self(x, inputs, context_beside=True)
            return self._feed_forward(x)

        return self._computed(run, x, inputs)


class DecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and feed-forward network.

    With ``spec.two_feed_forwards`` another network (``fc3``, ``fc4``) comes before cross-attention.
    """

    def __init__(self, spec: LayerSpec, attention: str, cross_attention: str) -> None:
        super().__init__(spec, attention)
        self.encoder_attn = spec.attention(cross_attention)
        self.encoder_attn_layer_norm = spec.norm()
        if spec.two_feed_forwards:
            self.fc3, self.fc4 = spec.feed_forward()
            self.ffn_layer_norm = spec.norm()

    def forward(self, x: Tensor, encoded: Tensor, inputs: LayerInputs) -> Tensor:
        """Apply the layer to given targets: ``x (target tokens, dim)``, as the result.

        ``encoded (source tokens, dim)`` is the encoder's output.
        """

        def attend_to_source(h: Tensor) -> Tensor:
            own = self.encoder_attn(
                h,
                encoded,
                inputs.cross,
                query_order=inputs.order,
                key_order=inputs.source_order,
            )
            return self._combined_with_context(h, own, self._context_attention(inputs))

        def run(x: Tensor, inputs: LayerInputs) -> Tensor:
            x = self._attend_to_self(x, inputs, context_beside=False)
            x = self._first_feed_forward(x)
            x = self._residual(x, self.encoder_attn_layer_norm, attend_to_source)
            return self._feed_forward(x)

        return self._computed(run, x, inputs)

    def step(self, x: Tensor, keys: LayerKeys, order: Tensor | None) -> Tensor:
        """Apply the layer to a new token of every hypothesis.

        Args:
            x: ``(hypotheses, dim)``, as the result.
            keys: the keys of the new tokens are written.
            order: ``(hypotheses, dim)`` embedded sentence numbers, or None.
        """
        attend_to_context: _AttendToContext | None = None
        if self.context_attn is not None and keys.context is not None:
            key, value, mask = keys.context
            attention = self.context_attn.attention
            attend_to_context = partial(attention.attend, key=key, value=value, mask=mask)

        def attend_to_source(h: Tensor) -> Tensor:
            own = self.encoder_attn.step_cross(h, keys.source, order)
            return self._combined_with_context(h, own, attend_to_context)

        attend_to_self = partial(self.self_attn.step_self, keys=keys.own, order=order)
        x = self._residual(x, self.self_attn_layer_norm, attend_to_self)
        x = self._context_sublayer(x, attend_to_context)
        if self.memory is not None and keys.memory is not None:
            x = self.memory.step(x, keys.memory.keys, keys.memory.values)
        x = self._first_feed_forward(x)
        x = self._residual(x, self.encoder_attn_layer_norm, attend_to_source)
        return self._feed_forward(x)

    def _first_feed_forward(self, x: Tensor) -> Tensor:
        if not self.spec.two_feed_forwards:
            return x
        return self._network(x, self.fc3, self.fc4, self.ffn_layer_norm)
