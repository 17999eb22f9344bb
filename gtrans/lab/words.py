"""The words of a sentence, and the subword pieces that write each of them.

A *word* is what a reader takes for one: letters and digits between spaces and punctuation, with
hyphens and apostrophes inside, or a punctuation mark. In scripts without spaces a word is what
the pipeline makes one piece.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import TYPE_CHECKING

from gtrans.text.pipeline import TextPipeline

if TYPE_CHECKING:
    from gtrans.decoding.force_decode import Side

_WORD = re.compile(r"\w+(?:['’\-]\w+)*|[^\w\s]")
# Thai, Lao, Burmese and Khmer; Chinese characters, kana, and their extensions.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


@dataclass(frozen=True)
class Words:
    """The words of a sentence.

    Attributes:
        sentence: its text.
        spans: begin and end of each word in it.
        pieces: for each word the numbers of its pieces; every piece belongs to one word.
    """

    sentence: str
    spans: tuple[tuple[int, int], ...]
    pieces: tuple[range, ...]

    @property
    def texts(self) -> list[str]:
        """The words as the user wrote them."""
        return [self.sentence[begin:end] for begin, end in self.spans]

    def with_other(self, words: Mapping[int, str]) -> str:
        """The sentence with other words; ``words``: by the numbers of those in their place."""
        text = self.sentence
        for number in sorted(words, reverse=True):  # so that the earlier spans stay
            begin, end = self.spans[number]
            text = text[:begin] + words[number] + text[end:]
        return text


@cache
def words_of_side(side: Side) -> list[list[Words]]:
    """The words of the sentences of one side of a corpus."""
    return [
        [words_of(side.pipeline, *pair) for pair in zip(*texts, strict=True)]
        for texts in zip(side.documents, side.encoded, strict=True)
    ]


def words_of(pipeline: TextPipeline, sentence: str, encoded: str) -> Words:
    """The words of a sentence.

    A piece belongs to the word that its first character belongs to. A word without such a piece
    is joined to the word before it.

    Args:
        pipeline: encodes the sentence.
        sentence: plain text.
        encoded: its pieces, separated by spaces.
    """
    pieces = encoded.split()
    starts = _starts(sentence, [pipeline.unsegment(piece) for piece in pieces])
    begins = [match.start() for match in _WORD.finditer(sentence)] or [0]
    begins = sorted({*begins, *(at for at in starts if _UNSPACED.match(sentence, at))})
    first_pieces: dict[int, int] = {}
    for number, start in enumerate(starts):
        word = begins[max(bisect_right(begins, start) - 1, 0)]
        first_pieces.setdefault(word, number)
    begins = sorted(first_pieces)
    numbers = [*(first_pieces[begin] for begin in begins[1:]), len(pieces)]
    spans, ranges, first = [], [], 0
    for begin, end, last in zip(begins, [*begins[1:], len(sentence)], numbers, strict=True):
        spans.append((begin, begin + len(sentence[begin:end].rstrip())))
        ranges.append(range(first, last))
        first = last
    return Words(sentence, tuple(spans), tuple(ranges))


def _starts(sentence: str, texts: Sequence[str]) -> list[int]:
    """Where each piece begins in a sentence: never before the piece in front of it.

    Characters that the pipeline has changed are put where the unchanged ones around them leave
    room.
    """
    places = [place for place, character in enumerate(sentence) if not character.isspace()]
    wanted = "".join(_folded(sentence[place]) for place in places)
    bare = ["".join(_folded(character) for character in "".join(text.split())) for text in texts]
    written = "".join(bare)
    if written == wanted:
        at = list(range(len(wanted)))
    else:
        at = []
        for _, i, j, k, m in SequenceMatcher(None, written, wanted, autojunk=False).get_opcodes():
            at += [k + (offset * (m - k)) // max(j - i, 1) for offset in range(j - i)]
    starts, done = [], 0
    for text in bare:
        index = at[done] if done < len(at) else len(places)
        starts.append(places[min(index, len(places) - 1)] if places else 0)
        done += len(text)
    return starts


def _folded(character: str) -> str:
    """The character without case, if that is one character, too."""
    lower = character.lower()
    return lower if len(lower) == 1 else character
