"""Lexical consistency: is a repeated source term translated the same way throughout?

The score is that of Lyu et al. (2021), lexical translation consistency ratio: of all
pairs of sentences of a document that share a source term, the share in which its
translations are the same. What it rests on is fixed here, without any model or word list:

* a *term* is a source word of at least four letters that stands in two or more sentences
  of the document, and in at most 3% (or 10) of the corpus's sentences: a word more
  frequent than that is taken for a function word;
* its *translation* in a sentence is the target word with which it is associated most, by
  Dice's coefficient of the sentences that contain them, provided that the target word has
  no stronger association with another word of the sentence. The associations are those
  of the source with the translation and the reference together;
* a pair of sentences is *consistent* if the translation found in one of them stands in
  the other as well; it counts if there is a translation in at least one of them. Words
  are the same if their stems are, where the target language has a stemmer, else if they
  differ in case at most.

Consistency is no quality: "the" for everything is consistent. The reference's own value
tells how consistent a translator is who varies where it reads better.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

from gtrans.evaluation.meteor import stem_function
from gtrans.evaluation.scores import Documents

MIN_LETTERS = 4
MAX_SHARE = 0.03
MAX_SENTENCES = 10

Words = list[str]


@dataclass(frozen=True)
class Consistency:
    """How consistently a translation renders repeated terms.

    Attributes:
        consistent: pairs of sentences with the same translation of a term.
        pairs: pairs of sentences of which at least one has a translation of the term.
        terms: terms of documents with at least one such pair.
    """

    consistent: int
    pairs: int
    terms: int

    @property
    def score(self) -> float | None:
        """Share of consistent pairs, from 0 to 100; None without any pair."""
        return 100 * self.consistent / self.pairs if self.pairs else None


def signature(tokenizer: str, target_lang: str) -> str:
    """What a value depends on."""
    stemmer = stem_function(target_lang)[0] or "no"
    return (
        f"term:{MIN_LETTERS}+letters,2+sentences,max:{MAX_SHARE:.0%}or{MAX_SENTENCES}"
        f"|align:dice|stem:{stemmer}|tok:{tokenizer}|unit:document"
    )


class ConsistencyJudge:
    """Judges translations of one text.

    Args:
        sources: documents of sentences.
        references: translations of the same sentences.
        tokenize: splits target text into words, with spaces.
        target_lang: chooses the stemmer.
    """

    def __init__(
        self,
        sources: Documents,
        references: Documents,
        tokenize: Callable[[str], str],
        target_lang: str = "",
    ) -> None:
        self._tokenize, self._lang = tokenize, target_lang
        self._source = [[_source_words(sentence) for sentence in document] for document in sources]
        self._frequency = Counter(
            word for document in self._source for words in document for word in set(words)
        )
        limit = max(MAX_SENTENCES, MAX_SHARE * sum(map(len, self._source)))
        self._terms = {
            word
            for word, count in self._frequency.items()
            if 2 <= count <= limit and sum(map(str.isalpha, word)) >= MIN_LETTERS
        }
        self._references = _Pairs(self._source, _target_words(references, tokenize, target_lang))

    def judge(self, translations: Documents) -> Consistency:
        """Consistency of a translation (which may be the reference itself)."""
        target = _target_words(translations, self._tokenize, self._lang)
        dice = _Dice(self._frequency, self._references, _Pairs(self._source, target))
        consistent = pairs = found = 0
        for source_document, target_document in zip(self._source, target, strict=True):
            renderings: dict[str, list[tuple[str | None, Words]]] = defaultdict(list)
            for source_words, target_words in zip(source_document, target_document, strict=True):
                for term in self._terms.intersection(source_words):
                    word = dice.translation(term, source_words, target_words)
                    renderings[term].append((word, target_words))
            for occurrences in renderings.values():
                agree = [
                    one in other_words or other in one_words
                    for (one, one_words), (other, other_words) in combinations(occurrences, 2)
                    if one is not None or other is not None
                ]
                consistent += sum(agree)
                pairs += len(agree)
                found += bool(agree)
        return Consistency(consistent, pairs, found)


def _source_words(sentence: str) -> Words:
    return [word for word in map(_core, sentence.lower().split()) if word]


def _core(word: str) -> str:
    """A word without the marks around it."""
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
    """In how many sentence pairs a target word, or a pair of words, occurs."""

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
        """The word of ``target`` that renders ``term``; None if there is none.

        Of equally associated words, the one whose place fits the term's best.
        """
        if not target:
            return None
        place = source.index(term) / len(source)
        best = max(
            range(len(target)),
            key=lambda i: (self._dice(term, target[i]), -abs(place - i / len(target))),
        )
        strength = self._dice(term, target[best])
        if any(self._dice(other, target[best]) > strength for other in source):
            return None
        return target[best]

    def _dice(self, source: str, target: str) -> float:
        together = self._one.both[source][target] + self._other.both[source][target]
        alone = 2 * self._source[source] + self._one.target[target] + self._other.target[target]
        return 2 * together / alone
