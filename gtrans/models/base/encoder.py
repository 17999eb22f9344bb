"""What encoder and decoder share, and the encoder of all systems; a system may replace it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairseq.data import Dictionary
from fairseq.models import FairseqEncoder
from torch import Tensor, nn

from gtrans.data.frame import Frame
from gtrans.models.base.options import StackConfig, embedder, positions_and_norm
from gtrans.models.base.planning import (
    PLANNED,
    BatchPlan,
    Needs,
    entries_of,
    memory_plans,
    self_plans,
)
from gtrans.modules import STEPS
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.embedding import LearnedPositions
from gtrans.modules.group_attention import DocumentLayout, Entries, on_host, shapes_for, to_device
from gtrans.modules.layer_fusion import LayerFusion, run_layers
from gtrans.modules.memory import MemoryFlow
from gtrans.modules.transformer import EncoderLayer, LayerSpec, Surroundings


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


class Stack(nn.Module):
    """What encoder and decoder have in common: embeddings, layers, and how they are fused.

    Attributes:
        frame: how sentences are marked.
        opening: id of the symbol that opens every sentence of the decoder's input; in rows that
            begin with ``</s>``, ``</s>`` opens them.
        self_kinds: kind of self-attention of every layer.
        used_layers: how many layers run, from the bottom.
        fusion: what becomes of the outputs of the layers.
        layer_norm: LayerNorm at the end, or None.
    """

    dictionary: Dictionary
    layers: nn.ModuleList
    embed_positions: LearnedPositions | None
    layernorm_embedding: nn.LayerNorm | None

    def build(
        self,
        cfg: StackConfig,
        embed_tokens: nn.Embedding,
        design: StackDesign,
        layers: Sequence[nn.Module],
    ) -> None:
        """Set the attributes; ``layers`` are those of the side."""
        self.frame = frame = Frame.of(cfg, self.dictionary, self.dictionary)
        # Rows that begin with `</s>` are found without it (DocumentLayout.of_target).
        ends_open = frame.opening == frame.eos and frame.document_mark is None
        self.opening = frame.bos if ends_open else frame.opening
        self.embed_tokens = embed_tokens
        self.embed_positions, self.layernorm_embedding = positions_and_norm(cfg)
        self.embed = embedder(cfg, design.by_sentence, design.has_groups)
        self.self_kinds = tuple(design.self_kinds)
        self.layers = nn.ModuleList(layers)
        self.used_layers = design.used_layers or len(self.layers)
        self.fusion = design.fusion(design.spec)
        self.layer_norm = design.norm_after(self.fusion)

    @property
    def plan_needs(self) -> Needs:
        """What plans must know of this side; without parameters."""
        raise NotImplementedError

    @staticmethod
    def layout_of(needs: Needs, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``tokens (batch, length)`` on the host."""
        raise NotImplementedError

    def embedding(
        self, tokens: Tensor, positions: tuple[Tensor, int], segments: Tensor | None = None
    ) -> Tensor:
        """``(tokens, dim)`` embeddings; ``segments (tokens, dim)`` are added to them.

        Args:
            tokens: ``(tokens,)`` ids.
            positions: ``(tokens,)`` of each, and a number above all of them.
            segments: embedded segments, or None.
        """
        norm, learned = self.layernorm_embedding, self.embed_positions
        x: Tensor = self.embed(tokens, positions, self.embed_tokens, learned, norm, segments)
        return x

    def needs(self, **kinds: Sequence[str]) -> Needs:
        """What the layers ask of plans; ``kinds``: of attention, by sort of plan."""
        layers: list[Any] = list(self.layers)
        names = {
            sort: frozenset(
                name for name in ("group", "global") if {name, "combined"} & set(layer_kinds)
            )
            for sort, layer_kinds in kinds.items()
        }
        if any(layer.context_attn is not None for layer in layers):
            own = next(iter(names))
            names[own] |= {"context"}
        memories = [layer.memory.memory for layer in layers if layer.memory is not None]
        return Needs(
            pad=self.frame.pad,
            opening=self.opening,
            eos=self.frame.eos,
            closing=self.frame.closing,
            kinds=names,
            memory_size=memories[0].size if memories else 0,
            memory_steps=memories[0].steps if memories else STEPS[0],
            shapes=shapes_for(self.embed_tokens.weight.device),
        )

    def layout(self, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``tokens (batch, length)``, on their device."""
        made = self.layout_of(self.plan_needs, tokens.cpu())
        return DocumentLayout.of_entries(to_device(made.entries(), tokens.device))

    def max_positions(self) -> int:
        """Most tokens of a row; sinusoidal positions have no limit."""
        learned = self.embed_positions
        return sys.maxsize if learned is None or self.embed.by_sentence else learned.size


@dataclass
class EncoderOutput:
    """The encoded source of a batch.

    Attributes:
        states: ``(source tokens, dim)`` packed.
        layout: the source's layout.
        order: ``(source tokens, dim)`` embedded sentence numbers for global attention, or None.
        layers: outputs of all layers, ``(source tokens, dim)`` each, if they were asked for.
        context: the contexts for the decoder's context attention, or None.
        source_of_row: ``(rows,)`` the source of each row of a batch in which sources are
            repeated or reordered; None: every source once, in order.
    """

    states: Tensor
    layout: DocumentLayout
    order: Tensor | None
    layers: list[Tensor]
    context: PackedContext | None = None
    source_of_row: Tensor | None = None

    def reordered(self, order: Tensor) -> EncoderOutput:
        """A batch whose row ``i`` is row ``order[i]`` of this one, without copying states."""
        rows = order if self.source_of_row is None else self.source_of_row[order]
        return replace(self, source_of_row=rows)


class Encoder(Stack, FairseqEncoder):
    """Embeds a batch of rows and runs the layers on the packed tokens."""

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

    @property
    def plan_needs(self) -> Needs:
        """What :meth:`plan` must know of this encoder."""
        return self.needs(encoder=self.self_kinds)

    @classmethod
    def plan(cls, needs: Needs, source: Mapping[str, Tensor]) -> Entries:
        """The plan of ``net_input`` without decoder input, on the host."""
        layout = cls.layout_of(needs, source["src_tokens"]).divided(source.get("instances"))
        return cls.plan_rows(needs, layout, source.get("context_lengths"))

    @staticmethod
    def plan_rows(needs: Needs, layout: DocumentLayout, context: Tensor | None = None) -> Entries:
        """The plan of rows that are read as they are; ``context (batch,)`` tokens of contexts."""
        attention = self_plans(layout, needs.kinds["encoder"], needs.shapes, context)
        memory = memory_plans(needs, "encoder", layout)
        return entries_of({"source": layout}, {"encoder": attention}, memory)

    @staticmethod
    def layout_of(needs: Needs, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``tokens (batch, length)`` on the host."""
        return DocumentLayout.of_source(tokens, needs.pad, needs.closing)

    def planned(self, source: Mapping[str, Any]) -> BatchPlan:
        """The plan of ``source``, which is on the device of the model: the host waits once."""
        read = {name: source[name] for name in PLANNED if source.get(name) is not None}
        entries = self.plan(self.plan_needs, on_host(read))
        return BatchPlan.of(to_device(entries, source["src_tokens"].device))

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        *,
        return_all_layers: bool = False,
        context: PackedContext | None = None,
        memory: MemoryFlow | None = None,
        plan: BatchPlan | None = None,
    ) -> EncoderOutput:
        """Encode the sources of a batch.

        Args:
            src_tokens: ``(batch, length)``, padded on either side.
            src_lengths: unused; lengths are known from the padding.
            return_all_layers: put the outputs of all layers into ``layers``.
            context: the context of each row, for context attention.
            memory: the memory with which the rows begin; it receives that with which they end.
            plan: of these rows; None: it is made now.
        """
        if plan is None:
            lengths = {} if context is None else {"context_lengths": context.lengths}
            plan = self.planned({"src_tokens": src_tokens, **lengths})
        layout = plan.source
        x = self.embedded(src_tokens, layout)
        order = self.embed.order(layout.sentence, layout.most_sentences, layout.in_several)
        around = Surroundings(
            plan.attention["encoder"], {}, order,
            context=context, memory=memory and plan.memory_pass("encoder", memory),
        )  # fmt: skip
        outputs: list[Tensor] = []

        def run(number: int, x: Tensor) -> Tensor:
            output: Tensor = self.layers[number](x, around)
            if return_all_layers:
                outputs.append(output)
            return output

        fused, states = run_layers(self.fusion, self.used_layers, x, run, self.gives_layers)
        x = fused[0] if self.layer_norm is None else self.layer_norm(fused[0])
        return EncoderOutput(x, layout, order, states if self.gives_layers else outputs, context)

    def embedded(
        self, src_tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """``(tokens, dim)`` packed embeddings of ``src_tokens (batch, length)``.

        ``segments (tokens, dim)`` are added to them.
        """
        return self.embedding(layout.pack(src_tokens), self.embed.positions(layout), segments)

    def reorder_encoder_out(self, encoder_out: EncoderOutput, new_order: Tensor) -> EncoderOutput:
        """As in fairseq: row ``i`` continues row ``new_order[i]``."""
        return encoder_out.reordered(new_order)
