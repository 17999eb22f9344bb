"""How much more a right candidate wins by with its own context than with that of another item.

An accuracy says nothing of a small use of context where a model prefers one candidate whatever it
reads. The margin of an item, the score of its right candidate less the best of the wrong ones,
moves with the context all the same; a preference is in both readings and cancels out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import fmean, stdev

from gtrans.evaluation.contrastive.items import Item

Gains = dict[str, dict[int | None, list[float]]]
"""What each item gains, in nats, by phenomenon, then distance."""


@dataclass(frozen=True)
class MeanGain:
    """What the own context adds to the margin.

    Attributes:
        value: nats an item.
        interval: 95% interval of ``value``, by Student's t over items; None: there are fewer than
            two.
        items: number of items.
    """

    value: float
    interval: tuple[float, float] | None
    items: int


def margin(item: Item, scores: Sequence[float]) -> float | None:
    """The score of the right candidate less the best of the wrong ones, in the unit of the scores.

    Args:
        item: an item.
        scores: the scores of its candidates, that of the right one first.

    Returns:
        None: the item has no right candidate or no wrong one, or a score is not finite.
    """
    rivals = [scores[rival] for rival in item.rivals]
    if not item.has_right or not rivals or not all(map(isfinite, (scores[0], *rivals))):
        return None
    return scores[0] - max(rivals)


def gained_margins(
    items: Sequence[Item], true: Sequence[Sequence[float]], random: Sequence[Sequence[float]]
) -> Gains:
    """The margin of every item with its own context less that with the context of another item.

    Items without context are left out, because both readings are the same; so are items whose
    :func:`margin` is not known in one of them.

    Args:
        items: the items, with their own contexts.
        true, random: the scores of their candidates in the two readings, the right one first.
    """
    found: Gains = {}
    for item, one, other in zip(items, true, random, strict=True):
        own, control = margin(item, one), margin(item, other)
        if item.context and own is not None and control is not None:
            of_phenomenon = found.setdefault(item.phenomenon, {})
            of_phenomenon.setdefault(item.distance, []).append(own - control)
    return found


def gains_by_distance(gains: Gains) -> dict[int | None, list[float]]:
    """The gains by distance, over all phenomena."""
    found: dict[int | None, list[float]] = {}
    for of_phenomenon in gains.values():
        for distance, values in of_phenomenon.items():
            found.setdefault(distance, []).extend(values)
    return found


def mean_gain(values: Sequence[float]) -> MeanGain:
    """The mean of at least one value."""
    value = fmean(values)
    if len(values) < 2:
        return MeanGain(value, None, len(values))
    from scipy.stats import t

    radius = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))
    return MeanGain(value, (value - radius, value + radius), len(values))
