"""Concatenation: the Transformer reads a window of sentences as one text.

Tiedemann and Scherrer, "Neural Machine Translation with Extended Context", DiscoMT 2017. Only the
current sentence of the translation is kept.

==============  =================================================================================
window          a sentence and its neighbours: :class:`gtrans.data.units.WindowUnit`
special tokens  around each sentence of a window: :mod:`gtrans.data.frame`
2-to-2          ``--context-before 1 --context-sides both``, the default
2-to-1          ``--context-before 1 --context-sides source``
==============  =================================================================================
"""

from dataclasses import dataclass

from gtrans.models.base.model import DocumentModel, InputSpec
from gtrans.models.base.options import UnitTransformerConfig
from gtrans.models.base.presets import register_system, sizes


@dataclass
class ConcatTransformerConfig(UnitTransformerConfig):
    """Options of :class:`ConcatTransformer`: a Transformer's."""


PRESETS = {
    "concat_transformer": sizes(6, 512, 2048, 8),
    "concat_transformer_tiny": sizes(6, 256, 1024, 4),
    "concat_transformer_base": sizes(6, 512, 2048, 8),
}


@register_system("concat_transformer", ConcatTransformerConfig, PRESETS)
class ConcatTransformer(DocumentModel):
    """Concatenation: a window of sentences is translated as one text."""

    inputs = InputSpec(units=("window", "sentence"), context_sides=("both", "source"))
