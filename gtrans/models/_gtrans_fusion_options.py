"""Options of GTRANS layer fusion, its presets, and what follows from them."""

import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.models._presets import option
from gtrans.models._transformer_options import StackConfig, check_stack, stack_spec
from gtrans.modules.layer_fusion import (
    DecoderGroupFusion,
    EncoderGroupFusion,
    LayerCombination,
    LayerFusion,
    RepresentationFusion,
    group_tops,
)
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec

SYSTEMS = ("gtrans", "post-norm", "pre-norm", "ta", "dlcl", "rezero", "mlrf")
_PRE_NORM = ("pre-norm", "dlcl")

_Activation = ChoiceEnum(list(ACTIVATIONS))


@dataclass
class GtransFusionConfig(StackConfig):
    """Options of the model."""

    system: ChoiceEnum(list(SYSTEMS)) = option(  # type: ignore[valid-type]
        "gtrans",
        "gtrans: groups of layers fused; or a system that its paper compares with: the plain "
        "post-norm or pre-norm Transformer, transparent attention (Bapna et al. 2018), DLCL (Wang "
        "et al. 2019), ReZero (Bachlechner et al. 2020), MLRF (Wang et al. 2018)",
    )
    encoder_group_size: int = option(
        3, "layers of a group of the encoder; 1: dense fusion, all layers: the last one only"
    )
    decoder_group_size: int = option(2, "layers of a group of the decoder")
    no_encoder_fusion: bool = option(False, "the encoder gives its last layer (table VIII)")
    no_decoder_fusion: bool = option(False, "the decoder gives its last layer (table VIII)")
    init_xlmr: Optional[str] = option(
        None,
        "start from the XLM-R in this folder (config.json, weights, tokenizer): encoder and "
        "embeddings, and the decoder's self-attention and feed-forward nets; not needed when "
        "resuming or decoding",
    )
    use_groups: Optional[str] = option(
        None,
        "in decoding: these groups of the decoder only, FIRST:LAST from 1 (table VI; default: all)",
    )
    keep_encoder_layers: Optional[int] = option(
        None, "in decoding: only so many bottom layers of the encoder (figure 7; default: all)"
    )


_SIZES = {
    "gtrans_fusion": (6, 6, 512, 2048, 8),
    "gtrans_fusion_tiny": (6, 6, 256, 1024, 4),
    "gtrans_fusion_small": (6, 6, 512, 1024, 8),
    "gtrans_fusion_base": (6, 6, 512, 2048, 8),
    "gtrans_fusion_big": (6, 6, 1024, 4096, 16),
    "gtrans_fusion_xlmr_base": (12, 6, 768, 3072, 12),
}
# The architecture of XLM-R (Conneau et al. 2020), as far as it is not that of a Transformer.
_XLMR = {
    "activation_fn": "gelu",
    "layernorm_embedding": True,
    "learned_positions": True,
    "max_positions": 512,
    "share_all_embeddings": False,
    "no_scale_embedding": True,
}
_PLAIN = {
    "activation_fn": "relu",
    "layernorm_embedding": False,
    "learned_positions": False,
    "max_positions": 1024,
    "share_all_embeddings": False,
    "no_scale_embedding": False,
}
PRESETS: dict[str, dict[str, Any]] = {
    name: {
        "encoder_layers": encoder,
        "decoder_layers": decoder,
        "encoder_embed_dim": dim,
        "encoder_ffn_embed_dim": ffn,
        "decoder_ffn_embed_dim": ffn,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        **(_XLMR if "xlmr" in name else _PLAIN),
    }
    for name, (encoder, decoder, dim, ffn, heads) in _SIZES.items()
}


def check(cfg: GtransFusionConfig, task: Any) -> None:
    """Raises GtransError for options that are out of range or contradict each other."""
    check_stack(cfg, task)
    for side in ("encoder", "decoder"):
        for what in ("layers", "group_size"):
            value = getattr(cfg, f"{side}_{what}")
            if value < 1:
                flag = f"--{side}-{what}".replace("_", "-")
                raise GtransError(f"`{flag}` must be at least 1, but is {value}.")
        if cfg.system != "gtrans" and getattr(cfg, f"no_{side}_fusion"):
            raise GtransError(
                f"`--no-{side}-fusion` is for --system gtrans; '{cfg.system}' has no groups."
            )
    layers, kept = int(cfg.encoder_layers or 0), cfg.keep_encoder_layers
    if kept is not None and (not 1 <= kept <= layers or (cfg.system == "mlrf" and kept < layers)):
        allowed = f"{layers} for --system mlrf" if cfg.system == "mlrf" else f"1 to {layers}"
        raise GtransError(f"`--keep-encoder-layers` must be {allowed}, but is {kept}.")
    used_groups(cfg)


def decoder_groups(cfg: GtransFusionConfig) -> int:
    """The number of groups of the decoder that predict words."""
    if cfg.system != "gtrans" or cfg.no_decoder_fusion:
        return 1
    return len(group_tops(int(cfg.decoder_layers or 0), cfg.decoder_group_size))


def used_groups(cfg: GtransFusionConfig) -> tuple[int, int]:
    """The first and the last group in use, from 1.

    Raises:
        GtransError: ``--use-groups`` names none of the model's.
    """
    groups = decoder_groups(cfg)
    if cfg.use_groups is None:
        return 1, groups
    match = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,4})", str(cfg.use_groups))
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= first <= last <= groups:
        raise GtransError(
            f"`--use-groups` must be FIRST:LAST, of the decoder's groups 1 to {groups}, but is "
            f"'{cfg.use_groups}'."
        )
    return first, last


def layer_spec(cfg: GtransFusionConfig, side: str) -> LayerSpec:
    """Sizes and switches of the layers of one side."""
    return stack_spec(cfg, side, cfg.system in _PRE_NORM, rezero=cfg.system == "rezero")


def layer_fusion(cfg: GtransFusionConfig, side: str) -> LayerFusion:
    """How the layers of one side are used."""
    layers, dim = int(getattr(cfg, f"{side}_layers")), int(cfg.encoder_embed_dim or 0)
    if cfg.system == "dlcl":
        return LayerCombination(layers, dim)
    if cfg.system == "mlrf":
        return RepresentationFusion(layers, dim)
    if cfg.system != "gtrans" or getattr(cfg, f"no_{side}_fusion"):
        return LayerFusion()
    if side == "encoder":
        return EncoderGroupFusion(layers, cfg.encoder_group_size, dim)
    return DecoderGroupFusion(layers, cfg.decoder_group_size)
