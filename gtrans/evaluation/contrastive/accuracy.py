"""Accuracy on contrastive sets, and comparisons of systems.

Items of one document are not independent: intervals and tests are over documents where the set
names them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from statistics import fmean
from typing import NamedTuple, TypeVar

import numpy as np
from scipy.stats import binomtest, norm
from scipy.stats import t as student

from gtrans.evaluation.contrastive.items import Item
from gtrans.evaluation.significance import not_rejected

ALL, UNKNOWN = "all", "unknown"
"""Names of a total, and of an unknown distance."""
Interval = tuple[float, float]
NORMAL = float(norm.ppf(0.975))
FLIPS = 2000  # for the interval of a difference


def document_of(item: Item) -> str:
    """Return the document of an item, or else its block."""
    return item.document or item.block


class Cluster(NamedTuple):
    """The items of one document."""

    total: float
    items: int


@dataclass(frozen=True)
class Sample:
    """Values of some items.

    Attributes:
        documents: the document of each item; empty: unknown.
        cue: ``source``, ``target``, or ``source/target`` if items differ.
        chance: the accuracy of random scores.
    """

    values: tuple[float, ...]
    documents: tuple[str, ...]
    cue: str = ""
    chance: float = 0.0

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Mean of all values."""
        return fmean(self.values)

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The documents; an item without one is a cluster of its own."""
        clusters: dict[str | int, Cluster] = {}
        for number, value in enumerate(self.values):
            document = self.documents[number] or number
            cluster = clusters.get(document, Cluster(0.0, 0))
            clusters[document] = Cluster(cluster.total + value, cluster.items + 1)
        return list(clusters.values())

    @property
    def document_count(self) -> int | None:
        """Number of documents; None: no item names one."""
        return len(self.clusters) if any(self.documents) else None

    @property
    def error(self) -> float:
        """The jackknife's standard error over at least two documents."""
        count = len(self.clusters)
        total = sum(cluster.total for cluster in self.clusters)
        mean = total / self.items
        squares = []
        for cluster in self.clusters:
            difference = cluster.total - mean * cluster.items
            others = self.items - cluster.items
            squares.append((difference / others) ** 2)
        variance = math.fsum(squares) * (count - 1) / count
        return math.sqrt(variance)

    @property
    def equal_documents(self) -> float:
        """Number of equally large documents with the same information."""
        squares = sum(cluster.items**2 for cluster in self.clusters)
        return self.items**2 / squares

    @property
    def quantile(self) -> float:
        """Half of a 95% interval by Student's t, in standard errors."""
        freedom = max(1.0, self.equal_documents - 1)
        return float(student.ppf(0.975, freedom))


SampleType = TypeVar("SampleType", bound=Sample)
ItemValues = list[tuple[Item, float]]
Table = dict[tuple[str, str], SampleType]
"""By phenomenon and distance; :data:`ALL` stands for a total."""


def tabulate(
    items: Sequence[Item],
    values: Sequence[float | None],
    sample_type: type[SampleType],
) -> Table[SampleType]:
    """Collect values that are not None by phenomenon and distance, with totals."""
    cells: dict[tuple[str, str], ItemValues] = {}
    for item, value in zip(items, values, strict=True):
        if value is None:
            continue
        distance = UNKNOWN if item.distance is None else str(item.distance)
        key = item.phenomenon, distance
        cells.setdefault(key, []).append((item, value))
    phenomena = dict.fromkeys(phenomenon for phenomenon, _ in cells)
    distances = sorted({distance for _, distance in cells}, key=_distance_order)
    table = {}
    rows = [*phenomena, ALL]
    columns = [*distances, ALL]
    for name, distance in product(rows, columns):
        pairs: ItemValues = []
        for (cell_phenomenon, cell_distance), cell in cells.items():
            has_phenomenon = name in (cell_phenomenon, ALL)
            has_distance = distance in (cell_distance, ALL)
            if has_phenomenon and has_distance:
                pairs += cell
        if pairs:
            table[name, distance] = sample(pairs, sample_type)
    return table


def _distance_order(distance: str) -> tuple[bool, int, str]:
    return distance == UNKNOWN, len(distance), distance


def sample(
    pairs: Iterable[tuple[Item, float]],
    sample_type: type[SampleType],
) -> SampleType:
    """Return a sample of items and their values."""
    values = []
    documents = []
    chances = []
    cues: set[str] = set()
    for item, value in pairs:
        values.append(value)
        documents.append(document_of(item))
        chances.append(1 / (1 + len(item.rivals)))
        cues.update(item.cue.split("/"))
    return sample_type(
        values=tuple(values),
        documents=tuple(documents),
        cue="/".join(sorted(cues)),
        chance=math.fsum(chances) / len(chances),
    )


def by_group(
    items: Sequence[Item],
    right: Sequence[bool | None],
) -> dict[str, dict[str, Accuracy]]:
    """Return accuracies by the groups of the authors' tables."""
    collected: dict[str, dict[str, ItemValues]] = {}
    for item, value in zip(items, right, strict=True):
        if value is None:
            continue
        for name, group in item.groups.items():
            groups = collected.setdefault(name, {})
            pairs = groups.setdefault(group, [])
            pairs.append((item, bool(value)))
    tables: dict[str, dict[str, Accuracy]] = {}
    for name, groups in collected.items():
        tables[name] = {}
        for group in sorted(groups, key=_group_order):
            tables[name][group] = sample(groups[group], Accuracy)
    return tables


def _group_order(group: str) -> tuple[bool, str]:
    return group.startswith(">"), group


# --- one system -----------------------------------------------------------------------------------


