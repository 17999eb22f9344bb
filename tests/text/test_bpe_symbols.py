"""``gtrans prepare --bpe-symbols``: the size of the vocabulary instead of a number of merges."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gtrans.cli import main

BASE = ("prepare", "--source-lang", "en", "--target-lang", "de")
WORDS = ("banana", "bandana", "cabana", "cab", "ban", "canal", "lana")


@pytest.mark.long
def test_merges_and_characters_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that reuses the preparation has the same pieces."""
    for lang in ("en", "de"):
        lines = [f"{a} {b} {a}" for a in WORDS for b in WORDS]
        (tmp_path / f"train.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    out, again = tmp_path / "out", tmp_path / "again"
    train = ["--train", str(tmp_path / "train")]
    assert main([*BASE, *train, "--bpe-symbols", "3", "--out", str(tmp_path / "small")]) == 1
    # Words hold a b c d l n, and end with a b n l, each another symbol at the end of a word.
    assert "`--bpe-symbols` must be above 10, the number" in capsys.readouterr().err
    assert main([*BASE, *train, "--bpe-symbols", "16", "--out", str(out)]) == 0
    assert len((out / "codes.bpe").read_text(encoding="utf-8").splitlines()) == 1 + 6
    pieces = re.findall(r"^(\S+) \d+$", (out / "dict.en.txt").read_text(encoding="utf-8"), re.M)
    assert len({piece for piece in pieces if not piece.startswith("madeupword")}) <= 16
    reused = ["--reuse", str(out), "--test", str(tmp_path / "train"), "--out", str(again)]
    assert main([*BASE, *reused]) == 0
    assert json.loads((again / "prepare.json").read_text())["bpe"]["symbols"] == 16
    assert main([*BASE, *train, "--bpe-symbols", "9", "--bpe-merges", "9", "--out", "x"]) == 1
    assert "`--bpe-symbols` cannot be combined with `--bpe-merges`" in capsys.readouterr().err
