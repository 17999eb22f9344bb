"""`gtrans make-corpus --join`: long documents of the same sentences."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.data.documents import read_documents
from gtrans.lab.synthetic.writing import write_corpus


def test_joined_documents_are_the_same_sentences(tmp_path: Path) -> None:
    write_corpus(tmp_path / "short", seed=1, docs=200, items=2)
    words = ["make-corpus", "--docs", "200", "--items", "2", "--join", "8"]
    assert main([*words, "--out", str(tmp_path / "long")]) == 0
    for name in ("train.en", "train.de", "test.en"):
        short, long = (read_documents(tmp_path / kind / name) for kind in ("short", "long"))
        assert long == [[*chain(*short[at : at + 8])] for at in range(0, len(short), 8)]
    counts = json.loads((tmp_path / "long" / "corpus.json").read_text())
    assert counts["join"] == 8
    assert [counts["splits"][split]["documents"] for split in ("train", "test")] == [13, 7]
    assert (tmp_path / "long" / "contrastive" / "pronoun.jsonl").read_bytes() == (
        tmp_path / "short" / "contrastive" / "pronoun.jsonl"
    ).read_bytes()


def test_a_wrong_number_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["make-corpus", "--join", "0", "--out", str(tmp_path / "c")]) == 1
    assert "`--join` must be at least 1, but is 0." in capsys.readouterr().err
    assert not (tmp_path / "c").exists()
