"""What may be put in the place of a word of a text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gtrans.decoding.context_use import Side, flat
from gtrans.lab.substitutes import Substitutes, is_word

CANDIDATES = 5
"""As many words of the text that stand at the same places as a word are considered as a replacement
of it, and as many with the nearest embeddings."""

REPLACEMENTS = 3
"""Most of them that are tried."""


class Vocabulary:
    """The words of one side of a text, their substitutes and their mean embeddings.

    Args:
        side: of the text.
        dictionary: fairseq's, of this side.
        tables: for each model its word embeddings ``(symbols, dim)`` of this side.
    """

    def __init__(self, side: Side, dictionary: Any, tables: Sequence[Tensor]) -> None:
        self.substitutes = Substitutes(words.texts for words in flat(side.words))
        self.numbers: dict[str, int] = {}
        self._counts: Counter[str] = Counter()
        pieces: list[Tensor] = []
        self._beginning: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
        for words, encoded in zip(flat(side.words), flat(side.encoded), strict=True):
            symbols = encoded.split()
            self._counts.update(words.texts)
            for text, of_word in zip(words.texts, words.pieces, strict=True):
                if text not in self.numbers:
                    self.numbers[text] = len(pieces)
                    ids = [dictionary.index(symbols[piece]) for piece in of_word]
                    pieces.append(torch.tensor(ids))
                    for count in range(len(ids)):
                        self._beginning[tuple(ids[: count + 1])].append(text)
        every = torch.cat(pieces)
        offsets = torch.tensor([0, *map(len, pieces[:-1])]).cumsum(0)
        self.vectors = [
            torch.nn.functional.embedding_bag(every, table.detach().float().cpu(), offsets)
            for table in tables
        ]
        centred = [vectors - vectors.mean(0) for vectors in self.vectors]
        self.sizes = [vectors.norm(dim=1) for vectors in centred]
        self.directions = [
            vectors / size[:, None].clamp(min=1e-9)
            for vectors, size in zip(centred, self.sizes, strict=True)
        ]
        self.texts = list(self.numbers)
        self._known: dict[str, tuple[list[str], list[str]]] = {}

    def replacements(
        self, word: str, gradients: Sequence[Tensor] | None, rival: Sequence[int] = ()
    ) -> tuple[str, ...]:
        """Substitutes for a word, at most :data:`REPLACEMENTS`, those to try first in front.

        They are of different kinds, as none is the best one for all words: the rival itself, if the
        word is of the translation; of all candidates and of those at the same places the one that
        lowers most what ``gradients`` are of; and the candidate with the nearest embedding.

        Args:
            word: a word of the text.
            gradients: one for each model; None: those most like the word are first.
            rival: ids of the first pieces of the word that the model would say without context.
        """
        places, near = self._candidates(word)
        candidates = list(dict.fromkeys([*places, *near]))
        if not candidates or gradients is None:
            return tuple(candidates[:REPLACEMENTS])
        numbers = torch.tensor([self.numbers[other] for other in candidates])
        values = torch.zeros(len(candidates))
        for vectors, gradient in zip(self.vectors, gradients, strict=True):
            values += vectors[numbers] @ gradient
        order = [candidates[number] for number in values.argsort(stable=True).tolist()]
        first = [order[0], *[other for other in order if other in places][:1], *near[:1]]
        found = dict.fromkeys([*self._rivals(word, rival), *first, *order])
        return tuple(found)[:REPLACEMENTS]

    def _rivals(self, word: str, pieces: Sequence[int]) -> list[str]:
        """The word of the text that begins with ``pieces``, in the case of ``word``; or none."""
        others = [
            other
            for other in self._beginning.get(tuple(pieces), ())
            if is_word(other) and other.lower() != word.lower()
        ]
        upper = word[0].isupper()
        others.sort(key=lambda other: (other[0].isupper() == upper, self._counts[other]))
        return others[-1:]

    def _candidates(self, word: str) -> tuple[list[str], list[str]]:
        """The words of the text at the same places, and those with the nearest embeddings."""
        if not is_word(word):
            return [], []
        if word not in self._known:
            places = self.substitutes.of(word, CANDIDATES)
            own = self.numbers[word]
            alike = torch.zeros(len(self.texts))
            for directions in self.directions:
                alike += directions @ directions[own]
            near = []
            for number in alike.argsort(descending=True).tolist():
                other = self.texts[number]
                if is_word(other) and other.lower() != word.lower():
                    near.append(other)
                if len(near) == CANDIDATES:
                    break
            self._known[word] = places, near
        return self._known[word]
