"""G-Transformer + BERT: the encoder begins as a BERT and is fine-tuned.

Bao et al. (2021), table 2, give the result and no detail. Here

* the encoder is BERT, all of it (:mod:`gtrans.models.base.bert_encoder`), reading
  ``[CLS] s1 [SEP] [CLS] s2 [SEP] ..``, so that a group is what BERT knows as a sentence;
* its lower layers attend within groups, as everywhere in a G-Transformer; in its top
  layers BERT's attention is the group attention, global attention and gates are new;
* positions count through the document, of which BERT has learned 512: documents are
  split, at the end of a sentence, before they have more word pieces than that;
* the decoder is a G-Transformer's, of BERT's width, on the corpus's own vocabulary.
"""

from dataclasses import dataclass
from typing import Any

from gtrans.errors import GtransError
from gtrans.models.base.bert_encoder import BertEncoder, BertSourceConfig, BertSourceTransformer
from gtrans.models.base.options import sizes
from gtrans.models.base.presets import register_system
from gtrans.models.gtransformer import GTransformer, GTransformerConfig


@dataclass
class GTransformerBertConfig(GTransformerConfig, BertSourceConfig):
    """Options of :class:`GTransformerBert`."""


PRESETS = {
    "gtransformer_bert": sizes(12, 768, 3072, 12, decoder_layers=6),
    "gtransformer_bert_tiny": sizes(3, 128, 512, 4),
    "gtransformer_bert_base": sizes(12, 768, 3072, 12, decoder_layers=6),
}


@register_system("gtransformer_bert", GTransformerBertConfig, PRESETS)
class GTransformerBert(BertSourceTransformer, GTransformer):
    """G-Transformer + BERT: the encoder begins as a BERT and is fine-tuned."""

    encoder_type = BertEncoder
    units = ("document", "sentence")

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raises GtransError for documents that are longer than what BERT reads."""
        super().check(cfg, task)
        longest = int(cfg.bert_positions or 0)
        through = cfg.unit == "document" and cfg.positions == "document"
        if through and (cfg.max_doc_tokens or 0) > longest:
            raise GtransError(
                f"`--max-doc-tokens` must be at most {longest}, what this BERT reads, but is "
                f"{cfg.max_doc_tokens}."
            )
