"""Tiny untrained fusion models, made in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf
from torch import nn

from gtrans.models.gtrans_fusion import GtransFusion, GtransFusionConfig

PAD, EOS = 1, 2
SIZES: dict[str, Any] = {
    "encoder_layers": 5, "decoder_layers": 5, "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32, "decoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip


def dictionary(words: int = 20) -> Dictionary:
    symbols = Dictionary()
    for word in range(words):
        symbols.add_symbol(f"w{word}")
    return symbols


def fusion_model(seed: int = 1, **options: Any) -> GtransFusion:
    """A model of 5 + 5 layers in evaluation mode, without an arch, on 24 symbols."""
    cfg = OmegaConf.structured(GtransFusionConfig(**{**SIZES, **options}))
    cfg._name = "gtrans_fusion_tiny"
    symbols = dictionary()
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    torch.manual_seed(seed)
    return GtransFusion.build_model(cfg, task).eval()


@torch.no_grad()
def shake(model: nn.Module) -> nn.Module:
    """Move all scalars and norms off their initial values, which hide mistakes."""
    torch.manual_seed(7)
    for parameter in model.parameters():
        if parameter.dim() == 1 or parameter.size(0) == parameter.size(1) == 6:
            parameter.add_(0.5 * torch.randn_like(parameter))
    return model
