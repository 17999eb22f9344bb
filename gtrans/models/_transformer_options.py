"""Options that all Transformers here share, and the parts that follow from them."""

import math
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum
from torch import nn

from gtrans.errors import GtransError
from gtrans.models._presets import DocumentModelConfig, option, size_option
from gtrans.modules.embedding import Embedder
from gtrans.modules.positions import LearnedPositions
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec

_Activation = ChoiceEnum(list(ACTIVATIONS))


@dataclass
class StackConfig(DocumentModelConfig):
    """Options of an encoder and a decoder, flat so that all of fairseq's front ends see them."""

    encoder_layers: Optional[int] = size_option("encoder layers")
    decoder_layers: Optional[int] = size_option("decoder layers")
    encoder_embed_dim: Optional[int] = size_option("width of the model, the same on both sides")
    encoder_ffn_embed_dim: Optional[int] = size_option("width of the encoder's feed-forward nets")
    decoder_ffn_embed_dim: Optional[int] = size_option("width of the decoder's feed-forward nets")
    encoder_attention_heads: Optional[int] = size_option("attention heads in the encoder")
    decoder_attention_heads: Optional[int] = size_option("attention heads in the decoder")
    dropout: float = option(0.1, "dropout after embeddings and sublayers")
    attention_dropout: float = option(0.0, "dropout on attention weights")
    activation_dropout: float = option(0.0, "dropout inside feed-forward networks")
    activation_fn: Optional[_Activation] = size_option(  # type: ignore[valid-type]
        "activation of feed-forward networks"
    )
    layernorm_embedding: Optional[bool] = size_option("LayerNorm on embeddings")
    learned_positions: Optional[bool] = size_option(
        "a learned table of positions, not sinusoids that grow with the text"
    )
    max_positions: Optional[int] = size_option("rows of that table: the longest text")
    share_decoder_input_output_embed: bool = option(
        False, "one table for decoder input and output"
    )
    share_all_embeddings: Optional[bool] = size_option(
        "one table for encoder, decoder and output (needs a joint dictionary)"
    )
    no_scale_embedding: Optional[bool] = size_option("do not scale embeddings by sqrt(dim)")


def check_stack(cfg: StackConfig, task: Any) -> None:
    """Raises GtransError for options that contradict each other."""
    for side in ("encoder", "decoder"):
        heads = getattr(cfg, f"{side}_attention_heads")
        if heads < 1 or cfg.encoder_embed_dim % heads:
            raise GtransError(
                f"`--{side}-attention-heads` must divide `--encoder-embed-dim` "
                f"{cfg.encoder_embed_dim}, but is {heads}."
            )
    if cfg.learned_positions and int(cfg.max_positions or 0) < 1:
        raise GtransError(f"`--max-positions` must be at least 1, but is {cfg.max_positions}.")
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise GtransError(
            "`--share-all-embeddings` needs a joint dictionary, but the two sides differ; "
            "prepare the corpus with fairseq-preprocess --joined-dictionary."
        )


def stack_spec(cfg: StackConfig, side: str, pre_norm: bool, **further: Any) -> LayerSpec:
    """Sizes and switches of the layers of one side; ``further`` ones of :class:`LayerSpec`."""
    return LayerSpec(
        dim=int(cfg.encoder_embed_dim or 0),
        ffn_dim=getattr(cfg, f"{side}_ffn_embed_dim"),
        heads=getattr(cfg, f"{side}_attention_heads"),
        dropout=float(cfg.dropout),
        attention_dropout=float(cfg.attention_dropout),
        activation_dropout=float(cfg.activation_dropout),
        activation=str(cfg.activation_fn),
        pre_norm=pre_norm,
        **further,
    )


def embedder(cfg: StackConfig, by_sentence: bool = False) -> Embedder:
    """What embeds the tokens of one side; ``by_sentence``: positions restart in a sentence."""
    dim = int(cfg.encoder_embed_dim or 0)
    scale = 1.0 if cfg.no_scale_embedding else math.sqrt(dim)
    return Embedder(dim, scale, float(cfg.dropout), by_sentence)


def beside_words(cfg: StackConfig) -> tuple[LearnedPositions | None, nn.LayerNorm | None]:
    """The table of positions and the LayerNorm on embeddings, where a model has them."""
    dim = int(cfg.encoder_embed_dim or 0)
    size = int(cfg.max_positions or 0)
    return (
        LearnedPositions(dim, size) if cfg.learned_positions else None,
        nn.LayerNorm(dim) if cfg.layernorm_embedding else None,
    )
