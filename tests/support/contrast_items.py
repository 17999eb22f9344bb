"""Items of contrastive sets."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from gtrans.evaluation.contrastive import Item
from gtrans.lab.synthetic.contrastive import generate_items
from gtrans.lab.synthetic.grammar import CUES, DISTANCES, PHENOMENA


class Split:
    """A pipeline that sets the full stop apart."""

    def encode(self, sentence: str) -> str:
        return sentence.replace(".", " .").replace("?", " ?")


SPLIT = (Split(), Split())


def generated(number: int, phenomena: Sequence[str] = PHENOMENA) -> list[Item]:
    """Items of the embedded corpus, as they are read back from its files."""
    rng = random.Random(1)
    return [
        Item(
            found.id, phenomenon, distance, CUES[phenomenon], found.source, found.target,
            ((*found.target[:-1], found.wrong),),
        )
        for phenomenon in phenomena
        for distance in DISTANCES
        for found in generate_items(rng, phenomenon, distance, number)
    ]  # fmt: skip


def vocabulary_of(items: Sequence[Item]) -> tuple[list[str], list[str]]:
    def words(sentences: Iterator[str]) -> list[str]:
        return sorted({word for s in sentences for word in Split().encode(s).split()})

    return (
        words(s for item in items for s in item.source),
        words(s for item in items for candidate in item.candidates for s in candidate),
    )


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
