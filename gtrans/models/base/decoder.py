"""The decoder that all systems share; a system may replace it."""

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

    A search gives it to a state that knows which hypotheses belong to one source (:meth:`begin`,
    :meth:`step`), so that keys and values of a source are computed and stored once. fairseq's own
    search instead repeats the encoder's output for every hypothesis and reorders it together with
    an ``incremental_state``: here both only record row numbers, and the state is in the latter.

    Logits of a decoder with several groups of layers are log-probabilities already. A softmax
    leaves them as they are, except for geometric fusion, whose scores a search takes without one
    (:meth:`search_scores`).

    Attributes:
        cross_kinds: kind of cross-attention of every layer.
        groups: the groups of its layers that predict words.
    """

    def __init__(
        self,
        cfg: StackConfig,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        design: StackDesign,
    ) -> None:
        FairseqIncrementalDecoder.__init__(self, dictionary)
        spec, self.cross_kinds = design.spec, tuple(design.cross_kinds)
        kinds = zip(design.self_kinds, self.cross_kinds, strict=True)
        layers = [DecoderLayer(spec, kind, cross) for kind, cross in kinds]
        self.build(cfg, embed_tokens, design, layers)
        self.transparent: TransparentAttention | None = None
        if design.transparent:
            self.transparent = TransparentAttention(design.transparent, len(self.layers))
        self.probabilities: ProbabilityFusion | None = None
        self.probability_fusion = design.probability_fusion
        self.groups = slice(0, 1)
        if isinstance(self.fusion, DecoderGroupFusion):
            groups = self.fusion.members.size(0)
            self.probabilities = ProbabilityFusion(groups, spec.dim, self.fusion.bias)
            first, last = design.groups or (1, groups)
            self.groups = slice(first - 1, last)
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
        """A teacher-forced pass, or with ``incremental_state`` one step of fairseq's search.

        Args:
            prev_output_tokens: ``(batch, length)``; in a step all tokens so far.
            encoder_out: the encoded sources.
            incremental_state: fairseq's memory of one search, empty at its beginning.
            options: further arguments of :meth:`teacher_forced`.

        Returns:
            logits ``(batch, length, vocabulary)``, in a step ``(batch, 1, vocabulary)`` of the
            last token, and a dictionary with at least ``attn``, which fairseq reads.
        """
        if incremental_state is None:
            return self.teacher_forced(prev_output_tokens, encoder_out, **options)
        state = incremental_state.get(_STATE)
        if state is None:
            # The hypotheses of a source stay next to each other in all of fairseq's searches.
            beam = max(prev_output_tokens.size(0) // encoder_out.layout.shape[0], 1)
            state = incremental_state[_STATE] = self.begin(encoder_out, beam)
        opens = torch.zeros_like(prev_output_tokens[:, 0], dtype=torch.bool)
        logits = torch.empty(0)
        # One token, unless the first call comes with a longer prefix.
        for tokens in prev_output_tokens[:, state.step + 1 :].unbind(1):
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
        """Logits ``(batch, length, vocabulary)`` of every next token.

        Neighbouring rows of one source (``encoder_out.source_of_row``) share the states of
        their common prefix.

        Args:
            prev_output_tokens: ``(batch, length)`` decoder input, padded on the right.
            encoder_out: the encoded sources.
            predict_at, states_only: see
                :meth:`gtrans.models.base.model.DocumentModel.forward`.
            memory: as in :meth:`gtrans.models.base.encoder.Encoder.forward`.
            plan: of the input; None: it is made now.
        """
        features, layout = self.states(prev_output_tokens, encoder_out, memory, plan)
        extra: dict[str, Any] = {"attn": None}
        if predict_at is not None:
            features = layout.choose(features.transpose(0, 1), predict_at).transpose(0, 1)
        if states_only:
            # A view, so that DistributedDataParallel finds the matrix among what the output needs.
            projection = self.output_projection.weight
            projection = projection.view_as(projection)
            bias: Tensor | None = self.output_projection.bias
            bias = None if bias is None else bias.view_as(bias)
            weights, fusion = self.log_weights(), self.probability_fusion
            return DecoderStates(features, weights, projection, layout, fusion, bias), extra
        if predict_at is not None:
            return self.logits(features), extra
        if features.size(0) == 1:
            # Padding states instead of logits, which are far wider, saves memory.
            return self.output_projection(layout.pad(features[0])), extra
        return layout.pad(self.logits(features)), extra

    def states(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        memory: MemoryFlow | None = None,
        plan: Plan | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """States before the output projection, ``(groups, tokens, dim)``, and their layout."""
        if plan is None:
            plan = self.plan_target(prev_output_tokens, encoder_out)
        layout, sources, order = plan["target"], self._sources(encoder_out), None
        if self.embed.by_sentence:
            most = encoder_out.layout.most_sentences
            order = self.embed.order(layout.sentence, most, plan["in_several"])
        inputs = LayerInputs(
            plan["decoder"],
            plan["cross"],
            order,
            encoder_out.order,
            encoder_out.context,
            memory,
            plan.get("decoder_memory"),
        )
        pairs = zip(self.layers, sources, strict=True)
        layers = [partial(layer, encoded=source, inputs=inputs) for layer, source in pairs]
        features, _ = self.run(self.embedded(prev_output_tokens, layout), layers)
        if self.training and self.probabilities is not None and features.size(0) == 1:
            # One group has no use for its weight, but DistributedDataParallel needs a gradient,
            # even a zero one, for every parameter.
            features = features + 0.0 * self.probabilities.weights.sum()
        return features, layout

    def plan_target(self, prev_output_tokens: Tensor, encoder_out: EncoderOutput) -> Plan:
        """Return the plan of decoder input that is on a device."""
        context = encoder_out.context
        net_input = {
            "prev_output_tokens": prev_output_tokens,
            "context_lengths": None if context is None else context.lengths,
            "source_of_row": encoder_out.source_of_row,
        }
        return self.planner.on_device(net_input, encoder_out.layout)

    def search_scores(self, logits: Tensor) -> Tensor:
        """``(.., vocabulary)`` what a search adds up: log-probabilities in single precision.

        Geometric fusion's stay as they are, not normalised, as in the authors' code.
        """
        several = self.groups.stop - self.groups.start > 1
        if several and self.probability_fusion == "geometric":
            return logits.float()
        return torch.log_softmax(logits.float(), -1)

    def get_normalized_probs(
        self,
        net_output: tuple[Tensor, Any],
        log_probs: bool,
        sample: Any = None,
    ) -> Tensor:
        """What fairseq's criteria and search read: :meth:`search_scores`, or their exponentials."""
        scores = self.search_scores(net_output[0])
        return scores if log_probs else scores.exp()

    def log_weights(self) -> Tensor:
        """``(groups in use,)`` log psi (GTRANS, Eq 6); 0 for a single group."""
        if self.probabilities is None:
            return self.output_projection.weight.new_zeros(1, dtype=torch.float32)
        return self.probabilities.log_weights(self.groups)

    def begin(
        self, encoder_out: EncoderOutput, beam: int, memory: MemoryFlow | None = None
    ) -> DecodeState:
        """The state before the first token, with ``beam`` hypotheses for every source."""
        layout, order, used = encoder_out.layout, encoder_out.order, self.used_layers
        context, documents = encoder_out.context, layout.documents
        group: Sources = {}
        whole: Sources = {}
        contexts: Sources = {}
        memories: Sources = {}
        layers: Any = self.layers
        for n, states in enumerate(self._sources(encoder_out)[:used]):
            attention, kind, layer = layers[n].encoder_attn, self.cross_kinds[n], layers[n]
            if kind != "global" and not as_global(kind, layout):
                group[n] = attention.k_proj(states), attention.v_proj(states)
            if kind != "group" or as_global(kind, layout):
                attention = attention.global_attn or attention
                keys = states if kind == "group" or order is None else states + order
                pair = attention.k_proj(keys), attention.v_proj(states)
                whole[n] = layout.align(pair[0]), layout.align(pair[1])
            if layer.context_attn is not None and context is not None:
                attention = layer.context_attn.attention
                read = context.states.to(attention.k_proj.weight)
                pair = attention.k_proj(read), attention.v_proj(read)
                contexts[n] = context.align(pair[0]), context.align(pair[1])
            if layer.memory is not None and memory is not None:
                memories[n] = layer.memory.prepare(memory, documents)
        return DecodeState(
            layout,
            beam,
            self.self_kinds[:used],
            group,
            whole,
            encoder_out.states,
            self.embed.by_sentence,
            None if context is None else SharedSources.of(contexts, context.lengths),
            SharedSources.of(memories),
        )

    def read_prefix(
        self,
        prefix: Tensor,
        encoder_out: EncoderOutput,
        state: DecodeState,
        memory: MemoryFlow | None = None,
    ) -> None:
        """Let a search begin behind some whole sentences, which are read in one pass.

        Args:
            prefix: ``(documents, longest)`` decoder input, padded on the right, that all
                hypotheses of a document have read.
            encoder_out: the encoded sources.
            state: from :meth:`begin`; updated in place.
            memory: the memory with which the sources begin. The states it receives here,
                :meth:`gtrans.models.base.model.DocumentModel.remember` replaces.
        """
        projected: dict[nn.Module, Tensor] = {}

        def keep(projection: nn.Module, _: Any, output: Tensor) -> None:
            projected[projection] = output

        layers: Any = self.layers
        own = [layers[number].self_attn for number in state.layers_of_document]
        attentions = [attention.global_attn or attention for attention in own]
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
        state.begin_behind(layout, pairs)

    def step(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """Logits ``(hypotheses, vocabulary)`` after one more token of every hypothesis.

        Args:
            tokens: ``(hypotheses,)`` the newest token.
            opens: ``(hypotheses,)`` whether that token opens a sentence.
            state: updated in place.
        """
        return self.logits(self.step_states(tokens, opens, state))

    def step_states(self, tokens: Tensor, opens: Tensor, state: DecodeState) -> Tensor:
        """States of a :meth:`step` before the output projection: ``(groups, hypotheses, dim)``."""
        state.advance(opens)
        order = None
        if self.embed.by_sentence:
            order = self.embed.order(state.sentence, state.most_sentences, state.in_several)
        x = self.embedding(tokens, state.positions())
        pairs: Any = zip(self.layers, state.layers, strict=False)
        layers = [partial(layer.step, keys=keys, order=order) for layer, keys in pairs]
        return self.run(x, layers)[0]

    def reorder_incremental_state(
        self, incremental_state: dict[str, Any], new_order: Tensor
    ) -> None:
        """Hypothesis ``i`` continues hypothesis ``new_order[i]``; sources without any are dropped.

        The hypotheses of a source stay next to each other, as in all of fairseq's searches.
        """
        state = incremental_state.get(_STATE)
        if state is None:
            return
        # The host waits here once a step; what follows from the order it computes itself.
        parents = new_order.cpu().view(-1, state.beam)
        sources = torch.div(parents[:, 0], state.beam, rounding_mode="floor")
        numbers = torch.arange(sources.numel())
        if sources.numel() != state.document.numel() or not torch.equal(sources, numbers):
            state.keep(sources)
        # The same parents, counted among the sources that are left.
        remaining = (parents - (sources - numbers)[:, None] * state.beam).flatten()
        if not torch.equal(remaining, torch.arange(remaining.numel())):
            state.reorder(to_device(remaining, new_order.device))

    def logits(self, features: Tensor) -> Tensor:
        """``(groups, tokens, dim) -> (tokens, vocabulary)``; logits of several groups are fused."""
        if features.size(0) == 1:
            logits: Tensor = self.output_projection(features[0])
            return logits
        logits = self.output_projection(features)
        return fuse_probabilities(logits, self.log_weights(), self.probability_fusion)

    def _sources(self, encoder_out: EncoderOutput) -> list[Tensor]:
        """The packed source states that each layer attends to."""
        if self.transparent is None:
            return [encoder_out.states] * len(self.layers)
        sources: list[Tensor] = self.transparent(encoder_out.layers)
        return sources
