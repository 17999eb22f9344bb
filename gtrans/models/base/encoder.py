"""The encoder that all systems share; a system may replace it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq.data import Dictionary
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.models.base.options import StackConfig, embedder, positions_and_norm
from gtrans.models.base.planning import Needs, SourcePlanner, planned
from gtrans.models.base.stock_search import StockEncoder
from gtrans.modules import STEPS
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.embedding import Embedder
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.group_attention import BACKENDS, shapes_for
from gtrans.modules.layer_fusion import LayerFusion, run_layers
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.memory_plan import MemoryFlow
from gtrans.modules.positions import LearnedPositions
from gtrans.modules.transformer import EncoderLayer, LayerSpec


@dataclass(frozen=True)
class StackDesign:
    """How a system builds the stack of one side.

    Attributes:
        spec: sizes and switches of its layers.
        self_kinds: kind of self-attention of every layer, the bottom layer first
            (:data:`gtrans.modules.attention.KINDS`).
        fusion: builds the fusion of the layers of this spec.
        cross_kinds: the same for cross-attention; empty in encoders.
        by_sentence: positions restart in every sentence.
        has_groups: some layer, of either side, has combined attention.
        final_norm: a pre-norm stack ends with a LayerNorm.
        used_layers: how many layers run, from the bottom; None: all.
        groups: first and last group of a decoder's fusion that predict words, from 1; None:
            all.
        transparent: number of encoder layers if each decoder layer attends to its own mixture
            of them (set in both stacks); 0: it attends to the encoder's output.
        probability_fusion: how the probabilities of a decoder's groups are fused
            (:func:`gtrans.modules.layer_fusion.fuse_log_probs`).
    """

    spec: LayerSpec
    self_kinds: Sequence[str]
    fusion: Callable[[LayerSpec], LayerFusion]
    cross_kinds: Sequence[str] = ()
    by_sentence: bool = False
    has_groups: bool = False
    final_norm: bool = True
    used_layers: int | None = None
    groups: tuple[int, int] | None = None
    transparent: int = 0
    probability_fusion: str = "arithmetic"

    def norm_after(self, fusion: LayerFusion) -> nn.Module | None:
        """The LayerNorm at the end of the stack, or None."""
        ends_normalised = fusion.normalises or not (self.spec.pre_norm and self.final_norm)
        return None if ends_normalised else self.spec.norm()


@dataclass(frozen=True)
class AttentionKinds:
    """The kind of attention of every layer, the bottom layer first.

    Kinds are those of :data:`gtrans.modules.attention.KINDS`.

    Attributes:
        encoder, decoder: kinds of self-attention.
        cross: kinds of cross-attention.
    """

    encoder: Sequence[str]
    decoder: Sequence[str]
    cross: Sequence[str]

    @classmethod
    def all(cls, kind: str, cfg: StackConfig) -> AttentionKinds:
        """The same kind everywhere."""
        encoder, decoder = int(cfg.encoder_layers or 0), int(cfg.decoder_layers or 0)
        return cls([kind] * encoder, [kind] * decoder, [kind] * decoder)


class Encoder(StockEncoder):
    """Embeds a batch of rows and runs the layers on the packed tokens.

    Attributes:
        closing: id of the last symbol of every source sentence.
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
        self.closing = Frame.of(cfg, dictionary, dictionary).closing
        spec = design.spec
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = positions_and_norm(cfg)
        self.embed = embedder(cfg, design.by_sentence, design.has_groups)
        self.self_kinds = tuple(design.self_kinds)
        self.layers = nn.ModuleList(EncoderLayer(spec, kind) for kind in self.self_kinds)
        self.fusion = design.fusion(design.spec)
        self.layer_norm = design.norm_after(self.fusion)
        self.used_layers = design.used_layers or len(self.layers)
        self.gives_layers = design.transparent > 0

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        *,
        return_all_layers: bool = False,
        context: PackedContext | None = None,
        memory: MemoryFlow | None = None,
        plan: Any = None,
    ) -> EncoderOutput:
        """Encode the sources of a batch.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused; lengths are known from the padding.
            return_all_layers: put the outputs of all layers into ``layers``.
            context: the context of each row, for context attention.
            memory: the memory with which the rows begin; it receives that with which they end.
            plan: what :attr:`planner` makes of these rows; None: it is made now.
        """
        if plan is None:
            lengths = {} if context is None else {"context_lengths": context.lengths}
            plan = self.plan({"src_tokens": src_tokens, **lengths})
        plans: AttentionPlans = plan.reading(context, memory)
        layout = plans.source
        x = self.embedded(src_tokens, layout)
        order = self.embed.order(layout.sentence_numbers, layout.of_several)
        outputs: list[Tensor] = []

        def run(number: int, x: Tensor) -> Tensor:
            output: Tensor = self.layers[number](x, plans, order)
            if return_all_layers:
                outputs.append(output)
            return output

        fused, states = run_layers(self.fusion, self.used_layers, x, run, self.gives_layers)
        x = fused[0]
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return EncoderOutput(x, layout, order, states if self.gives_layers else outputs, context)

    @property
    def planner(self) -> Any:
        """Makes the plan of a batch, a :class:`~gtrans.models.base.planning.SourcePlan`."""
        needs = needs_of(self, {"encoder": self.self_kinds})
        return SourcePlanner(self.dictionary.pad(), self.closing, needs)

    def plan(self, source: Mapping[str, Any]) -> Any:
        """The plan of ``source``, which is on the device of the model."""
        return planned(self.planner, source["src_tokens"].device, dict(source))

    def layout(self, src_tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``src_tokens (batch, length)``."""
        return DocumentLayout.of_source(src_tokens, self.dictionary.pad(), self.closing)

    def embedded(
        self, src_tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """``(tokens, dim)`` packed embeddings; ``segments (tokens, dim)`` are added to them."""
        x: Tensor = self.embed(
            layout.pack(src_tokens),
            self.embed.positions(layout),
            self.embed_tokens,
            self.embed_positions,
            self.layernorm_embedding,
            segments,
        )
        return x

    def max_positions(self) -> int:
        """Most tokens of a row; sinusoidal positions have no limit."""
        return longest_row(self.embed_positions, self.embed)


def needs_of(side: Any, kinds: Mapping[str, Sequence[str]]) -> Needs:
    """What the layers of an encoder or decoder with these kinds of attention ask of plans."""
    layers = list(side.layers)
    memories = [layer.memory.memory for layer in layers if layer.memory is not None]
    return Needs(
        kinds,
        any(layer.context_attn is not None for layer in layers),
        layers[0].self_attn.backend if layers else BACKENDS[0],
        side.embed.by_sentence,
        memories[0].size if memories else 0,
        memories[0].steps if memories else STEPS[0],
        shapes_for(side.embed_tokens.weight.device),
    )


def longest_row(learned: LearnedPositions | None, embed: Embedder) -> int:
    """Most tokens that a row may have with these positions."""
    return sys.maxsize if learned is None or embed.by_sentence else learned.size
