"""The control of contrastive scoring: every item with the context of another one."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import chain

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item


def random_contexts(items: Sequence[Item], seed: int = 1) -> list[Item]:
    """The items, each with the context of another one: a control for the use of context.

    The context, the sentences before the first one in which candidates differ, is taken
    on both sides from another item of the same phenomenon and distance (on the target side
    from its right translation), from one with as many sentences of context where there is
    any and otherwise from one whose number is nearest. Where a phenomenon has but one item
    at a distance, one of another distance, or phenomenon, gives it. It is never taken from the item
    itself or its twin: from none that asks for the same decision, told by the sentences
    that follow the context. An item without context stays as it is. The choice depends
    on ``seed``, the item's id and the other items.

    Raises:
        GtransError: an item has none to take a context from.
    """
    donors: dict[Hashable, dict[int, list[Item]]] = {}
    for item in items:
        if item.context:
            for kind in _kinds(item):
                lengths = donors.setdefault(kind, {})
                lengths.setdefault(item.context, []).append(item)
    question = {id(item): _question(item) for item in items}

    def transplanted(item: Item) -> Item:
        if not item.context:
            return item
        begin = random.Random(f"{seed}/{item.id}").random()
        for kind in _kinds(item):
            lengths = donors[kind]
            for length in sorted(lengths, key=lambda n: (abs(n - item.context), n)):
                others = lengths[length]
                first = int(begin * len(others))
                for donor in chain(others[first:], others[:first]):
                    if question[id(donor)] != question[id(item)]:
                        return _with_context(item, donor)
        raise GtransError(
            f"`--random-context`: there is no item of {item.phenomenon} at distance "
            f"{item.distance} to take a context for {item.id} from; give a larger set."
        )

    return [transplanted(item) for item in items]


def _kinds(item: Item) -> list[Hashable]:
    """Where to look for a context, the best place first."""
    return [(item.phenomenon, item.distance), item.phenomenon, None]


def _question(item: Item) -> Hashable:
    """What an item asks: twins ask the same, with another answer."""
    begin = item.context
    return item.source[begin:], frozenset(candidate[begin:] for candidate in item.candidates)


def _with_context(item: Item, donor: Item) -> Item:
    begin, end = item.context, donor.context
    context = donor.target[:end]
    return replace(
        item,
        source=donor.source[:end] + item.source[begin:],
        target=context + item.target[begin:],
        contrastive=tuple(context + candidate[begin:] for candidate in item.contrastive),
    )
