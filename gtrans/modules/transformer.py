"""Transformer layers on packed states.

Parameter names follow fairseq's layers. A layer knows nothing of documents: what it reads besides
its states, with the plans of who sees whom, is in a :class:`Surroundings`. A model may switch on
two parts of a layer, which are off (None) in a new layer: ``context_attn``, a second attention next
to self-attention in the encoder and next to cross-attention in the decoder (or, with a LayerNorm of
its own, behind self-attention in both), and ``memory``, which comes after self-attention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gtrans.modules.attention import DocumentAttention
from gtrans.modules.context_attention import ContextAttention, PackedContext
from gtrans.modules.decode_state import LayerKeys
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.linear import Linear, dropout

# Context attention of queries ``(tokens, dim)``.
_Reading = Callable[[Tensor], Tensor]
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu, "gelu": F.gelu, "swish": F.silu
}  # fmt: skip
ACTIVATIONS = tuple(_ACTIVATIONS)
FFN_INITS = ("xavier", "linear")


@dataclass(frozen=True)
class LayerSpec:
    """The sizes and switches shared by all layers of one side.

    Attributes:
        dim: width of the model.
        ffn_dim: width of the feed-forward network.
        heads: attention heads.
        dropout, attention_dropout, activation_dropout: probabilities.
        activation: name of the feed-forward network's activation.
        pre_norm: LayerNorm before each sublayer instead of after its residual.
        rezero: no LayerNorm; each layer has a learned scalar, 0 at the beginning, by which the
            outputs of its sublayers are multiplied (Bachlechner et al. 2020).
        gate_bias: see :class:`gtrans.modules.attention.Gate`.
        norm_eps: epsilon of LayerNorm (1e-12 in BERT).
        ffn_init: how feed-forward networks begin, one of :data:`FFN_INITS`: Xavier's uniform
            weights and no bias, or the default of ``nn.Linear``, uniform in
            ``+-1 / sqrt(inputs)``, bias included. With an inner width of twice the model's the
            output of Xavier's has eight times the variance, with four times 5.8 times.
        two_feed_forwards: a decoder layer has a feed-forward network behind self-attention, too.
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
        """The two new matrices of a feed-forward network."""
        linears = Linear(self.dim, self.ffn_dim), Linear(self.ffn_dim, self.dim)
        if self.ffn_init == "xavier":
            for linear in linears:
                nn.init.xavier_uniform_(linear.weight)
                nn.init.zeros_(linear.bias)
        return linears

    def norm(self) -> nn.Module:
        """A new LayerNorm of this layer's width; with ``rezero`` the identity."""
        return nn.Identity() if self.rezero else nn.LayerNorm(self.dim, self.norm_eps)

    def attention(self, kind: str) -> DocumentAttention:
        """A new attention of this layer's sizes, of one of the kinds of attention."""
        return DocumentAttention(self.dim, self.heads, self.attention_dropout, kind, self.gate_bias)


