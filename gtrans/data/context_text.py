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

# BPE's sign, behind all subwords of a word but the last.
_GOES_ON = "@@"
# The signs of SentencePiece and GPT-2, before the first subword of a word.
_BEGINS = ("\u2581", "\u0120")
# BERT's sign, before all subwords of a word but the first.
_CONTINUES = "##"


@dataclass(frozen=True)
class WordBoundaries:
    """Where words begin in a sequence of subwords.

    Attributes:
        marked: ``(entries,)`` whether an entry is the first subword of a word.
        at_end: ``marked`` says whether it is the last subword instead.
    """

    marked: NDArray[np.bool_]
    at_end: bool

    @classmethod
    def of(cls, entries: Sequence[str]) -> WordBoundaries:
        """Look for the signs of subwords in a dictionary; without any, each entry is a word."""
        goes_on = np.array([entry.endswith(_GOES_ON) for entry in entries])
        if goes_on.any():
            return cls(~goes_on, at_end=True)
        continues = np.array([entry.startswith(_CONTINUES) for entry in entries])
        if continues.any():
            return cls(~continues, at_end=False)
        begins = np.array([entry.startswith(_BEGINS) for entry in entries])
        if begins.any():
            return cls(begins, at_end=False)
        is_word = np.ones(len(entries), np.bool_)
        return cls(is_word, at_end=True)

    def begins(self, subwords: Ints, opens: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return ``(n,)`` whether a word begins; ``opens (n,)``: a sentence does."""
        marked = self.marked[subwords]
        if self.at_end:
            follows_end = np.concatenate([[True], marked[:-1]])
            marked = follows_end[: len(subwords)]  # of an empty sentence, too
        begins: NDArray[np.bool_] = opens | marked
        return begins


@dataclass(frozen=True)
class DistinctWords:
    """The different words of a text, all equally likely.

    Attributes:
        subwords: ``(n,)`` of all words.
        first: ``(words + 1,)`` where each word begins in ``subwords``, and the end.
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
            left_out: words with one of these ids are left out.
        """
        is_subword = ids != end
        follows_end = np.concatenate([[True], ~is_subword[:-1]])
        subwords = ids[is_subword]
        opens = follows_end[is_subword]
        begins = boundaries.begins(subwords, opens)
        first = np.flatnonzero(begins)
        bounds = np.append(first, len(subwords))
        lengths = np.diff(bounds)
        words = [ids[:0]]
        sizes: list[int] = [0]
        # Words of the same length are the rows of a matrix, so NumPy finds the different ones.
        for length in np.unique(lengths).tolist():
            starts = first[lengths == length]
            index = starts[:, None] + np.arange(length)
            different = np.unique(subwords[index], axis=0)
            has_left_out = np.isin(different, sorted(left_out))
            kept = different[~has_left_out.any(1)]
            words.append(kept.ravel())
            sizes += [length] * len(kept)
        first_of_word = np.cumsum(sizes, dtype=np.int64)
        return cls(np.concatenate(words), first_of_word, boundaries)

    def __len__(self) -> int:
        return len(self.first) - 1

    def count(self, subwords: Ints) -> int:
        """Return the words in a sentence ``(n,)``."""
        opens = np.arange(len(subwords)) == 0
        begins = self.boundaries.begins(subwords, opens)
        return int(begins.sum())

    def draw(self, count: int, generator: np.random.Generator) -> Ints:
        """Return the subwords of ``count`` random words."""
        drawn = generator.integers(0, len(self), size=count)
        parts = [self.subwords[:0]]
        for word in drawn.tolist():
            begin, end = self.first[word], self.first[word + 1]
            parts.append(self.subwords[begin:end])
        return np.concatenate(parts)


@dataclass(frozen=True)
class ContextText:
    """Replaces the sentences of the context.

    Attributes:
        fixed: ``(words + 1,)`` the fixed sentence with ``</s>``; None: random ``words``.
        seed: random words depend on it and the text alone.
    """

    fixed: Tensor | None = None
    words: DistinctWords | None = None
    seed: int = 1

    def instead(self, sentence: Tensor, current: Tensor) -> Tensor:
        """Return the replacement of ``sentence (words + 1,)`` in the context of ``current``."""
        if self.words is None:
            assert self.fixed is not None
            return self.fixed.to(sentence)
        key = [self.seed, _checksum(sentence), _checksum(current)]
        generator = np.random.default_rng(key)
        subwords, end = sentence[:-1], sentence[-1:]
        count = self.words.count(subwords.cpu().numpy())
        drawn = self.words.draw(count, generator)
        words = torch.from_numpy(drawn).to(sentence)
        return torch.cat([words, end])


def _checksum(sentence: Tensor) -> int:
    return zlib.crc32(sentence.cpu().numpy().tobytes())
