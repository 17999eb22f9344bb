"""A sentence Transformer whose layers remember the sentences before, in a few vectors.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022.

========  ===========================================================================
Eq 1-5    :mod:`gtrans.modules.memory`
§3.4      :class:`MemoryTransformer`: which layers have a memory, and of which side
§3.4      training: windows of sentences, :mod:`gtrans.data.stream`
§3.4      inference: sentence by sentence, :mod:`gtrans.decoding.stream_search`
========  ===========================================================================

Apart from the memories it is the G-Transformer's code with nothing but group attention
and positions that restart in every sentence: the sentence Transformer, which reads all
sentences of a row at once. With ``--memory-size 0`` nothing else is left.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.models import register_model
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.models._gtransformer_options import (
    GTransformerConfig,
    TransformerConfig,
    layer_spec,
    transformer_presets,
)
from gtrans.models._presets import option, register_presets, resolve_sizes
from gtrans.models.gtransformer import GTransformer, LayerHook
from gtrans.modules.decode_state import DecodeState
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.memory import SLOTS, MemoryFlow, MemoryPlan, MemorySpec, RecurrentMemory

SIDES = ("encoder", "decoder")
OUTPUTS = ("residual", "printed")


@dataclass
class MemoryTransformerConfig(TransformerConfig):
    """Options of :class:`MemoryTransformer`."""

    memory_size: int = option(16, "memory vectors of a document (0: no memory)")
    memory_side: ChoiceEnum(["both", *SIDES]) = option(  # type: ignore[valid-type]
        "both", "side whose layers have a memory (table 3)"
    )
    memory_layers: str = option(
        "top", "layers that have a memory: top, all, or numbers from 0 as in 5, 4-5 or 0,5"
    )
    memory_bptt: int = option(
        1,
        "so many sentences back reaches the gradient of a sentence (0: it stays in the sentence; "
        "-1: to the beginning of the window)",
    )
    memory_slots: ChoiceEnum(list(SLOTS)) = option(  # type: ignore[valid-type]
        "sinusoidal", "what tells the memory vectors apart (Eq 4)"
    )
    memory_output: ChoiceEnum(list(OUTPUTS)) = option(  # type: ignore[valid-type]
        "residual",
        "residual: output attention inside residual and LayerNorm, as in the authors' program; "
        "printed: Eq 5 as it stands, in the place of the states",
    )


PRESETS = transformer_presets(
    {
        "memory_transformer": (6, 512, 2048, 8),
        "memory_transformer_tiny": (6, 256, 1024, 4),
        "memory_transformer_base": (6, 512, 2048, 8),
    }
)

# The G-Transformer's options that make it a sentence Transformer on rows of sentences.
_SENTENCES = {
    "doc_mode": "partial",
    "encoder_global_layers": 0,
    "decoder_global_layers": 0,
    "cross_global_layers": 0,
    "positions": "sentence",
}


@dataclass
class MemoryDecodeState:
    """A decoder's state with the memories that its layers read, by number of the layer."""

    inner: DecodeState
    memories: dict[int, tuple[Tensor, Tensor]]

    def reorder(self, rows: Tensor, common: int) -> None:
        """See :meth:`DecodeState.reorder`; all hypotheses of a document read the same."""
        self.inner.reorder(rows, common)

    def keep(self, documents: Tensor) -> None:
        """Go on with these documents only."""
        self.inner.keep(documents)
        self.memories = {
            layer: (key[documents], value[documents])
            for layer, (key, value) in self.memories.items()
        }


