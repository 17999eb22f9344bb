"""What neighbours are replaced by when the context is not the true one.

The thesis (Guo Zhiyu 2021, §5.2.2) follows Li et al. (2020): one fixed sentence, or words that are
drawn from the source vocabulary. These are whole words of the training text, each drawn as often
as any other, and as many as the replaced sentence has; a model reads their subwords.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Ints = NDArray[np.int64]

# How subwords show where a word is: BPE marks all but the last of a word, SentencePiece and
# GPT-2 the first, BERT all but the first.
_GOES_ON, _BEGINS, _CONTINUES = "@@", ("\u2581", "\u0120"), "##"


@dataclass(frozen=True)
class Boundaries:
    """Where words are in a sequence of subwords.

    Attributes:
        marked: ``(entries,)`` whether a subword is the last of its word, or the first.
        at_end: it is the last.
    """

    marked: NDArray[np.bool_]
    at_end: bool

    @classmethod
    def of(cls, entries: Sequence[str]) -> Boundaries:
        """As the entries of a dictionary are written; if they show nothing, each is a word."""
        goes_on = np.array([entry.endswith(_GOES_ON) for entry in entries])
        if goes_on.any():
            return cls(~goes_on, True)
        continues = np.array([entry.startswith(_CONTINUES) for entry in entries])
        begins = np.array([entry.startswith(_BEGINS) for entry in entries])
        if continues.any() or begins.any():
            return cls(~continues if continues.any() else begins, False)
        return cls(np.ones(len(entries), np.bool_), True)

    def begins(self, subwords: Ints, opens: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """``(n,)`` whether a word begins at a subword; ``opens (n,)``: a sentence does."""
        marked = self.marked[subwords]
        if self.at_end:
            marked = np.concatenate([[True], marked[:-1]])[: len(subwords)]
        begun: NDArray[np.bool_] = opens | marked
        return begun


@dataclass(frozen=True)
class Words:
    """The words of a text, as subwords.

    Attributes:
        subwords: the subwords of all words, one word after the other.
        first: ``(words + 1,)`` where each word begins in ``subwords``.
        boundaries: where words are in a sentence.
    """

    subwords: Ints
    first: Ints
    boundaries: Boundaries

    @classmethod
    def of(cls, ids: Ints, end: int, boundaries: Boundaries, left_out: Collection[int]) -> Words:
        """The different words of a text.

        Args:
            ids: ``(n,)`` its sentences, each followed by ``end``.
            end: id of the end of a sentence.
            boundaries: where words are.
            left_out: ids of entries that are not text; words with them are left out.
        """
        inner = ids != end
        opens = np.concatenate([[True], ~inner[:-1]])[inner]
        subwords = ids[inner]
        first = np.flatnonzero(boundaries.begins(subwords, opens))
        lengths = np.diff(np.append(first, len(subwords)))
        blocks: list[Ints] = []
        for length in np.unique(lengths).tolist():
            rows = np.unique(
                subwords[first[lengths == length][:, None] + np.arange(length)], axis=0
            )
            blocks.append(rows[~np.isin(rows, sorted(left_out)).any(1)])
        sizes = np.repeat([rows.shape[1] for rows in blocks], [len(rows) for rows in blocks])
        joined = np.concatenate([rows.ravel() for rows in blocks] or [ids[:0]])
        return cls(joined, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), boundaries)

    def __len__(self) -> int:
        return len(self.first) - 1

    def count(self, subwords: Ints) -> int:
        """How many words a sentence ``(n,)`` has."""
        opens = np.arange(len(subwords)) == 0
        return int(self.boundaries.begins(subwords, opens).sum())

    def draw(self, count: int, generator: np.random.Generator) -> Ints:
        """The subwords of ``count`` random words."""
        chosen = generator.integers(0, len(self), size=count).tolist()
        parts = [self.subwords[self.first[word] : self.first[word + 1]] for word in chosen]
        return np.concatenate(parts or [self.subwords[:0]])


@dataclass(frozen=True)
class ContextText:
    """What a neighbour is replaced by if the context is not the true one.

    Attributes:
        fixed: ``(words + 1,)`` ids of the fixed sentence, ``</s>`` included; None: neighbours
            become random words.
        words: what random words are drawn from.
        seed: random words depend on the seed and on the text, never on the batch, the command,
            the epoch or the number of processes.
    """

    fixed: Tensor | None = None
    words: Words | None = None
    seed: int = 1

    def instead(self, sentence: Tensor, current: Tensor) -> Tensor:
        """The replacement of ``sentence (words + 1,)``, a neighbour of the sentence ``current``."""
        if self.words is None:
            assert self.fixed is not None
            return self.fixed.to(sentence)
        key = [zlib.crc32(part.cpu().numpy().tobytes()) for part in (sentence, current)]
        generator = np.random.default_rng([self.seed, *key])
        words = self.words.draw(self.words.count(sentence[:-1].cpu().numpy()), generator)
        return torch.cat([torch.from_numpy(words).to(sentence), sentence[-1:]])
