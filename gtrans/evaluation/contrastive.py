"""Contrastive sets: items, their readers, accuracy by phenomenon and distance.

An item is a source document, its right translation and one or more wrong ones. A model
gives each candidate a score; it is right where the right one's is strictly the highest,
so a system that cannot tell the candidates apart gains nothing from ties. No torch and
no fairseq here: who scores the candidates is no concern of this module (see
:mod:`gtrans.decoding.contrast`).
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

from gtrans.data.documents import iterate_lines
from gtrans.errors import GtransError

Sentences = tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """A source document, its right translation and wrong ones, sentence by sentence.

    Attributes:
        id: name, unique in its file.
        phenomenon: what the item tests.
        distance: sentences between the cue and the sentence that needs it; 0 is the
            same sentence.
        cue: the side on which the cue stands: ``source``, or ``target`` alone.
        source: the K source sentences.
        target: the right K target sentences.
        contrastive: wrong candidates, each of K sentences and other than the right one.
    """

    id: str
    phenomenon: str
    distance: int
    cue: str
    source: Sentences
    target: Sentences
    contrastive: tuple[Sentences, ...]

    @property
    def candidates(self) -> tuple[Sentences, ...]:
        """All translations, the right one first."""
        return (self.target, *self.contrastive)

    @property
    def context(self) -> int:
        """How many sentences come before the first one in which candidates differ."""
        columns = zip(*self.candidates, strict=True)
        return next(number for number, column in enumerate(columns) if len(set(column)) > 1)


# --- reading ----------------------------------------------------------------------------


def read_jsonl(path: str | os.PathLike[str]) -> list[Item]:
    """Items of a file of ``gtrans make-corpus``: a JSON object per line, gzipped or not.

    Its keys are the fields of :class:`Item`, with lists in the place of tuples; other
    keys are left alone, and so are empty lines.

    Raises:
        GtransError: the file cannot be read, holds no item, or a line is not an item; the
            message names the line.
    """
    items: list[Item] = []
    line_of: dict[str, int] = {}
    for number, line in iterate_lines(path):
        if line is None:
            continue
        try:
            item = _item(json.loads(line))
            if item.id in line_of:
                raise ValueError(f"the id {item.id!r} is that of line {line_of[item.id]} as well")
        except json.JSONDecodeError as error:
            raise GtransError(f"{path}:{number}: not JSON ({error.msg})") from None
        except ValueError as error:
            raise GtransError(f"{path}:{number}: {error}") from None
        line_of[item.id] = number
        items.append(item)
    if not items:
        raise GtransError(f"'{path}' holds no contrastive item; give a file with one per line")
    return items


READERS: dict[str, Callable[[str | os.PathLike[str]], list[Item]]] = {"jsonl": read_jsonl}
"""One reader for each published format; the names are the choices of ``--format``."""


def read_items(path: str | os.PathLike[str], format: str = "jsonl") -> list[Item]:
    """All items of a file, in its order; at least one.

    Raises:
        GtransError: see the format's reader.
    """
    return READERS[format](path)


def _item(entry: Any) -> Item:
    """Raises ValueError with what is wrong."""
    if not isinstance(entry, dict):
        raise ValueError("an item must be a JSON object")
    wrong = entry.get("contrastive")
    if not isinstance(wrong, list) or not wrong:
        raise ValueError("'contrastive' must be a list of at least one wrong translation")
    distance = entry.get("distance")
    if type(distance) is not int or distance < 0:
        raise ValueError(f"'distance' must be a number from 0, but is {json.dumps(distance)}")
    item = Item(
        id=_text(entry, "id"),
        phenomenon=_text(entry, "phenomenon"),
        distance=distance,
        cue=_text(entry, "cue"),
        source=_sentences(entry.get("source"), "'source'"),
        target=_sentences(entry.get("target"), "'target'"),
        contrastive=tuple(_sentences(candidate, "'contrastive'") for candidate in wrong),
    )
    for name, sentences in [
        ("'target'", item.target),
        *(("'contrastive'", candidate) for candidate in item.contrastive),
    ]:
        if len(sentences) != len(item.source):
            raise ValueError(
                f"{name} has {len(sentences)} sentences, but 'source' has {len(item.source)}"
            )
    if item.target in item.contrastive:
        raise ValueError("a wrong translation in 'contrastive' equals 'target'")
    return item


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key!r} must be a text that is not empty, but is {json.dumps(value)}")
    return value


def _sentences(value: Any, name: str) -> Sentences:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{name} must be a list of sentences")
    if not all(isinstance(sentence, str) and sentence.strip() for sentence in value):
        raise ValueError(f"{name} holds a sentence that is empty or no text")
    return tuple(value)


# --- accuracy ---------------------------------------------------------------------------

_QUANTILE = NormalDist().inv_cdf(0.975)


def wilson_interval(right: int, items: int) -> tuple[float, float]:
    """95% interval of an accuracy of ``right`` among ``items`` (at least 1), by Wilson.

    Unlike the normal approximation it is not empty at 0 or 100%.
    """
    share, square = right / items, _QUANTILE**2
    centre = (share + square / (2 * items)) / (1 + square / items)
    margin = (
        _QUANTILE
        / (1 + square / items)
        * math.sqrt(share * (1 - share) / items + square / (4 * items**2))
    )
    return max(0.0, centre - margin), min(1.0, centre + margin)


@dataclass(frozen=True)
class Cell:
    """How a model does on the items of one phenomenon and distance.

    Attributes:
        right: items whose right candidate has strictly the highest score.
        items: all items.
        cue: the side of the cue; ``source/target`` where items differ in it.
    """

    right: int
    items: int
    cue: str

    @property
    def accuracy(self) -> float:
        """Right items as a part of all, from 0 to 1."""
        return self.right / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the accuracy."""
        return wilson_interval(self.right, self.items)


