"""The encoder of all systems, and :class:`Stack`, its common base with the decoder."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.models.base.options import StackConfig
from gtrans.models.base.planning import Planner
from gtrans.modules.embedding import Embedder, LearnedPositions
from gtrans.modules.group_attention import DocumentLayout, Plan, Positions
from gtrans.modules.layer_fusion import LayerFusion, TokenSelection, run_layers
from gtrans.modules.memory import MemoryFlow
from gtrans.modules.transformer import EncoderLayer, LayerInputs, LayerSpec, PackedContext


@dataclass(frozen=True)
class StackDesign:
    """How a system builds the stack of one side.

    Attributes:
        self_kinds, cross_kinds: of every layer, the bottom layer first, one of
            :data:`gtrans.modules.transformer.ATTENTION_KINDS`.
        by_sentence: positions restart in every sentence.
        has_combined_attention: some layer, of either side, has combined attention.
        final_norm: a pre-norm stack ends with a LayerNorm.
        used_layers: how many layers run, from the bottom; None: all.
        layer_groups: first and last group of decoder layers in use, from 1; None: all.
        transparent: encoder layers that each decoder layer mixes; 0: it attends to the output.
        probability_fusion: see :func:`gtrans.modules.layer_fusion.fuse_log_probs`.
    """

    spec: LayerSpec
    self_kinds: Sequence[str]
    fusion: Callable[[], LayerFusion]
    cross_kinds: Sequence[str] = ()
    by_sentence: bool = False
    has_combined_attention: bool = False
    final_norm: bool = True
    used_layers: int | None = None
    layer_groups: tuple[int, int] | None = None
    transparent: int = 0
    probability_fusion: str = "arithmetic"


@dataclass(frozen=True)
class AttentionKinds:
    """The kind of attention of every layer, the bottom layer first."""

    encoder: Sequence[str]
    decoder: Sequence[str]
    cross: Sequence[str]

    @classmethod
    def all(cls, kind: str, cfg: StackConfig) -> AttentionKinds:
        """Return the same kind for all layers."""
        in_encoder = [kind] * int(cfg.encoder_layers or 0)
        in_decoder = [kind] * int(cfg.decoder_layers or 0)
        return cls(encoder=in_encoder, decoder=in_decoder, cross=in_decoder)


class Stack(nn.Module):
    """Embeddings, layers, and the fusion of layers.

    Attributes:
        opening: id that opens sentences of decoder input; rows may begin with ``</s>`` instead.
        start: id that is read in place of ``</s>``, or None.
        planner: plans batches on a CPU; set by the model.
    """

    dictionary: Dictionary
    layers: nn.ModuleList
    start: int | None = None
    planner: Planner
    fusion: LayerFusion
    embed_positions: LearnedPositions | None
    layernorm_embedding: nn.LayerNorm | None

    def build(
        self,
        cfg: StackConfig,
        embed_tokens: nn.Embedding,
        design: StackDesign,
        layers: Sequence[nn.Module],
    ) -> None:
        """Set the attributes."""
        frame = Frame.of(cfg, self.dictionary, self.dictionary)
        self.frame = frame
        # Rows that begin with `</s>` are found without it (DocumentLayout.of_target).
        ends_open = frame.opening == frame.eos and frame.document_token is None
        self.opening = frame.bos if ends_open else frame.opening
        self.embed_tokens = embed_tokens
        dim = embed_tokens.embedding_dim
        self.embed_positions = None
        if cfg.learned_positions:
            self.embed_positions = LearnedPositions(dim, int(cfg.max_positions or 0))
        self.layernorm_embedding = nn.LayerNorm(dim) if cfg.layernorm_embedding else None
        self.embed = Embedder(
            dim,
            scale=1.0 if cfg.no_scale_embedding else math.sqrt(dim),
            dropout=float(cfg.dropout),
            by_sentence=design.by_sentence,
            has_combined_attention=design.has_combined_attention,
            sinusoid=str(cfg.sinusoid),
        )
        self.self_kinds = tuple(design.self_kinds)
        self.layers = nn.ModuleList(layers)
        self.used_layers = design.used_layers or len(self.layers)
        self.fusion = design.fusion()
        ends_with_norm = design.spec.pre_norm and design.final_norm
        if self.fusion.normalises:
            ends_with_norm = False
        self.layer_norm = design.spec.norm() if ends_with_norm else None

    def embedding(
        self, tokens: Tensor, positions: Positions, segments: Tensor | None = None
    ) -> Tensor:
        """Return embeddings ``(tokens, dim)`` of ids ``tokens (tokens,)``."""
        if self.start is not None:
            tokens = tokens.masked_fill(tokens.eq(self.frame.eos), self.start)
        x: Tensor = self.embed(
            tokens,
            positions,
            self.embed_tokens,
            learned=self.embed_positions,
            norm=self.layernorm_embedding,
            segments=segments,
        )
        return x

    def embedded(
        self, tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """Return packed embeddings ``(tokens, dim)``; ``segments (tokens, dim)`` are added."""
        positions = layout.positions(self.embed.by_sentence)
        return self.embedding(layout.pack(tokens), positions, segments)

    def run(
        self,
        x: Tensor,
        layers: Sequence[Callable[[Tensor], Tensor]],
        keep_all: bool = False,
        selection: TokenSelection | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Run the layers in use, and the LayerNorm at the end, on ``x (tokens, dim)``.

        Arguments and results as in :func:`gtrans.modules.layer_fusion.run_layers`.
        """
        used_layers = layers[: self.used_layers]
        output, states = run_layers(self.fusion, used_layers, x, keep_all, selection)
        if self.layer_norm is not None:
            output = self.layer_norm(output)
        return output, states

    def max_positions(self) -> int:
        """Return the most tokens of a row."""
        if self.embed_positions is None or self.embed.by_sentence:
            return sys.maxsize
        return self.embed_positions.size


