"""The control of contrastive scoring: every item with the context of another one."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Item, Sentences


@dataclass(frozen=True)
class Control:
    """Items with random contexts, and where these are less than they should be.

    Attributes:
        items: the items.
        bare: how many have no context, and are as they were.
        foreign: how many have the context of another phenomenon, because their own has none.
        one_answer: phenomena, up to the colon, all of whose items have the same answer behind it,
            so that a random context may tell it as the own one does.
    """

    items: list[Item]
    bare: int
    foreign: int
    one_answer: tuple[str, ...]

    def notes(self) -> list[str]:
        """A line for each of these."""
        of = f"of {len(self.items)} items"
        lines = [
            f"{self.bare} {of} have no context, so their control is the item itself",
            f"{self.foreign} {of} have the context of another phenomenon: theirs has no other",
            f"all items of {', '.join(self.one_answer)} have the same answer, so that the context "
            "of another item may tell it, too, and the margin above it says little",
        ]
        found = zip(lines, (self.bare, self.foreign, self.one_answer), strict=True)
        return [f"`--random-context`: {line}" for line, so in found if so]


def random_contexts(items: Sequence[Item], seed: int = 1) -> Control:
    """The items, each with the context of another item: a control for the use of context.

    The context of an item is the sentences before the first one in which its candidates differ.
    It is replaced on both sides by that of another item, the donor; on the target side by the
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

    Raises:
        GtransError: there is no donor for an item.
    """
    groups: dict[Hashable, dict[int, list[Item]]] = {}
    for item in items:
        if item.context:
            for kind in _kinds(item):
                lengths = groups.setdefault(kind, {})
                lengths.setdefault(item.context, []).append(item)
    donors = {
        kind: {length: _Donors(found) for length, found in lengths.items()}
        for kind, lengths in groups.items()
    }
    question = {id(item): _question(item) for item in items}
    foreign = 0

    def transplanted(item: Item) -> Item:
        nonlocal foreign
        if not item.context:
            return item
        begin = random.Random(f"{seed}/{item.id}").random()
        own = item.source[: item.context]
        for kind in _kinds(item):
            lengths = donors[kind]
            for length in sorted(lengths, key=lambda n: (abs(n - item.context), n)):
                for donor in lengths[length].other_than(own, begin):
                    if question[id(donor)] != question[id(item)]:
                        foreign += _phenomenon(donor) != _phenomenon(item)
                        return _with_context(item, donor)
        raise GtransError(
            f"`--random-context`: there is no other item with another context to take one for "
            f"{item.id} from; give a larger set."
        )

    changed = [transplanted(item) for item in items]
    bare = sum(not item.context for item in items)
    return Control(changed, bare, foreign, tuple(_of_one_answer(items)))


class _Donors:
    """Items with contexts of one length, to be gone through without all those of one context."""

    def __init__(self, items: list[Item]) -> None:
        self._items = items
        self._contexts = [item.source[: item.context] for item in items]
        # How far it is to the next item with another context, beyond the end from the beginning.
        count = len(items)
        self._steps = [1] * count
        for place in range(2 * count - 2, -1, -1):
            here, behind = place % count, (place + 1) % count
            if self._contexts[here] == self._contexts[behind]:
                self._steps[here] = min(self._steps[behind] + 1, count)
            else:
                self._steps[here] = 1

    def other_than(self, context: Sentences, begin: float) -> Iterator[Item]:
        """Those with another context, each once, from the place ``begin``, 0 to 1, on."""
        count = len(self._items)
        first, done = int(begin * count), 0
        while done < count:
            place = (first + done) % count
            if self._contexts[place] == context:
                done += self._steps[place]
            else:
                yield self._items[place]
                done += 1


def _of_one_answer(items: Sequence[Item]) -> Iterator[str]:
    answers: dict[str, set[str]] = {}
    for item in items:
        question, colon, answer = item.phenomenon.partition(":")
        if colon:
            answers.setdefault(question, set()).add(answer)
    yield from (question for question, found in answers.items() if len(found) == 1)


def _phenomenon(item: Item) -> str:
    """Without the answer."""
    return item.phenomenon.partition(":")[0]


def _kinds(item: Item) -> list[Hashable]:
    """Groups of items to search for a donor, the best one first."""
    form, question = item.form, _phenomenon(item)
    return [(form, question, item.distance), (form, question), (form,)]


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
