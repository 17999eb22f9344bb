"""The words of a sentence, and the subwords of each.

A word consists of letters and digits with hyphens and apostrophes inside, or is a punctuation mark.
In scripts without spaces it is a subword.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING

from gtrans.text.pipeline import TextPipeline

if TYPE_CHECKING:
    from gtrans.translating.force_decode import CorpusSide

_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")
# Thai, Lao, Burmese and Khmer; Chinese characters, kana, and their extensions.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


@dataclass(frozen=True)
class SegmentedSentence:
    """The words of a sentence.

    Attributes:
        spans: the characters of each word.
        subwords: numbers of each word's subwords; every subword belongs to one word.
    """

    sentence: str
    spans: tuple[range, ...]
    subwords: tuple[range, ...]

    @property
    def texts(self) -> list[str]:
        """The words, as in the sentence."""
        return [self.sentence[span.start : span.stop] for span in self.spans]

    def with_other(self, number: int, word: str) -> str:
        """Return the sentence with another word as its word ``number``."""
        span = self.spans[number]
        before = self.sentence[: span.start]
        behind = self.sentence[span.stop :]
        return before + word + behind


@cache
def words_of_side(side: CorpusSide) -> list[list[SegmentedSentence]]:
    """Return the words of all sentences of one side, by document."""
    documents = []
    for document, encoded in zip(side.documents, side.encoded, strict=True):
        sentences = []
        for sentence, subwords in zip(document, encoded, strict=True):
            sentences.append(words_of(side.pipeline, sentence, subwords))
        documents.append(sentences)
    return documents


def _word_begins(sentence: str, starts: Sequence[int]) -> list[int]:
    begins = {match.start() for match in _WORD.finditer(sentence)}
    if not begins:
        begins.add(0)
    for start in starts:
        if _UNSPACED.match(sentence, start):
            begins.add(start)
    return sorted(begins)


def words_of(pipeline: TextPipeline, sentence: str, encoded: str) -> SegmentedSentence:
    """Find the words of a sentence; ``encoded`` has its subwords, separated by spaces.

    A subword belongs to the word of its first character. A word without such a subword is joined to
    the word before it.
    """
    subwords = encoded.split()
    starts = _subword_starts(sentence, [pipeline.unsegment(subword) for subword in subwords])
    begins = _word_begins(sentence, starts)
    # The first subword of each word that has one, by the begin of the word.
    first_subwords: dict[int, int] = {}
    for number, start in enumerate(starts):
        word = bisect_right(begins, start) - 1
        first_subwords.setdefault(begins[max(word, 0)], number)
    word_begins = sorted(first_subwords)
    word_ends = [*word_begins[1:], len(sentence)]
    first_subwords[len(sentence)] = len(subwords)
    spans: list[range] = []
    ranges: list[range] = []
    for begin, end in zip(word_begins, word_ends, strict=True):
        text = sentence[begin:end].rstrip()
        spans.append(range(begin, begin + len(text)))
        first = first_subwords[begin] if ranges else 0
        ranges.append(range(first, first_subwords[end]))
    return SegmentedSentence(sentence, tuple(spans), tuple(ranges))


def _subword_starts(sentence: str, texts: Sequence[str]) -> list[int]:
    """Return where each subword begins; changed characters lie between unchanged ones."""
    positions = []
    for position, character in enumerate(sentence):
        if not character.isspace():
            positions.append(position)
    if not positions:
        return [0] * len(texts)
    subwords = [_folded(text) for text in texts]
    aligned = _align("".join(subwords), _folded(sentence))
    starts = []
    offset = 0
    for text in subwords:
        index = aligned[offset] if offset < len(aligned) else len(positions)
        last = len(positions) - 1
        starts.append(positions[min(index, last)])
        offset += len(text)
    return starts


def _align(text: str, sentence: str) -> list[int]:
    if text == sentence:
        return list(range(len(sentence)))
    aligned = []
    matcher = SequenceMatcher(None, text, sentence, autojunk=False)
    for _, start, stop, first, behind in matcher.get_opcodes():
        length = stop - start
        for offset in range(length):
            moved = offset * (behind - first) // length
            aligned.append(first + moved)
    return aligned


def _folded(text: str) -> str:
    """Remove spaces and case; other characters keep their number."""
    characters = []
    for character in text:
        if not character.isspace():
            lower = character.lower()
            characters.append(lower if len(lower) == 1 else character)
    return "".join(characters)
