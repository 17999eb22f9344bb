"""G-Transformer + BERT: the encoder is initialised with a BERT and fine-tuned.

Bao et al. (2021), table 2, give the result without details. Here

=========  ======================================================================================
encoder    the whole BERT, :mod:`gtrans.models.base.bert_encoder`. It reads
           ``[CLS] s1 [SEP] [CLS] s2 [SEP] ..``, so that a group looks like a sentence
Eq 3-8     group attention in the bottom layers
Eq 9-10    in the top layers BERT's attention becomes group attention; global attention and
           gates are new
positions  count through the document; BERT has learned 512: longer documents are cut
decoder    as in :mod:`gtrans.models.gtransformer`, with BERT's width
=========  ======================================================================================
"""

from dataclasses import dataclass
from typing import Any

from gtrans.errors import GtransError
from gtrans.models.base.bert_encoder import BertEncoder, BertSourceConfig, BertSourceTransformer
from gtrans.models.base.model import InputSpec
from gtrans.models.base.presets import register_system, sizes
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
    """G-Transformer + BERT: the encoder is initialised with a BERT and fine-tuned."""

    encoder_type = BertEncoder
    inputs = InputSpec(units=("document", "sentence"), context_sides=("both", "source"))

    @classmethod
    def check(cls, cfg: Any, task: Any) -> None:
        """Raise GtransError for documents that are longer than BERT can read."""
        super().check(cfg, task)
        longest = int(cfg.bert_positions or 0)
        through_document = cfg.unit == "document" and cfg.positions == "document"
        if through_document and (cfg.max_doc_tokens or 0) > longest:
            raise GtransError(
                f"`--max-doc-tokens` must be at most {longest}, which this BERT can encode, but is "
                f"{cfg.max_doc_tokens}."
            )
