"""G-Transformer whose layers also attend to the source sentences before their instance.

A document that is longer than ``--max-doc-tokens`` is cut into instances. Of the source sentences
before an instance (``--instance-context``) a trained encoder reads the embedded words, or a frozen
BERT the text, as in :mod:`gtrans.models.bert_context_transformer`, whose context attention stands
in every layer beside (or behind) group, global or combined attention. All words of an instance
see the whole context. The instance itself is read as in :mod:`gtrans.models.gtransformer`.
"""

from dataclasses import dataclass
from typing import Any

from gtrans.models.base.options import sizes
from gtrans.models.base.presets import register_system
from gtrans.models.bert_context_transformer import (
    BERT,
    WORDS,
    BertContextConfig,
    BertContextTransformer,
)
from gtrans.models.gtransformer import GTransformer, GTransformerConfig


@dataclass
class GTransformerContextConfig(BertContextConfig, GTransformerConfig):
    """Options of :class:`GTransformerContext`."""


PRESETS = {
    "gtransformer_context": {**sizes(6, 512, 2048, 8), **WORDS},
    "gtransformer_context_tiny": {**sizes(6, 256, 1024, 4), **WORDS},
    "gtransformer_context_base": {**sizes(6, 512, 2048, 8), **WORDS},
    "gtransformer_bert_context_base": {**sizes(6, 512, 2048, 8), **BERT},
}


@register_system("gtransformer_context", GTransformerContextConfig, PRESETS)
class GTransformerContext(BertContextTransformer, GTransformer):
    """G-Transformer with context attention: it also reads the sentences before its instance."""

    units = ("document", "sentence")
    instance_context = 3

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """The output of the frozen BERT for the context, if there is one."""
        return super().bert_use(cfg) if _has_context(cfg) else None

    def add_parts(self, cfg: Any) -> None:
        """Add context attention, unless nothing comes before what is read."""
        if _has_context(cfg):
            super().add_parts(cfg)


def _has_context(cfg: Any) -> bool:
    return bool(cfg.unit == "document" and cfg.instance_context)
