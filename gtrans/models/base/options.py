"""Options and sizes that all systems share, and the parts built from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models.base.fusion import FusionConfig
from gtrans.models.base.presets import DocumentModelConfig, size_option
from gtrans.modules.embedding import SINUSOIDS
from gtrans.modules.group_attention import BACKENDS
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec
from gtrans.option_types import START, check_ranges, option

_Activation = ChoiceEnum(list(ACTIVATIONS))


@dataclass
class StackConfig(DocumentModelConfig):
    """Sizes, dropout and embeddings."""

    encoder_layers: Optional[int] = size_option("encoder layers", 1)
    decoder_layers: Optional[int] = size_option("decoder layers", 1)
    encoder_embed_dim: Optional[int] = size_option("width of the model, the same on both sides", 1)
    encoder_ffn_embed_dim: Optional[int] = size_option(
        "width of the encoder's feed-forward networks", 1
    )
    decoder_ffn_embed_dim: Optional[int] = size_option(
        "width of the decoder's feed-forward networks", 1
    )
    encoder_attention_heads: Optional[int] = size_option("attention heads in the encoder", 1)
    decoder_attention_heads: Optional[int] = size_option("attention heads in the decoder", 1)
    dropout: float = option(0.1, "dropout after embeddings and sublayers", least=0, below=1)
    attention_dropout: float = option(0.0, "dropout on attention weights", least=0, below=1)
    activation_dropout: float = option(
        0.0, "dropout inside feed-forward networks", least=0, below=1
    )
    activation_fn: Optional[_Activation] = size_option(  # type: ignore[valid-type]
        "activation of feed-forward networks"
    )
    layernorm_embedding: Optional[bool] = size_option("LayerNorm on the embeddings")
    learned_positions: Optional[bool] = size_option(
        "learned positions; otherwise sinusoidal ones, which have no longest text"
    )
    max_positions: Optional[int] = size_option("how many positions --learned-positions learns", 1)
    sinusoid: ChoiceEnum(list(SINUSOIDS)) = option(  # type: ignore[valid-type]
        "fairseq", "arrangement of sinusoidal positions; those of OPUS-MT models are Marian's"
    )
    share_decoder_input_output_embed: bool = option(
        False, "one table of embeddings for the decoder's input and output"
    )
    share_all_embeddings: Optional[bool] = size_option(
        "one table of embeddings for encoder, decoder and output (needs a joint dictionary)"
    )
    no_scale_embedding: Optional[bool] = size_option("do not scale embeddings by sqrt(dim)")
    output_bias: bool = option(False, "a bias for every word of the output, as OPUS-MT models have")
    start_by_bos: bool = option(
        False,
        "the decoder begins a sentence with '<s>' instead of '</s>', as OPUS-MT models do",
    )
    attention_backend: ChoiceEnum(list(BACKENDS)) = option(  # type: ignore[valid-type]
        "auto",
        "how attention is computed: auto: FlashAttention on CUDA in half precision, where it can "
        "be used, else as regroup; regroup: sentences of similar length together; dense: as in "
        "the equations",
    )
    checkpoint_activations: bool = option(
        False,
        "keep only the input of every layer for the gradient and compute the rest again: less "
        "memory, more time; results are the same",
    )


@dataclass
class TransformerConfig(FusionConfig, StackConfig):
    """Norms."""

    encoder_normalize_before: Optional[bool] = size_option(
        "pre-norm encoder layers, otherwise post-norm"
    )
    decoder_normalize_before: Optional[bool] = size_option(
        "pre-norm decoder layers, otherwise post-norm"
    )
    no_decoder_final_norm: bool = option(
        False, "no LayerNorm after the last layer of a pre-norm decoder"
    )


@dataclass
class UnitTransformerConfig(TransformerConfig):
    """Positions."""

    positions: ChoiceEnum(["document", "sentence"]) = option(  # type: ignore[valid-type]
        "document",
        "document: positions count through the unit (paper); sentence: they restart in every "
        "sentence (identity initialisation, with --gate-bias 10)",
        START,
    )


# The switches of a preset besides its sizes: the Transformer of Vaswani et al. 2017.
PLAIN_SWITCHES: dict[str, Any] = {
    "activation_fn": "relu",
    "layernorm_embedding": False,
    "learned_positions": False,
    "max_positions": 1024,
    "share_all_embeddings": False,
    "no_scale_embedding": False,
}
POST_NORM: dict[str, Any] = {"encoder_normalize_before": False, "decoder_normalize_before": False}


def sizes(
    layers: int,
    dim: int,
    ffn_dim: int,
    heads: int,
    decoder_layers: int | None = None,
    switches: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One preset: equal sizes on both sides.

    Args:
        layers: encoder layers, and decoder layers if ``decoder_layers`` is None.
        dim: width of the model.
        ffn_dim: width of the feed-forward networks.
        heads: attention heads.
        decoder_layers: decoder layers.
        switches: further options of the preset (None: a post-norm Transformer's).
    """
    return {
        "encoder_layers": layers,
        "decoder_layers": layers if decoder_layers is None else decoder_layers,
        "encoder_embed_dim": dim,
        "encoder_ffn_embed_dim": ffn_dim,
        "decoder_ffn_embed_dim": ffn_dim,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        **({**PLAIN_SWITCHES, **POST_NORM} if switches is None else switches),
    }


def check_stack(cfg: StackConfig, options: type, task: Any) -> None:
    """Raises GtransError for options out of range, or that contradict each other.

    ``options``: the dataclass that declares the model's options.
    """
    check_ranges(cfg, options)
    for side in ("encoder", "decoder"):
        heads = getattr(cfg, f"{side}_attention_heads")
        if int(cfg.encoder_embed_dim or 0) % heads:
            raise GtransError(
                f"`--{side}-attention-heads` must divide `--encoder-embed-dim` "
                f"{cfg.encoder_embed_dim}, but is {heads}."
            )
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise GtransError(
            "`--share-all-embeddings` needs a joint dictionary, but the two sides differ; "
            "prepare the corpus with fairseq-preprocess --joined-dictionary."
        )


def layer_spec(cfg: StackConfig, side: str, pre_norm: bool, **further: Any) -> LayerSpec:
    """Sizes and switches of the layers of one side; ``further``: fields of :class:`LayerSpec`."""
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
