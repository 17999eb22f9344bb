"""What a chunk knows of those before it: nothing, an overlap, a memory.

On the embedded corpus, by the commands that `docs/combining.md` shows. Chunks are short; items
are counted by the place of their cue.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.learning import LearningWorld

if TYPE_CHECKING:
    from support.tiny_models import StockCommands

# Of about three sentences, and of so many that an overlap of four leaves room for new ones.
SHORT, LONG = "24", "48"
DISTANCES = (1, 2, 3, 4)
COMMON = ("--positions", "sentence", "--lr", "0.003", "--lr-scale-pretrained", "0.5")
DOCUMENT = (
    *("--arch", "gtransformer_tiny", "--gate-bias", "2", *COMMON),
    *("--max-doc-tokens", LONG, "--warmup-updates", "100", "--max-update", "400"),
)
MEMORY = (
    *("--arch", "gtransformer_memory_tiny", "--gate-bias", "2", *COMMON),
    *("--max-doc-tokens", SHORT, "--max-window", "0", "--memory-bptt", "-1"),
    *("--warmup-updates", "100", "--max-update", "400"),
)
Cells = dict[str, dict[str, Any]]


@pytest.mark.long
def test_what_stands_before_a_chunk(
    stock: StockCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = LearningWorld(tmp_path, stock)
    document = world.from_sentence_model("document", *DOCUMENT)
    memory = world.train("memory", *MEMORY, "--init-from", document)
    sets = sorted((tmp_path / "corpus" / "contrastive").glob("*.jsonl"))

    def cells(checkpoint: Path, limit: str, overlap: int = 0) -> dict[str, Cells]:
        options = ("--max-doc-tokens", limit, "--overlap", overlap)
        groups: dict[str, Cells] = world.contrast(checkpoint, capsys, *options, sets=sets)[
            "by_group"
        ]
        return groups

    alone, remembered = cells(document, SHORT), cells(memory, SHORT)
    for distance in DISTANCES:
        place = f"{distance} before the chunk"
        assert 0.4 <= alone["cue at distance"][place]["accuracy"] <= 0.6, place
        assert remembered["cue at distance"][place]["accuracy"] >= 0.9, place
    inside = cells(document, LONG)["cue"]["in the chunk"]["accuracy"]
    overlapping = cells(document, LONG, max(DISTANCES))["cue"]["in its overlap"]["accuracy"]
    assert inside >= 0.9 and overlapping >= inside - 0.01
