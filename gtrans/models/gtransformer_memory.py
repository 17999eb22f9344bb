"""G-Transformer that remembers earlier chunks of a document in a few vectors.

A document longer than ``--max-doc-tokens`` is read as a stream of chunks
(:mod:`gtrans.data.units`); the memory (:mod:`gtrans.modules.memory`, Eq 1-5 of Feng et al. 2022,
with h the states of a chunk) goes from chunk to chunk. With ``--memory-output added`` (the default
here) a new model computes the same as without memory, so it can start from a G-Transformer
(``--init-from``).
"""

from dataclasses import dataclass

from fairseq.dataclass import ChoiceEnum

from gtrans.models.base.model import InputSpec
from gtrans.models.base.presets import register_system, sizes
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.models.memory_transformer import MemoryConfig, RecurrentMemories
from gtrans.modules.memory import OUTPUTS
from gtrans.option_types import option_again


@dataclass
class GTransformerMemoryConfig(MemoryConfig, GTransformerConfig):
    """Options of :class:`GTransformerMemory`."""

    memory_output: ChoiceEnum(list(OUTPUTS)) = option_again(  # type: ignore[valid-type]
        MemoryConfig, "memory_output", "added"
    )


PRESETS = {
    "gtransformer_memory": sizes(6, 512, 2048, 8),
    "gtransformer_memory_tiny": sizes(6, 256, 1024, 4),
    "gtransformer_memory_base": sizes(6, 512, 2048, 8),
}


@register_system("gtransformer_memory", GTransformerMemoryConfig, PRESETS)
class GTransformerMemory(RecurrentMemories, GTransformer):
    """G-Transformer with recurrent memory: carried from chunk to chunk of a document."""

    inputs = InputSpec(
        units=("stream", "document", "sentence"),
        stream_of="instances",
        context_sides=("source",),
    )

    @property
    def reuses_prefix_states(self) -> bool:
        """False: targets are read chunk by chunk."""
        return False
