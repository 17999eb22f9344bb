"""Document models where a context does not help, over three seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtrans.cli import main

LOSSLESS = "G-Transformer, lossless start"
OPEN = "G-Transformer, gates a little open"
MARGIN = 0.2  # chrF2


@pytest.mark.long
@pytest.mark.parametrize(
    ("model", "ways"),
    [
        (LOSSLESS, ["single sentences", "twice as long"]),
        # Not single sentences: this corpus is made so that a context helps, and without one a model
        # that has learnt to use it is near its margin (-0.16, over seeds 0.5).
        (OPEN, ["twice as long", "four times as long", "random context"]),
    ],
)
def test_a_start_from_the_sentence_model_loses_nothing(
    model: str, ways: list[str], tmp_path: Path
) -> None:
    """Its own text, and texts that are read in other ways than in training."""
    rows = [model, *(f"{model}, {way}" for way in ways)]
    words = ["reproduce", "results-limits", "--scale", "tiny", "--out", str(tmp_path)]
    assert main([*words, "--rows", *rows]) == 0
    table = json.loads((tmp_path / "tiny" / "results-limits.so-far.json").read_text())
    found = {row["label"]: row["cells"] for row in table["rows"] if row["label"] in rows}
    assert found.keys() == set(rows)
    for label, cells in found.items():
        assert len(cells["chrF2"]["seeds"]) == 3, label
        assert cells["chrF2"]["difference"]["mean"] > -MARGIN, label
