"""Accuracy on contrastive sets by phenomenon, distance and group, and comparisons of systems.

Items of one document are not independent: a film says Sie or du throughout. So where a set names
the documents of its items, intervals and tests are over documents; without names they take items
for independent, and the report says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from statistics import fmean
from typing import TypeVar

import numpy as np
from scipy.stats import binomtest, norm
from scipy.stats import t as student

from gtrans.evaluation.contrastive.items import Item
from gtrans.evaluation.significance import not_rejected

ALL, UNKNOWN = "all", "unknown"
"""The name of a total, and that of a distance that is not known."""
Interval = tuple[float, float]
NORMAL = float(norm.ppf(0.975))
FLIPS = 2000  # for the interval of a difference


def document_of(item: Item) -> str:
    """The document of an item, or its block; nothing where the set names neither."""
    return item.document or item.block


@dataclass(frozen=True)
class Sample:
    """Values of some items.

    Attributes:
        values: one for each item.
        documents: the document of each; nothing: it is not known.
        cue: the side of the cue; ``source/target`` if items differ.
        chance: the share of right items of scores drawn at random.
    """

    values: tuple[float, ...]
    documents: tuple[str, ...]
    cue: str = ""
    chance: float = 0.0

    @property
    def items(self) -> int:
        """The number of items."""
        return len(self.values)

    @property
    def mean(self) -> float:
        """Of all values."""
        return fmean(self.values)

    @cached_property
    def clusters(self) -> list[tuple[float, int]]:
        """Sum and number of the values of each document; without a name an item is one."""
        sums: dict[str | int, tuple[float, int]] = {}
        for place, (value, name) in enumerate(zip(self.values, self.documents, strict=True)):
            total, count = sums.get(name or place, (0.0, 0))
            sums[name or place] = (total + value, count + 1)
        return list(sums.values())

    @property
    def document_count(self) -> int | None:
        """The number of documents; None where none is named."""
        return len(self.clusters) if any(self.documents) else None

    @property
    def error(self) -> float:
        """The standard error of the mean, over at least two documents: that of the jackknife.

        It leaves out one document at a time, so a document that has most of the items, and draws
        the mean to itself, does not hide how far it is from the others.
        """
        total, count = sum(value for value, _ in self.clusters), len(self.clusters)
        squares = math.fsum(
            ((value - total / self.items * size) / (self.items - size)) ** 2
            for value, size in self.clusters
        )
        return math.sqrt(squares * (count - 1) / count)

    @property
    def equal_documents(self) -> float:
        """How many documents of equal size would say as much; all of them, if they are equal."""
        return self.items**2 / sum(size**2 for _, size in self.clusters)

    @property
    def quantile(self) -> float:
        """How many standard errors from the mean its 95% interval ends: Student's t."""
        return float(student.ppf(0.975, max(1.0, self.equal_documents - 1)))


Kind = TypeVar("Kind", bound=Sample)
Table = dict[tuple[str, str], Kind]
"""By phenomenon and distance; :data:`ALL` in the place of either is a total."""


def tabulate(
    items: Sequence[Item], values: Sequence[float | None], kind: type[Kind]
) -> Table[Kind]:
    """Values of items, but for None, by phenomenon and distance, with all totals.

    Phenomena are in order of appearance, distances ascend, and the unknown one is the last.
    """
    cells: dict[tuple[str, str], list[tuple[Item, float]]] = {}
    for item, value in zip(items, values, strict=True):
        if value is not None:
            distance = UNKNOWN if item.distance is None else str(item.distance)
            cells.setdefault((item.phenomenon, distance), []).append((item, value))
    phenomena = dict.fromkeys(phenomenon for phenomenon, _ in cells)
    distances = sorted({at for _, at in cells}, key=lambda at: (at == UNKNOWN, len(at), at))
    table = {}
    for name, distance in product((*phenomena, ALL), (*distances, ALL)):
        chosen = [
            pairs
            for (phenomenon, at), pairs in cells.items()
            if name in (phenomenon, ALL) and distance in (at, ALL)
        ]
        if chosen:
            table[name, distance] = sample(chain.from_iterable(chosen), kind)
    return table


def sample(pairs: Iterable[tuple[Item, float]], kind: type[Kind]) -> Kind:
    """The values of some items."""
    items, values = zip(*pairs, strict=True)
    cues = sorted({side for item in items for side in item.cue.split("/")})
    chance = math.fsum(1 / (1 + len(item.rivals)) for item in items) / len(items)
    return kind(values, tuple(map(document_of, items)), "/".join(cues), chance)


def by_group(items: Sequence[Item], right: Sequence[bool | None]) -> dict[str, dict[str, Accuracy]]:
    """Accuracy in each group of the authors' tables: name of the grouping, value, result."""
    collected: dict[str, dict[str, list[tuple[Item, float]]]] = {}
    for item, value in zip(items, right, strict=True):
        for name, group in item.groups.items() if value is not None else ():
            collected.setdefault(name, {}).setdefault(group, []).append((item, bool(value)))
    return {
        name: {
            group: sample(groups[group], Accuracy)
            for group in sorted(groups, key=lambda group: (group.startswith(">"), group))
        }
        for name, groups in collected.items()
    }


# --- one system -----------------------------------------------------------------------------------


def is_right(item: Item, scores: Sequence[float]) -> bool:
    """Whether the right candidate has strictly the highest score.

    Args:
        item: an item.
        scores: the scores of its candidates, that of the right one first; higher is better.
            An item with a score of NaN counts as wrong. Some published sets list the right
            candidate again among the wrong ones; such a copy is ignored.
    """
    return all(scores[0] > scores[rival] for rival in item.rivals)


