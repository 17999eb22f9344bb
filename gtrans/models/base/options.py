"""Options that all systems share, their checks, and the parts that are built from them.

Layer fusion (GTRANS, Yang et al. 2022) is an option of every system. Groups of layers are counted
from the bottom of a side, as in the paper.
"""

import re
from dataclasses import dataclass
from typing import Any, Optional

from fairseq.dataclass import ChoiceEnum, FairseqDataclass

from gtrans.data.unit_options import UnitConfig
from gtrans.errors import GtransError
from gtrans.modules.embedding import SINUSOIDS
from gtrans.modules.group_attention import BACKENDS
from gtrans.modules.layer_fusion import (
    GROUP_FUSIONS,
    PROBABILITY_FUSIONS,
    DecoderGroupFusion,
    EncoderGroupFusion,
    LayerFusion,
    group_tops,
)
from gtrans.modules.transformer import ACTIVATIONS, LayerSpec
from gtrans.option_types import START, check_ranges, option, refuse_given


def size_option(help_text: str, least: int | None = None) -> Any:
    """Return a field whose default comes from the preset of the ``--arch``."""
    return option(None, f"{help_text} (default: by --arch)", least=least)


@dataclass
class DocumentModelConfig(UnitConfig, FairseqDataclass):
    """Units, contexts and special tokens: the task fills them in, and checkpoints record them."""

    source_lang: Optional[str] = option(None, "set by the task")
    target_lang: Optional[str] = option(None, "set by the task")

    def _get_all_attributes(self) -> list[str]:
        """Return the options to declare; the task has declared the ones above."""
        names: list[str] = super()._get_all_attributes()
        return [name for name in names if name not in DocumentModelConfig.__dataclass_fields__]


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


# ---- checks, and parts of a model ----------------------------------------------------------------


def check_stack(cfg: StackConfig, options: type, task: Any) -> None:
    """Raise GtransError for sizes that are out of range or contradict each other.

    ``options``: the dataclass of the model's options.
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
    """Return the layers of one side; ``further``: fields of :class:`LayerSpec`."""
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


_OF_GROUPS = {
    "encoder": ("no_encoder_fusion",),
    "decoder": ("decoder_group_fusion", "probability_fusion", "no_decoder_fusion"),
}


def check_fusion(cfg: Any) -> None:
    """Raise GtransError for options of layer fusion without groups, or out of range."""
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
    """Build the fusion of one side (Eq 1-4), or the plain stack.

    With ``pre_norm`` the LayerNorm of Eq 2 is the stack's last one.
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
    """Return how many groups of the decoder predict words."""
    size = _group_size(cfg, "decoder")
    if not size:
        return 1
    return len(group_tops(int(cfg.decoder_layers or 0), size))


def _group_size(cfg: Any, side: str) -> int:
    if getattr(cfg, f"no_{side}_fusion"):
        return 0
    return int(getattr(cfg, f"{side}_group_size"))


def used_groups(cfg: Any, groups: int) -> tuple[int, int]:
    """Return the first and the last of the decoder's ``groups`` in use, from 1."""
    if cfg.use_groups is None:
        return 1, groups
    match = re.fullmatch(r"([0-9]{1,4}):([0-9]{1,4})", str(cfg.use_groups))
    first, last = 0, 0
    if match:
        first, last = int(match[1]), int(match[2])
    if not 1 <= first <= last <= groups:
        raise GtransError(
            f"`--use-groups` must be FIRST:LAST, of the decoder's groups 1 to {groups}, but is "
            f"'{cfg.use_groups}'."
        )
    return first, last