Table = dict[str, dict[int, Cell]]
"""Phenomenon (in order of appearance), then distance (ascending), to its cell."""


def accuracy_table(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> Table:
    """Accuracy by phenomenon and distance.

    Args:
        items: any number of items.
        scores: for each item those of its candidates, the right one's first; higher is
            better. One that is no number (NaN) makes its item wrong.

    Raises:
        ValueError: an item has not as many scores as candidates.
    """
    outcomes: dict[str, dict[int, list[tuple[bool, str]]]] = {}
    for item, (first, *others) in zip(items, scores, strict=True):
        if len(others) != len(item.contrastive):
            raise ValueError(f"item {item.id} has {len(others) + 1} scores")
        right = all(first > other for other in others)
        cell = outcomes.setdefault(item.phenomenon, {}).setdefault(item.distance, [])
        cell.append((right, item.cue))
    return {
        phenomenon: {
            distance: Cell(
                right=sum(right for right, _ in cell),
                items=len(cell),
                cue="/".join(sorted({cue for _, cue in cell})),
            )
            for distance, cell in sorted(cells.items())
        }
        for phenomenon, cells in outcomes.items()
    }


# --- control ----------------------------------------------------------------------------


def random_contexts(items: Sequence[Item], seed: int = 1) -> list[Item]:
    """The items, each with the context of another one: a control for the use of context.

    The context, the sentences before the first one in which candidates differ, is taken
    on both sides from another item of the same phenomenon and distance (on the target side
    from its right translation), from one with as many sentences of context where there is
    any and otherwise from one whose number is nearest. It is never taken from the item
    itself or its twin: from none that asks for the same decision, told by the sentences
    that follow the context. An item without context stays as it is. The choice depends
    on ``seed``, the item's id and the items of its phenomenon and distance.

    Raises:
        GtransError: an item has none to take a context from.
    """
    donors: dict[tuple[str, int], dict[int, list[Item]]] = {}
    for item in items:
        if item.context:
            lengths = donors.setdefault((item.phenomenon, item.distance), {})
            lengths.setdefault(item.context, []).append(item)
    question = {id(item): _question(item) for item in items}

    def transplanted(item: Item) -> Item:
        if not item.context:
            return item
        lengths = donors[item.phenomenon, item.distance]
        for length in sorted(lengths, key=lambda length: (abs(length - item.context), length)):
            others = [o for o in lengths[length] if question[id(o)] != question[id(item)]]
            if others:
                return _with_context(item, random.Random(f"{seed}/{item.id}").choice(others))
        raise GtransError(
            f"`--random-context`: there is no item of {item.phenomenon} at distance "
            f"{item.distance} to take a context for {item.id} from; give a larger set."
        )

    return [transplanted(item) for item in items]


def _question(item: Item) -> Hashable:
    """What an item asks: twins ask the same, with another answer."""
    begin = item.context
    return item.source[begin:], frozenset(candidate[begin:] for candidate in item.candidates)


def _with_context(item: Item, donor: Item) -> Item:
    begin, end = item.context, donor.context
    context = donor.target[:end]
    return replace(
        item,
        source=donor.source[:end] + item.source[begin:],
        target=context + item.target[begin:],
        contrastive=tuple(context + candidate[begin:] for candidate in item.contrastive),
    )
