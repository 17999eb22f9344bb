"""Items of contrastive sets."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gtrans.evaluation.contrastive import Item, read_items
from gtrans.evaluation.contrastive.accuracy import Accuracy, Table, is_right, tabulate
from support import synthetic_corpus

DISTANCES = (1, 2, 3, 4)
CUES = {"pronoun": "source", "formality": "target", "ellipsis": "source", "lexical": "target"}
PHENOMENA = tuple(CUES)


class Split:
    """A pipeline that sets the full stop apart."""

    def encode(self, sentence: str) -> str:
        return sentence.replace(".", " .").replace("?", " ?")


SPLIT = (Split(), Split())


def generated(number: int, phenomena: Sequence[str] = PHENOMENA) -> list[Item]:
    """The first items of each phenomenon and distance of the synthetic corpus, at most ten."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "items.jsonl"
        path.write_text(synthetic_corpus.items(), encoding="utf-8")
        every = read_items(path)
    return [
        item
        for phenomenon in phenomena
        for distance in DISTANCES
        for item in [it for it in every if (it.phenomenon, it.distance) == (phenomenon, distance)][
            :number
        ]
    ]


def vocabulary_of(items: Sequence[Item]) -> tuple[list[str], list[str]]:
    def words(sentences: Iterator[str]) -> list[str]:
        return sorted({word for s in sentences for word in Split().encode(s).split()})

    return (
        words(s for item in items for s in item.source),
        words(s for item in items for candidate in item.candidates for s in candidate),
    )


def table_of(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> Table[Accuracy]:
    """The accuracy of a system with these scores."""
    return tabulate(items, list(map(is_right, items, scores)), Accuracy)


def small_item(name: str = "one", **changes: Any) -> Item:
    fields = {
        "phenomenon": "pronoun",
        "distance": 1,
        "cue": "source",
        "source": ("A.", "B."),
        "target": ("a.", "b."),
        "contrastive": (("a.", "c."),),
    }
    return Item(id=name, **{**fields, **changes})


def as_line(item: Item, **changes: Any) -> str:
    return json.dumps({**vars(item), **changes})
