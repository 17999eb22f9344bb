"""Texts whose sentences have other neighbours than their own; this module needs no torch."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_SEED = 1


def shuffled_order(count: int) -> list[int]:
    """The numbers of ``count`` sentences in a random order, always the same one."""
    order = list(range(count))
    random.Random(_SEED).shuffle(order)
    return order


def put_back(items: Iterable[_Item], order: Sequence[int]) -> list[_Item]:
    """What stands in ``order``, such as scores of shuffled sentences, in the order of the text."""
    places = dict(zip(order, items, strict=True))
    return [places[number] for number in range(len(order))]


def in_documents(items: Iterable[_Item], lengths: Iterable[int]) -> list[list[_Item]]:
    """Documents of these lengths, one after the other; ``items`` are as many as they need."""
    left = iter(items)
    return [[next(left) for _ in range(length)] for length in lengths]
