"""Lexical consistency: is a repeated source term translated the same way throughout?

The score follows the lexical translation consistency ratio of Lyu et al. (2021): of all pairs of
sentences of a document that share a source term, the share with the same translation of it.

* A *term* is a source word of at least four letters (two in Chinese) that occurs in two or more
  sentences of the document, and in at most 3% of the sentences of the corpus (or in at most 10):
  more frequent words are probably function words.
* The *translation* of a term in a sentence is the target word with the highest Dice coefficient,
  unless another source word of the sentence has a higher one with it. Coefficients are counted over
  the sentence pairs of source and translation and of source and reference.
* A pair of sentences counts if at least one has a translation. It is *consistent* if a translation
  in one sentence also occurs in the other, compared by stems or else without case.

The untranslated source is consistent, too, so the shared translation must stand in the reference
of both sentences. More is not always better: compare the reference's value. Intervals and tests
resample the documents in which a system has such a pair.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain, combinations, product
from typing import Any, NamedTuple

import numpy as np

from gtrans.evaluation.characters import is_chinese, is_written_without_spaces
from gtrans.evaluation.metrics import (
    Documents,
    Measurement,
    Options,
    build_bleu,
    counts_words_by_spaces,
    stemmer_of,
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
    """Pairs of sentences that share a term, counted by document.

    Attributes:
        consistent: with the same translation of the term.
        shared: consistent ones whose translation is in both references.
        pairs: with a translation in at least one sentence.
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
        pairs = sum(self.pairs)
        return 100 * sum(self.shared) / pairs if pairs else None


def score_systems(score_input: ScoreInput) -> ScoreResult:
    """Return the lexical consistency of all systems, or a note why there is none."""
    assert score_input.sources is not None and score_input.references is not None
    options = score_input.options
    tokenizer = build_bleu(options).tokenizer
    reason = _why_not(score_input.sources, options, tokenizer.signature())
    if reason:
        return ScoreResult([], [f"no lexical consistency: {reason}"])
    segment: Any = None
    if is_written_without_spaces(score_input.sources):  # Chinese, or there is a reason
        from gtrans.text.moses import chinese_words as segment
    references = with_words(score_input.references, options)
    judge = ConsistencyJudge(
        score_input.sources, references, tokenizer, options.target_lang, segment
    )
    systems = {}
    for name, documents in score_input.systems.items():
        systems[name] = judge.judge(with_words(documents, options))
    score = judge.judge(references).score
    if score is None or any(result.score is None for result in systems.values()):
        return ScoreResult([], ["no lexical consistency: no term is repeated in a document"])
    segmenter = "jieba" if segment else ""
    signed = signature(tokenizer.signature(), options.target_lang, segmenter)
    details = {}
    for name, result in systems.items():
        details[name] = {**result.counts, "of_reference": score}
    notes = [f"lexical consistency of the reference: {score:.2f}"]
    if len(score_input.args.ref) > 1:
        notes.append("lexical consistency reads the first reference only")
    return ScoreResult([_measurement(systems, signed)], notes, details)


def _why_not(sources: Documents, options: Options, tokenizer: str) -> str:
    if options.without_spaces and counts_words_by_spaces("s_bleu", options):
        return (
            "the reference is written without spaces between words, which "
            f"the tokeniser {tokenizer} does not find; give --target-lang"
        )
    if not is_written_without_spaces(sources):
        return ""
    if not is_chinese(sources):
        return "the source is written without spaces between words"
    if find_spec("jieba") is None:
        return "the source is Chinese, whose words need jieba: pip install jieba"
    return ""


