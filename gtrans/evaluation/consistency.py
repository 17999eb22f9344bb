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

Intervals and tests resample whole documents, of those that have a pair of any system. Terms and
their translations are found once, in the corpus as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

import numpy as np

from gtrans.evaluation.dice import Alignment, Text
from gtrans.evaluation.meteor import stem_function
from gtrans.evaluation.metrics import Documents
from gtrans.evaluation.scores import Measurement

MIN_LETTERS = 4
MIN_LETTERS_CHINESE = 2
MAX_SHARE = 0.03
MAX_SENTENCES = 10

Words = list[str]
# The number of the word that translates a term, -1 for none, and those of its sentence.
_Occurrence = tuple[int, frozenset[int]]


@dataclass(frozen=True)
class Consistency:
    """How consistently a translation translates repeated terms.

    Attributes:
        consistent: pairs of sentences with the same translation of a term.
        pairs: pairs of sentences of which at least one has a translation of the term.
        terms: terms of documents with at least one such pair.
        consistent_with_first, pairs_with_first: of the pairs, those with the first sentence of
            the document that has the term.
        by_document: for each document ``consistent``, ``pairs``, ``consistent_with_first`` and
            ``pairs_with_first``.
    """

    consistent: int
    pairs: int
    terms: int
    consistent_with_first: int
    pairs_with_first: int
    by_document: tuple[tuple[int, int, int, int], ...] = field(
        default=(), compare=False, repr=False
    )

    @property
    def counts(self) -> dict[str, int]:
        """All counts of the corpus, by name."""
        names = ("consistent", "pairs", "terms", "consistent_with_first", "pairs_with_first")
        return {name: getattr(self, name) for name in names}

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

# Where the counts of a score stand in those of a document.
_COUNTS = {"lexical_consistency": (0, 1), "lexical_consistency_with_first": (2, 3)}


def measurements(systems: Mapping[str, Consistency], signature: str) -> dict[str, Measurement]:
    """Both scores with the counts of every document that has a pair, for intervals and tests.

    Args:
        systems: by name; of the same documents.
        signature: of both scores.

    Returns:
        by key; without a score that is None for a system.
    """
    found = {}
    for key, (label, score) in SCORES.items():
        if any(score(it) is None for it in systems.values()):
            continue
        counts = {
            name: np.array([[row[at] for at in _COUNTS[key]] for row in it.by_document], float)
            for name, it in systems.items()
        }
        with_pairs = np.any([it[:, 1] > 0 for it in counts.values()], axis=0)
        counts = {name: it[with_pairs] for name, it in counts.items()}
        documents = np.arange(np.count_nonzero(with_pairs))
        found[key] = Measurement(
            key, label, "document", True, signature, counts, documents, _share_of
        )
    return found


def _share_of(sums: list[float]) -> float:
    """The score of drawn documents; 0 where a system has no pair in any of them."""
    return 100 * sums[0] / sums[1] if sums[1] else 0.0


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
        present = [
            frozenset(text.words[start : start + length].tolist())
            for start, length in zip(text.starts.tolist(), text.lengths.tolist(), strict=True)
        ]
        occurrences: defaultdict[tuple[int, int], list[_Occurrence]] = defaultdict(list)
        for sentence, term, word in zip(
            alignment.sentence.tolist(),
            alignment.term.tolist(),
            alignment.translations(text).tolist(),
            strict=True,
        ):
            occurrences[self._document[sentence], term].append((word, present[sentence]))
        by_document = [[0, 0, 0, 0] for _ in self._shape]
        terms = 0
        for (document, _), of_term in occurrences.items():
            agree = _agreements(combinations(of_term, 2))
            with_first = _agreements((of_term[0], later) for later in of_term[1:])
            terms += bool(agree)
            for place, pairs in ((0, agree), (2, with_first)):
                by_document[document][place] += sum(pairs)
                by_document[document][place + 1] += len(pairs)
        consistent, pairs_in_all, of_first, in_all_with_first = (
            sum(row[place] for row in by_document) for place in range(4)
        )
        rows = tuple((row[0], row[1], row[2], row[3]) for row in by_document)
        return Consistency(consistent, pairs_in_all, terms, of_first, in_all_with_first, rows)

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


def _agreements(pairs: Iterable[tuple[_Occurrence, _Occurrence]]) -> list[bool]:
    """For the pairs that count whether they are consistent."""
    return [
        one in other_words or other in one_words
        for (one, one_words), (other, other_words) in pairs
        if one >= 0 or other >= 0
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
