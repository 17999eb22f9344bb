"""Tiny untrained memory Transformers, made in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

from gtrans.models.memory_transformer import MemoryTransformer, MemoryTransformerConfig
from support.untrained import dictionary


def task() -> Any:
    words = dictionary([f"w{number}" for number in range(60)])
    return SimpleNamespace(source_dictionary=words, target_dictionary=words)


SIZES: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32, "decoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip


def model_of(**options: Any) -> MemoryTransformer:
    torch.manual_seed(0)
    cfg = MemoryTransformerConfig(**{**SIZES, **options})
    return MemoryTransformer.build_model(cfg, task())
