"""Transformer layers on packed states.

Parameter names follow fairseq's layers. A layer knows nothing of documents: the plans of the
batch (:class:`gtrans.modules.attention_plans.AttentionPlans`) say which tokens see which
others. A model may switch on two parts of a layer, which are off (None) in a new layer:
``context_attn``, a second attention next to self-attention in the encoder and next to
cross-attention in the decoder (or, with a LayerNorm of its own, behind self-attention in both), and
``memory``, which comes after self-attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import ContextAttention, PackedContext
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.memory import RecurrentMemory
from gtrans.modules.memory_plan import MemoryFlow
from gtrans.modules.residual import LayerSpec, ResidualLayer
from gtrans.modules.shared_keys import SharedSources

__all__ = ["DecoderLayer", "EncoderLayer", "LayerSpec", "context_sources", "memory_sources"]


class TransformerLayer(ResidualLayer):
    """A layer of the encoder or decoder, with the parts that a model may switch on.

    Attributes:
        checkpoints: in training keep only what the layer reads, and compute the rest again for the
            gradient, with the same dropout (Chen et al. 2016, "Training Deep Nets with Sublinear
            Memory Cost").
    """

    context_attn: ContextAttention | None
    memory: RecurrentMemory | None

    def __init__(self, spec: LayerSpec) -> None:
        super().__init__(spec)
        self.context_attn = None
        self.memory = None
        self.checkpoints = False

    def _computed(
        self, run: Callable[[Tensor], Tensor], x: Tensor, plans: AttentionPlans
    ) -> Tensor:
        """``run(x)``, in training perhaps once more for the gradient; all are ``(tokens, dim)``."""
        if not (self.checkpoints and self.training and torch.is_grad_enabled()):
            return run(x)
        if self.memory is not None and plans.memory is not None:
            run = plans.memory.repeatable(run)
        # What is random depends on the device of the arguments: `x` must be one.
        output: Tensor = checkpoint(run, x, use_reentrant=False)
        return output

    def _with_context(
        self, query: Tensor, own: Tensor, plans: AttentionPlans, plan: AttentionPlan | None
    ) -> Tensor:
        """``own (tokens, dim)``, combined with context attention if the layer has it."""
        if self.context_attn is None or self.context_attn.layer_norm is not None:
            return own
        if plans.context is None or plan is None:
            return own
        combined: Tensor = self.context_attn(query, own, plans.context, plan)
        return combined

    def _behind_self_attention(
        self, x: Tensor, attend: Callable[[ContextAttention, Tensor], Tensor]
    ) -> Tensor:
        """``x (tokens, dim)`` after context attention, if it is a sublayer of its own.

        Args:
            x: the output of self-attention.
            attend: context attention of queries ``(tokens, dim)``.
        """
        part = self.context_attn
        if part is None or part.layer_norm is None:
            return x
        query = part.layer_norm(x) if self.spec.pre_norm else x
        x = part.combine(x, attend(part, query))
        return x if self.spec.pre_norm else part.layer_norm(x)

    def _context_behind(
        self, x: Tensor, plans: AttentionPlans, plan: AttentionPlan | None
    ) -> Tensor:
        """:meth:`_behind_self_attention` for the batch of ``plans``."""
        if plans.context is None or plan is None:
            return x
        states = plans.context.states.to(x)
        return self._behind_self_attention(
            x, lambda part, query: part.attention(query, states, states, plan)
        )

    def _with_memory(self, x: Tensor, plans: AttentionPlans) -> Tensor:
        """``x (tokens, dim)`` after it has updated and read the memory, if the layer has one."""
        if self.memory is None or plans.memory is None:
            return x
        output: Tensor = self.memory(x, plans.memory)
        return output


class EncoderLayer(TransformerLayer):
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
    ) -> Tensor:
        """``(tokens, dim) -> (tokens, dim)``.

        Args:
            x: packed states.
            plans: the batch's attention plans.
            order: ``(tokens, dim)`` embedded sentence numbers, or None; see
                :meth:`gtrans.modules.attention.DocumentAttention.forward`.
        """
        return self._computed(lambda x: self._pass(x, plans, order), x, plans)

    def _pass(self, x: Tensor, plans: AttentionPlans, order: Tensor | None) -> Tensor:
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
        x = self._context_behind(x, plans, plans.encoder_context)
        return self._feed_forward(self._with_memory(x, plans))


class DecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and feed-forward network.

    With ``spec.two_feed_forwards`` another feed-forward network (``fc3``, ``fc4``) comes before
    cross-attention, so that the layer is two layers of an encoder, the second of which attends
    to the source.
    """

    def __init__(self, spec: LayerSpec, attention: str, cross_attention: str) -> None:
        """``attention`` and ``cross_attention``: see :data:`gtrans.modules.attention.KINDS`."""
        super().__init__(spec)
        self.self_attn = spec.attention(attention)
        self.self_attn_layer_norm = spec.norm()
        self.encoder_attn = spec.attention(cross_attention)
        self.encoder_attn_layer_norm = spec.norm()
        if spec.two_feed_forwards:
            self.fc3, self.fc4 = spec.feed_forward()
            self.ffn_layer_norm = spec.norm()

    def forward(
        self,
        x: Tensor,
        encoded: Tensor,
        plans: AttentionPlans,
        order: Tensor | None = None,
        source_order: Tensor | None = None,
    ) -> Tensor:
        """One teacher-forced pass: ``(target tokens, dim) -> (target tokens, dim)``.

        Args:
            x: ``(target tokens, dim)`` packed.
            encoded: ``(source tokens, dim)`` packed encoder output.
            plans: the batch's attention plans.
            order: ``(target tokens, dim)`` embedded sentence numbers, or None.
            source_order: ``(source tokens, dim)`` the same of the source, or None.
        """
        return self._computed(
            lambda x: self._pass(x, encoded, plans, order, source_order), x, plans
        )

    def _pass(
        self,
        x: Tensor,
        encoded: Tensor,
        plans: AttentionPlans,
        order: Tensor | None,
        source_order: Tensor | None,
    ) -> Tensor:
        x = self._residual(
            x,
            self.self_attn_layer_norm,
            lambda h: self.self_attn(
                h, h, lambda: plans.decoder_group, lambda: plans.decoder_global, order, order
            ),
        )
        x = self._context_behind(x, plans, plans.decoder_context)
        x = self._first_feed_forward(self._with_memory(x, plans))
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

    def step(self, x: Tensor, state: DecodeState, layer: int, order: Tensor | None) -> Tensor:
        """One new token of every hypothesis: ``(hypotheses, dim) -> (hypotheses, dim)``.

        Args:
            x: states of the new tokens.
            state: the search so far; updated in place.
            layer: number of this layer.
            order: ``(hypotheses, dim)`` embedded sentence numbers, or None.
        """
        x = self._residual(
            x,
            self.self_attn_layer_norm,
            lambda h: self.self_attn.step_self(h, state, layer, order),
        )
        if state.context is not None:
            sources = state.context.for_layer(layer)
            x = self._behind_self_attention(
                x, lambda part, query: part.attention.attend(query, *sources)
            )
        if self.memory is not None and state.memory is not None:
            keys, values, _ = state.memory.for_layer(layer)
            x = self.memory.step(x, keys, values)
        x = self._first_feed_forward(x)
        x = self._residual(
            x,
            self.encoder_attn_layer_norm,
            lambda h: self._step_with_context(
                h, self.encoder_attn.step_cross(h, state, layer, order), state, layer
            ),
        )
        return self._feed_forward(x)

    def _first_feed_forward(self, x: Tensor) -> Tensor:
        if not self.spec.two_feed_forwards:
            return x
        return self._network(x, self.fc3, self.fc4, self.ffn_layer_norm)

    def _step_with_context(
        self, query: Tensor, own: Tensor, state: DecodeState, layer: int
    ) -> Tensor:
        if self.context_attn is None or state.context is None:
            return own
        if self.context_attn.layer_norm is not None:
            return own
        return self.context_attn.step(query, own, *state.context.for_layer(layer))


def context_sources(
    layers: Iterable[nn.Module], context: PackedContext | None
) -> SharedSources | None:
    """Keys and values of the decoder layers that attend to ``context``; None: there are none."""
    sources: dict[int, tuple[Tensor, Tensor]] = {}
    for number, layer in enumerate(layers):
        part = layer.context_attn
        if context is not None and isinstance(part, ContextAttention):
            attention = part.attention
            states = context.states.to(attention.k_proj.weight)
            key, value = attention.k_proj(states), attention.v_proj(states)
            sources[number] = context.align(key), context.align(value)
    return SharedSources.of_layers(sources, context.lengths) if context and sources else None


def memory_sources(
    layers: Iterable[nn.Module], flow: MemoryFlow, documents: int
) -> SharedSources | None:
    """Keys and values of the decoder layers that have a memory; None: there are none.

    Args:
        layers: the decoder layers.
        flow: holds the memories.
        documents: number of documents.
    """
    sources = {
        number: layer.memory.prepare(flow, documents)
        for number, layer in enumerate(layers)
        if isinstance(layer.memory, RecurrentMemory)
    }
    return SharedSources.of_layers(sources) if sources else None