def _measurement(systems: Mapping[str, Consistency], signed: str) -> Measurement:
    counts = {}
    for name, result in systems.items():
        pairs = np.array([result.shared, result.pairs], float)
        counts[name] = pairs.T
    with_pairs = np.any([array[:, 1] > 0 for array in counts.values()], axis=0)
    return Measurement(
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


SCORE = OtherScore(
    settings={
        "action": "store_true",
        "help": "with --details and in JSON, the share of repeated source terms that are "
        "translated the same way throughout a document, and as in the reference; needs --src",
    },
    measure=score_systems,
    aligned=True,
    needs=("--ref", "--src"),
)


def signature(tokenizer: str, target_lang: str, segmenter: str = "") -> str:
    """Return everything that a score depends on."""
    stemmer = stemmer_of(target_lang).name or "no"
    letters = MIN_LETTERS_CHINESE if segmenter else MIN_LETTERS
    source = f"|source:{segmenter}" if segmenter else ""
    return (
        f"term:{letters}+letters,2+sentences,max:{MAX_SHARE:.0%}or{MAX_SENTENCES}"
        f"{source}"
        f"|align:dice|in-reference:yes|stem:{stemmer}|tok:{tokenizer}|unit:document"
    )


class _Occurrence(NamedTuple):
    sentence: int  # number in the text
    term: str
    translation: str  # empty: none


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
        stem = stemmer_of(target_lang).stem or str
        self._tokenize = tokenize
        # Empty for words without letters; cached, because most words are in all translations.
        self._stem = cache(lambda word: stem(word) if _letters(word) else "")
        self._document_of: list[int] = []
        for number, document in enumerate(sources):
            self._document_of += [number] * len(document)
        self._shape = [len(document) for document in sources]
        self._source: list[list[str]] = []
        for sentence in chain.from_iterable(sources):
            words = segment(sentence.lower())
            cores = [_EDGES.sub("", word) for word in words]
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
        # By document and term.
        occurrences: defaultdict[tuple[int, str], list[_Occurrence]] = defaultdict(list)
        for occurrence in self._occurrences(target):
            document = self._document_of[occurrence.sentence]
            occurrences[document, occurrence.term].append(occurrence)
        consistent = [0] * len(self._shape)
        shared = [0] * len(self._shape)
        pairs = [0] * len(self._shape)
        for (document, _), group in occurrences.items():
            for one, other in combinations(group, 2):
                if not one.translation and not other.translation:
                    continue
                same = {one.translation} & words[other.sentence]
                same |= {other.translation} & words[one.sentence]
                expected = self._expected[one.sentence] & self._expected[other.sentence]
                in_reference = same & expected
                pairs[document] += 1
                consistent[document] += bool(same)
                shared[document] += bool(in_reference)
        return Consistency(tuple(consistent), tuple(shared), tuple(pairs))

    def _occurrences(self, target: Sequence[list[str]]) -> Iterator[_Occurrence]:
        coefficients = _Dice(self._frequency)
        for source, words, reference in zip(self._source, target, self._reference, strict=True):
            coefficients.add(source, words)
            coefficients.add(source, reference)
        for number, (source, words) in enumerate(zip(self._source, target, strict=True)):
            for term in dict.fromkeys(source):
                if term in self._terms:
                    translation = coefficients.translation(term, source, words)
                    yield _Occurrence(number, term, translation)

    def _target_words(self, documents: Documents) -> list[list[str]]:
        if [len(document) for document in documents] != self._shape:
            raise ValueError("the translation does not have the documents of the source")
        stemmed = []
        for sentence in chain.from_iterable(documents):
            words = self._tokenize(sentence).lower().split()
            stems = [self._stem(word) for word in words]
            stemmed.append([stem for stem in stems if stem])
        return stemmed


def _letters(word: str) -> int:
    return sum(character.isalpha() for character in word)


class _Dice:
    """Dice coefficients of source and target words.

    ``frequency`` counts sentences by source word; each is added twice, with two target sentences.
    """

    def __init__(self, frequency: Counter[str]) -> None:
        self._frequency = frequency
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._target: Counter[str] = Counter()

    def add(self, source: Sequence[str], target: Sequence[str]) -> None:
        target_words = set(target)
        self._target.update(target_words)
        pairs = product(set(source), target_words)
        self._pairs.update(pairs)

    def coefficient(self, source_word: str, target_word: str) -> float:
        total = 2 * self._frequency[source_word] + self._target[target_word]
        return 2 * self._pairs[source_word, target_word] / total

    def translation(self, term: str, source: Sequence[str], target: Sequence[str]) -> str:
        """Return the translation of a term in a sentence pair, or ''.

        Of several words with the highest coefficient, the one at the closest relative position.
        """
        if not target:
            return ""
        values = [self.coefficient(term, word) for word in target]
        highest = max(values)
        position = source.index(term) / len(source)
        word = ""
        smallest = math.inf
        for number, value in enumerate(values):
            offset = abs(position - number / len(target))
            if value == highest and offset < smallest:
                word = target[number]
                smallest = offset
        if any(self.coefficient(other, word) > highest for other in source):
            return ""
        return word
