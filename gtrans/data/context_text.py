"""Replacements for the context of a sentence in context ablation.

Guo Zhiyu 2021 (thesis, §5.2.2) follows Li et al. (2020): one fixed sentence, or as many random
words as the sentence has.
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

# The signs of subwords: BPE's stands behind all but the last of a word, SentencePiece's and GPT-2's
# before the first, BERT's before all but the first.
_GOES_ON, _BEGINS, _CONTINUES = "@@", ("\u2581", "\u0120"), "##"


@dataclass(frozen=True)
class WordBoundaries:
    """Where words begin in a sequence of subwords.

    Attributes:
        marked: ``(entries,)`` whether an entry is the first subword of its word, or with ``at_end``
            the last.
    """

    marked: NDArray[np.bool_]
    at_end: bool

    @classmethod
    def of(cls, entries: Sequence[str]) -> WordBoundaries:
        """Read the boundaries off the entries of a dictionary; by default, each is a word."""
        goes_on = np.array([entry.endswith(_GOES_ON) for entry in entries])
        if goes_on.any():
            return cls(~goes_on, at_end=True)
        continues = np.array([entry.startswith(_CONTINUES) for entry in entries])
        if continues.any():
            return cls(~continues, at_end=False)
        begins = np.array([entry.startswith(_BEGINS) for entry in entries])
        if begins.any():
            return cls(begins, at_end=False)
        return cls(np.ones(len(entries), np.bool_), at_end=True)

    def begins(self, subwords: Ints, opens: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return ``(n,)`` whether a word begins; ``opens (n,)``: a sentence does."""
        marked = self.marked[subwords]
        if self.at_end:
            follows_end = np.concatenate([[True], marked[:-1]])
            marked = follows_end[: len(subwords)]
        begun: NDArray[np.bool_] = opens | marked
        return begun


@dataclass(frozen=True)
class DistinctWords:
    """The different words of a text, all equally likely.

    Attributes:
        subwords: the subwords of one word after the other.
        first: ``(words + 1,)`` where each word begins in ``subwords``.
    """

    subwords: Ints
    first: Ints
    boundaries: WordBoundaries

    @classmethod
    def of(
        cls, ids: Ints, end: int, boundaries: WordBoundaries, left_out: Collection[int]
    ) -> DistinctWords:
        """Collect the words of a text.

        Args:
            ids: ``(n,)`` its sentences, each followed by ``end``.
            left_out: words with these ids are left out.
        """
        is_subword = ids != end
        follows_end = np.concatenate([[True], ~is_subword[:-1]])
        subwords = ids[is_subword]
        first = np.flatnonzero(boundaries.begins(subwords, follows_end[is_subword]))
        lengths = np.diff(np.append(first, len(subwords)))
        words = [ids[:0]]
        sizes: list[int] = [0]
        # Words of the same length are the rows of a matrix, so NumPy finds the different ones.
        for length in np.unique(lengths).tolist():
            index = first[lengths == length][:, None] + np.arange(length)
            different = np.unique(subwords[index], axis=0)
            is_left_out = np.isin(different, sorted(left_out)).any(1)
            kept = different[~is_left_out]
            words.append(kept.ravel())
            sizes += [length] * len(kept)
        return cls(np.concatenate(words), np.cumsum(sizes, dtype=np.int64), boundaries)

    def __len__(self) -> int:
        return len(self.first) - 1

    def count(self, subwords: Ints) -> int:
        """Return the number of words of a sentence ``(n,)``."""
        opens = np.arange(len(subwords)) == 0
        return int(self.boundaries.begins(subwords, opens).sum())

    def draw(self, count: int, generator: np.random.Generator) -> Ints:
        """Return the subwords of ``count`` random words."""
        parts = [self.subwords[:0]]
        for word in generator.integers(0, len(self), size=count).tolist():
            parts.append(self.subwords[self.first[word] : self.first[word + 1]])
        return np.concatenate(parts)


@dataclass(frozen=True)
class ContextText:
    """Replaces the sentences of the context.

    Attributes:
        fixed: ``(words + 1,)`` the fixed sentence with ``</s>``; None: random words.
        seed: random words depend on it and on the text alone, not on batch, epoch or process.
    """

    fixed: Tensor | None = None
    words: DistinctWords | None = None
    seed: int = 1

    def instead(self, sentence: Tensor, current: Tensor) -> Tensor:
        """Return the replacement of ``sentence (words + 1,)`` in the context of ``current``."""
        if self.words is None:
            assert self.fixed is not None
            return self.fixed.to(sentence)
        key = [zlib.crc32(part.cpu().numpy().tobytes()) for part in (sentence, current)]
        generator = np.random.default_rng([self.seed, *key])
        count = self.words.count(sentence[:-1].cpu().numpy())
        words = torch.from_numpy(self.words.draw(count, generator))
        return torch.cat([words.to(sentence), sentence[-1:]])
