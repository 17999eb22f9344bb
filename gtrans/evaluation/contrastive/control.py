"""The control of contrastive scoring: every item with the context of another one."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import chain

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item


def random_contexts(items: Sequence[Item], seed: int = 1) -> list[Item]:
    """The items, each with the context of another item: a control for the use of context.

    The context of an item is the sentences before the first one in which its candidates differ.
    It is replaced on both sides by that of another item, the donor; on the target side by the
    context of the donor's right translation. Donors are chosen as follows:

    - of the same phenomenon and distance if possible, then of the same phenomenon, then any;
      ``it:er`` and ``it:sie`` count as the same one, because what stands behind the colon is the
      answer, and a context with a noun of the right gender would still help;
    - with the same number of sentences of context if possible, otherwise the closest number;
    - never the item itself or its twin, which are recognised by the sentences after the context;
    - at random, depending on ``seed``, the id of the item and the other items.

    An item without context is not changed.

    Raises:
        GtransError: there is no donor for an item.
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
    """Groups of items to search for a donor, the best one first."""
    question = item.phenomenon.partition(":")[0]
    return [(question, item.distance), question, None]


def _question(item: Item) -> Hashable:
    """The sentences and candidates after the context; those of twins are equal."""
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
