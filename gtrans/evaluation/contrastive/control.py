"""The control of contrastive scoring: every item with the context of another item."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, Sentences


def shuffled_contexts(
    items: Sequence[Item],
    seed: int = 1,
) -> tuple[list[Item], list[str]]:
    """Return each item with the context of another item, and notes.

    The context is all sentences before the candidates differ. A donor gives its source context with
    its right translation. It

    - has the same form of text;
    - has the same phenomenon and distance if possible, then the same phenomenon, then any; in
      ``it:er``, the answer may differ;
    - has the same number of sentences of context, or the closest;
    - has another context, and is neither the item nor its twin;
    - is drawn by ``seed`` and the id of the item.
    """
    donors = _Donors(items, seed)
    shuffled = []
    without_context = 0
    other_phenomenon = 0
    for item in items:
        if not item.context:
            shuffled.append(item)
            without_context += 1
            continue
        donor = donors.find(item)
        other_phenomenon += _phenomenon(donor) != _phenomenon(item)
        shuffled.append(_in_context_of(donor, item))
    notes = []
    if without_context:
        notes.append(
            f"`--shuffled-context`: {without_context} of {len(items)} items have no context, so "
            "their control is the item itself"
        )
    if other_phenomenon:
        notes.append(
            f"`--shuffled-context`: {other_phenomenon} of {len(items)} items have the context of "
            "another phenomenon: theirs has no other"
        )
    return shuffled, notes


_ByLength = dict[int, list[Item]]  # by the number of sentences of context


class _Donors:
    def __init__(self, items: Sequence[Item], seed: int) -> None:
        self._seed = seed
        self._groups: dict[Hashable, _ByLength] = {}
        for item in items:
            length = item.context
            if not length:
                continue
            for group in _groups_of(item):
                by_length = self._groups.setdefault(group, {})
                by_length.setdefault(length, []).append(item)

    def find(self, item: Item) -> Item:
        context = _context(item)
        rest = _without_context(item)
        for donor in self._candidates(item):
            if _context(donor) != context and _without_context(donor) != rest:
                return donor
        raise GtransError(
            "`--shuffled-context`: there is no other item with another context to take one for "
            f"{item.id} from; give a larger set."
        )

    def _candidates(self, item: Item) -> Iterator[Item]:
        own_length = item.context

        def by_closeness(length: int) -> tuple[int, int]:
            return abs(length - own_length), length

        share = random.Random(f"{self._seed}/{item.id}").random()
        for group in _groups_of(item):
            by_length = self._groups[group]
            for length in sorted(by_length, key=by_closeness):
                candidates = by_length[length]
                first = int(share * len(candidates))
                yield from candidates[first:]
                yield from candidates[:first]


def _in_context_of(donor: Item, item: Item) -> Item:
    begin = item.context
    target_context = donor.target[: donor.context]
    contrastive = [target_context + candidate[begin:] for candidate in item.contrastive]
    return replace(
        item,
        source=_context(donor) + item.source[begin:],
        target=target_context + item.target[begin:],
        contrastive=tuple(contrastive),
    )


def _phenomenon(item: Item) -> str:
    return item.phenomenon.partition(":")[0]


def _groups_of(item: Item) -> list[Hashable]:
    """Return the groups of its donors, the closest first."""
    phenomenon = _phenomenon(item)
    return [
        (item.form, phenomenon, item.distance),
        (item.form, phenomenon),
        (item.form,),
    ]


def _context(item: Item) -> Sentences:
    return item.source[: item.context]


def _without_context(item: Item) -> Hashable:
    candidates = [candidate[item.context :] for candidate in item.candidates]
    return item.source[item.context :], frozenset(candidates)