@register_model("memory_transformer", dataclass=MemoryTransformerConfig)
class MemoryTransformer(GTransformer):
    """Transformer with recurrent memory.

    Memories are numbered through the encoder's layers and on through the decoder's; see
    :class:`gtrans.modules.memory.MemoryFlow`.
    """

    units = ("stream", "sentence")

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "MemoryTransformer":
        """Build from options; sizes left open come from the preset ``cfg._name``.

        Raises:
            GtransError: options that contradict each other.
        """
        cfg = resolve_sizes(cfg, MemoryTransformerConfig, PRESETS)
        chosen = _chosen_layers(cfg)
        names = TransformerConfig.__dataclass_fields__
        options: Any = {**{name: cfg[name] for name in names}, **_SENTENCES}
        plain: Any = OmegaConf.merge(OmegaConf.structured(GTransformerConfig), options)
        model = cls.built(plain, task)
        spec = MemorySpec(
            size=cfg.memory_size,
            bptt=cfg.memory_bptt,
            slots=str(cfg.memory_slots),
            printed_output=str(cfg.memory_output) == "printed",
        )
        for side, layers in chosen.items():
            for layer in layers:
                memory = RecurrentMemory(layer_spec(plain, side), spec)
                model._layers(side)[layer].add_module("memory", memory)
        model.use_backend(str(cfg.attention_backend))
        return model

    def _layers(self, side: str) -> nn.ModuleList:
        return self.encoder.layers if side == "encoder" else self.decoder.layers

    def _memories(self, side: str) -> dict[int, tuple[int, RecurrentMemory]]:
        """Number of a layer -> number of its memory, and the memory."""
        found = {
            (name, layer): memory
            for name in SIDES
            for layer, module in enumerate(self._layers(name))
            if isinstance(memory := getattr(module, "memory", None), RecurrentMemory)
        }
        return {
            layer: (number, memory)
            for number, ((name, layer), memory) in enumerate(found.items())
            if name == side
        }

    @property
    def has_memory(self) -> bool:
        """Whether anything is carried from sentence to sentence."""
        return any(self._memories(side) for side in SIDES)

    def forward(  # type: ignore[override]
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None,
        prev_output_tokens: Tensor,
        memory: MemoryFlow | None = None,
        *,
        rows: Tensor | None = None,
        places: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Logits ``(batch, target length, vocabulary)`` and an empty dictionary.

        Args:
            src_tokens: ``(batch, source length)``, a row is a run of sentences of one
                document, ``<s> .. </s> <s> .. </s>``.
            src_lengths: unused; the padding tells the lengths.
            prev_output_tokens: ``(batch, target length)`` decoder input, padded on the right.
            memory: with what memory the rows begin (None: all begin a document); it takes
                what they end with.
            rows, places: see :class:`gtrans.decoding.force_decode.ScoresCandidates`; without
                ``memory``. Each row writes a memory of its own, so rows share no states.
        """
        flow = MemoryFlow() if memory is None else memory
        if torch.is_grad_enabled():
            for _ in range(self.passes - 1):
                self._read(src_tokens, prev_output_tokens, flow)
        encoded = self.encoder(src_tokens, behind=self._hook("encoder", flow))
        behind = self._hook("decoder", flow, prev_output_tokens)
        if rows is not None:
            encoded = encoded.reordered(rows).copied()
        output: tuple[Tensor, dict[str, Any]] = self.decoder(
            prev_output_tokens, encoded, behind=behind, places=places
        )
        flow.earlier.clear()
        return output

    @property
    def passes(self) -> int:
        """See :attr:`gtrans.modules.memory.MemorySpec.passes`."""
        memories = [memory for side in SIDES for _, memory in self._memories(side).values()]
        return memories[0].memory.passes if memories else 1

    @torch.no_grad()
    def read(self, src_tokens: Tensor, prev_output_tokens: Tensor, memory: MemoryFlow) -> None:
        """Let ``memory`` take what is left of these rows, without gradient."""
        self._read(src_tokens, prev_output_tokens, memory)

    @torch.no_grad()
    def remember(self, prev_output_tokens: Tensor, memory: MemoryFlow) -> None:
        """Let ``memory`` take what is left of sentences whose decoding it began."""
        if memory.encoded is None:
            raise ValueError("the sentences have not been encoded with this memory")
        self._read_target(prev_output_tokens, memory.encoded, memory)

    def _read(self, src_tokens: Tensor, prev_output_tokens: Tensor, flow: MemoryFlow) -> None:
        encoded = self.encoder(src_tokens, behind=self._hook("encoder", flow))
        self._read_target(prev_output_tokens, encoded, flow)

    def _read_target(
        self, prev_output_tokens: Tensor, encoded: EncoderOutput, flow: MemoryFlow
    ) -> None:
        if self._memories("decoder"):
            behind = self._hook("decoder", flow, prev_output_tokens)
            self.decoder.states(prev_output_tokens, encoded, behind)

    def _hook(
        self, side: str, flow: MemoryFlow, prev_output_tokens: Tensor | None = None
    ) -> LayerHook | None:
        """Lets the memories of one side work behind the self-attention of their layers."""
        memories = self._memories(side)
        if not memories:
            return None
        plans: list[MemoryPlan] = []

        def behind(layer: int, x: Tensor, layout: DocumentLayout) -> Tensor:
            if layer not in memories:
                return x
            number, memory = memories[layer]
            if not plans:
                written = None
                if prev_output_tokens is not None:
                    written = self._written(layout, prev_output_tokens)
                plans.append(MemoryPlan(layout, memory.memory.size, written))
            output: Tensor = memory(x, plans[0], flow, number)
            return output

        return behind

    def _written(self, layout: DocumentLayout, prev_output_tokens: Tensor) -> Tensor:
        """``(sentences,)`` tokens of each sentence of the decoder's input, end mark left out.

        Inside a row ``<s> .. </s> <s> ..`` the end mark is input, too, at its end it is not:
        a sentence must leave the same wherever its row ends.
        """
        sentences = layout.sentences
        last = layout.pack(prev_output_tokens)[sentences.starts + sentences.lengths - 1]
        closed = last.eq(self.decoder.dictionary.eos()) & sentences.lengths.gt(1)
        return sentences.lengths - closed.long()

    def new_parameters(self) -> set[str]:
        """Names of the parameters that a sentence Transformer lacks: the memories'."""
        return {name for name, _ in self.named_parameters() if ".memory." in name}

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> MemoryDecodeState:  # type: ignore[override]
        """Encode one sentence a row; ``source["memory"]`` is the flow of their documents."""
        flow: MemoryFlow = source.get("memory") or MemoryFlow()
        encoded = self.encoder(source["src_tokens"], behind=self._hook("encoder", flow))
        if int(encoded.layout.sentence_counts.max()) > 1:
            raise ValueError("a memory is decoded sentence by sentence, see StreamSearch")
        flow.encoded = encoded
        documents = encoded.layout.shape[0]
        return MemoryDecodeState(
            self.decoder.begin(encoded, beam),
            {
                layer: memory.prepare(flow, number, documents)
                for layer, (number, memory) in self._memories("decoder").items()
            },
        )

    def decode_step(self, tokens: Tensor, opens: Tensor, state: MemoryDecodeState) -> Tensor:  # type: ignore[override]
        """See :meth:`gtrans.models.gtransformer.GTransformerDecoder.step`."""
        memories = self._memories("decoder")

        def behind(layer: int, x: Tensor) -> Tensor:
            if layer not in memories:
                return x
            return memories[layer][1].step(x, *state.memories[layer])

        return self.decoder.step(tokens, opens, state.inner, behind if memories else None)


def _chosen_layers(cfg: MemoryTransformerConfig) -> dict[str, list[int]]:
    """The layers of each side that have a memory.

    Raises:
        GtransError: options out of range.
    """
    for name, least in (("memory_size", 0), ("memory_bptt", -1)):
        value = getattr(cfg, name)
        if value < least:
            raise GtransError(
                f"`--{name.replace('_', '-')}` must be at least {least}, but is {value}."
            )
    return {
        side: parse_layers(str(cfg.memory_layers), int(getattr(cfg, f"{side}_layers")))
        for side in SIDES
        if cfg.memory_size and str(cfg.memory_side) in ("both", side)
    }


def parse_layers(text: str, layers: int) -> list[int]:
    """The layers that ``--memory-layers TEXT`` means in a side of ``layers`` layers.

    Raises:
        GtransError: it cannot be read, or names a layer that is not there.
    """
    text = {"top": str(layers - 1), "all": f"0-{layers - 1}"}.get(text, text)
    chosen: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < layers:
            raise GtransError(
                f"`--memory-layers` must be top, all, or layers between 0 and {layers - 1} as in "
                f"5, 4-5 or 0,5, but is {text}."
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


register_presets("memory_transformer", MemoryTransformerConfig, PRESETS)
