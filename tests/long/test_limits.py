"""Document models where a context does not help, over three seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtrans.cli import main

LOSSLESS = "G-Transformer, lossless start"
MARGIN = 0.2  # chrF2


@pytest.mark.long
def test_a_lossless_start_loses_nothing_where_context_does_not_help(tmp_path: Path) -> None:
    """Its own text, single sentences, and instances longer than in training."""
    rows = [LOSSLESS, *(f"{LOSSLESS}, {what}" for what in ("single sentences", "twice as long"))]
    words = ["reproduce", "results-limits", "--scale", "tiny", "--out", str(tmp_path)]
    assert main([*words, "--rows", *rows]) == 0
    table = json.loads((tmp_path / "tiny" / "results-limits.so-far.json").read_text())
    found = {row["label"]: row["cells"] for row in table["rows"] if row["label"] in rows}
    assert found.keys() == set(rows)
    for label, cells in found.items():
        assert len(cells["chrF2"]["seeds"]) == 3, label
        assert cells["chrF2"]["difference"]["mean"] > -MARGIN, label
