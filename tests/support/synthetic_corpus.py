"""A small synthetic corpus, as a file: tests need no :mod:`gtrans.lab` to have it.

``tests/lab`` tests that ``gtrans make-corpus`` still writes these bytes.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_suffix(".tar.xz")
ITEMS = "items.jsonl"
"""Ten contrastive items of each phenomenon and distance."""


def write_corpus(folder: Path) -> None:
    """Write ``{train,valid,test}.{en,de}``, ``contrastive/*.jsonl`` and ``corpus.json``.

    It is ``gtrans make-corpus --seed 1 --docs 200 --items 2``.
    """
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    (folder / ITEMS).unlink()


def items() -> str:
    """The contents of :data:`ITEMS`: an item a line."""
    with tarfile.open(ARCHIVE) as archive:
        file = archive.extractfile(ITEMS)
        assert file is not None
        return file.read().decode()
