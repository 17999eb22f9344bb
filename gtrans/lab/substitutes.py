"""Words of a text that stand where another word stands, to put in its place."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

_EDGE = ""
_Neighbour = tuple[bool, str]  # whether it comes after the word; the neighbour


class Substitutes:
    """The words of a text by the words next to them.

    Two words are alike if they have the same words before and after them: the measure is the
    cosine of their vectors, which have the logarithm of a neighbour's count, weighted by how rare
    it is to have that neighbour.

    Args:
        sentences: the words of each sentence, punctuation marks included.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        counts: defaultdict[str, Counter[_Neighbour]] = defaultdict(Counter)
        for words in sentences:
            framed = [_EDGE, *words, _EDGE]
            for before, word, after in zip(framed, words, framed[2:], strict=False):
                if is_word(word):
                    counts[word].update([(False, before), (True, after)])
        having = Counter(neighbour for of_word in counts.values() for neighbour in of_word)
        self._vectors: dict[str, dict[_Neighbour, float]] = {}
        self._with: defaultdict[_Neighbour, list[tuple[str, float]]] = defaultdict(list)
        for word, of_word in counts.items():
            vector = {
                neighbour: (1 + math.log(count)) * math.log(1 + len(counts) / having[neighbour])
                for neighbour, count in of_word.items()
            }
            length = math.hypot(*vector.values())
            self._vectors[word] = {one: value / length for one, value in vector.items()}
            for neighbour, value in self._vectors[word].items():
                self._with[neighbour].append((word, value))
        self._known: dict[tuple[str, int], list[str]] = {}

    def of(self, word: str, most: int) -> list[str]:
        """The words that are most like a word of the text, at most ``most`` of them.

        Other forms of case of the word itself are left out. It is empty for a punctuation mark.
        """
        if (word, most) not in self._known:
            alike: defaultdict[str, float] = defaultdict(float)
            for neighbour, value in self._vectors.get(word, {}).items():
                for other, weight in self._with[neighbour]:
                    alike[other] += value * weight
            others = [other for other in alike if other.lower() != word.lower()]
            others.sort(key=lambda other: (-alike[other], other))
            self._known[word, most] = others[:most]
        return self._known[word, most]


def is_word(word: str) -> bool:
    """Whether a word has a letter or a digit."""
    return any(map(str.isalnum, word))
