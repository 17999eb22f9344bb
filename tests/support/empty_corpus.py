"""A corpus for plans, which read the names of files only."""

from __future__ import annotations

from pathlib import Path


def corpus_in(folder: Path, name: str, *langs: str) -> None:
    """A corpus of empty files."""
    (folder / name).mkdir(parents=True)
    for split in ("train", "valid", "test"):
        for lang in langs:
            (folder / name / f"{split}.{lang}").touch()
