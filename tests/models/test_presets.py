"""Presets of pretrained models have the sizes of what was published."""

from __future__ import annotations

import pytest
from support.symbols import Symbols


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
