"""The exact test of McNemar (1947) between two systems on the same items, and their difference.

"Note on the sampling error of the difference between correlated proportions or percentages",
Psychometrika 12. Only items on which the systems differ tell them apart. If the systems are
equally good, each of these is as likely to be won by one as by the other, so their number that the
first wins is binomial with probability 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from gtrans.evaluation.contrastive.accuracy import ALL, QUANTILE
from gtrans.evaluation.contrastive.items import Item


@dataclass(frozen=True)
class PairedTest:
    """The comparison of a system with the first one on the same items.

    Attributes:
        items: number of items.
        only_first: items that the first system alone gets right.
        only_other: items that the other system alone gets right.
    """

    items: int
    only_first: int
    only_other: int

    @property
    def p_value(self) -> float:
        """Exact, two-sided: 1 if the systems differ nowhere."""
        differ, fewer = self.only_first + self.only_other, min(self.only_first, self.only_other)
        tail, term = 0, 1
        for won in range(fewer + 1):
            tail += term
            term = term * (differ - won) // (won + 1)
        return float(min(1, 2 * tail / 2**differ))

    @property
    def difference(self) -> float:
        """The share of right items of the other system minus that of the first, from -1 to 1."""
        return (self.only_other - self.only_first) / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the difference: the adjusted Wald interval of Bonett and Price (2012).

        "Adjusted Wald confidence interval for a difference of binomial proportions based on paired
        data", Journal of Educational and Behavioral Statistics 37. One item is added to each
        side's share, so that there is an interval where the systems differ nowhere.
        """
        first, other = ((won + 1) / (self.items + 2) for won in (self.only_first, self.only_other))
        middle = other - first
        radius = QUANTILE * sqrt((first + other - middle**2) / (self.items + 2))
        return max(middle - radius, -1.0), min(middle + radius, 1.0)


def paired_tests(
    items: Sequence[Item], first: Sequence[bool | None], other: Sequence[bool | None]
) -> dict[str, PairedTest]:
    """The test by phenomenon and, where there are several phenomena, over ``all``.

    Args:
        items: any number of items.
        first, other: which items each system gets right; None: the item is left out.
    """
    found: dict[str, list[tuple[bool, bool]]] = {}
    for item, one, two in zip(items, first, other, strict=True):
        if one is not None and two is not None:
            found.setdefault(item.phenomenon, []).append((one, two))
    tests = {phenomenon: _test(pairs) for phenomenon, pairs in found.items()}
    if len(found) > 1:
        tests[ALL] = _test([pair for pairs in found.values() for pair in pairs])
    return tests


def paired_tests_at_distance(
    items: Sequence[Item], first: Sequence[bool | None], other: Sequence[bool | None]
) -> dict[int | None, PairedTest]:
    """The test by distance, over all phenomena; arguments as of :func:`paired_tests`."""
    found: dict[int | None, list[tuple[bool, bool]]] = {}
    for item, one, two in zip(items, first, other, strict=True):
        if one is not None and two is not None:
            found.setdefault(item.distance, []).append((one, two))
    return {distance: _test(pairs) for distance, pairs in found.items()}


def _test(pairs: Sequence[tuple[bool, bool]]) -> PairedTest:
    return PairedTest(len(pairs), pairs.count((True, False)), pairs.count((False, True)))
