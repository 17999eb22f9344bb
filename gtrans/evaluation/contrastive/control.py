"""The control of contrastive scoring: every item with the context of another one."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item


def shuffled_contexts(items: Sequence[Item], seed: int = 1) -> tuple[list[Item], list[str]]:
    """The items, each with the context of another item: a control for the use of context.

    The context of an item is the sentences before the first one in which its candidates differ.
    The context of another item, the donor, replaces it on both sides; on the target side the
    context of the donor's right translation. Donors are chosen as follows:

    - of the same form of text, tokenised or not;
    - of the same phenomenon and distance if possible, then of the same phenomenon, then any;
      ``it:er`` and ``it:sie`` count as the same one, because what stands behind the colon is the
      answer, and a context with a noun of the right gender would still help;
    - with the same number of sentences of context if possible, otherwise the closest number;
    - never the item itself or its twin, which are recognised by the sentences after the context,
      and never one with the same context;
    - at random, depending on ``seed``, the id of the item and the other items.

    An item without context is not changed.

    Returns:
        the items, and notes of where their contexts are less than they should be.

    Raises:
        GtransError: there is no donor for an item.
    """
    groups: dict[Hashable, dict[int, list[Item]]] = {}
    for item in items:
        if item.context:
            for kind in _kinds(item):
                groups.setdefault(kind, {}).setdefault(item.context, []).append(item)
    question = {id(item): _question(item) for item in items}

    def donors(item: Item) -> Iterator[Item]:
        begin = random.Random(f"{seed}/{item.id}").random()
        for kind in _kinds(item):
            lengths = groups[kind]
            for length in sorted(lengths, key=lambda n: (abs(n - item.context), n)):
                candidates = lengths[length]
                first = int(begin * len(candidates))
                yield from (*candidates[first:], *candidates[:first])

    changed, bare, foreign = [], 0, 0
    for item in items:
        if not item.context:
            changed.append(item)
            bare += 1
            continue
        own = item.source[: item.context]
        for donor in donors(item):
            if donor.source[: donor.context] != own and question[id(donor)] != question[id(item)]:
                break
        else:
            raise GtransError(
                "`--shuffled-context`: there is no other item with another context to take one for "
                f"{item.id} from; give a larger set."
            )
        foreign += _phenomenon(donor) != _phenomenon(item)
        begin, context = item.context, donor.target[: donor.context]
        changed.append(
            replace(
                item,
                source=donor.source[: donor.context] + item.source[begin:],
                target=context + item.target[begin:],
                contrastive=tuple(context + candidate[begin:] for candidate in item.contrastive),
            )
        )
    notes = {
        f"{bare} of {len(items)} items have no context, so their control is the item itself": bare,
        f"{foreign} of {len(items)} items have the context of another phenomenon: theirs has no "
        "other": foreign,
    }
    return changed, [f"`--shuffled-context`: {note}" for note, count in notes.items() if count]


def _phenomenon(item: Item) -> str:
    """Without the answer."""
    return item.phenomenon.partition(":")[0]


def _kinds(item: Item) -> list[Hashable]:
    """Groups of items to search for a donor, the best one first."""
    form, question = item.form, _phenomenon(item)
    return [(form, question, item.distance), (form, question), (form,)]


def _question(item: Item) -> Hashable:
    """The sentences and candidates after the context, which twins have in common."""
    begin = item.context
    return item.source[begin:], frozenset(candidate[begin:] for candidate in item.candidates)
