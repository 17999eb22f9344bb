"""Lexical consistency: is a repeated source term translated the same way throughout?

The score is the lexical translation consistency ratio of Lyu et al. (2021): of all pairs of
sentences of a document that share a source term, the share in which the term has the same
translation. *With the first* translation, every later sentence with a term is compared with the
document's first sentence that has it. The definitions are as follows; no model and no word list is
needed:

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

A consistent translation need not be good: "the" for every word is consistent. The value of the
reference shows how consistent a human translator is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations

from gtrans.evaluation.meteor import stem_function
from gtrans.evaluation.metrics import Documents

MIN_LETTERS = 4
MIN_LETTERS_CHINESE = 2
MAX_SHARE = 0.03
MAX_SENTENCES = 10

Words = list[str]
_Occurrence = tuple[str | None, Words]  # the translation of a term, the words around it


@dataclass(frozen=True)
class Consistency:
    """How consistently a translation translates repeated terms.

    Attributes:
        consistent: pairs of sentences with the same translation of a term.
        pairs: pairs of sentences of which at least one has a translation of the term.
        terms: terms of documents with at least one such pair.
        consistent_with_first, pairs_with_first: of the pairs, those with the first sentence of
            the document that has the term.
    """

    consistent: int
    pairs: int
    terms: int
    consistent_with_first: int
    pairs_with_first: int

    @property
    def score(self) -> float | None:
        """Share of consistent pairs, from 0 to 100; None without any pair."""
        return _percent(self.consistent, self.pairs)

    @property
    def score_with_first(self) -> float | None:
        """Share of consistent pairs with the first sentence; None without any."""
        return _percent(self.consistent_with_first, self.pairs_with_first)


SCORES: dict[str, tuple[str, Callable[[Consistency], float | None]]] = {
    "lexical_consistency": ("lexical consistency", lambda found: found.score),
    "lexical_consistency_with_first": (
        "lexical consistency with the first",
        lambda found: found.score_with_first,
    ),
}
"""Key, label and value of both scores, in the order of tables."""


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None


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
        f"|align:dice|stem:{stemmer}|tok:{tokenizer}|unit:document"
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
        self._tokenize, self._lang = tokenize, target_lang
        self._source = [
            [_cores(segment(sentence.lower())) for sentence in document] for document in sources
        ]
        self._frequency = Counter(
            word for document in self._source for words in document for word in set(words)
        )
        limit = max(MAX_SENTENCES, MAX_SHARE * sum(map(len, self._source)))
        self._terms = {
            word
            for word, count in self._frequency.items()
            if 2 <= count <= limit and sum(map(str.isalpha, word)) >= letters
        }
        self._references = _Pairs(self._source, _target_words(references, tokenize, target_lang))

    def judge(self, translations: Documents) -> Consistency:
        """Consistency of a translation (which may be the reference itself)."""
        target = _target_words(translations, self._tokenize, self._lang)
        dice = _Dice(self._frequency, self._references, _Pairs(self._source, target))
        all_pairs: list[bool] = []
        with_first: list[bool] = []
        found = 0
        for source_document, target_document in zip(self._source, target, strict=True):
            translations_of: dict[str, list[_Occurrence]] = defaultdict(list)
            for source_words, target_words in zip(source_document, target_document, strict=True):
                for term in self._terms.intersection(source_words):
                    word = dice.translation(term, source_words, target_words)
                    translations_of[term].append((word, target_words))
            for occurrences in translations_of.values():
                agree = _agreements(combinations(occurrences, 2))
                all_pairs += agree
                found += bool(agree)
                with_first += _agreements((occurrences[0], later) for later in occurrences[1:])
        return Consistency(sum(all_pairs), len(all_pairs), found, sum(with_first), len(with_first))


def _agreements(pairs: Iterable[tuple[_Occurrence, _Occurrence]]) -> list[bool]:
    """For the pairs that count whether they are consistent."""
    return [
        one in other_words or other in one_words
        for (one, one_words), (other, other_words) in pairs
        if one is not None or other is not None
    ]


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


def _target_words(
    documents: Documents, tokenize: Callable[[str], str], lang: str
) -> list[list[Words]]:
    stem = stem_function(lang)[1] or str
    stems: dict[str, str] = {}

    def words(sentence: str) -> Words:
        found = [word for word in tokenize(sentence).lower().split() if any(map(str.isalpha, word))]
        for word in found:
            if word not in stems:
                stems[word] = stem(word)
        return [stems[word] for word in found]

    return [[words(sentence) for sentence in document] for document in documents]


class _Pairs:
    """Counts of sentence pairs that contain a target word, or a source and a target word."""

    def __init__(self, source: list[list[Words]], target: list[list[Words]]) -> None:
        self.target: Counter[str] = Counter()
        self.both: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for source_document, target_document in zip(source, target, strict=True):
            for source_words, target_words in zip(source_document, target_document, strict=True):
                types = set(target_words)
                self.target.update(types)
                for word in set(source_words):
                    self.both[word].update(types)


class _Dice:
    """Association of source and target words: how often they share a sentence pair."""

    def __init__(self, source: Counter[str], one: _Pairs, other: _Pairs) -> None:
        self._source, self._one, self._other = source, one, other

    def translation(self, term: str, source: Words, target: Words) -> str | None:
        """The word of ``target`` that translates ``term``; None if there is none.

        Of words with the same coefficient, the one with the closest relative position is taken.
        """
        if not target:
            return None
        position = source.index(term) / len(source)
        strengths = self._strengths(term, target)
        best = max(
            range(len(target)),
            key=lambda i: (strengths[i], -abs(position - i / len(target))),
        )
        one = [target[best]]
        if any(self._strengths(other, one)[0] > strengths[best] for other in source):
            return None
        return target[best]

    def _strengths(self, source: str, target: Words) -> list[float]:
        """The coefficient of a source word with each of some target words."""
        both, other_both = self._one.both[source], self._other.both[source]
        alone, other_alone = self._one.target, self._other.target
        twice = 2 * self._source[source]
        # Faster than the Counters' own answer for what they lack.
        return [
            2
            * (both.get(word, 0) + other_both.get(word, 0))
            / (twice + alone.get(word, 0) + other_alone.get(word, 0))
            for word in target
        ]
