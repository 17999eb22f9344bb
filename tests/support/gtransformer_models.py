"""Tiny untrained G-Transformers, made in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from fairseq.data import Dictionary
from omegaconf import OmegaConf

from gtrans.models.gtransformer import GTransformer

WORDS = 20


def model_of(model: type[GTransformer] = GTransformer, **options: Any) -> GTransformer:
    """An untrained model of 3 + 3 layers."""
    dictionary = Dictionary()
    for word in range(WORDS - len(dictionary)):
        dictionary.add_symbol(f"w{word}")
    sizes = {
        "encoder_layers": 3, "decoder_layers": 3, "encoder_embed_dim": 16,
        "encoder_ffn_embed_dim": 32, "decoder_ffn_embed_dim": 32,
        "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    }  # fmt: skip
    cfg = OmegaConf.structured(model.options(**{**sizes, **options}))
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(1)
    return model.build_model(cfg, task).eval()