class ResidualLayer(nn.Module):
    """The residuals, norms and feed-forward network of every layer."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.fc1, self.fc2 = spec.feed_forward()
        self.final_layer_norm = spec.norm()
        self.residual_scale = nn.Parameter(torch.zeros(1)) if spec.rezero else None

    def _residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        h = sublayer(norm(x) if self.spec.pre_norm else x)
        if self.training:
            h = dropout(h, self.spec.dropout, True)
        if self.residual_scale is not None:
            h = self.residual_scale * h
        output: Tensor = x + h if self.spec.pre_norm else norm(x + h)
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self._network(x, self.fc1, self.fc2, self.final_layer_norm)

    def _network(self, x: Tensor, inner: nn.Module, outer: nn.Module, norm: nn.Module) -> Tensor:
        def network(x: Tensor) -> Tensor:
            hidden = _ACTIVATIONS[self.spec.activation](inner(x))
            if self.spec.activation_dropout:
                hidden = dropout(hidden, self.spec.activation_dropout, self.training)
            output: Tensor = outer(hidden)
            return output

        return self._residual(x, norm, network)


@dataclass(frozen=True)
class Surroundings:
    """What all layers of one side read in a pass besides their states.

    Attributes:
        own: plans of self-attention (``group``, ``global``) and of context attention (``context``).
        cross: plans of cross-attention (``group``, ``global``).
        order: ``(tokens, dim)`` embedded sentence numbers; None: positions count through the
            document (:meth:`gtrans.modules.attention.DocumentAttention.forward`).
        source_order: ``(source tokens, dim)`` the same of the source.
        context: the context of each source; None: there is none.
        memory: the :class:`~gtrans.modules.memory.MemoryFlow` of the batch; None: there is none.
        memory_plan: that of the memories of this side; None: it has none.
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
        context_attn: attention to a context, or None.
        memory: its :class:`~gtrans.modules.memory.RecurrentMemory`, which is a layer itself, or
            None.
    """

    context_attn: ContextAttention | None
    memory: Any

    def __init__(self, spec: LayerSpec, attention: str) -> None:
        """``attention`` is one of :data:`gtrans.modules.attention.KINDS`."""
        super().__init__(spec)
        self.context_attn = None
        self.memory = None
        self.self_attn = spec.attention(attention)
        self.self_attn_layer_norm = spec.norm()

    def _attend_to_self(self, x: Tensor, around: Surroundings, beside: bool) -> Tensor:
        """Self-attention, the context behind it and the memory: ``(tokens, dim)``.

        ``beside``: context attention, unless it is behind, has the same queries.
        """

        def attend(h: Tensor) -> Tensor:
            own: Tensor = self.self_attn(h, h, around.own, around.order, around.order)
            return self._with_context(h, own, read) if beside else own

        read = self._reading(around)
        x = self._behind(self._residual(x, self.self_attn_layer_norm, attend), read)
        if self.memory is not None and around.memory is not None:
            x = self.memory(x, around.memory, around.memory_plan)
        return x

    def _reading(self, around: Surroundings) -> _Reading | None:
        """Context attention of queries ``(tokens, dim)``; None: the layer has none."""
        part, context = self.context_attn, around.context
        if part is None or context is None:
            return None
        states = context.states.to(part.attention.k_proj.weight)
        return partial(part.attention, key=states, value=states, plan=around.own["context"])

    def _with_context(self, query: Tensor, own: Tensor, read: _Reading | None) -> Tensor:
        """``own (tokens, dim)``, combined with context attention that is next to it, if any."""
        part = self.context_attn
        if part is None or read is None or part.layer_norm is not None:
            return own
        return part.combine(own, read(query))

    def _behind(self, x: Tensor, read: _Reading | None) -> Tensor:
        """``x (tokens, dim)`` after context attention that is a sublayer of its own, if any."""
        part = self.context_attn
        if part is None or read is None or part.layer_norm is None:
            return x
        query = part.layer_norm(x) if self.spec.pre_norm else x
        x = part.combine(x, read(query))
        return x if self.spec.pre_norm else part.layer_norm(x)


class EncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network."""

    def forward(self, x: Tensor, around: Surroundings) -> Tensor:
        """Packed states ``(tokens, dim) -> (tokens, dim)``."""
        return self._feed_forward(self._attend_to_self(x, around, beside=True))


class DecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and feed-forward network.

    With ``spec.two_feed_forwards`` another feed-forward network (``fc3``, ``fc4``) comes before
    cross-attention, so that the layer is two layers of an encoder, the second of which attends
    to the source.
    """

    def __init__(self, spec: LayerSpec, attention: str, cross_attention: str) -> None:
        """``attention`` and ``cross_attention``: see :data:`gtrans.modules.attention.KINDS`."""
        super().__init__(spec, attention)
        self.encoder_attn = spec.attention(cross_attention)
        self.encoder_attn_layer_norm = spec.norm()
        if spec.two_feed_forwards:
            self.fc3, self.fc4 = spec.feed_forward()
            self.ffn_layer_norm = spec.norm()

    def forward(self, x: Tensor, encoded: Tensor, around: Surroundings) -> Tensor:
        """One teacher-forced pass: ``(target tokens, dim) -> (target tokens, dim)``.

        Args:
            x: ``(target tokens, dim)`` packed.
            encoded: ``(source tokens, dim)`` packed encoder output.
            around: what else it reads.
        """

        def attend_to_source(h: Tensor) -> Tensor:
            own = self.encoder_attn(h, encoded, around.cross, around.order, around.source_order)
            return self._with_context(h, own, self._reading(around))

        x = self._first_feed_forward(self._attend_to_self(x, around, beside=False))
        x = self._residual(x, self.encoder_attn_layer_norm, attend_to_source)
        return self._feed_forward(x)

    def step(self, x: Tensor, keys: LayerKeys, order: Tensor | None) -> Tensor:
        """One new token of every hypothesis: ``(hypotheses, dim) -> (hypotheses, dim)``.

        Args:
            x: states of the new tokens.
            keys: what the layer reads; those of its own tokens are written.
            order: ``(hypotheses, dim)`` embedded sentence numbers, or None.
        """
        read: _Reading | None = None
        if self.context_attn is not None and keys.context is not None:
            key, value, mask = keys.context
            read = partial(self.context_attn.attention.attend, key=key, value=value, mask=mask)

        def attend_to_source(h: Tensor) -> Tensor:
            own = self.encoder_attn.step_cross(h, keys.source, order)
            return self._with_context(h, own, read)

        x = self._residual(
            x, self.self_attn_layer_norm, lambda h: self.self_attn.step_self(h, keys.own, order)
        )
        x = self._behind(x, read)
        if self.memory is not None and keys.memory is not None:
            x = self.memory.step(x, *keys.memory[:2])
        x = self._residual(
            self._first_feed_forward(x), self.encoder_attn_layer_norm, attend_to_source
        )
        return self._feed_forward(x)

    def _first_feed_forward(self, x: Tensor) -> Tensor:
        if not self.spec.two_feed_forwards:
            return x
        return self._network(x, self.fc3, self.fc4, self.ffn_layer_norm)
