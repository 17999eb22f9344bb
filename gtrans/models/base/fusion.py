"""Layer fusion as a part of every system (GTRANS, Yang et al. 2022): groups of layers.

Groups are counted from the bottom layer of a side, whatever its layers attend to, as in the
paper. Where the layers of a group see different things (sentences below, the whole document on
top), its state has what its widest layer has seen.
"""

import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.errors import GtransError
from gtrans.modules.layer_fusion import (
    GROUP_FUSIONS,
    PROBABILITY_FUSIONS,
    DecoderGroupFusion,
    EncoderGroupFusion,
    LayerFusion,
    group_tops,
)
from gtrans.option_types import option, refuse_given


@dataclass
class FusionConfig:
    """Layer fusion (docs/combining.md); off with group sizes of 0."""

    encoder_group_size: int = option(
        0,
        "layers in a group of the encoder (0: no fusion; 1: dense fusion; the number of its "
        "layers: one group, whose last layer has a gate)",
        least=0,
    )
    decoder_group_size: int = option(
        0,
        "layers in a group of the decoder, each of which predicts the words (0: no fusion); then "
        "with --criterion multi_level_cross_entropy",
        least=0,
    )
    decoder_group_fusion: ChoiceEnum(list(GROUP_FUSIONS)) = option(  # type: ignore[valid-type]
        "sum",
        "the state of a group of the decoder: sum: of its layers, each with a gate (Eq 4); mean: "
        "that sum by their number (the authors' code, `dense`); last: its last layer, no gates "
        "(the authors' code unless told otherwise, `sparse`)",
    )
    probability_fusion: ChoiceEnum(list(PROBABILITY_FUSIONS)) = option(  # type: ignore[valid-type]
        "arithmetic",
        "the probability of a word: arithmetic: mean of the groups' probabilities (Eq 5); "
        "geometric: in a search, mean of their logarithms, not normalised (the authors' code), "
        "so that --temperature chooses no other words; both with the weights of Eq 6. Training by "
        "Eq 7 is the same",
    )
    fusion_bias: Optional[float] = option(
        None,
        "begin near the plain stack: gates begin at sigmoid(BIAS) for the last group (decoder: for "
        "the last layer of each), at sigmoid(-BIAS) for others, and the weights of probabilities "
        "at odds of exp(BIAS) to 1 for the last group (default: all alike)",
    )
    no_encoder_fusion: bool = option(
        False, "no fusion in the encoder: its output is that of its last layer (table VIII)"
    )
    no_decoder_fusion: bool = option(
        False, "no fusion in the decoder: its output is that of its last layer (table VIII)"
    )
    use_groups: Optional[str] = option(
        None,
        "in decoding: only these groups of the decoder, FIRST:LAST from 1, as --model-overrides "
        "\"{'use_groups': '3:6'}\" (table VI; default: all)",
    )
    keep_encoder_layers: Optional[int] = option(
        None,
        "in decoding: how many of the encoder's layers run, from the bottom (figure 7; default: "
        "all)",
    )


_OF_GROUPS = {
    "encoder": ("no_encoder_fusion",),
    "decoder": ("decoder_group_fusion", "probability_fusion", "no_decoder_fusion"),
}


def check_fusion(cfg: Any) -> None:
    """Raises GtransError for options that are out of range, or of groups that there are not."""
    for side, names in _OF_GROUPS.items():
        if not getattr(cfg, f"{side}_group_size"):
            size = f"--{side}-group-size"
            refuse_given(cfg, FusionConfig, names, f"is for groups of layers; give `{size} N`")
    if not any(_group_size(cfg, side) for side in _OF_GROUPS):
        sizes = " or ".join(f"`--{side}-group-size N`" for side in _OF_GROUPS)
        refuse_given(cfg, FusionConfig, ("fusion_bias",), f"is for groups of layers; give {sizes}")
    layers, kept = int(cfg.encoder_layers or 0), cfg.keep_encoder_layers
    if kept is not None and not 1 <= kept <= layers:
        raise GtransError(f"`--keep-encoder-layers` must be 1 to {layers}, but is {kept}.")


def group_fusion(cfg: Any, side: str, pre_norm: bool = False) -> LayerFusion:
    """How the layers of one side are fused (Eq 1-4).

    With ``pre_norm`` the LayerNorm of Eq 2 is the one with which the stack ends anyway.
    """
    layers, dim = int(getattr(cfg, f"{side}_layers")), int(cfg.encoder_embed_dim or 0)
    size = _group_size(cfg, side)
    if not size:
        return LayerFusion()
    bias = float(cfg.fusion_bias or 0)
    if side == "encoder":
        return EncoderGroupFusion(layers, size, dim, not pre_norm, bias)
    return DecoderGroupFusion(layers, size, str(cfg.decoder_group_fusion), bias)


def decoder_groups(cfg: Any) -> int:
    """The number of groups of the decoder that predict words."""
    size = _group_size(cfg, "decoder")
    return len(group_tops(int(cfg.decoder_layers or 0), size)) if size else 1


def _group_size(cfg: Any, side: str) -> int:
    """Layers in a group of one side; 0: they are not fused."""
    return 0 if getattr(cfg, f"no_{side}_fusion") else int(getattr(cfg, f"{side}_group_size"))


def used_groups(cfg: Any, groups: int) -> tuple[int, int]:
    """The first and the last of the decoder's ``groups`` in use, from 1.

    Raises:
        GtransError: ``--use-groups`` names none of the model's.
    """
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
