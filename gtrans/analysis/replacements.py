"""What may be put in the place of a word of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gtrans.analysis.context_use import Side, flat
from gtrans.evaluation.substitutes import Substitutes, is_word

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
        pieces: list[Tensor] = []
        for words, encoded in zip(flat(side.words), flat(side.encoded), strict=True):
            symbols = encoded.split()
            for text, of_word in zip(words.texts, words.pieces, strict=True):
                if text not in self.numbers:
                    self.numbers[text] = len(pieces)
                    ids = [dictionary.index(symbols[piece]) for piece in of_word]
                    pieces.append(torch.tensor(ids))
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
        self._known: dict[str, list[str]] = {}

    def replacements(self, word: str, gradients: Sequence[Tensor] | None) -> tuple[str, ...]:
        """Substitutes for a word, those first that lower most what ``gradients`` are of.

        There is a gradient for each model. Without gradients the words most like it are first.
        """
        candidates = self._candidates(word)
        if not candidates or gradients is None:
            return tuple(candidates[:REPLACEMENTS])
        numbers = torch.tensor([self.numbers[other] for other in candidates])
        values = torch.zeros(len(candidates))
        for vectors, gradient in zip(self.vectors, gradients, strict=True):
            values += vectors[numbers] @ gradient
        order = values.argsort(stable=True)[:REPLACEMENTS].tolist()
        return tuple(candidates[number] for number in order)

    def _candidates(self, word: str) -> list[str]:
        """The words of the text at the same places, and those with the nearest embeddings."""
        if not is_word(word):
            return []
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
            self._known[word] = list(dict.fromkeys([*places, *near]))
        return self._known[word]
