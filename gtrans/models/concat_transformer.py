"""Concatenation: the Transformer reads a window of sentences as one text.

Tiedemann and Scherrer, "Neural Machine Translation with Extended Context", DiscoMT 2017: a
sentence and its neighbours are joined on both sides (2-to-2; n-to-n with a larger
``--context-before``), or on the source side only (n-to-1, ``--context-sides source``).
The translation of the current sentence is kept. The sentence marks of the frame separate
the sentences; no attention is grouped.
"""

from dataclasses import dataclass

from fairseq.models import register_model

from gtrans.models._gtransformer_options import UnitTransformerConfig, transformer_presets
from gtrans.models._presets import register_presets
from gtrans.models.gtransformer import GTransformer


@dataclass
class ConcatTransformerConfig(UnitTransformerConfig):
    """Options of :class:`ConcatTransformer`, those of a Transformer."""


PRESETS = transformer_presets(
    {
        "concat_transformer": (6, 512, 2048, 8),
        "concat_transformer_tiny": (6, 256, 1024, 4),
        "concat_transformer_base": (6, 512, 2048, 8),
    }
)


@register_model("concat_transformer", dataclass=ConcatTransformerConfig)
class ConcatTransformer(GTransformer):
    """The Transformer on windows."""

    options = ConcatTransformerConfig
    presets = PRESETS
    units = ("window", "sentence")
    context_sides = ("both", "source")


register_presets("concat_transformer", ConcatTransformerConfig, PRESETS)
