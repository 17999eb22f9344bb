"""The decoder that all systems share; a system may replace it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.models.base.encoder import StackDesign, longest_row, needs_of
from gtrans.models.base.options import StackConfig, embedder, positions_and_norm
from gtrans.models.base.planning import TargetPlanner, planned
from gtrans.models.base.stock_search import StockDecoder
from gtrans.modules.attention import DocumentAttention, ProjectedKeys
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.chunked_loss import DecoderStates
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.decode_state import DecodeState, effective_kinds
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layer_fusion import (
    DecoderGroupFusion,
    ProbabilityFusion,
    TransparentAttention,
    fuse_probabilities,
    run_layers,
)
from gtrans.modules.layout import DocumentLayout, Positions
from gtrans.modules.linear import Linear
from gtrans.modules.memory_plan import MemoryFlow
from gtrans.modules.positions import LearnedPositions
from gtrans.modules.transformer import DecoderLayer, context_sources, memory_sources


class Decoder(StockDecoder):
    """The decoder: teacher-forced on packed tokens, or one token at a time.

    Logits of a decoder with several groups of layers are log-probabilities already. A softmax
    leaves them as they are, except for geometric fusion, whose scores a search takes without one
    (:meth:`search_scores`).

    Attributes:
        opening: id of the symbol that opens every sentence; in rows that begin with ``</s>``,
            ``</s>`` opens them.
    """

    embed_positions: LearnedPositions | None
    layernorm_embedding: nn.LayerNorm | None

    def __init__(
        self,
        cfg: StackConfig,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        design: StackDesign,
    ) -> None:
        super().__init__(dictionary)
        frame = Frame.of(cfg, dictionary, dictionary)
        self.opening = frame.opening
        # Rows that begin with `</s>` are found without it (DocumentLayout.of_target).
        if frame.opening == frame.eos and frame.document_mark is None:
            self.opening = frame.bos
        spec = design.spec
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = positions_and_norm(cfg)
        self.embed = embedder(cfg, design.by_sentence, design.has_groups)
        self.self_kinds, self.cross_kinds = list(design.self_kinds), list(design.cross_kinds)
        self.layers = nn.ModuleList(
            DecoderLayer(spec, kind, cross)
            for kind, cross in zip(self.self_kinds, self.cross_kinds, strict=True)
        )
        self.used_layers = design.used_layers or len(self.layers)
        self.fusion = design.fusion(design.spec)
        self.layer_norm = design.norm_after(self.fusion)
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
        self.output_projection = Linear(spec.dim, len(dictionary), bias=False)
        if cfg.share_all_embeddings or cfg.share_decoder_input_output_embed:
            self.output_projection.weight = embed_tokens.weight
        else:
            nn.init.normal_(self.output_projection.weight, std=spec.dim**-0.5)

    def teacher_forced(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOutput,
        *,
        predict_at: Tensor | None = None,
        states_only: bool = False,
        return_all_layers: bool = False,
        memory: MemoryFlow | None = None,
        plan: AttentionPlans | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Logits ``(batch, length, vocabulary)`` of every next token.

        Neighbouring rows of one source (``encoder_out.source_of_row``) share the states of
        their common prefix.

        Args:
            prev_output_tokens: ``(batch, length)`` decoder input, padded on the right.
            encoder_out: the encoded sources.
            predict_at, states_only: see
                :meth:`gtrans.models.base.model.DocumentModel.forward`.
            return_all_layers: the dictionary also holds ``"layers"`` (the embedded input and
                every layer's output, ``(tokens, dim)`` each) and ``"layout"``.
            memory: as in :meth:`gtrans.models.base.encoder.Encoder.forward`.
            plan: what :attr:`planner` makes of the input; None: it is made now.
        """
        layers: list[Tensor] = []
        features, layout = self.states(
            prev_output_tokens, encoder_out, memory, layers if return_all_layers else None, plan
        )
        extra: dict[str, Any] = {"attn": None}
        if return_all_layers:
            extra.update(layers=layers, layout=layout)
        if predict_at is not None:
            features = _choose(features, layout, predict_at)
        if states_only:
            # A view, so that DistributedDataParallel finds the matrix among what the output needs.
            projection = self.output_projection.weight
            projection = projection.view_as(projection)
            weights, fusion = self.log_weights(), self.probability_fusion
            return DecoderStates(features, weights, projection, layout, fusion), extra
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
        layers: list[Tensor] | None = None,
        plan: AttentionPlans | None = None,
    ) -> tuple[Tensor, DocumentLayout]:
        """States before the output projection, ``(groups, tokens, dim)``, and their layout.

        The embedded input and every layer's output are appended to ``layers``, if it is given.
        """
        if plan is None:
            plan = self.plan(prev_output_tokens, encoder_out)
        plans = plan.reading(encoder_out.context, memory)
        layout = plans.words
        x = self._embedded(layout.pack(prev_output_tokens), self.embed.positions(layout))
        several = encoder_out.layout.sentence_counts > 1
        if encoder_out.source_of_row is not None:
            several = several[encoder_out.source_of_row]
        order = self.embed.order(layout.sentence_numbers, several[layout.row])
        sources = self._sources(encoder_out)
        if layers is not None:
            layers.append(x)

        def run(number: int, x: Tensor) -> Tensor:
            output: Tensor = self.layers[number](
                x, sources[number], plans, order, encoder_out.order
            )
            if layers is not None:
                layers.append(output)
            return output

        return self._run(x, run), layout

    @property
    def planner(self) -> TargetPlanner:
        """Makes the plans of the decoder's input."""
        needs = needs_of(self, {"decoder": self.self_kinds, "cross": self.cross_kinds})
        dictionary = self.dictionary
        return TargetPlanner(dictionary.pad(), self.opening, dictionary.eos(), needs)

    def plan(self, prev_output_tokens: Tensor, encoder_out: EncoderOutput) -> Any:
        """The plans of input that is on the device of the model."""
        context, layout = encoder_out.context, encoder_out.layout

        def plans(
            tokens: Tensor, source: DocumentLayout, lengths: Tensor | None, rows: Tensor | None
        ) -> Any:
            known = None if lengths is None else PackedContext.of_lengths(lengths)
            return self.planner(tokens, source, known, rows)

        lengths = None if context is None else context.lengths
        read = prev_output_tokens, layout, lengths, encoder_out.source_of_row
        return planned(plans, prev_output_tokens.device, *read)

    def layout(self, prev_output_tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``prev_output_tokens (batch, length)``."""
        return self.planner.layout(prev_output_tokens)

    def search_scores(self, logits: Tensor) -> Tensor:
        """``(.., vocabulary)`` what a search adds up: log-probabilities in single precision.

        Those of geometric fusion stay as they are, not normalised, as in the authors' program.
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
        layout, order = encoder_out.layout, encoder_out.order
        used = self.used_layers
        kinds = effective_kinds(self.cross_kinds[:used], layout)
        group_sources: list[tuple[Tensor, Tensor]] = []
        global_sources: list[tuple[Tensor, Tensor]] = []
        sources = self._sources(encoder_out)
        for layer, kind, effective, states in zip(
            self.layers, self.cross_kinds, kinds, sources, strict=False
        ):
            attention: DocumentAttention = layer.encoder_attn  # type: ignore[assignment]
            if effective != "global":
                group_sources.append((attention.k_proj(states), attention.v_proj(states)))
            if effective != "group":
                over_document = attention.global_attn or attention
                keys = states if kind == "group" or order is None else states + order
                key, value = over_document.k_proj(keys), over_document.v_proj(states)
                global_sources.append((layout.align(key), layout.align(value)))
        return DecodeState(
            layout,
            beam,
            self.self_kinds[:used],
            group_sources,
            global_sources,
            self.cross_kinds[:used],
            encoder_out.states,
            context_sources(self.layers[:used], encoder_out.context),
            None if memory is None else memory_sources(self.layers[:used], memory, layout.shape[0]),
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
            state: that of :meth:`begin`; updated in place.
            memory: the memory with which the sources begin. What it receives here,
                :meth:`gtrans.models.base.model.DocumentModel.remember` replaces.
        """
        attentions = []
        for number in state.layers_of_document:
            attention: DocumentAttention = self.layers[number].self_attn  # type: ignore[assignment]
            attentions.append(attention.global_attn or attention)
        with ProjectedKeys(attentions) as projected:
            _, layout = self.states(prefix, encoder_out, memory)
        pairs = None
        if attentions:
            keys, values = zip(*projected.pairs, strict=True)
            pairs = (
                torch.stack([layout.align(key) for key in keys]),
                torch.stack([layout.align(value) for value in values]),
            )
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
        order = self.embed.order(state.sentence_numbers, state.of_several)

        def run(number: int, x: Tensor) -> Tensor:
            output: Tensor = self.layers[number].step(  # type: ignore[operator]
                x, state, number, order
            )
            return output

        return self._run(self._embedded(tokens, state.positions(self.embed.by_sentence)), run)

    def _run(self, x: Tensor, run: Callable[[int, Tensor], Tensor]) -> Tensor:
        """The layers in use on ``x (tokens, dim)``: ``(groups in use, tokens, dim)``."""
        features, _ = run_layers(self.fusion, self.used_layers, x, run)
        if self.training and self.probabilities is not None and features.size(0) == 1:
            # One group has no use for its weight, but DistributedDataParallel needs a gradient,
            # even a zero one, for every parameter.
            features = features + 0.0 * self.probabilities.weights.sum()
        return features if self.layer_norm is None else self.layer_norm(features)

    def logits(self, features: Tensor) -> Tensor:
        """``(groups, tokens, dim) -> (tokens, vocabulary)``; those of several groups are fused."""
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

    def _embedded(self, tokens: Tensor, positions: Positions) -> Tensor:
        x: Tensor = self.embed(
            tokens, positions, self.embed_tokens, self.embed_positions, self.layernorm_embedding
        )
        return x

    def max_positions(self) -> int:
        """Most tokens of a row; sinusoidal positions have no limit."""
        return longest_row(self.embed_positions, self.embed)


def _choose(features: Tensor, layout: DocumentLayout, chosen: Tensor) -> Tensor:
    """``(groups, tokens, dim) -> (groups, chosen, dim)``."""
    return layout.choose(features.transpose(0, 1), chosen).transpose(0, 1)
