"""Contrastive items made from the grammar of the generated corpus.

Items come in pairs of twins: a document, and the same document with another cue. The right last
sentence of one is the wrong one of the other. :mod:`gtrans.lab.synthetic` explains why a
sentence-level model cannot do better than chance.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, count

from gtrans.lab.synthetic.grammar import CUES, Document, generate_document
from gtrans.lab.synthetic.lexicon import DU, FREE_CHOICES, GENDERS, SIE, THINGS, VERBS, Entry, Noun

# An item has up to this many sentences before the one with its cue, which makes it as
# long as a training document can be: 2 to 8 sentences.
_LEAD = 3

_GENDER_PAIRS = tuple(combinations(GENDERS, 2))


@dataclass(frozen=True)
class Item:
    """A source document, its right translation, and one with a wrong last sentence."""

    id: str
    phenomenon: str
    distance: int
    source: tuple[str, ...]
    target: tuple[str, ...]
    wrong: str

    def as_json(self) -> dict[str, object]:
        """Return the line of the JSONL file, keys in the order of the format."""
        return {
            "id": self.id,
            "phenomenon": self.phenomenon,
            "distance": self.distance,
            "cue": CUES[self.phenomenon],
            "source": list(self.source),
            "target": list(self.target),
            "contrastive": [[*self.target[:-1], self.wrong]],
        }


def generate_items(
    rng: random.Random, phenomenon: str, distance: int, number: int
) -> Iterator[Item]:
    """Yield ``number`` items (an even number), all different, twins next to each other."""
    seen: set[tuple[str, ...]] = set()
    serial = count()
    for pair in range(number // 2):
        while True:
            length = distance + 1 + rng.randint(0, _LEAD)
            document = generate_document(rng, length, (phenomenon, distance))
            twins = _twins(rng, document, _GENDER_PAIRS[pair % len(_GENDER_PAIRS)])
            texts = [(*twin.source, *twin.target) for twin in twins]
            if seen.isdisjoint(texts):
                break
        seen.update(texts)
        for right, other in (twins, twins[::-1]):
            yield Item(
                id=f"{phenomenon}-d{distance}-{next(serial):04d}",
                phenomenon=phenomenon,
                distance=distance,
                source=tuple(right.source),
                target=tuple(right.target),
                wrong=other.target[-1],
            )


def _twins(
    rng: random.Random, document: Document, genders: tuple[str, str]
) -> tuple[Document, Document]:
    """``document`` with two cues for its last sentence (``genders`` is for pronouns)."""
    link = document.links[-1]
    cue = document.sentences[link.cue].words
    if link.phenomenon == "formality":
        old: Entry = cue["you"]
        pair: tuple[Entry, Entry] = (DU, SIE)
    elif link.phenomenon == "lexical":
        old = cue["person"]
        pair = next(choice for choice in FREE_CHOICES if old in choice)
    elif link.phenomenon == "ellipsis":
        old = cue["verb"]
        pair = (old, rng.choice([verb for verb in VERBS if not document.holds(verb)]))
    else:
        old = cue["thing"]
        # A third thing: one that the document names elsewhere would become ambiguous.
        first, second = (rng.choice(_unnamed(document, gender)) for gender in genders)
        pair = (first, second)
    return document.replaced(old, pair[0]), document.replaced(old, pair[1])


def _unnamed(document: Document, gender: str) -> list[Noun]:
    return [thing for thing in THINGS if thing.gender == gender and not document.holds(thing)]
