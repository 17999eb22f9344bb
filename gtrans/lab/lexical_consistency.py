"""Lexical consistency: is a repeated source term translated the same way throughout?

The score follows the lexical translation consistency ratio of Lyu et al. (2021): of all pairs of
sentences of a document that share a source term, the share with the same translation of it.

* A *term* is a source word of at least four letters (two in Chinese) that occurs in two or more
  sentences of the document, and in at most 3% of the sentences of the corpus (or in at most 10).
* The *translation* of a term in a sentence is the target word with the highest Dice coefficient,
  unless another source word of the sentence has a higher one with it. Coefficients are counted over
  the sentence pairs of source and translation and of source and reference.
* A pair of sentences counts if at least one has a translation. It is *consistent* if a translation
  in one sentence also occurs in the other, compared by stems or else without case.

The untranslated source is consistent, too, so the shared translation must stand in the reference
of both sentences. More is not always better: compare the reference's value.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain, combinations, product
from typing import Any

import numpy as np

from gtrans.evaluation.characters import is_chinese, is_written_without_spaces
from gtrans.evaluation.metrics import (
    Documents,
    Measurement,
    build_bleu,
    counts_words_by_spaces,
    stem_function,
    with_words,
)
from gtrans.evaluation.other_scores import OtherScore, ScoreInput, ScoreResult

KEY = "lexical_consistency"
MIN_LETTERS = 4
MIN_LETTERS_CHINESE = 2
MAX_SHARE = 0.03
MAX_SENTENCES = 10

_EDGES = re.compile(r"^[\W_]+|[\W_]+$")
"""Characters around the letters and digits of a word."""


@dataclass(frozen=True)
class Consistency:
    """How consistently a translation translates repeated terms, by document.

    Attributes:
        consistent: pairs of sentences with the same translation of a term.
        shared: consistent pairs whose translation is in both references.
        pairs: pairs with a translation in at least one sentence.
    """

    consistent: tuple[int, ...]
    shared: tuple[int, ...]
    pairs: tuple[int, ...]

    @property
    def counts(self) -> dict[str, int]:
        """All counts of the corpus."""
        return {
            "consistent": sum(self.consistent),
            "consistent_and_in_reference": sum(self.shared),
            "pairs": sum(self.pairs),
        }

    @property
    def score(self) -> float | None:
        """Percentage of ``pairs`` that are ``shared``; None without any pair."""
        return 100 * sum(self.shared) / sum(self.pairs) if sum(self.pairs) else None


def measure(score_input: ScoreInput) -> ScoreResult:
    """Return the lexical consistency of all systems, or a note why there is none."""
    assert score_input.sources is not None and score_input.references is not None
    options = score_input.options
    tokenizer = build_bleu(options).tokenizer
    segment: Any = None
    reason = ""
    if is_written_without_spaces(score_input.sources):
        if not is_chinese(score_input.sources):
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
        return ScoreResult([], [f"no lexical consistency: {reason}"])
    words = with_words(score_input.references, options)
    judge = ConsistencyJudge(score_input.sources, words, tokenizer, options.target_lang, segment)
    systems = {
        name: judge.judge(with_words(documents, options))
        for name, documents in score_input.systems.items()
    }
    score = judge.judge(words).score
    if score is None or any(result.score is None for result in systems.values()):
        return ScoreResult([], ["no lexical consistency: no term is repeated in a document"])
    signed = signature(tokenizer.signature(), options.target_lang, "jieba" if segment else "")
    sums = {name: (result.shared, result.pairs) for name, result in systems.items()}
    counts = {name: np.array(pair, float).T for name, pair in sums.items()}
    with_pairs = np.any([array[:, 1] > 0 for array in counts.values()], axis=0)
    measurement = Measurement(
        key=KEY,
        label="lexical consistency",
        unit="document",
        higher_is_better=True,
        neutral=True,
        signature=signed,
        statistics={name: array[with_pairs] for name, array in counts.items()},
        documents=np.arange(np.count_nonzero(with_pairs)),
        # 0 where a system has no pair in any of the documents that are drawn
        compute=lambda sums: 100 * sums[..., 0] / np.maximum(sums[..., 1], 1),
    )
    details = {name: {**result.counts, "of_reference": score} for name, result in systems.items()}
    notes = [f"lexical consistency of the reference: {score:.2f}"]
    if len(score_input.args.ref) > 1:
        notes.append("lexical consistency reads the first reference only")
    return ScoreResult([measurement], notes, details)


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
    """Return everything that a score depends on."""
    stemmer = stem_function(target_lang)[0] or "no"
    letters = MIN_LETTERS_CHINESE if segmenter else MIN_LETTERS
    return (
        f"term:{letters}+letters,2+sentences,max:{MAX_SHARE:.0%}or{MAX_SENTENCES}"
        f"{f'|source:{segmenter}' if segmenter else ''}"
        f"|align:dice|in-reference:yes|stem:{stemmer}|tok:{tokenizer}|unit:document"
    )


class ConsistencyJudge:
    """Measures the consistency of translations of one text.

    ``segment`` splits Chinese source text into words, ``target_lang`` chooses the stemmer.
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
        # Empty for words without letters; cached, because most words are in all translations.
        self._stem = cache(lambda word: stem(word) if _letters(word) else "")
        self._document: list[int] = []
        for number, document in enumerate(sources):
            self._document += [number] * len(document)
        self._shape = [len(document) for document in sources]
        self._source: list[list[str]] = []
        for sentence in chain.from_iterable(sources):
            cores = [_EDGES.sub("", word) for word in segment(sentence.lower())]
            self._source.append([core for core in cores if core])
        self._frequency = Counter[str]()
        for words in self._source:
            self._frequency.update(set(words))
        limit = max(MAX_SENTENCES, MAX_SHARE * len(self._source))
        self._terms = set()
        for word, count in self._frequency.items():
            if 2 <= count <= limit and _letters(word) >= letters:
                self._terms.add(word)
        self._reference = self._target_words(references)
        self._expected = [frozenset(words) for words in self._reference]

    def judge(self, translations: Documents) -> Consistency:
        """Measure the consistency of a translation, or of the reference."""
        target = self._target_words(translations)
        words = [frozenset(sentence) for sentence in target]
        translated: defaultdict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        for sentence, term, word in self._translations(target):
            translated[self._document[sentence], term].append((sentence, word))
        consistent = [0] * len(self._shape)
        shared = [0] * len(self._shape)
        pairs = [0] * len(self._shape)
        for (document, _), entries in translated.items():
            for (first, first_word), (second, second_word) in combinations(entries, 2):
                if not first_word and not second_word:
                    continue
                same = {first_word} & words[second] | {second_word} & words[first]
                in_reference = same & self._expected[first] & self._expected[second]
                pairs[document] += 1
                consistent[document] += bool(same)
                shared[document] += bool(in_reference)
        return Consistency(tuple(consistent), tuple(shared), tuple(pairs))

    def _translations(self, target: Sequence[list[str]]) -> Iterator[tuple[int, str, str]]:
        """Yield sentence, term and its translation, or ''."""
        coefficients = _Dice(self._frequency)
        for source, words, reference in zip(self._source, target, self._reference, strict=True):
            coefficients.add(source, words)
            coefficients.add(source, reference)
        for number, (source, words) in enumerate(zip(self._source, target, strict=True)):
            for term in dict.fromkeys(source):
                if term in self._terms:
                    yield number, term, coefficients.translation(term, source, words)

    def _target_words(self, documents: Documents) -> list[list[str]]:
        if [len(document) for document in documents] != self._shape:
            raise ValueError("the translation does not have the documents of the source")
        stemmed = []
        for sentence in chain.from_iterable(documents):
            stems = [self._stem(word) for word in self._tokenize(sentence).lower().split()]
            stemmed.append([stem for stem in stems if stem])
        return stemmed


