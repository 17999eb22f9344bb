"""Flat-Transformer on the embedded corpus, by the commands that `docs/training.md` shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.learning import LearningWorld

if TYPE_CHECKING:
    from support.tiny_models import StockCommands

FLAT = (
    *("--arch", "flat_transformer_tiny", "--positions", "sentence", "--lr-scale-pretrained", "1"),
    # As large as a word, they cost too much of the start: pronouns stay at chance.
    *("--segment-size", "0.0884"),
    *("--lr", "0.0015", "--warmup-updates", "240", "--max-update", "1000"),
)


@pytest.mark.long
def test_flat_translates_what_the_source_of_a_neighbour_decides(
    stock: StockCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """90% with the true sentence before, chance with random words in its place."""
    world = LearningWorld(tmp_path, stock)
    checkpoint = world.from_sentence_model("flat", *FLAT)
    for kind in ("true", "random"):
        found = world.contrast(checkpoint, capsys, "--context-kind", kind)["contrastive"]
        low, high = (0.9, 1.0) if kind == "true" else (0.4, 0.6)
        for phenomenon, cells in found.items():
            assert low <= cells["1"] <= high, (kind, phenomenon, cells)
            assert 0.4 <= cells["2"] <= 0.6, (kind, phenomenon, cells)
