"""Accuracy on contrastive sets by phenomenon, distance and group, and comparisons of systems.

Items of one document are not independent: a film says Sie or du throughout. So where a set names
the documents of its items, intervals and tests are over documents; without names they take items
for independent, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import binomtest, norm
from scipy.stats import t as student

from gtrans.evaluation.contrastive.items import SET, Item

ALL, WHOLE_BLOCKS = "all", "whole blocks"
"""Lines of the tables: all phenomena or blocks together; blocks that are right as a whole."""

Interval = tuple[float, float]


def document_of(item: Item) -> str:
    """The document of an item, or its block; nothing where the set names neither."""
    return item.document or item.block


def clustered(
    values: Sequence[float], documents: Sequence[str]
) -> tuple[list[tuple[float, int]], bool]:
    """The sum and the number of values of each document.

    Args:
        values: one for each item.
        documents: of each item; an item without any is a document of its own.

    Returns:
        the sums and numbers, and whether any document is named.
    """
    found: dict[str | int, tuple[float, int]] = {}
    for place, (value, name) in enumerate(zip(values, documents, strict=True)):
        total, count = found.get(name or place, (0.0, 0))
        found[name or place] = (total + value, count + 1)
    return list(found.values()), any(documents)


def _error(clusters: Sequence[tuple[float, int]]) -> float:
    """The standard error of a mean of items, whose deviations are independent by cluster."""
    total, items = (float(sum(column)) for column in zip(*clusters, strict=True))
    count = len(clusters)
    squares = math.fsum((one - total / items * size) ** 2 for one, size in clusters)
    return math.sqrt(squares * count / (count - 1)) / items


def wilson_interval(right: float, items: float, quantile: float = 0.0) -> Interval:
    """95% Wilson interval of an accuracy of ``right`` out of ``items`` (at least 1).

    Unlike the normal approximation, it does not shrink to a point at 0 or 100%.

    Args:
        right: number of right items.
        items: number of items; of clustered items, as many as independent ones would say as much.
        quantile: of the distribution; 0: that of the standard normal distribution.
    """
    quantile = quantile or float(norm.ppf(0.975))
    share, square = right / items, quantile**2
    centre = (share + square / (2 * items)) / (1 + square / items)
    margin = (
        quantile
        / (1 + square / items)
        * math.sqrt(share * (1 - share) / items + square / (4 * items**2))
    )
    return max(0.0, centre - margin), min(1.0, centre + margin)


@dataclass(frozen=True)
class Cell:
    """The result of a model on some items.

    Attributes:
        outcomes: whether it gets each of them right.
        documents: the document of each; nothing: it is not known.
        cue: the side of the cue; ``source/target`` if items differ.
        expected: how many items scores drawn at random would get right on average.
    """

    outcomes: tuple[bool, ...]
    documents: tuple[str, ...]
    cue: str
    expected: float = 0.0

    @property
    def right(self) -> int:
        """The number of right items."""
        return sum(self.outcomes)

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.outcomes)

    @property
    def accuracy(self) -> float:
        """Share of right items, from 0 to 1."""
        return self.right / self.items

    @property
    def chance(self) -> float:
        """Accuracy of scores drawn at random."""
        return self.expected / self.items

    @property
    def document_count(self) -> int | None:
        """The number of documents; None where none is named."""
        clusters, named = clustered(self.outcomes, self.documents)
        return len(clusters) if named else None

    @property
    def interval(self) -> Interval:
        """95% interval of the accuracy: Wilson's, of as many items as the documents are worth.

        The variance over documents says how many independent items would have it, at least one for
        each document and at most all of them.
        """
        clusters, named = clustered(self.outcomes, self.documents)
        if not named:
            return wilson_interval(self.right, self.items)
        count, share = len(clusters), self.accuracy
        if count == 1:
            return 0.0, 1.0
        variance = _error(clusters) ** 2
        worth = share * (1 - share) / variance if variance else self.items
        worth = count if share in (0, 1) else min(max(worth, 1.0), float(self.items))
        return wilson_interval(share * worth, worth, float(student.ppf(0.975, count - 1)))


Table = dict[str, dict[int | None, Cell]]
"""Cells by phenomenon (in order of appearance), then distance (ascending, unknown last)."""


def pooled(cells: Iterable[Cell]) -> Cell:
    """The result on all items of ``cells`` together."""
    every = list(cells)
    return Cell(
        tuple(outcome for cell in every for outcome in cell.outcomes),
        tuple(name for cell in every for name in cell.documents),
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
        phenomenon: {d: pooled(of[d]) for d in sorted(of, key=_unknown_last)}
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
        name: {
            value: pooled(values[value])
            for value in sorted(values, key=lambda value: (value.startswith(">"), value))
        }
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
    return Cell((right,), (document_of(item),), item.cue, 1 / (1 + len(item.rivals)))


def _whole(cells: Sequence[Cell]) -> Cell:
    """A block as one item: right if all its items are."""
    right = all(cell.right for cell in cells)
    document = cells[0].documents[0] if len({cell.documents for cell in cells}) == 1 else ""
    return Cell(
        (right,), (document,), pooled(cells).cue, math.prod(cell.expected for cell in cells)
    )


# --- two systems ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PairedTest:
    """The comparison of a system with the first one on the same items.

    Attributes:
        differences: for each item 1 (only the system gets it right), -1 (only the first one), 0.
        documents: the document of each item; nothing: it is not known.
    """

    differences: tuple[int, ...]
    documents: tuple[str, ...]

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.differences)

    @property
    def only_first(self) -> int:
        """Items that the first system alone gets right."""
        return self.differences.count(-1)

    @property
    def only_other(self) -> int:
        """Items that the other system alone gets right."""
        return self.differences.count(1)

    @property
    def document_count(self) -> int | None:
        """The number of documents; None where none is named."""
        clusters, named = clustered(self.differences, self.documents)
        return len(clusters) if named else None

    @property
    def p_value(self) -> float:
        """Exact and two-sided: 1 if the systems differ nowhere.

        If the systems are equally good, the difference of a document is as likely to be in favour
        of one as of the other; p is the share of all ways to flip them whose sum is at least as far
        from 0. Of items without documents it is the test of McNemar (1947), "Note on the sampling
        error of the difference between correlated proportions or percentages", Psychometrika 12.
        """
        clusters, _ = clustered(self.differences, self.documents)
        sizes = [abs(int(total)) for total, _ in clusters if total]
        if not sizes:
            return 1.0
        observed = abs(self.only_other - self.only_first)
        if max(sizes) == 1:
            return float(binomtest((len(sizes) - observed) // 2, len(sizes)).pvalue)
        # How probable each sum of the flipped differences is.
        masses, half = np.array([1.0]), 0.5
        for size in sizes:
            wider = np.zeros(len(masses) + 2 * size)
            wider[: len(masses)] = half * masses
            wider[2 * size :] += half * masses
            masses = wider
        sums = np.abs(np.arange(len(masses)) - sum(sizes))
        return float(min(1.0, masses[sums >= observed].sum()))

    @property
    def difference(self) -> float:
        """The share of right items of the other system minus that of the first, from -1 to 1."""
        return (self.only_other - self.only_first) / self.items

    @property
    def interval(self) -> Interval:
        """95% interval of the difference.

        Over documents by Student's t. Of items without documents it is the adjusted Wald interval
        of Bonett and Price (2012), "Adjusted Wald confidence interval for a difference of binomial
        proportions based on paired data", Journal of Educational and Behavioral Statistics 37. One
        item is added to each side's share, so that there is an interval where the systems differ
        nowhere.
        """
        clusters, named = clustered(self.differences, self.documents)
        if named:
            if len(clusters) == 1:
                return -1.0, 1.0
            middle = self.difference
            radius = float(student.ppf(0.975, len(clusters) - 1)) * _error(clusters)
        else:
            one, two = ((n + 1) / (self.items + 2) for n in (self.only_first, self.only_other))
            middle = two - one
            radius = float(norm.ppf(0.975)) * math.sqrt((one + two - middle**2) / (self.items + 2))
        return max(middle - radius, -1.0), min(middle + radius, 1.0)


def paired_tests(
    items: Sequence[Item], first: Sequence[bool | None], other: Sequence[bool | None],
    at_distance: bool = False,
) -> dict[str | int | None, PairedTest]:  # fmt: skip
    """The test by phenomenon and, where there are several phenomena, over ``all``.

    Args:
        items: any number of items.
        first, other: which items each system gets right; None: the item is left out.
        at_distance: by distance, over all phenomena, instead.
    """
    found: dict[str | int | None, list[tuple[int, str]]] = {}
    for item, one, two in zip(items, first, other, strict=True):
        if one is not None and two is not None:
            key = item.distance if at_distance else item.phenomenon
            found.setdefault(key, []).append((int(two) - int(one), document_of(item)))
    if len(found) > 1 and not at_distance:
        found[ALL] = [pair for pairs in found.values() for pair in pairs]
    return {key: PairedTest(*zip(*pairs, strict=True)) for key, pairs in found.items()}


# --- margins --------------------------------------------------------------------------------------
#
# An accuracy says nothing of a small use of context where a model prefers one candidate whatever it
# reads. The margin of an item, the score of its right candidate less the best of the wrong ones,
# moves with the context all the same; a preference is in both readings and cancels out.

Gains = dict[str, dict[int | None, list[tuple[float, str]]]]
"""What each item gains, in nats, and its document; by phenomenon, then distance."""


@dataclass(frozen=True)
class MeanGain:
    """What the own context adds to the margin.

    Attributes:
        value: nats an item.
        interval: 95% interval of ``value``, by Student's t over documents, or over items where no
            document is named; None: there are fewer than two.
        items: number of items.
    """

    value: float
    interval: Interval | None
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
    if not item.has_right or not rivals or not all(map(math.isfinite, (scores[0], *rivals))):
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
            gain = own - control, document_of(item)
            of_phenomenon.setdefault(item.distance, []).append(gain)
    return found


def gains_by_distance(gains: Gains) -> Mapping[int | None, list[tuple[float, str]]]:
    """The gains by distance, over all phenomena."""
    found: dict[int | None, list[tuple[float, str]]] = {}
    for of_phenomenon in gains.values():
        for distance, values in of_phenomenon.items():
            found.setdefault(distance, []).extend(values)
    return found


def mean_gain(gains: Sequence[tuple[float, str]]) -> MeanGain:
    """The mean of at least one gain."""
    values, documents = zip(*gains, strict=True)
    value = fmean(values)
    clusters, _ = clustered(values, documents)
    if len(clusters) < 2:
        return MeanGain(value, None, len(values))
    radius = float(student.ppf(0.975, len(clusters) - 1)) * _error(clusters)
    return MeanGain(value, (value - radius, value + radius), len(values))
