"""Accuracy on contrastive sets by phenomenon, distance and group, with confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from gtrans.evaluation.contrastive.items import SET, Item

ALL, WHOLE_BLOCKS = "all", "whole blocks"
"""Lines of the tables: all phenomena or blocks together; blocks that are right as a whole."""
QUANTILE = NormalDist().inv_cdf(0.975)
"""Of the standard normal distribution, for intervals of 95%."""


def wilson_interval(right: int, items: int) -> tuple[float, float]:
    """95% Wilson interval of an accuracy of ``right`` out of ``items`` (at least 1).

    Unlike the normal approximation, it does not shrink to a point at 0 or 100%.
    """
    share, square = right / items, QUANTILE**2
    centre = (share + square / (2 * items)) / (1 + square / items)
    margin = (
        QUANTILE
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
        expected: how many items scores drawn at random would get right on average.
    """

    right: int
    items: int
    cue: str
    expected: float = 0.0

    @property
    def accuracy(self) -> float:
        """Share of right items, from 0 to 1."""
        return self.right / self.items

    @property
    def chance(self) -> float:
        """Accuracy of scores drawn at random."""
        return self.expected / self.items

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
        expected=math.fsum(cell.expected for cell in every),
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


def is_right(item: Item, scores: Sequence[float]) -> bool:
    """Whether the right candidate has strictly the highest score.

    Args:
        item: an item whose right candidate is known.
        scores: the scores of its candidates, that of the right one first; higher is better.
            An item with a score of NaN counts as wrong. Some published sets list the right
            candidate again among the wrong ones; such a copy is ignored.

    Raises:
        ValueError: the number of scores is not that of its candidates.
    """
    if len(scores) != len(item.candidates):
        raise ValueError(f"item {item.id} has {len(scores)} scores")
    return all(scores[0] > scores[rival] for rival in item.rivals)


def cannot_be_lost(items: Sequence[Item]) -> list[str]:
    """The items that any scores get right, because all their candidates are equal."""
    return [item.id for item in items if item.has_right and not item.rivals and item.contrastive]


def outcomes_of(items: Sequence[Item], scores: Sequence[Sequence[float]]) -> list[bool | None]:
    """:func:`is_right` of every item; None if its right candidate is not known."""
    return [
        is_right(item, values) if item.has_right else None
        for item, values in zip(items, scores, strict=True)
    ]


def tabulate(items: Sequence[Item], outcomes: Sequence[bool | None]) -> Table:
    """Accuracy by phenomenon and distance of items that were got right or not.

    Items whose outcome is None are left out.
    """
    found: dict[str, dict[int | None, list[Cell]]] = {}
    for item, right in zip(items, outcomes, strict=True):
        if right is not None:
            cells = found.setdefault(item.phenomenon, {}).setdefault(item.distance, [])
            cells.append(_cell(item, right))
    return {
        phenomenon: {
            distance: pooled(cells)
            for distance, cells in sorted(of.items(), key=lambda pair: _unknown_last(pair[0]))
        }
        for phenomenon, of in found.items()
    }


def by_group(items: Sequence[Item], outcomes: Sequence[bool | None]) -> dict[str, dict[str, Cell]]:
    """Accuracy in each group of the authors' tables: name of the grouping, value, result.

    Items whose outcome is None are left out. Items of blocks also give :data:`WHOLE_BLOCKS`: how
    many blocks of each :data:`.items.SET`, or of :data:`ALL`, have all their items right.
    """
    found: dict[str, dict[str, list[Cell]]] = {}
    blocks: dict[str, dict[str, list[Cell]]] = {}
    for item, right in zip(items, outcomes, strict=True):
        if right is None:
            continue
        for name, value in item.groups.items():
            found.setdefault(name, {}).setdefault(value, []).append(_cell(item, right))
        if item.block:
            of_set = blocks.setdefault(item.groups.get(SET, ALL), {})
            of_set.setdefault(item.block, []).append(_cell(item, right))
    groups = {
        name: {value: pooled(values[value]) for value in sorted(values, key=_above_last)}
        for name, values in found.items()
    }
    if blocks:
        groups[WHOLE_BLOCKS] = {
            name: pooled(map(_whole, of_set.values())) for name, of_set in blocks.items()
        }
    return groups


def preferences(
    items: Sequence[Item], scores: Sequence[Sequence[float]]
) -> dict[str, dict[str, int]]:
    """How often each kind of candidate has strictly the highest score, by phenomenon.

    These are the items without a known right candidate; ties are counted as ``tie``. Arguments
    as for :func:`is_right`.
    """
    found: dict[str, dict[str, int]] = {}
    for item, values in zip(items, scores, strict=True):
        if not item.has_right:
            counts = found.setdefault(item.phenomenon, dict.fromkeys((*item.labels, "tie"), 0))
            best = preferred(values)
            counts["tie" if best is None else item.labels[best]] += 1
    return found


def preferred(scores: Sequence[float]) -> int | None:
    """The place of the only highest score; None: there is a tie, or a score is NaN."""
    best = max(scores)
    places = [place for place, score in enumerate(scores) if score >= best]
    return places[0] if len(places) == 1 and not any(map(math.isnan, scores)) else None


def _cell(item: Item, right: bool) -> Cell:
    return Cell(int(right), 1, item.cue, 1 / (1 + len(item.rivals)))


def _whole(cells: Sequence[Cell]) -> Cell:
    """A block as one item: right if all its items are."""
    right = all(cell.right for cell in cells)
    return Cell(int(right), 1, pooled(cells).cue, math.prod(cell.expected for cell in cells))


def _above_last(value: str) -> tuple[bool, str]:
    return value.startswith(">"), value
