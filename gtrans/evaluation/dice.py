"""Which word of a translation belongs to a word of the source, by how often they occur together."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Numbers = NDArray[np.int64]

_AT_ONCE = 20_000  # pairs of a word and a sentence whose words are compared at a time


class Vocabulary:
    """The numbers of the words of a language, given in the order in which words are met."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def text(self, sentences: Sequence[Sequence[str]]) -> Text:
        """Sentences of words as a text of numbers."""
        known = self.numbers
        words = [known.setdefault(word, len(known)) for words in sentences for word in words]
        lengths = [len(words) for words in sentences]
        return Text(np.array(words, np.int64), np.array(lengths, np.int64))


class Text:
    """Sentences whose words are numbers.

    Attributes:
        words: ``(words,)`` of all sentences, one after the other.
        lengths: ``(sentences,)`` words of each.
        starts: ``(sentences,)`` where each begins in ``words``.
        sentence: ``(words,)`` the sentence of each word.
        place: ``(words,)`` its number in the sentence, from 0.
    """

    def __init__(self, words: Numbers, lengths: Numbers) -> None:
        self.words, self.lengths = words, lengths
        self.starts = lengths.cumsum() - lengths
        self.sentence = np.repeat(np.arange(len(lengths)), lengths)
        self.place = np.arange(len(words)) - self.starts[self.sentence]

    def occurrences(self, symbols: int) -> csr_array:
        """``(sentences, symbols)``: 1 where a word is in a sentence."""
        ones = np.ones(len(self.words), np.int64)
        found = csr_array((ones, (self.sentence, self.words)), (len(self.lengths), symbols))
        found.sum_duplicates()
        found.data[:] = 1
        return found


class Alignment:
    """Finds the translations of some words of a source.

    Args:
        source: its sentences.
        reference: a translation of each.
        terms: the words whose translations are to be found.
    """

    def __init__(
        self,
        source: Sequence[Sequence[str]],
        reference: Sequence[Sequence[str]],
        terms: Collection[str],
    ) -> None:
        vocabulary, self._target = Vocabulary(), Vocabulary()
        text = vocabulary.text(source)
        self._source = text.occurrences(len(vocabulary))
        self._frequency = self._source.sum(0)
        first = np.unique(text.sentence * len(vocabulary) + text.words, return_index=True)[1]
        wanted = np.zeros(len(vocabulary), bool)
        wanted[[vocabulary.numbers[term] for term in terms]] = True
        first = first[wanted[text.words[first]]]
        self.sentence: Numbers = text.sentence[first]
        self.term: Numbers = text.words[first]
        self._position = text.place[first] / text.lengths[self.sentence]
        self.reference = self._target.text(reference)
        self._with_reference, self._in_reference = self._counts(self.reference)

    def text(self, translation: Sequence[Sequence[str]]) -> Text:
        """A translation of every sentence as numbers."""
        return self._target.text(translation)

    def _counts(self, text: Text) -> tuple[csr_array, Numbers]:
        """In how many sentence pairs two words are, and in how many sentences of the target one."""
        target = text.occurrences(len(self._target))
        return (self._source.T @ target).tocsr(), target.sum(0)

    def translations(self, text: Text) -> Numbers:
        """The translation of every term in every sentence.

        The word of the sentence with the highest Dice coefficient is taken, unless it has a higher
        one with another word of the source; of words with the same coefficient the one with the
        closest relative position. Coefficients are counted over the sentence pairs of source and
        ``text`` and those of source and reference together.

        Returns:
            ``(terms in sentences,)`` numbers of words, -1 for none; :attr:`term` and
            :attr:`sentence` say of what.
        """
        both, alone = self._counts(text)
        with_reference, in_reference = self._with_reference.copy(), self._in_reference
        with_reference.resize(both.shape)
        both = (both + with_reference).tocsr()
        both.sort_indices()
        alone[: len(in_reference)] += in_reference
        twice = np.repeat(2 * self._frequency, np.diff(both.indptr))
        dice = csr_array(
            (2 * both.data / (twice + alone[both.indices]), both.indices, both.indptr), both.shape
        )
        found = np.full(len(self.term), -1)
        pairs = np.flatnonzero(text.lengths[self.sentence])
        for begin in range(0, len(pairs), _AT_ONCE):
            some = pairs[begin : begin + _AT_ONCE]
            found[some] = self._best(text, dice, some)
        return found

    def _best(self, text: Text, dice: csr_array, pairs: Numbers) -> Numbers:
        """:meth:`translations` of some terms, whose sentences have words."""
        sentence, term = self.sentence[pairs], self.term[pairs]
        sizes = text.lengths[sentence]
        pair, index, begins = _spread(text.starts[sentence], sizes)
        values = dice[term[pair], text.words[index]]
        highest = np.maximum.reduceat(values, begins)
        distance = np.abs(self._position[pairs][pair] - text.place[index] / sizes[pair])
        distance[values != highest[pair]] = np.inf
        closest = np.flatnonzero(distance == np.minimum.reduceat(distance, begins)[pair])
        word: Numbers = text.words[index[closest[np.unique(pair[closest], return_index=True)[1]]]]
        starts = self._source.indptr[sentence]
        pair, index, begins = _spread(starts, self._source.indptr[sentence + 1] - starts)
        of_others = dice[self._source.indices[index], word[pair]]
        return np.where(np.maximum.reduceat(of_others, begins) > highest, -1, word)


def _spread(starts: Numbers, sizes: Numbers) -> Iterator[Numbers]:
    """For ranges their numbers, all that is in them, and where each begins in that."""
    number = np.repeat(np.arange(len(sizes)), sizes)
    begins = sizes.cumsum() - sizes
    yield from (number, np.arange(len(number)) - begins[number] + starts[number], begins)