def _letters(word: str) -> int:
    return sum(character.isalpha() for character in word)


class _Dice:
    """Dice coefficients of source and target words.

    Each source sentence of ``frequency`` is added with two target sentences.
    """

    def __init__(self, frequency: Counter[str]) -> None:
        self._frequency = frequency
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._target: Counter[str] = Counter()

    def add(self, source: Sequence[str], target: Sequence[str]) -> None:
        different = set(target)
        self._target.update(different)
        self._pairs.update(product(set(source), different))

    def coefficient(self, source_word: str, target_word: str) -> float:
        total = 2 * self._frequency[source_word] + self._target[target_word]
        return 2 * self._pairs[source_word, target_word] / total

    def translation(self, term: str, source: Sequence[str], target: Sequence[str]) -> str:
        """Return the translation of a term in a sentence pair, or ''.

        Of equal coefficients, the one at the closest relative position is taken.
        """
        if not target:
            return ""
        values = [self.coefficient(term, word) for word in target]
        highest = max(values)
        position = source.index(term) / len(source)
        nearest, smallest = 0, math.inf
        for number, value in enumerate(values):
            offset = abs(position - number / len(target))
            if value == highest and offset < smallest:
                nearest, smallest = number, offset
        word = target[nearest]
        if any(self.coefficient(other, word) > highest for other in source):
            return ""
        return word
