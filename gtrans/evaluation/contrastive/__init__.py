"""Contrastive sets: items, a reader for each published format, accuracy, shuffled contexts."""

from __future__ import annotations

import os
from collections.abc import Callable

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.accuracy import ALL
from gtrans.evaluation.contrastive.items import Item, ReadOptions, read_jsonl

__all__ = ["READERS", "Item", "ReadOptions", "read_items"]

Reader = Callable[[str | os.PathLike[str], ReadOptions], list[Item]]

READERS: dict[str, Reader] = {"jsonl": read_jsonl}
"""By ``--format``; :mod:`gtrans.lab` adds more."""


def read_items(
    path: str | os.PathLike[str],
    format: str = "jsonl",
    options: ReadOptions | None = None,
) -> list[Item]:
    """Read the items of a file or folder."""
    items = READERS[format](path, options or ReadOptions())
    if not items:
        raise GtransError(f"'{path}' holds no contrastive item.")
    for item in items:
        if item.phenomenon == ALL:
            raise GtransError(
                f"{path}: item '{item.id}' has the phenomenon '{ALL}', which names a line of the "
                "tables; give it another name."
            )
    return items
