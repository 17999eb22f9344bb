"""Transformer layers on packed states.

Parameter names follow fairseq's layers. ``attend`` arguments are closures over the
batch's plans, so a layer knows nothing of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gtrans.modules.attention import DocumentAttention
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import ContextAttention, PackedContext
from gtrans.modules.decode_state import DecodeState, DocumentSources
from gtrans.modules.dropout import dropout
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.linear import Linear

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
ACTIVATIONS = tuple(_ACTIVATIONS)

# States behind self-attention ``(tokens, dim)`` -> what the rest of the layer gets.
BehindAttention = Callable[[Tensor], Tensor]


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
        rezero: no LayerNorm; a residual is scaled by a learned scalar of its layer that
            begins at 0 (Bachlechner et al. 2020).
        gate_bias: see :class:`gtrans.modules.attention.GlobalGate`.
        norm_eps: what LayerNorm adds to a variance (BERT's models have 1e-12).
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

    def norm(self) -> nn.Module:
        """A new LayerNorm of this layer's width; with ``rezero``, nothing in its place."""
        return nn.Identity() if self.rezero else nn.LayerNorm(self.dim, self.norm_eps)

    def attention(self, kind: str) -> DocumentAttention:
        """A new attention of this layer's sizes."""
        return DocumentAttention(
            self.dim, self.heads, self.attention_dropout, kind, self.gate_bias
        )


class ResidualLayer(nn.Module):
    """Residuals, norms and the feed-forward network that all kinds of layers share."""

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__()
        self.spec = spec
        self.fc1 = Linear(spec.dim, spec.ffn_dim)
        self.fc2 = Linear(spec.ffn_dim, spec.dim)
        for linear in (self.fc1, self.fc2):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.final_layer_norm = spec.norm()
        self.residual_scale = nn.Parameter(torch.zeros(1)) if spec.rezero else None
        # Beside self-attention in the encoder, beside attention to the encoder in the decoder;
        # set by models with a context.
        self.context_attn: ContextAttention | None = None

    def _with_context(
        self, query: Tensor, own: Tensor, plans: AttentionPlans, plan: AttentionPlan | None
    ) -> Tensor:
        """``own``, combined with what the same query finds in the context if there is one."""
        if self.context_attn is None or plans.context is None or plan is None:
            return own
        combined: Tensor = self.context_attn(query, own, plans.context, plan)
        return combined

    def _residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        share = self.spec.dropout
        if self.residual_scale is not None:
            return x + self.residual_scale * dropout(sublayer(x), share, self.training)
        if self.spec.pre_norm:
            return x + dropout(sublayer(norm(x)), share, self.training)
        output: Tensor = norm(x + dropout(sublayer(x), share, self.training))
        return output

    def _feed_forward(self, x: Tensor) -> Tensor:
        def network(x: Tensor) -> Tensor:
            hidden = _ACTIVATIONS[self.spec.activation](self.fc1(x))
            hidden = dropout(hidden, self.spec.activation_dropout, self.training)
            output: Tensor = self.fc2(hidden)
            return output

        return self._residual(x, self.final_layer_norm, network)


class EncoderLayer(ResidualLayer):
    """Self-attention and feed-forward network."""

    def __init__(self, spec: LayerSpec, attention: str) -> None:
        """``attention`` is one of :data:`gtrans.modules.attention.KINDS`."""
        super().__init__(spec)
        self.self_attn = spec.attention(attention)
        self.self_attn_layer_norm = spec.norm()

    def forward(
        self,
        x: Tensor,
        plans: AttentionPlans,
        order: Tensor | None = None,
        behind: BehindAttention | None = None,
    ) -> Tensor:
        """``(tokens, dim) -> (tokens, dim)``.

        Args:
            x: packed states.
            plans: the batch's attention plans.
            order: as in :class:`DocumentAttention`.
            behind: a sub-layer between self-attention and feed-forward network, or None.
        """
        x = self._residual(
            x,
            self.self_attn_layer_norm,
            lambda h: self._with_context(
                h,
                self.self_attn(
                    h, h, lambda: plans.encoder_group, lambda: plans.encoder_global, order, order
                ),
                plans,
                plans.encoder_context,
            ),
        )
        if behind is not None:
            x = behind(x)
        return self._feed_forward(x)


class DecoderLayer(ResidualLayer):
    """Causal self-attention, attention to the encoder, feed-forward network."""

    def __init__(self, spec: LayerSpec, attention: str, cross_attention: str) -> None:
        """``attention`` and ``cross_attention`` are kinds of attention."""
        super().__init__(spec)
        self.self_attn = spec.attention(attention)
        self.self_attn_layer_norm = spec.norm()
        self.encoder_attn = spec.attention(cross_attention)
        self.encoder_attn_layer_norm = spec.norm()

    def forward(
        self,
        x: Tensor,
        encoded: Tensor,
        plans: AttentionPlans,
        order: Tensor | None = None,
        source_order: Tensor | None = None,
        behind: BehindAttention | None = None,
    ) -> Tensor:
        """One teacher-forced pass.

        Args:
            x: ``(target tokens, dim)`` packed.
            encoded: ``(source tokens, dim)`` packed encoder output.
            plans: the batch's attention plans.
            order: ``(target tokens, dim)`` order of sentences, or None.
            source_order: ``(source tokens, dim)``, or None.
            behind: a sub-layer between self-attention and cross-attention, or None.
        """
        x = self._residual(
            x,
            self.self_attn_layer_norm,
            lambda h: self.self_attn(
                h, h, lambda: plans.decoder_group, lambda: plans.decoder_global, order, order
            ),
        )
        if behind is not None:
            x = behind(x)
        x = self._residual(
            x,
            self.encoder_attn_layer_norm,
            lambda h: self._with_context(
                h,
                self.encoder_attn(
                    h,
                    encoded,
                    lambda: plans.cross_group,
                    lambda: plans.cross_global,
                    order,
                    source_order,
                ),
                plans,
                plans.decoder_context,
            ),
        )
        return self._feed_forward(x)

    def step(
        self,
        x: Tensor,
        state: DecodeState,
        layer: int,
        order: Tensor | None,
        behind: BehindAttention | None = None,
    ) -> Tensor:
        """One new token of every hypothesis: ``(rows, dim) -> (rows, dim)``."""
        x = self._residual(
            x,
            self.self_attn_layer_norm,
            lambda h: self.self_attn.step_self(h, state, layer, order),
        )
        if behind is not None:
            x = behind(x)
        x = self._residual(
            x,
            self.encoder_attn_layer_norm,
            lambda h: self._step_with_context(
                h, self.encoder_attn.step_cross(h, state, layer, order), state, layer
            ),
        )
        return self._feed_forward(x)

    def _step_with_context(
        self, query: Tensor, own: Tensor, state: DecodeState, layer: int
    ) -> Tensor:
        if self.context_attn is None or state.context is None:
            return own
        return self.context_attn.step(query, own, *state.context.of(layer))


def context_sources(
    layers: Iterable[nn.Module], context: PackedContext | None
) -> DocumentSources | None:
    """Keys and values of those decoder layers that attend to ``context``, projected once."""
    sources: dict[int, tuple[Tensor, Tensor]] = {}
    for number, layer in enumerate(layers):
        beside = layer.context_attn
        if context is not None and isinstance(beside, ContextAttention):
            attention = beside.attention
            states = context.states.to(attention.k_proj.weight)
            key, value = attention.k_proj(states), attention.v_proj(states)
            sources[number] = context.align(key), context.align(value)
    return DocumentSources.padded(sources, context.lengths) if context and sources else None