def is_right(item: Item, scores: Sequence[float]) -> bool:
    """Return whether the first score is the only highest; NaN is wrong."""
    return all(scores[0] > scores[rival] for rival in item.rivals)


def wilson_interval(right: float, items: float, quantile: float = NORMAL) -> Interval:
    """Return the 95% Wilson interval of an accuracy.

    ``items`` is at least 1; ``quantile``: half of the interval in standard errors.
    """
    share = right / items
    square = quantile**2
    scale = 1 + square / items
    centre = (share + square / (2 * items)) / scale
    variance = share * (1 - share) / items
    deviation = math.sqrt(variance + square / (4 * items**2))
    radius = quantile / scale * deviation
    return max(0.0, centre - radius), min(1.0, centre + radius)


class Accuracy(Sample):
    """Values of one system: 1 for a right item, else 0."""

    @property
    def interval(self) -> Interval:
        """95% Wilson interval of independent items with the same variance."""
        count = self.document_count
        if count is None:
            return wilson_interval(sum(self.values), self.items)
        if count == 1:
            return 0.0, 1.0
        share = self.mean
        variance = self.error**2
        independent: float = self.items
        if share in (0, 1):
            independent = self.equal_documents
        elif variance:
            same_variance = share * (1 - share) / variance
            independent = min(max(same_variance, 1.0), self.items)
        return wilson_interval(share * independent, independent, self.quantile)


# --- two systems ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change(Sample):
    """A system compared with the first: 1 if only it is right, -1 if only the first is, else 0."""

    p_holm: float | None = None

    @property
    def only_first(self) -> int:
        """Items that only the first has right."""
        return self.values.count(-1)

    @property
    def only_other(self) -> int:
        """Items that only the other has right."""
        return self.values.count(1)

    @property
    def p_value(self) -> float:
        """Exact two-sided p-value over all ways to flip the signs of documents.

        Without documents: McNemar (1947), Psychometrika 12.
        """
        totals = [abs(int(cluster.total)) for cluster in self.clusters]
        differences = list(filter(None, totals))
        if not differences:
            return 1.0
        observed = abs(self.only_other - self.only_first)
        if max(differences) == 1:
            fewer = (len(differences) - observed) // 2
            return float(binomtest(fewer, len(differences)).pvalue)
        # The probability of each sum of flipped differences, from the least one.
        probabilities = np.array([1.0])
        for difference in differences:
            count = len(probabilities)
            wider = np.zeros(count + 2 * difference)
            wider[:count] = 0.5 * probabilities
            wider[2 * difference :] += 0.5 * probabilities
            probabilities = wider
        sums = np.arange(len(probabilities)) - sum(differences)
        extreme = np.abs(sums) >= observed
        return float(min(1.0, probabilities[extreme].sum()))

    @property
    def interval(self) -> Interval:
        """95% interval of the difference, from -1 to 1."""
        has_documents = self.document_count is not None
        low, high = self._flipped_interval() if has_documents else self._wald_interval()
        return max(low, -1.0), min(high, 1.0)

    def _flipped_interval(self) -> Interval:
        generator = np.random.default_rng(1)
        signs = generator.choice((-1.0, 1.0), (FLIPS, len(self.clusters)))
        sums = signs @ np.array(self.clusters)
        swapped, shares = (sums / self.items).T
        return not_rejected(swapped, shares, self.mean) or (-1.0, 1.0)

    def _wald_interval(self) -> Interval:
        """Return the adjusted Wald interval of Bonett and Price (2012).

        Journal of Educational and Behavioral Statistics 37.
        """
        items = self.items + 2
        first = (self.only_first + 1) / items
        other = (self.only_other + 1) / items
        change = other - first
        variance = (first + other - change**2) / items
        radius = NORMAL * math.sqrt(variance)
        return change - radius, change + radius


def changes(
    first: Sequence[bool | None],
    other: Sequence[bool | None],
) -> list[int | None]:
    """Return the values of a :class:`Change`; None: one system cannot be judged."""
    values: list[int | None] = []
    for before, after in zip(first, other, strict=True):
        if before is None or after is None:
            values.append(None)
        else:
            values.append(int(after) - int(before))
    return values


# --- margins --------------------------------------------------------------------------------------
#
# Where a model prefers one candidate in any context, accuracy does not show a small use of context.
# The gain in margin does: the preference cancels out.


class Gain(Sample):
    """Gain in margin from an item's own context, in nats."""

    @property
    def interval(self) -> Interval | None:
        """95% interval; None with fewer than two documents."""
        if len(self.clusters) < 2:
            return None
        radius = self.quantile * self.error
        return self.mean - radius, self.mean + radius


def margin(item: Item, scores: Sequence[float]) -> float:
    """Return the right candidate's score, the first, less the best wrong one.

    NaN: no wrong candidate, or a score is not finite.
    """
    right = scores[0]
    rivals = [scores[rival] for rival in item.rivals]
    if not rivals or not math.isfinite(right):
        return math.nan
    if not all(math.isfinite(score) for score in rivals):
        return math.nan
    return right - max(rivals)


def gained_margins(
    items: Sequence[Item],
    true: Sequence[Sequence[float]],
    random: Sequence[Sequence[float]],
) -> list[float | None]:
    """Return each item's :func:`margin` less the one in a shuffled context.

    None: the item has no context, or a margin is NaN.
    """
    gains: list[float | None] = []
    for item, own, other in zip(items, true, random, strict=True):
        gain = margin(item, own) - margin(item, other)
        is_known = item.context > 0 and not math.isnan(gain)
        gains.append(gain if is_known else None)
    return gains
