"""The exact test of McNemar (1947) between two systems on the same items.

"Note on the sampling error of the difference between correlated proportions or percentages",
Psychometrika 12. Only items on which the systems differ tell them apart. If the systems are
equally good, each of these is as likely to be won by one as by the other, so their number that the
first wins is binomial with probability 1/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
        return min(1.0, 2 * tail / 2**differ)


def paired_tests(
    items: Sequence[Item], first: Sequence[bool], other: Sequence[bool]
) -> dict[str, PairedTest]:
    """The test by phenomenon and, where there are several phenomena, over ``all``.

    Args:
        items: items; those without a known right candidate are left out.
        first, other: which items each system gets right.
    """
    found: dict[str, list[tuple[bool, bool]]] = {}
    for item, pair in zip(items, zip(first, other, strict=True), strict=True):
        if item.has_right:
            found.setdefault(item.phenomenon, []).append(pair)
    tests = {phenomenon: _test(pairs) for phenomenon, pairs in found.items()}
    if len(found) > 1:
        tests["all"] = _test([pair for pairs in found.values() for pair in pairs])
    return tests


def _test(pairs: Sequence[tuple[bool, bool]]) -> PairedTest:
    return PairedTest(len(pairs), pairs.count((True, False)), pairs.count((False, True)))
