"""The end of the demo, which takes minutes to reach."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import demo


def test_the_lamp_goes_through_both_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def types(out: Path, words: str, quiet: bool = False) -> str:
        given = words.split()
        name = given[given.index("--output") + 1]
        (out / name).write_text(f"{name}\nis written\n", encoding="utf-8")
        return ""

    monkeypatch.setattr(demo, "types", types)
    lines = demo.lamp(tmp_path, ["sentence", "gtransformer"])
    assert [line.split()[0] for line in lines[1:]] == ["sentence", "gtransformer"]
    assert lines[2].endswith("lamp.gtransformer.de is written")
