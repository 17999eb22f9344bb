"""An encoder that is a BERT: its vocabulary, embeddings and layers, fine-tuned with the model.

The source comes in BERT's word pieces (:mod:`gtrans.tasks._bert`), ``<s>`` and ``</s>``
being ``[CLS]`` and ``[SEP]``. The layers are those of every other encoder here, with
BERT's GELU and the epsilon of its LayerNorm; its learned positions, token types and the
LayerNorm on the embeddings stand in front of them, and embeddings are not scaled.
"""

from dataclasses import dataclass
from typing import Any, Optional

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from gtrans.data.symbols import MASK
from gtrans.errors import GtransError
from gtrans.models._gtransformer_options import UnitTransformerConfig
from gtrans.models._presets import option
from gtrans.models.gtransformer import GTransformerEncoder
from gtrans.modules.bert import BertWeights
from gtrans.modules.layout import DocumentLayout
from gtrans.modules.positions import LearnedPositions

PIECES = "pieces"


@dataclass
class BertSourceConfig(UnitTransformerConfig):
    """What a checkpoint must know of the BERT that its encoder was."""

    bert_pieces: Optional[str] = option(None, "set by the task")
    bert_positions: Optional[int] = option(None, "set by the task")
    bert_norm_eps: Optional[float] = option(None, "set by the task")


def bert_presets(
    presets: dict[str, dict[str, Any]], decoder_layers: int
) -> dict[str, dict[str, Any]]:
    """Presets whose encoder has a BERT's sizes, with a decoder of the same width."""
    return {name: {**sizes, "decoder_layers": decoder_layers} for name, sizes in presets.items()}


class BertEncoder(GTransformerEncoder):
    """To be put in front of an encoder class, which then is a BERT.

    Attributes:
        embed_segments: ``(2, dim)`` the token types.
    """

    embed_segments: nn.Embedding | None

    def __init__(self, cfg: Any, dictionary: Dictionary, embed_tokens: nn.Embedding) -> None:
        own = OmegaConf.create(cfg)
        with open_dict(own):
            own.activation_fn = "gelu"
            own.no_scale_embedding = True
            own.encoder_normalize_before = False
            own.learned_positions = own.layernorm_embedding = False
        super().__init__(own, dictionary, embed_tokens)
        dim = embed_tokens.embedding_dim
        self.embed_positions = LearnedPositions(dim, int(cfg.bert_positions), offset=0)
        self.layernorm_embedding = nn.LayerNorm(dim)
        self.embed_segments = nn.Embedding(2, dim)
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.eps = float(cfg.bert_norm_eps)

    def _embed(
        self, src_tokens: Tensor, layout: DocumentLayout, segments: Tensor | None = None
    ) -> Tensor:
        """As in the base class; where nothing tells segments apart, all are of type 0."""
        if segments is None and self.embed_segments is not None:
            segments = self.embed_segments.weight[0]
        return super()._embed(src_tokens, layout, segments)

    @torch.no_grad()
    def start_from(self, bert: BertWeights) -> set[str]:
        """Take over the parameters of a BERT; returns the names of those that it has.

        Raises:
            GtransError: it has other sizes than this encoder.
        """
        layer: Any = self.layers[0]
        for flag, own, there in (
            ("encoder-embed-dim", self.embed_tokens.embedding_dim, bert.dim),
            ("encoder-layers", len(self.layers), bert.layers),
            ("encoder-attention-heads", layer.self_attn.heads, bert.heads),
            ("encoder-ffn-embed-dim", layer.fc1.out_features, bert.ffn_dim),
        ):
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
            words[self.dictionary.index(MASK)] = bert.mask
        return {*bert.parameters, "embed_tokens.weight"}
