"""G-Transformer that remembers the chunks before its own in a few vectors.

A document that is longer than ``--max-doc-tokens`` is cut into chunks. Here they are read as a
stream (:mod:`gtrans.data.units`): every chunk as in :mod:`gtrans.models.gtransformer`,
and between them the memory of :mod:`gtrans.modules.memory`, which is carried from chunk to
chunk as the recurrent-memory paper carries it from sentence to sentence. It is updated once for
a chunk, from the states of all its sentences, and all of them read what the chunks before
have left.

With ``--memory-output added`` (the default here) a new model gives the same as a model without
memory, to the last digit, so that training goes on from a trained G-Transformer (``--init-from``)
without a loss. ``--memory-size 0`` is that G-Transformer.

==================  =============================================================================
the chunk        as in :mod:`gtrans.models.gtransformer`
Eq 1-5 (Feng)       :mod:`gtrans.modules.memory`; h are the states of a chunk, not of a
                    sentence
which layers        :mod:`gtrans.models.memory_transformer`
training            windows of chunks: :mod:`gtrans.data.units`
==================  =============================================================================
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
        """Not where rows have several chunks: each target is read chunk by chunk."""
        return False
