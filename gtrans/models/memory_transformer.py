"""A sentence Transformer whose layers remember the previous sentences in a few vectors.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: DocumentModel with Recurrent Memory for
Document-Level Machine Translation", 2022.

========  ===========================================================================
Eq 1-5    :mod:`gtrans.modules.memory`
§3.4      :mod:`gtrans.models.base.parts.memory`: which layers have a memory
§3.4      training: windows of sentences, :mod:`gtrans.data.stream_windows`
§3.4      inference: sentence by sentence, :mod:`gtrans.decoding.part_search`
========  ===========================================================================

Without its memories it is the sentence Transformer: attention stays within sentences, and
positions restart in every sentence, so that all sentences of a row can be read at once.
``--memory-size 0`` gives that model.
"""

from dataclasses import dataclass
from typing import Any

from gtrans.models.base.model import SentenceTransformer
from gtrans.models.base.options import TransformerConfig, sizes
from gtrans.models.base.parts.memory import MemoryConfig, add_memories, check_memory
from gtrans.models.base.presets import register_system


@dataclass
class MemoryTransformerConfig(MemoryConfig, TransformerConfig):
    """Options of :class:`MemoryTransformer`."""


PRESETS = {
    "memory_transformer": sizes(6, 512, 2048, 8),
    "memory_transformer_tiny": sizes(6, 256, 1024, 4),
    "memory_transformer_base": sizes(6, 512, 2048, 8),
}


@register_system("memory_transformer", MemoryTransformerConfig, PRESETS)
class MemoryTransformer(SentenceTransformer):
    """Recurrent-memory Transformer: memory carried from sentence to sentence."""

    units = ("stream", "sentence")
    context_sides = ("source",)

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for options that contradict each other."""
        super().check(cfg, task)
        check_memory(cfg)

    def add_parts(self, cfg: Any) -> None:
        """Add the memories."""
        add_memories(self, cfg)
