"""The scripts that measure layer fusion, with tiny models and made-up numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.folders import SCRIPTS


def test_decoding_speed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import benchmark_fusion

    out = tmp_path / "speed.md"
    benchmark_fusion.main(["--toy", "--rounds", "1", "--batches", "1", "2", "--out", str(out)])
    rows = json.loads((tmp_path / "speed.json").read_text())["rows"]
    assert len(rows) == 2 * 5
    ratios = {row["system"]: row["operations_ratio"] for row in rows}
    assert ratios["GTRANS, 6 groups"] > ratios["GTRANS, groups 3:6"] > ratios["GTRANS, group 6:6"]
    assert ratios["GTRANS, group 6:6"] == ratios["post-norm Transformer"] == 1
    assert "| GTRANS, groups 3:6 |" in out.read_text()


def test_operations_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer of width 2, feed-forward 4, 10 words; 2 words into 2, beam 1."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from benchmark_fusion import Shape

    shape = Shape(layers=1, dim=2, ffn=4, heads=1, words=10, source=2, target=2, beam=1)
    decoder = 6 * 4 + 2 * 2 * 4 + 2 * 2 * (1 + 2)  # projections, feed-forward, keys and values
    encoder = 4 * 4 + 2 * 2 * 4 + 2 * 2 * 2 + 2 * 4  # and the keys that the decoder attends to
    assert shape.multiplications(3) == decoder + encoder + 3 * 2 * 10


def test_page_of_the_deep_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import deep_fusion

    runs = [
        {"system": name, "seed": seed, "bits": {100: 5.0 + seed, 200: 4.0 + seed}}
        for name in deep_fusion.SYSTEMS
        for seed in (1, 2, 3)
    ]
    page = deep_fusion.page(
        {"docs": 9, "updates": 200, "every": 100, "seeds": [1, 2, 3], "layers": [24, 18],
         "unigram_bits": 6.25, "uniform_bits": 8.0, "runs": runs}
    )  # fmt: skip
    assert "| GTRANS, 3 seeds | 7.00 (6.00–8.00) | 6.00 (5.00–7.00) |" in page
    assert "has 6.25 bits" in page
