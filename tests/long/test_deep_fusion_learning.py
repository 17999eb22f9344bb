"""A deep G-Transformer on the synthetic corpus learns its context with fused groups only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.learning import LearningWorld

if TYPE_CHECKING:
    from support.tiny_models import StockCommands

# Depth and learning rate at which post-norm fails.
DEEP = (
    *("--arch", "gtransformer_tiny", "--encoder-layers", "24", "--decoder-layers", "18"),
    *("--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "256"),
    *("--decoder-ffn-embed-dim", "256", "--encoder-attention-heads", "4"),
    *("--decoder-attention-heads", "4", "--criterion", "multi_level_cross_entropy"),
    *("--lr", "0.002", "--warmup-updates", "100"),
)
SENTENCE = (*DEEP, "--unit", "sentence", "--max-tokens", "2048", "--max-update", "800")
DOCUMENT = (
    *(*DEEP, "--unit", "document", "--positions", "sentence", "--gate-bias", "2"),
    *("--lr-scale-pretrained", "0.5", "--max-tokens", "4096", "--max-update", "700"),
)
FUSION = ("--encoder-group-size", "3", "--decoder-group-size", "2")


@pytest.mark.long
@pytest.mark.parametrize(
    ("fusion", "low", "high"), [(FUSION, 0.85, 1.0), ((), 0.4, 0.6)], ids=["fused", "plain"]
)
def test_a_deep_model_learns_with_fusion_and_not_without(
    fusion: tuple[str, ...],
    low: float,
    high: float,
    stock: StockCommands,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the source before decides: nearly always right with fused groups, chance without."""
    world = LearningWorld(tmp_path, stock)
    world.prepare()
    sentence = world.train("sentence", *SENTENCE, *fusion)
    checkpoint = world.train("document", *DOCUMENT, *fusion, "--init-from", sentence)
    found = world.contrast(checkpoint, capsys)["contrastive"]
    for phenomenon, cells in found.items():
        assert low <= cells["1"] <= high, (phenomenon, cells)
