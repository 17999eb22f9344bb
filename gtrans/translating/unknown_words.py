"""Unknown words of a text, and symbols that are copied into a translation."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.text.subwords import BPE_SEPARATOR, SPACE

_SHOWN = 10
_PUNCTUATION = ".,;:!?()[]{}\"'“”„‘’«»…。、！？，；："
_WORD = re.compile(r"\w+")
_MODIFIERS = ("Sk", "Mn", "Cf")  # of an emoji: colour, form, joiner
_JOINER = "\u200d"


def unknown_words(
    name: str, sentences: Iterable[str], lang: str, lacking: Callable[[str], Sequence[str]]
) -> str:
    """Return a line with the number of unknown words of a text, and the first ones, or "".

    Args:
        name: the text, for the line.
        lacking: returns the words of a sentence with subwords outside of the vocabulary.
    """
    has_words = language_code(lang) not in WITHOUT_SPACES
    shown: dict[str, None] = {}  # in their order
    count = total = 0
    for sentence in sentences:
        words = sentence.split()
        unknown = lacking(sentence)
        if has_words:
            total += len(words)
            count += _number_of_words(sentence, unknown)
        else:
            total += sum(len(word) for word in words)
            count += sum(len(word) for word in unknown)
        for word in unknown:
            bare = word.strip(_PUNCTUATION)
            shown[bare or word] = None
    if not count:
        return ""
    first = ", ".join(list(shown)[:_SHOWN])
    rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    unit = "words" if has_words else "characters"
    return f"{name}: {count:,} of {total:,} {unit} are not in the vocabulary: {first}{rest}"


def _number_of_words(sentence: str, tokens: Sequence[str]) -> int:
    starts = [word.start() for word in re.finditer(r"\S+", sentence)]
    words: set[int] = set()
    place = 0
    for token in tokens:
        found = sentence.find(token, place)
        if found >= 0:
            place = found + len(token)
            words.add(bisect_right(starts, found))
    return max(len(words), 1) if tokens else 0


def words_of_subwords(subwords: Sequence[str], lang: str) -> list[list[str]]:
    """Return the subwords of each word; without spaces, each subword is a word."""
    if language_code(lang) in WITHOUT_SPACES:
        return [[subword] for subword in subwords]
    is_sentencepiece = any(subword.startswith(SPACE) for subword in subwords)
    words: list[list[str]] = []
    goes_on = False
    for subword in subwords:
        if is_sentencepiece:
            goes_on = bool(words) and not subword.startswith(SPACE)
        if goes_on:
            words[-1].append(subword)
        else:
            words.append([subword])
        goes_on = subword.endswith(BPE_SEPARATOR)
    return words


def with_symbols(source: str, translation: str) -> str:
    """Return a translation with the symbols and emoji of its source that it lacks.

    First and last symbols stay first and last; others keep their share of words before them.
    """
    words = translation.split(" ")
    insertions: list[tuple[int, str]] = []
    for symbol in _symbols(source):
        if symbol.text in translation:
            continue
        before = len(_WORD.findall(source[: symbol.start]))
        behind = len(_WORD.findall(source[symbol.end :]))
        if before == 0:
            place = 0
        elif behind == 0:
            place = len(words)
        else:
            place = max(1, round(len(words) * before / (before + behind)))
        insertions.append((place, symbol.text))
    for place, text in reversed(insertions):
        words.insert(place, text)
    return " ".join(words)


@dataclass
class _Symbol:
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def _symbols(text: str) -> list[_Symbol]:
    symbols: list[_Symbol] = []
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        is_symbol = category == "So"
        last = symbols[-1] if symbols else None
        if last is not None and last.end == place:
            is_joined = is_symbol and last.text.endswith(_JOINER)
            if category in _MODIFIERS or is_joined:
                last.text += character
                continue
        if is_symbol:
            symbols.append(_Symbol(place, character))
    return symbols
