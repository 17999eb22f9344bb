"""Layer fusion as a part (GTRANS, Yang et al. 2022): groups of layers of both sides."""

import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum

from gtrans.data.unit_options import option
from gtrans.errors import GtransError
from gtrans.models.base.model import at_least
from gtrans.modules.layer_fusion import (
    GROUP_FUSIONS,
    PROBABILITY_FUSIONS,
    DecoderGroupFusion,
    EncoderGroupFusion,
    LayerFusion,
    group_tops,
)


@dataclass
class FusionConfig:
    """Layer fusion."""

    encoder_group_size: int = option(
        3,
        "layers in a group of the encoder (1: dense fusion; the number of its layers: no fusion)",
    )
    decoder_group_size: int = option(2, "layers in a group of the decoder")
    decoder_group_fusion: ChoiceEnum(list(GROUP_FUSIONS)) = option(  # type: ignore[valid-type]
        "sum",
        "the state of a group of the decoder: sum: of its layers, each with a gate (Eq 4); mean: "
        "that sum by their number (the authors' program, `dense`); last: its last layer, no gates "
        "(the authors' program unless told otherwise, `sparse`)",
    )
    probability_fusion: ChoiceEnum(list(PROBABILITY_FUSIONS)) = option(  # type: ignore[valid-type]
        "arithmetic",
        "the probability of a word: arithmetic: mean of the groups' probabilities (Eq 5); "
        "geometric: in a search, mean of their logarithms, not normalised (the authors' program), "
        "so that --temperature chooses no other words; both with the weights of Eq 6. Training by "
        "Eq 7 is the same",
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


def check_fusion(cfg: Any) -> None:
    """Raises GtransError for options that are out of range."""
    for side in ("encoder", "decoder"):
        for name in (f"{side}_layers", f"{side}_group_size"):
            at_least(1, **{name: getattr(cfg, name)})
    layers, kept = int(cfg.encoder_layers or 0), cfg.keep_encoder_layers
    if kept is not None and not 1 <= kept <= layers:
        raise GtransError(f"`--keep-encoder-layers` must be 1 to {layers}, but is {kept}.")


def group_fusion(cfg: Any, side: str) -> LayerFusion:
    """How the layers of one side are fused (Eq 1-4)."""
    layers, dim = int(getattr(cfg, f"{side}_layers")), int(cfg.encoder_embed_dim or 0)
    if getattr(cfg, f"no_{side}_fusion"):
        return LayerFusion()
    if side == "encoder":
        return EncoderGroupFusion(layers, cfg.encoder_group_size, dim)
    return DecoderGroupFusion(layers, cfg.decoder_group_size, str(cfg.decoder_group_fusion))


def decoder_groups(cfg: Any) -> int:
    """The number of groups of the decoder that predict words."""
    if cfg.no_decoder_fusion:
        return 1
    return len(group_tops(int(cfg.decoder_layers or 0), cfg.decoder_group_size))


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
