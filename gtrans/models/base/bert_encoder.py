"""An encoder that is a BERT, fine-tuned with the model.

The source consists of BERT's subwords (:mod:`gtrans.tasks.parts.bert`); ``<s>`` and ``</s>``
are ``[CLS]`` and ``[SEP]``. Layers have GELU and BERT's LayerNorm epsilon; embeddings are not
scaled.
"""

from dataclasses import dataclass, replace
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from gtrans.data.vocabulary import MASK
from gtrans.errors import GtransError
from gtrans.models.base.encoder import Encoder, StackDesign
from gtrans.models.base.model import BERT_SUBWORDS, DocumentModel
from gtrans.models.base.options import UnitTransformerConfig
from gtrans.modules.bert import BertWeights
from gtrans.modules.embedding import LearnedPositions
from gtrans.modules.group_attention import DocumentLayout
from gtrans.modules.transformer import LayerSpec
from gtrans.option_types import option


@dataclass
class BertSourceConfig(UnitTransformerConfig):
    """The BERT of the encoder."""

    bert_subwords: Optional[str] = option(None, "set by the task")
    bert_positions: Optional[int] = option(None, "set by the task")
    bert_norm_eps: Optional[float] = option(None, "set by the task")


class BertEncoder(Encoder):
    """An encoder with BERT's architecture; as the first base, it makes any encoder one.

    ``embed_segments (2, dim)`` are the token types.
    """

    embed_segments: nn.Embedding | None

    def __init__(
        self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding, design: StackDesign
    ) -> None:
        bert_cfg = OmegaConf.create(cfg)
        with open_dict(bert_cfg):
            bert_cfg.no_scale_embedding = True
            bert_cfg.learned_positions = bert_cfg.layernorm_embedding = False
        super().__init__(bert_cfg, dictionary, embed_tokens, design)
        dim = embed_tokens.embedding_dim
        self.embed_positions = LearnedPositions(dim, int(cfg.bert_positions), offset=0)
        self.layernorm_embedding = nn.LayerNorm(dim, float(cfg.bert_norm_eps))
        self.embed_segments = nn.Embedding(2, dim)

    def embedded(
        self, tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """Return packed embeddings; without ``segments`` all tokens have token type 0."""
        if segments is None and self.embed_segments is not None:
            segments = self.embed_segments.weight[0]
        return super().embedded(tokens, layout, segments)

    @torch.no_grad()
    def start_from(self, bert: BertWeights) -> set[str]:
        """Copy the parameters of a BERT, and return their names.

        Raises:
            GtransError: the BERT has other sizes.
        """
        layer: Any = self.layers[0]
        sizes = (
            ("encoder-embed-dim", self.embed_tokens.embedding_dim, bert.dim),
            ("encoder-layers", len(self.layers), bert.layers),
            ("encoder-attention-heads", layer.self_attn.heads, bert.heads),
            ("encoder-ffn-embed-dim", layer.fc1.out_features, bert.ffn_dim),
        )
        for flag, own, there in sizes:
            if own != there:
                raise GtransError(
                    f"`--{flag}` is {own}, but that of the BERT {bert.name} is {there}; give "
                    f"--{flag} {there}, or prepare the corpus with another --bert."
                )
        parameters = dict(self.named_parameters())
        for name, tensor in bert.parameters.items():
            parameters[name].copy_(tensor)
        words = self.embed_tokens.weight
        words[: len(bert.words)] = bert.words
        if bert.mask is not None:
            row = self.dictionary.index(MASK)
            words[row] = bert.mask
        return {*bert.parameters, "embed_tokens.weight"}


class BertSourceTransformer(DocumentModel):
    """Mixin, before a system's class, for a :class:`BertEncoder`."""

    encoder: BertEncoder

    @classmethod
    def bert_use(cls, cfg: Any) -> str | None:
        """Return ``BERT_SUBWORDS``."""
        return BERT_SUBWORDS

    @classmethod
    def layer_spec(cls, cfg: Any, side: str) -> LayerSpec:
        """Return BERT's sizes and switches for the encoder."""
        spec = super().layer_spec(cfg, side)
        if side == "decoder":
            return spec
        eps = float(cfg.bert_norm_eps)
        return replace(spec, activation="gelu", pre_norm=False, norm_eps=eps)

    def start_from_bert(self, bert: BertWeights) -> set[str]:
        """Initialise the encoder, and return the names of the loaded parameters."""
        return {f"encoder.{name}" for name in self.encoder.start_from(bert)}