@dataclass
class EncoderOutput:
    """The encoded source of a batch.

    Attributes:
        states: ``(source tokens, dim)`` packed.
        order: ``(source tokens, dim)`` embedded sentence numbers for global attention, or None.
        layers: ``(source tokens, dim)`` each, the input and outputs of layers, for transparent
            attention.
        source_of_row: ``(rows,)`` the source of each row; None: every source once, in order.
    """

    states: Tensor
    layout: DocumentLayout
    order: Tensor | None
    layers: list[Tensor]
    context: PackedContext | None = None
    source_of_row: Tensor | None = None

    def reordered(self, order: Tensor) -> EncoderOutput:
        """Return the batch with row ``order[i]`` as row ``i``; states stay."""
        rows = order if self.source_of_row is None else self.source_of_row[order]
        return replace(self, source_of_row=rows)


class Encoder(Stack, FairseqEncoder):
    """Embeds the rows of a batch and runs the layers on packed tokens."""

    def __init__(
        self,
        cfg: StackConfig,
        dictionary: Dictionary,
        embed_tokens: nn.Embedding,
        design: StackDesign,
    ) -> None:
        FairseqEncoder.__init__(self, dictionary)
        layers = [EncoderLayer(design.spec, kind) for kind in design.self_kinds]
        self.build(cfg, embed_tokens, design, layers)
        self.gives_layers = design.transparent > 0

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        *,
        context: PackedContext | None = None,
        memory: MemoryFlow | None = None,
        plan: Plan | None = None,
    ) -> EncoderOutput:
        """Encode a batch.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused.
            context: the context of each row.
            memory: before the rows; updated in place.
            plan: None: it is made now.
        """
        if plan is None:
            lengths = None if context is None else context.lengths
            plan = self.planner.on_device({"src_tokens": src_tokens, "context_lengths": lengths})
        layout = plan["source"]
        order = None
        if self.embed.by_sentence:
            order = self.embed.order(layout.sentence, layout.most_sentences, layout.in_several)
        inputs = LayerInputs(
            plan["encoder"],
            {},
            order=order,
            context=context,
            memory=memory,
            memory_plan=plan.get("encoder_memory"),
        )
        layers = [partial(layer, inputs=inputs) for layer in self.layers]
        embedded = self.embedded(src_tokens, layout)
        fused, states = self.run(embedded, layers, keep_all=self.gives_layers)
        return EncoderOutput(fused[0], layout, order=order, layers=states, context=context)

    def reorder_encoder_out(self, encoder_out: EncoderOutput, new_order: Tensor) -> EncoderOutput:
        """Reorder as in fairseq."""
        return encoder_out.reordered(new_order)
