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
from itertools import product
from statistics import fmean
from typing import TypeVar

import numpy as np
from scipy.stats import binomtest, norm
from scipy.stats import t as student

from gtrans.evaluation.contrastive.items import Item
from gtrans.evaluation.significance import not_rejected

ALL, UNKNOWN = "all", "unknown"
"""The names of a total, and of a distance that is not known."""
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
        for place, value in enumerate(self.values):
            document = self.documents[place] or place
            total, count = sums.get(document, (0.0, 0))
            sums[document] = total + value, count + 1
        return list(sums.values())

    @property
    def document_count(self) -> int | None:
        """The number of documents; None where none is named."""
        return len(self.clusters) if any(self.documents) else None

    @property
    def error(self) -> float:
        """The standard error of the mean over at least two documents, by the jackknife.

        The jackknife leaves out one document at a time. So a document that has most of the items,
        and draws the mean to itself, does not hide how far it is from the others.
        """
        count = len(self.clusters)
        total = sum(value for value, _ in self.clusters)
        squares = []
        for value, size in self.clusters:
            difference = value - total / self.items * size
            squares.append((difference / (self.items - size)) ** 2)
        return math.sqrt(math.fsum(squares) * (count - 1) / count)

    @property
    def equal_documents(self) -> float:
        """How many documents of equal size would say as much; all of them, if they are equal."""
        squares = sum(size**2 for _, size in self.clusters)
        return self.items**2 / squares

    @property
    def quantile(self) -> float:
        """How many standard errors from the mean its 95% interval ends: Student's t."""
        return float(student.ppf(0.975, max(1.0, self.equal_documents - 1)))


Kind = TypeVar("Kind", bound=Sample)
Table = dict[tuple[str, str], Kind]
"""By phenomenon and distance; :data:`ALL` in the place of either is a total."""


def tabulate(
    items: Sequence[Item],
    values: Sequence[float | None],
    kind: type[Kind],
) -> Table[Kind]:
    """Values of items, but for None, by phenomenon and distance, with all totals.

    Phenomena are in order of appearance, distances ascend, and the unknown one is the last.
    """
    cells: dict[tuple[str, str], list[tuple[Item, float]]] = {}
    for item, value in zip(items, values, strict=True):
        if value is None:
            continue
        distance = UNKNOWN if item.distance is None else str(item.distance)
        cell = cells.setdefault((item.phenomenon, distance), [])
        cell.append((item, value))
    phenomena = dict.fromkeys(phenomenon for phenomenon, _ in cells)
    distances = sorted({at for _, at in cells}, key=lambda at: (at == UNKNOWN, len(at), at))
    table = {}
    for name, distance in product([*phenomena, ALL], [*distances, ALL]):
        chosen = []
        for (phenomenon, at), pairs in cells.items():
            if name in (phenomenon, ALL) and distance in (at, ALL):
                chosen += pairs
        if chosen:
            table[name, distance] = sample(chosen, kind)
    return table


def sample(pairs: Iterable[tuple[Item, float]], kind: type[Kind]) -> Kind:
    """The values of some items."""
    items, values = zip(*pairs, strict=True)
    cues: set[str] = set()
    for item in items:
        cues.update(item.cue.split("/"))
    chance = math.fsum(1 / (1 + len(item.rivals)) for item in items) / len(items)
    return kind(
        values=values,
        documents=tuple(document_of(item) for item in items),
        cue="/".join(sorted(cues)),
        chance=chance,
    )


def by_group(items: Sequence[Item], right: Sequence[bool | None]) -> dict[str, dict[str, Accuracy]]:
    """Accuracy in each group of the authors' tables: name of the grouping, value, result."""
    collected: dict[str, dict[str, list[tuple[Item, float]]]] = {}
    for item, value in zip(items, right, strict=True):
        if value is None:
            continue
        for name, group in item.groups.items():
            groups = collected.setdefault(name, {})
            groups.setdefault(group, []).append((item, bool(value)))
    tables: dict[str, dict[str, Accuracy]] = {}
    for name, groups in collected.items():
        # Groups such as ">3" come last.
        ordered = sorted(groups, key=lambda group: (group.startswith(">"), group))
        tables[name] = {group: sample(groups[group], Accuracy) for group in ordered}
    return tables


# --- one system -----------------------------------------------------------------------------------


def is_right(item: Item, scores: Sequence[float]) -> bool:
    """Whether the right candidate has strictly the highest score.

    Args:
        item: an item.
        scores: the scores of its candidates, the right one first; higher is better.
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
    share = right / items
    square = quantile**2
    scale = 1 + square / items
    centre = (share + square / (2 * items)) / scale
    variance = share * (1 - share) / items
    deviation = math.sqrt(variance + square / (4 * items**2))
    radius = quantile / scale * deviation
    return max(0.0, centre - radius), min(1.0, centre + radius)


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
        share = self.mean
        variance = self.error**2
        if share in (0, 1):
            worth = self.equal_documents
        elif variance:
            worth = min(max(share * (1 - share) / variance, 1.0), self.items)
        else:
            worth = self.items
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
        masses = np.array([1.0])
        for size in sizes:
            wider = np.zeros(len(masses) + 2 * size)
            wider[: len(masses)] = 0.5 * masses
            wider[2 * size :] += 0.5 * masses
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
            generator = np.random.default_rng(1)
            signs = generator.choice((-1.0, 1.0), (FLIPS, self.document_count))
            sums = signs @ np.array(self.clusters)
            swapped, shares = (sums / self.items).T
            low, high = not_rejected(swapped, shares, self.mean) or (-1.0, 1.0)
        else:
            items = self.items + 2
            first = (self.only_first + 1) / items
            other = (self.only_other + 1) / items
            change = other - first
            radius = NORMAL * math.sqrt((first + other - change**2) / items)
            low, high = change - radius, change + radius
        return max(low, -1.0), min(high, 1.0)


def changes(first: Sequence[bool | None], other: Sequence[bool | None]) -> list[int | None]:
    """The values of a :class:`Change`; None for an item that one system is not judged by."""
    values: list[int | None] = []
    for before, after in zip(first, other, strict=True):
        if before is None or after is None:
            values.append(None)
        else:
            values.append(int(after) - int(before))
    return values


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
    """The margin of every item with its own context less that with the context of another item.

    None: the item has no context, so that both readings are the same, or its :func:`margin` is not
    known in one of them.

    Args:
        items: the items, with their own contexts.
        true, random: the scores of their candidates in the two readings, the right one first.
    """
    gains: list[float | None] = []
    for item, own, other in zip(items, true, random, strict=True):
        gain = margin(item, own) - margin(item, other)
        is_known = item.context > 0 and not math.isnan(gain)
        gains.append(gain if is_known else None)
    return gains
