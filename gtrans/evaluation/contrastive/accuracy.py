"""Accuracy on contrastive sets by phenomenon and distance, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from gtrans.evaluation.contrastive.items import Item

_QUANTILE = NormalDist().inv_cdf(0.975)


def wilson_interval(right: int, items: int) -> tuple[float, float]:
    """95% Wilson interval of an accuracy of ``right`` out of ``items`` (at least 1).

    Unlike the normal approximation, it does not shrink to a point at 0 or 100%.
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
    """The result of a model on the items of one phenomenon and distance.

    Attributes:
        right: number of items whose right candidate has strictly the highest score.
        items: number of items.
        cue: the side of the cue; ``source/target`` if items differ.
    """

    right: int
    items: int
    cue: str

    @property
    def accuracy(self) -> float:
        """Share of right items, from 0 to 1."""
        return self.right / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the accuracy."""
        return wilson_interval(self.right, self.items)


Table = dict[str, dict[int | None, Cell]]
"""Cells by phenomenon (in order of appearance), then distance (ascending, unknown last)."""


def pooled(cells: Iterable[Cell]) -> Cell:
    """The result on all items of ``cells`` together."""
    every = list(cells)
    return Cell(
        right=sum(cell.right for cell in every),
        items=sum(cell.items for cell in every),
        cue="/".join(sorted({cue for cell in every for cue in cell.cue.split("/")})),
    )


def by_distance(table: Table) -> dict[int | None, Cell]:
    """Results by distance, over all phenomena."""
    distances = sorted({d for cells in table.values() for d in cells}, key=_unknown_last)
    return {
        distance: pooled(cells[distance] for cells in table.values() if distance in cells)
        for distance in distances
    }


def _unknown_last(distance: int | None) -> tuple[bool, int]:
    return distance is None, distance or 0


def accuracy_table(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> Table:
    """Accuracy by phenomenon and distance.

    Args:
        items: any number of items.
        scores: the scores of the candidates of each item, that of the right one first; higher
            is better. An item with a score of NaN counts as wrong. Some published sets list
            the right candidate again among the wrong ones; such a copy is ignored.

    Raises:
        ValueError: the number of scores of an item is not that of its candidates.
    """
    outcomes: dict[str, dict[int | None, list[tuple[bool, str]]]] = {}
    for item, (first, *others) in zip(items, scores, strict=True):
        if len(others) != len(item.contrastive):
            raise ValueError(f"item {item.id} has {len(others) + 1} scores")
        right = all(
            first > other
            for other, wrong in zip(others, item.contrastive, strict=True)
            if wrong != item.target
        )
        cell = outcomes.setdefault(item.phenomenon, {}).setdefault(item.distance, [])
        cell.append((right, item.cue))
    return {
        phenomenon: {
            distance: Cell(
                right=sum(right for right, _ in cell),
                items=len(cell),
                cue="/".join(sorted({part for _, cue in cell for part in cue.split("/")})),
            )
            for distance, cell in sorted(cells.items(), key=lambda pair: _unknown_last(pair[0]))
        }
        for phenomenon, cells in outcomes.items()
    }
