"""Options of the G-Transformer, its presets, and what follows from them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypeGuard

from fairseq.dataclass import ChoiceEnum
from torch import nn

from gtrans.errors import GtransError
from gtrans.models._presets import DocumentModelConfig, option, size_option
from gtrans.modules.attention import KINDS
from gtrans.modules.embedding import Embedder
from gtrans.modules.group_attention import BACKENDS
from gtrans.modules.positions import LearnedPositions
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec

_TopAttention = ChoiceEnum(list(KINDS))
_Activation = ChoiceEnum(list(ACTIVATIONS))


@dataclass
class TransformerConfig(DocumentModelConfig):
    """Options of every Transformer here, flat so that all of fairseq's front ends see them."""

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
    encoder_normalize_before: Optional[bool] = size_option("pre-norm encoder layers")
    decoder_normalize_before: Optional[bool] = size_option("pre-norm decoder layers")
    no_decoder_final_norm: bool = option(
        False, "no LayerNorm behind the last layer of a pre-norm decoder"
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
    attention_backend: ChoiceEnum(list(BACKENDS)) = option(  # type: ignore[valid-type]
        "regroup", "how attention within groups is computed"
    )


@dataclass
class UnitTransformerConfig(TransformerConfig):
    """Options of Transformers that read several sentences at once."""

    positions: ChoiceEnum(["document", "sentence"]) = option(  # type: ignore[valid-type]
        "document",
        "positions count through the unit (papers), or restart in every sentence, and attention "
        "across sentences is told the number of the sentence",
    )


@dataclass
class GTransformerConfig(UnitTransformerConfig):
    """Options of the G-Transformer."""

    doc_mode: ChoiceEnum(["partial", "full"]) = option(  # type: ignore[valid-type]
        "partial", "partial: group attention; full: plain attention over the whole unit (baseline)"
    )
    encoder_global_layers: int = option(2, "top encoder layers with global self-attention")
    decoder_global_layers: int = option(2, "top decoder layers with global self-attention")
    cross_global_layers: int = option(2, "top decoder layers with global cross-attention")
    encoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "self-attention of those encoder layers (table 6)"
    )
    decoder_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "self-attention of those decoder layers"
    )
    cross_top_attention: _TopAttention = option(  # type: ignore[valid-type]
        "combined", "cross-attention of those decoder layers"
    )
    no_language_locality: bool = option(
        False, "self-attention is never grouped (table 5, '- language locality')"
    )
    no_translation_locality: bool = option(
        False, "cross-attention is never grouped (table 5, '- translation locality')"
    )
    gate_bias: Optional[float] = option(
        None,
        "gates begin at sigmoid(BIAS) on the group side whatever the input, so that a large "
        "value starts a document model as its sentence model (default: random gates)",
    )


_SIZES = {
    "gtransformer": (6, 512, 2048, 8),
    "gtransformer_tiny": (6, 256, 1024, 4),
    "gtransformer_small": (6, 512, 1024, 4),
    "gtransformer_base": (6, 512, 2048, 8),
    "gtransformer_big": (6, 1024, 4096, 16),
    "gtransformer_large": (12, 1024, 4096, 16),
    "gtransformer_bart_base": (6, 768, 3072, 12),
    "gtransformer_bart_large": (12, 1024, 4096, 16),
    "gtransformer_mbart_large": (12, 1024, 4096, 16),
}
_SWITCHES = {
    "activation_fn": "relu",
    "encoder_normalize_before": False,
    "decoder_normalize_before": False,
    "layernorm_embedding": False,
    "learned_positions": False,
    "max_positions": 1024,
    "share_all_embeddings": False,
    "no_scale_embedding": False,
}
_BART = {
    **_SWITCHES,
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "learned_positions": True,
    "share_all_embeddings": True,
    "no_scale_embedding": True,
}
_MBART = {
    **_BART,
    "encoder_normalize_before": True,
    "decoder_normalize_before": True,
    "no_scale_embedding": False,
}
_SWITCHES_OF = {
    "gtransformer_bart_base": _BART,
    "gtransformer_bart_large": _BART,
    "gtransformer_mbart_large": _MBART,
}


def transformer_presets(
    sizes: Mapping[str, tuple[int, int, int, int]],
) -> dict[str, dict[str, Any]]:
    """Presets from ``name: (layers, dim, ffn, heads)``, equal on both sides."""
    return {
        name: {
            "encoder_layers": layers,
            "decoder_layers": layers,
            "encoder_embed_dim": dim,
            "encoder_ffn_embed_dim": ffn,
            "decoder_ffn_embed_dim": ffn,
            "encoder_attention_heads": heads,
            "decoder_attention_heads": heads,
            **_SWITCHES_OF.get(name, _SWITCHES),
        }
        for name, (layers, dim, ffn, heads) in sizes.items()
    }


