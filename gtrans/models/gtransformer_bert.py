"""G-Transformer + BERT: the encoder begins as a BERT and is fine-tuned.

Bao et al. (2021), table 2, give the result and no detail. Here

* the encoder is BERT, all of it (:mod:`gtrans.models._bert_encoder`), reading
  ``[CLS] s1 [SEP] [CLS] s2 [SEP] ..``, so that a group is what BERT knows as a sentence;
* its lower layers attend within groups, as everywhere in a G-Transformer; in its top
  layers BERT's attention is the group attention, global attention and gates are new;
* positions count through the document, of which BERT has learned 512: documents are
  split, at the end of a sentence, before they have more word pieces than that;
* the decoder is a G-Transformer's, of BERT's width, on the corpus's own vocabulary.
"""

from dataclasses import dataclass
from typing import Any

from fairseq.models import register_model

from gtrans.errors import GtransError
from gtrans.models._bert_encoder import PIECES, BertEncoder, BertSourceConfig, bert_presets
from gtrans.models._gtransformer_options import (
    GTransformerConfig,
    UnitTransformerConfig,
    transformer_presets,
)
from gtrans.models._presets import register_presets
from gtrans.models.gtransformer import GTransformer


@dataclass
class GTransformerBertConfig(GTransformerConfig, BertSourceConfig):
    """Options of :class:`GTransformerBert`."""


PRESETS = bert_presets(
    transformer_presets(
        {
            "gtransformer_bert": (12, 768, 3072, 12),
            "gtransformer_bert_tiny": (3, 128, 512, 4),
            "gtransformer_bert_base": (12, 768, 3072, 12),
        }
    ),
    decoder_layers=6,
)
PRESETS["gtransformer_bert_tiny"]["decoder_layers"] = 3


@register_model("gtransformer_bert", dataclass=GTransformerBertConfig)
class GTransformerBert(GTransformer):
    """G-Transformer whose encoder is a BERT; with ``--doc-mode full`` the Transformer with one."""

    encoder: BertEncoder
    encoder_type = BertEncoder
    options = GTransformerBertConfig
    presets = PRESETS
    units = ("document", "sentence")

    @classmethod
    def reads_bert(cls, cfg: Any) -> str:
        """The source comes in BERT's word pieces."""
        return PIECES

    @classmethod
    def built(cls, cfg: UnitTransformerConfig, task: Any) -> "GTransformerBert":
        """Build from complete options.

        Raises:
            GtransError: documents that are longer than what BERT reads.
        """
        longest = int(getattr(cfg, "bert_positions", None) or 0)
        through = cfg.unit == "document" and cfg.positions == "document"
        if through and (cfg.max_doc_tokens or 0) > longest:
            raise GtransError(
                f"`--max-doc-tokens` must be at most {longest}, what this BERT reads, but is "
                f"{cfg.max_doc_tokens}."
            )
        return super().built(cfg, task)


register_presets("gtransformer_bert", GTransformerBertConfig, PRESETS)
