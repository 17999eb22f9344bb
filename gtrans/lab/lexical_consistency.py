"""Lexical consistency: is a repeated source term translated the same way throughout?

The score is the lexical translation consistency ratio of Lyu et al. (2021): of all pairs of
sentences of a document that share a source term, the share in which the term has the same
translation. The definitions are as follows; no model and no word list is needed:

* A *term* is a source word of at least four letters (of two in Chinese, whose words the caller
  finds) that occurs in two or more sentences of the document. It occurs in at most 3% of the
  sentences of the corpus (or in at most 10), since more frequent words are probably function words.
* The *translation* of a term in a sentence is the target word with the highest Dice
  coefficient. A word that has a higher coefficient with another source word of the sentence is
  not accepted. Coefficients are counted over the sentence pairs of source and translation and
  those of source and reference together.
* A pair of sentences counts if a translation is found in at least one of them. It is
  *consistent* if a translation that is found in one sentence also occurs in the other. Words
  are compared by their stems if the target language has a stemmer, otherwise without case.

A consistent translation need not be good: the untranslated source is consistent, and so is one
sentence repeated. So the score counts the consistent pairs whose shared translation also stands in
the reference of both sentences; the share of all consistent pairs is beside it in JSON. More is not
always better: the value of the reference shows how consistent a human translator is.

Intervals and tests resample whole documents, of those that have a pair of any system. Terms and
their translations are found once, in the corpus as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from gtrans.evaluation.characters import is_chinese, is_written_without_spaces
from gtrans.evaluation.metrics import (
    Documents,
    Measurement,
    build_bleu,
    counts_words_by_spaces,
    stem_function,
    with_words,
)
from gtrans.evaluation.other_scores import Found, Given, OtherScore

KEY = "lexical_consistency"
MIN_LETTERS = 4
MIN_LETTERS_CHINESE = 2
MAX_SHARE = 0.03
MAX_SENTENCES = 10

Numbers = NDArray[np.int64]
Words = list[str]
# The number of the word that translates a term, -1 for none; those of its sentence; those of the
# reference of its sentence.
_Occurrence = tuple[int, frozenset[int], frozenset[int]]
_AT_ONCE = 20_000  # pairs of a word and a sentence whose words are compared at a time


@dataclass(frozen=True)
class Consistency:
    """How consistently a translation translates repeated terms.

    Attributes:
        consistent: for each document, pairs of sentences with the same translation of a term.
        shared: of these, those whose translation is in the reference of both sentences.
        pairs: for each document, pairs of which at least one has a translation of the term.
        terms: terms of documents with at least one such pair.
    """

    consistent: tuple[int, ...]
    shared: tuple[int, ...]
    pairs: tuple[int, ...]
    terms: int

    @property
    def counts(self) -> dict[str, int]:
        """All counts of the corpus, by name."""
        return {
            "consistent": sum(self.consistent),
            "consistent_and_in_reference": sum(self.shared),
            "pairs": sum(self.pairs),
            "terms": self.terms,
        }

    @property
    def score(self) -> float | None:
        """Share of consistent pairs that are in the reference, 0 to 100; None without any pair."""
        return 100 * sum(self.shared) / sum(self.pairs) if sum(self.pairs) else None


def measure(given: Given) -> Found:
    """The lexical consistency of all systems, with a note about that of the reference.

    There is no score where words cannot be told, or a system has no repeated term; a note says so.
    """
    assert given.sources is not None and given.references is not None
    options = given.options
    tokenizer = build_bleu(options).tokenizer
    segment: Any = None
    reason = ""
    if is_written_without_spaces(given.sources):
        if not is_chinese(given.sources):
            reason = "the source is written without spaces between words"
        elif find_spec("jieba") is None:
            reason = "the source is Chinese, whose words need jieba: pip install jieba"
        else:
            from gtrans.text.moses import chinese_words as segment
    if options.without_spaces and counts_words_by_spaces("s_bleu", options):
        reason = (
            "the reference is written without spaces between words, which "
            f"the tokeniser {tokenizer.signature()} does not find; give --target-lang"
        )
    if reason:
        return Found([], [f"no lexical consistency: {reason}"])
    words = with_words(given.references, options)
    judge = ConsistencyJudge(given.sources, words, tokenizer, options.target_lang, segment)
    systems = {
        name: judge.judge(with_words(documents, options))
        for name, documents in given.systems.items()
    }
    reference = judge.judge_reference()
    if (score := reference.score) is None or any(it.score is None for it in systems.values()):
        return Found([], ["no lexical consistency: no term is repeated in a document"])
    signed = signature(tokenizer.signature(), options.target_lang, "jieba" if segment else "")
    counts = {name: np.array([it.shared, it.pairs], float).T for name, it in systems.items()}
    with_pairs = np.any([it[:, 1] > 0 for it in counts.values()], axis=0)
    measurement = Measurement(
        key=KEY,
        label="lexical consistency",
        unit="document",
        higher_is_better=True,
        neutral=True,
        signature=signed,
        statistics={name: it[with_pairs] for name, it in counts.items()},
        documents=np.arange(np.count_nonzero(with_pairs)),
        # 0 where a system has no pair in any of the documents that are drawn
        compute=lambda sums: 100 * sums[..., 0] / np.maximum(sums[..., 1], 1),
    )
    details = {name: {**it.counts, "of_reference": score} for name, it in systems.items()}
    notes = [f"lexical consistency of the reference: {score:.2f}"]
    if len(given.args.ref) > 1:
        notes.append("lexical consistency reads the first reference only")
    return Found([measurement], notes, details)


SCORE = OtherScore(
    settings={
        "action": "store_true",
        "help": "with --details and in JSON, the share of repeated source terms that are "
        "translated the same way throughout a document, and as in the reference; needs --src",
    },
    measure=measure,
    aligned=True,
    needs=("--ref", "--src"),
)


def signature(tokenizer: str, target_lang: str, segmenter: str = "") -> str:
    """The signature of a score: everything that it depends on.

    Args:
        tokenizer: of the translations.
        target_lang: chooses the stemmer.
        segmenter: finds the words of a Chinese source.
    """
    stemmer = stem_function(target_lang)[0] or "no"
    letters = MIN_LETTERS_CHINESE if segmenter else MIN_LETTERS
    return (
        f"term:{letters}+letters,2+sentences,max:{MAX_SHARE:.0%}or{MAX_SENTENCES}"
        f"{f'|source:{segmenter}' if segmenter else ''}"
        f"|align:dice|in-reference:yes|stem:{stemmer}|tok:{tokenizer}|unit:document"
    )


class ConsistencyJudge:
    """Measures the consistency of translations of one text.

    Args:
        sources: documents of sentences.
        references: translations of the same sentences.
        tokenize: splits target text into words, with spaces.
        target_lang: chooses the stemmer.
        segment: splits Chinese source text into words; without it, source words are separated
            by spaces.
    """

    def __init__(
        self,
        sources: Documents,
        references: Documents,
        tokenize: Callable[[str], str],
        target_lang: str = "",
        segment: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        letters = MIN_LETTERS_CHINESE if segment else MIN_LETTERS
        segment = segment or str.split
        stem = stem_function(target_lang)[1] or str
        self._tokenize = tokenize
        # Empty for what has no letter; most words are in all translations.
        self._stem = cache(lambda word: stem(word) if any(map(str.isalpha, word)) else "")
        source = [
            [_cores(segment(sentence.lower())) for sentence in document] for document in sources
        ]
        self._document = [n for n, document in enumerate(source) for _ in document]
        self._shape = [len(document) for document in source]
        flat = [words for document in source for words in document]
        frequency = Counter(word for words in flat for word in set(words))
        limit = max(MAX_SENTENCES, MAX_SHARE * len(flat))
        terms = [
            word
            for word, count in frequency.items()
            if 2 <= count <= limit and sum(map(str.isalpha, word)) >= letters
        ]
        self._alignment = Alignment(flat, self._target_words(references), terms)

    def judge(self, translations: Documents) -> Consistency:
        """Consistency of a translation."""
        return self._judge(self._alignment.text(self._target_words(translations)))

    def judge_reference(self) -> Consistency:
        """Consistency of the reference."""
        return self._judge(self._alignment.reference)

    def _judge(self, text: Text) -> Consistency:
        alignment = self._alignment
        present, expected = text.sets(), alignment.reference.sets()
        occurrences: defaultdict[tuple[int, int], list[_Occurrence]] = defaultdict(list)
        for sentence, term, word in zip(
            alignment.sentence.tolist(),
            alignment.term.tolist(),
            alignment.translations(text).tolist(),
            strict=True,
        ):
            found = word, present[sentence], expected[sentence]
            occurrences[self._document[sentence], term].append(found)
        consistent, shared, pairs = ([0] * len(self._shape) for _ in range(3))
        terms = 0
        for (document, _), of_term in occurrences.items():
            agree = _agreements(combinations(of_term, 2))
            terms += bool(agree)
            consistent[document] += sum(same for same, _ in agree)
            shared[document] += sum(both for _, both in agree)
            pairs[document] += len(agree)
        return Consistency(tuple(consistent), tuple(shared), tuple(pairs), terms)

    def _target_words(self, documents: Documents) -> list[Words]:
        """The stems of the words of every sentence."""
        if [len(document) for document in documents] != self._shape:
            raise ValueError("the translation does not have the documents of the source")
        return [
            [
                stem
                for word in self._tokenize(sentence).lower().split()
                if (stem := self._stem(word))
            ]
            for document in documents
            for sentence in document
        ]


def _agreements(pairs: Iterable[tuple[_Occurrence, _Occurrence]]) -> list[tuple[bool, bool]]:
    """For the pairs that count whether they are consistent, and so with words of the reference."""
    found = []
    for (one, words, expected), (other, other_words, other_expected) in pairs:
        if one >= 0 or other >= 0:
            same = {one} & other_words | {other} & words
            found.append((bool(same), bool(same & expected & other_expected)))
    return found


def _cores(words: Iterable[str]) -> Words:
    return [word for word in map(_core, words) if word]


def _core(word: str) -> str:
    """A word without the punctuation around it."""
    begin, end = 0, len(word)
    while begin < end and not word[begin].isalnum():
        begin += 1
    while begin < end and not word[end - 1].isalnum():
        end -= 1
    return word[begin:end]


# --- alignment of words by Dice coefficients ----------------------------------------------------


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

    def sets(self) -> list[frozenset[int]]:
        """The words of each sentence."""
        pairs = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [frozenset(self.words[start : start + length].tolist()) for start, length in pairs]

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
