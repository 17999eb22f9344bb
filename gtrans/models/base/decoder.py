"""The decoder of all systems."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from gtrans.models.base.encoder import EncoderOutput, Stack, StackDesign
from gtrans.models.base.options import StackConfig
from gtrans.modules.chunked_loss import DecoderStates
from gtrans.modules.decode_state import DecodeState, SharedSources, Sources, as_global
from gtrans.modules.group_attention import DocumentLayout, Plan, to_device
from gtrans.modules.layer_fusion import (
    DecoderGroupFusion,
    ProbabilityFusion,
    TransparentAttention,
    fuse_probabilities,
)
from gtrans.modules.memory import MemoryFlow
from gtrans.modules.transformer import (
    DecoderLayer,
    LayerInputs,
    Linear,
)

# Where fairseq's search keeps the state of ours.
_STATE = "gtrans"


class Decoder(Stack, FairseqIncrementalDecoder):
    """The decoder: teacher-forced on packed tokens, or one token at a time.

    In a search, the hypotheses of a source share its keys and values. If several groups of layers
    predict words (GTRANS), logits are log-probabilities.

    Attributes:
        layer_groups: the groups in use; a model without layer fusion has one.
    """

    def __init__(
        self,
        cfg: StackConfig,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        design: StackDesign,
    ) -> None:
        FairseqIncrementalDecoder.__init__(self, dictionary)
        spec = design.spec
        self.cross_kinds = tuple(design.cross_kinds)
        layers = []
        for self_kind, cross_kind in zip(design.self_kinds, self.cross_kinds, strict=True):
            layers.append(DecoderLayer(spec, self_kind, cross_kind))
        self.build(cfg, embed_tokens, design, layers)
        self.transparent: TransparentAttention | None = None
        if design.transparent:
            self.transparent = TransparentAttention(design.transparent, len(self.layers))
        self.probabilities: ProbabilityFusion | None = None
        self.probability_fusion = design.probability_fusion
        self.layer_groups = slice(0, 1)
        if isinstance(self.fusion, DecoderGroupFusion):
            groups = self.fusion.members.size(0)
            self.probabilities = ProbabilityFusion(groups, spec.dim, self.fusion.bias)
            first, last = design.layer_groups or (1, groups)
            self.layer_groups = slice(first - 1, last)
            self.used_layers = self.fusion.use(first, last)
        self.start = dictionary.bos() if cfg.start_by_bos else None
        self.output_projection = Linear(spec.dim, len(dictionary), bias=bool(cfg.output_bias))
        if cfg.output_bias:
            nn.init.zeros_(self.output_projection.bias)
        if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=spec.dim**-0.5)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Any,
        incremental_state: Optional[dict[str, Any]] = None,
        **options: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Run :meth:`teacher_forced`, or with ``incremental_state`` a step of fairseq's search.

        Returns logits ``(batch, length, vocabulary)``, in a step of length 1, and a dictionary.
        """
        if incremental_state is None:
            return self.teacher_forced(prev_output_tokens, encoder_out, **options)
        state = incremental_state.get(_STATE)
        if state is None:
            # The hypotheses of a source stay next to each other in all of fairseq's searches.
            beam = max(prev_output_tokens.size(0) // encoder_out.layout.shape[0], 1)
            state = self.begin(encoder_out, beam)
            incremental_state[_STATE] = state
        opens = torch.zeros_like(prev_output_tokens[:, 0], dtype=torch.bool)
        logits = torch.empty(0)
        # One token, unless the first call comes with a longer prefix.
        new_tokens = prev_output_tokens[:, state.step + 1 :]
        for tokens in new_tokens.unbind(1):
            logits = self.step(tokens, opens, state)
        return logits[:, None], {"attn": None}

    def teacher_forced(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        *,
        predict_at: Tensor | None = None,
        states_only: bool = False,
        memory: MemoryFlow | None = None,
        plan: Plan | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Return logits ``(batch, length, vocabulary)`` of every next token.

        Arguments as in :meth:`gtrans.models.base.model.DocumentModel.forward`.
        """
        features, layout = self.states(prev_output_tokens, encoder_out, memory, plan)
        extra: dict[str, Any] = {"attn": None}
        if predict_at is not None:
            by_token = layout.choose(features.transpose(0, 1), predict_at)
            features = by_token.transpose(0, 1)
        if states_only:
            return self._states_for_logits(features, layout), extra
        if predict_at is not None:
            return self.logits(features), extra
        if features.size(0) == 1:
            # Padding states instead of logits, which are far wider, saves memory.
            return self.output_projection(layout.pad(features[0])), extra
        return layout.pad(self.logits(features)), extra

    def _states_for_logits(self, features: Tensor, layout: DocumentLayout) -> DecoderStates:
        # Views, so that DistributedDataParallel finds both among what the output needs.
        weight: Tensor = self.output_projection.weight
        bias: Tensor | None = self.output_projection.bias
        return DecoderStates(
            features,
            log_weights=self.log_weights(),
            projection=weight.view_as(weight),
            layout=layout,
            fusion=self.probability_fusion,
            bias=None if bias is None else bias.view_as(bias),
        )

    def states(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        memory: MemoryFlow | None = None,
        plan: Plan | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """Return the states ``(layer groups, tokens, dim)`` to project, and their layout."""
        if plan is None:
            plan = self.plan_target(prev_output_tokens, encoder_out)
        layout = plan["target"]
        order = None
        if self.embed.by_sentence:
            most = encoder_out.layout.most_sentences
            order = self.embed.order(layout.sentence, most, plan["in_several"])
        inputs = LayerInputs(
            plan["decoder"],
            plan["cross"],
            order=order,
            source_order=encoder_out.order,
            context=encoder_out.context,
            memory=memory,
            memory_plan=plan.get("decoder_memory"),
        )
        layers = []
        for layer, source in zip(self.layers, self._sources(encoder_out), strict=True):
            layers.append(partial(layer, encoded=source, inputs=inputs))
        embedded = self.embedded(prev_output_tokens, layout)
        features, _ = self.run(embedded, layers)
        if self.training and self.probabilities is not None and features.size(0) == 1:
            # One group has no use for its weight, but DistributedDataParallel needs a gradient,
            # even a zero one, for every parameter.
            features = features + 0.0 * self.probabilities.weights.sum()
        return features, layout

    def plan_target(self, prev_output_tokens: Tensor, encoder_out: EncoderOutput) -> Plan:
        """Return the plan of decoder input."""
        context = encoder_out.context
        net_input = {
            "prev_output_tokens": prev_output_tokens,
            "context_lengths": None if context is None else context.lengths,
            "source_of_row": encoder_out.source_of_row,
        }
        return self.planner.on_device(net_input, encoder_out.layout)

    def search_scores(self, logits: Tensor) -> Tensor:
        """Return log-probabilities ``(.., vocabulary)`` in single precision.

        Geometric fusion is not normalised, as in the authors' code.
        """
        groups = self.layer_groups.stop - self.layer_groups.start
        if groups > 1 and self.probability_fusion == "geometric":
            return logits.float()
        return torch.log_softmax(logits.float(), -1)

    def get_normalized_probs(
        self,
        net_output: tuple[Tensor, Any],
        log_probs: bool,
        sample: Any = None,
    ) -> Tensor:
        """Return :meth:`search_scores` or their exponentials."""
        scores = self.search_scores(net_output[0])
        return scores if log_probs else scores.exp()

    def log_weights(self) -> Tensor:
        """Return ``(layer groups in use,)`` log psi (GTRANS, Eq 6); 0 for a single group."""
        if self.probabilities is None:
            return self.output_projection.weight.new_zeros(1, dtype=torch.float32)
        return self.probabilities.log_weights(self.layer_groups)

    def begin(
        self, encoder_out: EncoderOutput, beam: int, memory: MemoryFlow | None = None
    ) -> DecodeState:
        """Return the state before the first token, with ``beam`` hypotheses for every source."""
        layout, order, context = encoder_out.layout, encoder_out.order, encoder_out.context
        used = self.used_layers
        group_sources: Sources = {}
        global_sources: Sources = {}
        contexts: Sources = {}
        memories: Sources = {}
        layers: Any = self.layers
        for n, states in enumerate(self._sources(encoder_out)[:used]):
            layer, kind = layers[n], self.cross_kinds[n]
            attention = layer.encoder_attn
            sees_all = as_global(kind, layout)
            if kind != "global" and not sees_all:
                group_sources[n] = attention.k_proj(states), attention.v_proj(states)
            if kind != "group" or sees_all:
                attention = attention.global_attn or attention
                keys = states if kind == "group" or order is None else states + order
                key, value = attention.k_proj(keys), attention.v_proj(states)
                global_sources[n] = layout.align(key), layout.align(value)
            if layer.context_attn is not None and context is not None:
                attention = layer.context_attn.attention
                read = context.states.to(attention.k_proj.weight)
                key, value = attention.k_proj(read), attention.v_proj(read)
                contexts[n] = context.align(key), context.align(value)
            if layer.memory is not None and memory is not None:
                memories[n] = layer.memory.prepare(memory, layout.documents)
        shared_contexts = None
        if context is not None:
            shared_contexts = SharedSources.if_any(contexts, context.lengths)
        return DecodeState(
            layout,
            beam,
            self_kinds=self.self_kinds[:used],
            group_sources=group_sources,
            global_sources=global_sources,
            like=encoder_out.states,
            by_sentence=self.embed.by_sentence,
            context=shared_contexts,
            memory=SharedSources.if_any(memories),
        )

    def read_prefix(
        self,
        prefix: Tensor,
        encoder_out: EncoderOutput,
        state: DecodeState,
        memory: MemoryFlow | None = None,
    ) -> None:
        """Let a search begin behind whole sentences, which are read in one pass.

        Args:
            prefix: ``(documents, longest)`` decoder input of all hypotheses of a document, padded
                on the right.
            encoder_out: the sources.
            state: updated in place.
            memory: overwritten later by :meth:`gtrans.models.base.model.DocumentModel.remember`.
        """
        projected: dict[nn.Module, Tensor] = {}

        def keep(projection: nn.Module, _: Any, output: Tensor) -> None:
            projected[projection] = output

        layers: Any = self.layers
        attentions = []
        for number in state.layers_of_document:
            attention = layers[number].self_attn
            attentions.append(attention.global_attn or attention)
        with ExitStack() as hooks:
            for attention in attentions:
                hooks.enter_context(attention.k_proj.register_forward_hook(keep))
                hooks.enter_context(attention.v_proj.register_forward_hook(keep))
            _, layout = self.states(prefix, encoder_out, memory)
        pairs = None
        if attentions:
            keys = [layout.align(projected[attention.k_proj]) for attention in attentions]
            values = [layout.align(projected[attention.v_proj]) for attention in attentions]
            pairs = torch.stack(keys), torch.stack(values)
        state.begin_after(layout, pairs)

    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Return logits ``(hypotheses, vocabulary)`` after one more token.

        Arguments as in :meth:`gtrans.models.base.model.DocumentModel.decode_step`.
        """
        return self.logits(self.step_states(tokens, opens, state))

    def step_states(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Return the states ``(layer groups, hypotheses, dim)`` that a step projects."""
        state.advance(opens)
        order = None
        if self.embed.by_sentence:
            order = self.embed.order(state.sentence, state.most_sentences, state.in_several)
        x = self.embedding(tokens, state.positions())
        # A state has the layers in use only.
        pairs: Any = zip(self.layers, state.layers, strict=False)
        layers = [partial(layer.step, keys=keys, order=order) for layer, keys in pairs]
        features, _ = self.run(x, layers)
        return features

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Let hypothesis ``i`` continue ``new_order[i]``; drop finished sources."""
        state = incremental_state.get(_STATE)
        if state is None:
            return
        # The host waits here once a step; it computes itself what follows from the order.
        parents = new_order.cpu().view(-1, state.beam)
        sources = torch.div(parents[:, 0], state.beam, rounding_mode="floor")
        numbers = torch.arange(sources.numel())
        if sources.numel() != state.document.numel() or not torch.equal(sources, numbers):
            state.keep(sources)
        # The same parents, counted among the sources that are left.
        dropped_before = sources - numbers
        remaining = (parents - dropped_before[:, None] * state.beam).flatten()
        if not torch.equal(remaining, torch.arange(remaining.numel())):
            state.reorder(to_device(remaining, new_order.device))

    def logits(self, features: Tensor) -> Tensor:
        """Map ``(layer groups, tokens, dim)`` to fused logits ``(tokens, vocabulary)``."""
        if features.size(0) == 1:
            logits: Tensor = self.output_projection(features[0])
            return logits
        logits = self.output_projection(features)
        return fuse_probabilities(logits, self.log_weights(), self.probability_fusion)

    def _sources(self, encoder_out: EncoderOutput) -> list[Tensor]:
        if self.transparent is None:
            return [encoder_out.states] * len(self.layers)
        sources: list[Tensor] = self.transparent(encoder_out.layers)
        return sources
