"""The masked language model of ``scripts/make_bert.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from support.tiny_bert import script

transformers = pytest.importorskip("transformers", reason="transformers is not installed")


def test_only_masked_words_are_predicted_and_the_loss_is_that_of_the_model(repo: Path) -> None:
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32,
    )  # fmt: skip
    model = transformers.BertForMaskedLM(config).eval()
    ids = torch.randint(5, 50, (3, 12))
    labels = ids.masked_fill(torch.rand(ids.shape) > 0.4, -100)
    rows = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    whole = model(**rows).loss
    torch.testing.assert_close(script(repo).masked_loss(model, rows), whole)
