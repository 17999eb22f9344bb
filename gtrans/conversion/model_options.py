"""Options of the model that fits a state dict.

Layers and sizes are read from the tensors; what tensors cannot show (heads, activation, dropout)
is read from the options in the checkpoint.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.models.gtransformer import PRESETS, GTransformerConfig
from gtrans.modules.positions import OFFSET
from gtrans.modules.residual import ACTIVATIONS

SIDES = ("encoder", "decoder")
ENCODER_TABLE = "encoder.embed_tokens.weight"
DECODER_TABLE = "decoder.embed_tokens.weight"
OUTPUT = "decoder.output_projection.weight"
POSITIONS = "encoder.embed_positions.weight"

_NETWORKS = tuple(f"{side}.layers.0.fc1.weight" for side in SIDES)

# Parts of fairseq's Transformer that this model does not have, by the names of their tensors.
_MISSING_PARTS = (
    (r"\.adaptive_softmax\.", "an adaptive softmax (--adaptive-softmax-cutoff)"),
    (r"\.project_(in|out)_dim\.", "embeddings of another width than its layers"),
    (r"\.in_proj_weight$", "joint query, key and value projections (fairseq before 0.7)"),
)
# The same for parts without tensors, by option.
_MISSING_OPTIONS = {
    "no_token_positional_embeddings": "no positions",
    "cross_self_attention": "joint cross- and self-attention",
    "no_cross_attention": "no cross-attention",
}


def refuse_missing_parts(
    state: Mapping[str, Tensor], args: argparse.Namespace, path: Path
) -> None:
    """Raises GtransError for parts that this model does not have."""
    parts = [
        label for pattern, label in _MISSING_PARTS if any(re.search(pattern, n) for n in state)
    ]
    parts += [label for name, label in _MISSING_OPTIONS.items() if getattr(args, name, False)]
    activation = getattr(args, "activation_fn", "relu")
    if activation not in ACTIVATIONS:
        parts.append(f"the activation {activation} (there is {', '.join(ACTIVATIONS)})")
    if parts:
        raise GtransError(f"{path}: it has parts that gtrans does not have: {'; '.join(parts)}.")
    for name in (ENCODER_TABLE, DECODER_TABLE, *_NETWORKS):
        if name not in state:
            raise GtransError(f"{path}: not a G-Transformer, it holds no {name}.")
    for name in (ENCODER_TABLE, DECODER_TABLE, OUTPUT, POSITIONS, *_NETWORKS):
        if name in state and state[name].dim() != 2:
            raise GtransError(
                f"{path}: {name} has the impossible shape {tuple(state[name].shape)}."
            )


def model_options(
    state: Mapping[str, Tensor],
    args: argparse.Namespace,
    joint: bool,
    named_mode: str,
    path: Path,
) -> GTransformerConfig:
    """Options of the model that fits the checkpoint at ``path``.

    Args:
        state: its tensors, under their names in this project.
        args: its options.
        joint: both sides share one dictionary.
        named_mode: the doc_mode to which the names of its tensors point.
        path: the checkpoint, for messages.
    """

    def option(name: str, default: Any) -> Any:
        value = getattr(args, name, None)
        return default if value is None else value

    layers = {side: _count_layers(state, side, path) for side in SIDES}
    encoder_top, decoder_top, cross_top = (
        _count_global(state, side, attention, layers[side], path)
        for side, attention in (
            ("encoder", "self_attn"),
            ("decoder", "self_attn"),
            ("decoder", "encoder_attn"),
        )
    )
    preset = PRESETS.get(str(option("arch", "")), PRESETS["gtransformer"])
    tied = torch.equal(state[OUTPUT], state[DECODER_TABLE])
    shared = joint and tied and torch.equal(state[ENCODER_TABLE], state[DECODER_TABLE])
    activation_dropout = option("activation_dropout", 0.0) or option("relu_dropout", 0.0)
    no_final_norm = bool(
        option("decoder_normalize_before", False) and option("no_decoder_final_norm", False)
    )
    doc_mode = "partial"
    if not (encoder_top or decoder_top or cross_top):
        # Without gates, only the options say whether attention is grouped. The names of tensors
        # do not: the last version of the authors' program has self_attn_local in both modes.
        doc_mode = "full" if option("doc_mode", named_mode) == "full" else "partial"
    cfg = GTransformerConfig(
        encoder_layers=layers["encoder"],
        decoder_layers=layers["decoder"],
        encoder_embed_dim=state[ENCODER_TABLE].size(1),
        encoder_ffn_embed_dim=state["encoder.layers.0.fc1.weight"].size(0),
        decoder_ffn_embed_dim=state["decoder.layers.0.fc1.weight"].size(0),
        encoder_attention_heads=option(
            "encoder_attention_heads", preset["encoder_attention_heads"]
        ),
        decoder_attention_heads=option(
            "decoder_attention_heads", preset["decoder_attention_heads"]
        ),
        dropout=float(option("dropout", 0.1)),
        attention_dropout=float(option("attention_dropout", 0.0)),
        activation_dropout=float(activation_dropout),
        activation_fn=option("activation_fn", "relu"),
        encoder_normalize_before="encoder.layer_norm.weight" in state,
        decoder_normalize_before="decoder.layer_norm.weight" in state or no_final_norm,
        no_decoder_final_norm=no_final_norm,
        layernorm_embedding="encoder.layernorm_embedding.weight" in state,
        learned_positions=POSITIONS in state,
        max_positions=state[POSITIONS].size(0) - OFFSET if POSITIONS in state else None,
        share_decoder_input_output_embed=tied and not shared,
        share_all_embeddings=shared,
        no_scale_embedding=bool(option("no_scale_embedding", False)),
        doc_mode=doc_mode,
        encoder_global_layers=encoder_top,
        decoder_global_layers=decoder_top,
        cross_global_layers=cross_top,
    )
    cfg._name = "gtransformer"
    return cfg


def _count_layers(state: Mapping[str, Tensor], side: str, path: Path) -> int:
    found = (re.match(rf"{side}\.layers\.(\d+)\.", name) for name in state)
    numbers = sorted({int(match[1]) for match in found if match})
    if numbers != list(range(len(numbers))):
        raise GtransError(f"{path}: layers of its {side} are missing, there are {numbers}.")
    return len(numbers)


def _count_global(
    state: Mapping[str, Tensor], side: str, attention: str, layers: int, path: Path
) -> int:
    """Number of top layers that have global attention in addition to group attention."""
    names = [f"{side}.layers.{number}.{attention}" for number in range(layers)]
    has_global = [f"{name}.gate.proj.weight" in state for name in names]
    count = sum(has_global)
    if not all(has_global[layers - count :]):
        numbers = [number for number, found in enumerate(has_global) if found]
        raise GtransError(
            f"{path}: {side} layers {numbers} have global {attention}, but this model can have "
            "it in the top layers only."
        )
    return count
