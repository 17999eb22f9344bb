"""Presets have the sizes they promise, and the baseline the parameters of fairseq's Transformer."""

from __future__ import annotations

from typing import Any

import pytest
from support.symbols import Symbols


def build(**options: Any) -> Any:
    """A G-Transformer on the meta device: shapes without numbers."""
    import torch
    from omegaconf import OmegaConf

    from gtrans.models.gtransformer import GTransformer

    with torch.device("meta"):
        return GTransformer.build_model(OmegaConf.create(options), Symbols())


@pytest.mark.parametrize(
    "options",
    [
        {"share_all_embeddings": True},
        {"share_decoder_input_output_embed": True},
        {"encoder_normalize_before": True, "decoder_normalize_before": True},
    ],
)
def test_full_mode_has_the_parameters_of_fairseqs_transformer(options):
    from fairseq.models.transformer import TransformerConfig, TransformerModelBase

    stock = TransformerConfig()
    for side in (stock.encoder, stock.decoder):
        side.layers, side.embed_dim, side.ffn_embed_dim, side.attention_heads = 3, 32, 48, 4
    stock.decoder.input_dim = stock.decoder.output_dim = 32
    stock.share_all_embeddings = options.get("share_all_embeddings", False)
    stock.share_decoder_input_output_embed = "share_decoder_input_output_embed" in options
    stock.encoder.normalize_before = "encoder_normalize_before" in options
    stock.decoder.normalize_before = "decoder_normalize_before" in options
    theirs = TransformerModelBase.build_model(stock, Symbols())
    sizes = {
        "encoder_layers": 3, "decoder_layers": 3, "encoder_embed_dim": 32,
        "encoder_ffn_embed_dim": 48, "decoder_ffn_embed_dim": 48,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    }  # fmt: skip
    ours = build(_name="gtransformer", doc_mode="full", **sizes, **options)

    def count(model: Any) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(ours) == count(theirs)
    shapes = {name: tuple(p.shape) for name, p in theirs.named_parameters()}
    assert {name: tuple(p.shape) for name, p in ours.named_parameters()} == shapes


@pytest.mark.parametrize(
    ("name", "symbols", "count"),
    [
        ("gtransformer_bart_base", 50265, 139_420_416),
        ("gtransformer_bart_large", 50265, 406_291_456),
        ("gtransformer_mbart_large", 250027, 610_851_840),
    ],
)
def test_pretrained_presets_have_the_published_parameters(name, symbols, count):
    """As many as facebook/bart-base, bart-large and mbart-large-cc25 have."""
    import torch
    from fairseq.data import Dictionary
    from omegaconf import OmegaConf

    from gtrans.models.gtransformer import GTransformer

    class Vocabulary(Dictionary):
        def __len__(self) -> int:
            return symbols

    task = Symbols()
    task.source_dictionary = task.target_dictionary = Vocabulary()
    options = OmegaConf.create({"_name": name, "doc_mode": "full"})
    with torch.device("meta"):
        model = GTransformer.build_model(options, task)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
