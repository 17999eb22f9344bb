"""A sentence Transformer whose layers remember the previous sentences in a few vectors.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022.

========  ===========================================================================
Eq 1-5    :mod:`gtrans.modules.memory`
§3.4      :class:`RecurrentMemories`: which layers have a memory
§3.4      training: windows of sentences, :mod:`gtrans.data.stream`
§3.4      inference: sentence by sentence, :mod:`gtrans.search.part_search`
========  ===========================================================================

With ``--memory-size 0`` it is the sentence Transformer.
"""

import re
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel, InputSpec, SentenceTransformer
from gtrans.models.base.options import TransformerConfig
from gtrans.models.base.presets import register_system, sizes
from gtrans.modules.memory import OUTPUTS, MemorySpec, RecurrentMemory
from gtrans.option_types import option

_SIDES = ("encoder", "decoder")


@dataclass
class MemoryConfig:
    """Recurrent memory."""

    memory_size: int = option(16, "memory vectors of a document (0: no memory)", least=0)
    memory_side: ChoiceEnum(["both", *_SIDES]) = option(  # type: ignore[valid-type]
        "both", "which side's layers have a memory (table 3)"
    )
    memory_layers: str = option(
        "top",
        "layers that have a memory: top, all, or their numbers from 0, as in 5, 4-5 or 0,5",
    )
    memory_bptt: int = option(
        1,
        "how many sentences (in streams of instances: chunks) back a sentence's gradient "
        "reaches (-1: to the beginning of the window, which is faster)",
    )
    memory_output: ChoiceEnum(list(OUTPUTS)) = option(  # type: ignore[valid-type]
        "residual",
        "how a layer reads its memory: residual: with residual and LayerNorm, as in the authors' "
        "code; added: with residual only, so that a model begins as it would without memory; "
        "printed: without them, as Eq 5 is printed",
    )


class RecurrentMemories(DocumentModel):
    """Mixin, before a system's class, that gives its layers memories."""

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for options that contradict each other."""
        super().check(cfg, task)
        if cfg.memory_bptt != -1 and cfg.memory_bptt < 1:
            raise GtransError(
                "`--memory-bptt` must be at least 1, or -1 for all steps of the window, but is "
                f"{cfg.memory_bptt}; `--memory-size 0` is a model without memory."
            )
        _chosen_layers(cfg)

    def add_parts(self, cfg: Any) -> None:
        """Give a memory to each layer that the options name.

        Memories are numbered from the encoder's bottom layer to the decoder's top layer; those that
        decoding leaves out come last.
        """
        chosen = _chosen_layers(cfg)
        if not chosen:
            return
        self.memory_spec = MemorySpec(cfg.memory_size, cfg.memory_bptt, str(cfg.memory_output))
        in_use: list[tuple[str, int]] = []
        left_out: list[tuple[str, int]] = []
        for side, layers in chosen.items():
            used_layers = getattr(self, side).used_layers
            for layer in layers:
                places = in_use if layer < used_layers else left_out
                places.append((side, layer))
        numbers = {place: number for number, place in enumerate(in_use + left_out)}
        for side, layers in chosen.items():
            for layer in layers:
                module = getattr(self, side).layers[layer]
                number = numbers[side, layer]
                module.memory = RecurrentMemory(module.spec, self.memory_spec, number)


def _chosen_layers(cfg: Any) -> dict[str, list[int]]:
    chosen = {}
    for side in _SIDES:
        if cfg.memory_size and str(cfg.memory_side) in ("both", side):
            layers = int(getattr(cfg, f"{side}_layers"))
            chosen[side] = parse_layers(str(cfg.memory_layers), layers)
    return chosen


def parse_layers(text: str, layers: int) -> list[int]:
    """Return the numbers in ``--memory-layers TEXT``, for a side with so many ``layers``."""
    if text == "top":
        text = str(layers - 1)
    elif text == "all":
        text = f"0-{layers - 1}"
    chosen: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        first, last = 1, 0
        if match:
            first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < layers:
            raise GtransError(
                f"`--memory-layers` must be top, all, or layers between 0 and {layers - 1} as in "
                f"5, 4-5 or 0,5, but is {text}."
            )
        chosen.update(range(first, last + 1))
    return sorted(chosen)


@dataclass
class MemoryTransformerConfig(MemoryConfig, TransformerConfig):
    """Options of :class:`MemoryTransformer`."""


PRESETS = {
    "memory_transformer": sizes(6, 512, 2048, 8),
    "memory_transformer_tiny": sizes(6, 256, 1024, 4),
    "memory_transformer_base": sizes(6, 512, 2048, 8),
}


@register_system("memory_transformer", MemoryTransformerConfig, PRESETS)
class MemoryTransformer(RecurrentMemories, SentenceTransformer):
    """Recurrent-memory Transformer: memory carried from sentence to sentence."""

    inputs = InputSpec(units=("stream", "sentence"), context_sides=("source",))
