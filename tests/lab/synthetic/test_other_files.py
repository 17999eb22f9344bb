"""What stands in the folder of a generated corpus before it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.lab.synthetic.writing import write_corpus


def contents(out: Path) -> dict[str, bytes]:
    return {str(it.relative_to(out)): it.read_bytes() for it in out.rglob("*") if it.is_file()}


def test_files_of_others_stay(tmp_path: Path) -> None:
    own = tmp_path / "train.en"
    own.write_text("mine\n")
    with pytest.raises(GtransError, match="train.en: this file is not of `gtrans make-corpus`"):
        write_corpus(tmp_path, seed=1, docs=200, items=2)
    assert contents(tmp_path) == {"train.en": b"mine\n"}
    own.unlink()
    write_corpus(tmp_path, seed=1, docs=200, items=2)
    made = contents(tmp_path)
    # A call that was killed before it wrote its record is finished by the same one alone.
    (tmp_path / "corpus.json").unlink()
    (tmp_path / "test.de").unlink()
    with pytest.raises(GtransError, match="this file is not of"):
        write_corpus(tmp_path, seed=2, docs=200, items=2)
    write_corpus(tmp_path, seed=1, docs=200, items=2)
    assert contents(tmp_path) == made
    write_corpus(tmp_path, seed=2, docs=200, items=2)
