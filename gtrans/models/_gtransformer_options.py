"""Options of the G-Transformer, its presets, and what follows from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional, TypeGuard

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models._presets import option, size_option
from gtrans.models._transformer_options import StackConfig, check_stack, stack_spec
from gtrans.modules.attention import KINDS
from gtrans.modules.group_attention import BACKENDS
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec

_TopAttention = ChoiceEnum(list(KINDS))
_Activation = ChoiceEnum(list(ACTIVATIONS))


@dataclass
class TransformerConfig(StackConfig):
    """Options of Transformers that are not deep: pre-norm or post-norm."""

    encoder_normalize_before: Optional[bool] = size_option("pre-norm encoder layers")
    decoder_normalize_before: Optional[bool] = size_option("pre-norm decoder layers")
    no_decoder_final_norm: bool = option(
        False, "no LayerNorm behind the last layer of a pre-norm decoder"
    )
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
# The frame that a pretrained model has seen (see gtrans.data.frame).
SENTENCE_MARKS_OF = {
    "gtransformer_bart_base": "bart",
    "gtransformer_bart_large": "bart",
    "gtransformer_mbart_large": "mbart",
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
    check_stack(cfg, task)
    paired = has_groups(cfg) and cfg.doc_mode == "partial"
    if cfg.unit == "window" and cfg.context_sides == "source" and paired:
        raise GtransError(
            "`--doc-mode partial` pairs the sentences of both sides, but a window has its context "
            "on the source side only; give --context-sides both, or --doc-mode full."
        )


def layer_spec(cfg: TransformerConfig, side: str) -> LayerSpec:
    """Sizes and switches of the layers of one side."""
    return stack_spec(
        cfg,
        side,
        getattr(cfg, f"{side}_normalize_before"),
        gate_bias=cfg.gate_bias if has_groups(cfg) else None,
    )
