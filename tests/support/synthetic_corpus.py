"""A small synthetic corpus, as a file: tests need no :mod:`gtrans.lab` to have it.

``tests/lab`` tests that ``gtrans make-corpus`` still writes these bytes.
"""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path

ARCHIVE = Path(__file__).with_suffix(".tar.xz")
ITEMS = "items.jsonl"
"""Ten contrastive items of each phenomenon and distance."""


def write_corpus(folder: Path) -> None:
    """Write ``{train,valid,test}.{en,de}``, ``contrastive/*.jsonl`` and ``corpus.json``.

    It is ``gtrans make-corpus --seed 1 --docs 200 --items 2``.
    """
    with tarfile.open(ARCHIVE) as archive:
        # Python 3.11.2, as Debian 12 has it, knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    (folder / ITEMS).unlink()


def write_short_test(text: Path) -> None:
    """The corpus, whose test set is the first two documents of ``valid``."""
    write_corpus(text)
    for lang in ("en", "de"):
        documents = (text / f"valid.{lang}").read_text().split("\n\n")
        (text / f"test.{lang}").write_text("\n\n".join(documents[:2]) + "\n")


def prepare(
    text: Path, out: Path, *options: str | Path, splits: Sequence[str] = ("train", "valid", "test")
) -> int:
    """``gtrans prepare`` of these splits of the texts in a folder; returns the status."""
    from gtrans.cli import main

    named = [part for split in splits for part in (f"--{split}", text / split)]
    words = ("prepare", "--source-lang", "en", "--target-lang", "de", *named, "--out", out)
    return main([str(word) for word in (*words, *options)])


def items() -> str:
    """The contents of :data:`ITEMS`: an item a line."""
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile(ITEMS)
        assert file is not None
        return file.read().decode()