def wilson_interval(right: float, items: float, quantile: float = NORMAL) -> Interval:
    """95% Wilson interval of an accuracy of ``right`` out of ``items`` (at least 1).

    Unlike the normal approximation, it does not shrink to a point at 0 or 100%.

    Args:
        right: number of right items.
        items: number of items; of clustered items, as many as independent ones would say as much.
        quantile: of the distribution.
    """
    share, square = right / items, quantile**2
    centre = (share + square / (2 * items)) / (1 + square / items)
    margin = (
        quantile
        / (1 + square / items)
        * math.sqrt(share * (1 - share) / items + square / (4 * items**2))
    )
    return max(0.0, centre - margin), min(1.0, centre + margin)


class Accuracy(Sample):
    """The result of a system; values are 1 for an item that it gets right, else 0."""

    @property
    def interval(self) -> Interval:
        """95% interval of the accuracy: Wilson's, of as many items as the documents are worth.

        The variance over documents says how many independent items would have it, at most all of
        them. Where all items are right, or all wrong, a document counts as one item.
        """
        count = self.document_count
        if count is None:
            return wilson_interval(sum(self.values), self.items)
        if count == 1:
            return 0.0, 1.0
        share, variance = self.mean, self.error**2
        worth = share * (1 - share) / variance if variance else self.items
        worth = self.equal_documents if share in (0, 1) else min(max(worth, 1.0), self.items)
        return wilson_interval(share * worth, worth, self.quantile)


# --- two systems ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change(Sample):
    """A system beside the first one on the same items.

    Values are 1 for an item that the system alone gets right, -1 for one that the first one alone
    gets right, else 0.

    Attributes:
        p_holm: :attr:`p_value`, adjusted for the number of systems; None: there are not several.
    """

    p_holm: float | None = None

    @property
    def only_first(self) -> int:
        """Items that the first system alone gets right."""
        return self.values.count(-1)

    @property
    def only_other(self) -> int:
        """Items that the other system alone gets right."""
        return self.values.count(1)

    @property
    def p_value(self) -> float:
        """Exact and two-sided: 1 if the systems differ nowhere.

        If the systems are equally good, the difference of a document is as likely to be in favour
        of one as of the other; p is the share of all ways to flip them whose sum is at least as far
        from 0. Of items without documents it is the test of McNemar (1947), "Note on the sampling
        error of the difference between correlated proportions or percentages", Psychometrika 12.
        """
        sizes = [abs(int(total)) for total, _ in self.clusters if total]
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
    def interval(self) -> Interval:
        """95% interval of the difference, the mean.

        Over documents it has the differences that flips of the documents do not reject; with fewer
        than six, that is all. Of items without documents it is the adjusted Wald interval of
        Bonett and Price (2012), "Adjusted Wald confidence interval for a difference of binomial
        proportions based on paired data", Journal of Educational and Behavioral Statistics 37. One
        item is added to each side's share, so that there is an interval where the systems differ
        nowhere.
        """
        if self.document_count:
            signs = np.random.default_rng(1).choice((-1.0, 1.0), (FLIPS, self.document_count))
            swapped, shares = (signs @ np.array(self.clusters) / self.items).T
            low, high = not_rejected(swapped, shares, self.mean) or (-1.0, 1.0)
        else:
            first, other = ((n + 1) / (self.items + 2) for n in (self.only_first, self.only_other))
            radius = NORMAL * math.sqrt((first + other - (other - first) ** 2) / (self.items + 2))
            low, high = other - first - radius, other - first + radius
        return max(low, -1.0), min(high, 1.0)


def changes(first: Sequence[bool | None], other: Sequence[bool | None]) -> list[int | None]:
    """The values of a :class:`Change`; None for an item that one system is not judged by."""
    return [
        None if before is None or after is None else int(after) - int(before)
        for before, after in zip(first, other, strict=True)
    ]


# --- margins --------------------------------------------------------------------------------------
#
# An accuracy says nothing of a small use of context where a model prefers one candidate whatever it
# reads. The margin of an item, the score of its right candidate less the best of the wrong ones,
# moves with the context all the same; a preference is in both readings and cancels out.


class Gain(Sample):
    """What the own context adds to the margin, in nats."""

    @property
    def interval(self) -> Interval | None:
        """95% interval, over items where no document is named; None: there are fewer than two."""
        if len(self.clusters) < 2:
            return None
        radius = self.quantile * self.error
        return self.mean - radius, self.mean + radius


def margin(item: Item, scores: Sequence[float]) -> float:
    """The score of the right candidate, which is the first, less the best of the wrong ones.

    NaN: the item has no wrong one, or a score is not finite.
    """
    rivals = [scores[rival] for rival in item.rivals]
    known = bool(rivals) and all(map(math.isfinite, (scores[0], *rivals)))
    return scores[0] - max(rivals) if known else math.nan


def gained_margins(
    items: Sequence[Item], true: Sequence[Sequence[float]], random: Sequence[Sequence[float]]
) -> list[float | None]:
    """The margin of every item with its own context less that with the context of another item.

    None: the item has no context, so that both readings are the same, or its :func:`margin` is not
    known in one of them.

    Args:
        items: the items, with their own contexts.
        true, random: the scores of their candidates in the two readings, the right one first.
    """
    differences = (
        margin(item, own) - margin(item, other)
        for item, own, other in zip(items, true, random, strict=True)
    )
    return [
        None if math.isnan(gain) or not item.context else gain
        for item, gain in zip(items, differences, strict=True)
    ]
