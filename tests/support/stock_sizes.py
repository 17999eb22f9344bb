"""Sizes and a dictionary for models that are compared with fairseq's own of the same sizes."""

from __future__ import annotations

from fairseq.data import Dictionary

WORDS = [f"w{i}" for i in range(30)]
SIZES = {
    "encoder_layers": 3, "decoder_layers": 3, "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 48, "decoder_ffn_embed_dim": 48,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4,
}  # fmt: skip


def dictionary(words: list[str] = WORDS) -> Dictionary:
    symbols = Dictionary()
    for word in words:
        symbols.add_symbol(word)
    return symbols