PRESETS = transformer_presets(_SIZES)


def attention_kinds(cfg: TransformerConfig) -> tuple[list[str], list[str], list[str]]:
    """Kinds of encoder self-, decoder self- and cross-attention, layer by layer (§4.2).

    A model without :class:`GTransformerConfig`'s options attends over its whole unit.

    Raises:
        GtransError: more global layers than layers, or a negative number of them.
    """
    encoder, decoder = int(cfg.encoder_layers or 0), int(cfg.decoder_layers or 0)
    if not has_groups(cfg):
        return ["global"] * encoder, ["global"] * decoder, ["global"] * decoder

    def kinds(part: str, layers: int, grouped: bool) -> list[str]:
        top_layers = getattr(cfg, f"{part}_global_layers")
        if not 0 <= top_layers <= layers:
            raise GtransError(
                f"`--{part}-global-layers` must be between 0 and the {layers} layers of that "
                f"side, but is {top_layers}."
            )
        if cfg.doc_mode == "full" or not grouped:
            return ["global"] * layers
        top = str(getattr(cfg, f"{part}_top_attention"))
        return ["group"] * (layers - top_layers) + [top] * top_layers

    self_grouped, cross_grouped = not cfg.no_language_locality, not cfg.no_translation_locality
    return (
        kinds("encoder", encoder, self_grouped),
        kinds("decoder", decoder, self_grouped),
        kinds("cross", decoder, cross_grouped),
    )


def has_groups(cfg: TransformerConfig) -> TypeGuard[GTransformerConfig]:
    """Whether the model has the G-Transformer's options, at whatever values."""
    return hasattr(cfg, "doc_mode")


def check_sizes(cfg: TransformerConfig, task: Any) -> None:
    """Raises GtransError for options that contradict each other."""
    for side in ("encoder", "decoder"):
        heads = getattr(cfg, f"{side}_attention_heads")
        if heads < 1 or cfg.encoder_embed_dim % heads:
            raise GtransError(
                f"`--{side}-attention-heads` must divide `--encoder-embed-dim` "
                f"{cfg.encoder_embed_dim}, but is {heads}."
            )
    paired = has_groups(cfg) and cfg.doc_mode == "partial"
    if cfg.unit == "window" and cfg.context_sides == "source" and paired:
        raise GtransError(
            "`--doc-mode partial` pairs the sentences of both sides, but a window has its context "
            "on the source side only; give --context-sides both, or --doc-mode full."
        )
    if cfg.learned_positions and int(cfg.max_positions or 0) < 1:
        raise GtransError(f"`--max-positions` must be at least 1, but is {cfg.max_positions}.")
    if cfg.share_all_embeddings and task.source_dictionary != task.target_dictionary:
        raise GtransError(
            "`--share-all-embeddings` needs a joint dictionary, but the two sides differ; "
            "prepare the corpus with fairseq-preprocess --joined-dictionary."
        )


def layer_spec(cfg: TransformerConfig, side: str) -> LayerSpec:
    return LayerSpec(
        dim=int(cfg.encoder_embed_dim or 0),
        ffn_dim=getattr(cfg, f"{side}_ffn_embed_dim"),
        heads=getattr(cfg, f"{side}_attention_heads"),
        dropout=float(cfg.dropout),
        attention_dropout=float(cfg.attention_dropout),
        activation_dropout=float(cfg.activation_dropout),
        activation=str(cfg.activation_fn),
        pre_norm=getattr(cfg, f"{side}_normalize_before"),
        gate_bias=cfg.gate_bias if has_groups(cfg) else None,
    )


def embedder(cfg: UnitTransformerConfig) -> Embedder:
    """What embeds the tokens of one side."""
    dim = int(cfg.encoder_embed_dim or 0)
    scale = 1.0 if cfg.no_scale_embedding else math.sqrt(dim)
    return Embedder(dim, scale, float(cfg.dropout), by_sentence=cfg.positions == "sentence")


def beside_words(
    cfg: UnitTransformerConfig,
) -> tuple[LearnedPositions | None, nn.LayerNorm | None]:
    """The table of positions and the LayerNorm on embeddings, where a model has them."""
    dim = int(cfg.encoder_embed_dim or 0)
    size = int(cfg.max_positions or 0)
    return (
        LearnedPositions(dim, size) if cfg.learned_positions else None,
        nn.LayerNorm(dim) if cfg.layernorm_embedding else None,
    )
