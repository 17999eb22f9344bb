"""Words that a model lacks: which they are, and symbols that are copied into a translation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.text.subwords import BPE_SEPARATOR, SPACE

_SHOWN = 10
_AROUND = ".,;:!?()[]{}\"'“”„‘’«»…。、！？，；："
_WORD = re.compile(r"\w+")
_LATER_PARTS = ("Sk", "Mn", "Cf")  # of an emoji: its colour, its form, what joins two


def unknown_words(
    name: str, sentences: Iterable[str], lang: str, lacking: Callable[[str], Sequence[str]]
) -> str:
    """Return how many words of a text a model lacks, and the first of them; empty: none.

    In languages without spaces characters are counted.

    Args:
        name: what the text is called.
        sentences: its sentences.
        lang: their language.
        lacking: the words of a sentence with a part that is not in the vocabulary.
    """
    has_words = language_code(lang) not in WITHOUT_SPACES
    shown: dict[str, None] = {}  # in their order
    count = total = 0
    for sentence in sentences:
        words = sentence.split()
        lacked = lacking(sentence)
        total += len(words) if has_words else sum(map(len, words))
        count += _number_of_words(sentence, lacked) if has_words else sum(map(len, lacked))
        for word in lacked:
            shown[word.strip(_AROUND) or word] = None
    if not count:
        return ""
    first = ", ".join(list(shown)[:_SHOWN])
    rest = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    unit = "words" if has_words else "characters"
    return f"{name}: {count:,} of {total:,} {unit} are not in the vocabulary: {first}{rest}"


def _number_of_words(sentence: str, lacked: Sequence[str]) -> int:
    """Return in how many words of a sentence tokens stand; a word such as ``<p>`` may have many."""
    words: set[int] = set()
    place = 0
    for token in lacked:
        found = sentence.find(token, place)
        if found >= 0:
            place = found + len(token)
            words.add(len(sentence[: found + 1].split()))
    return max(len(words), 1) if lacked else 0


def words_of_subwords(subwords: Sequence[str], lang: str) -> list[list[str]]:
    """Return the subwords of each word; in languages without spaces each stands alone."""
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

    One at the begin or the end of the source stands there in the translation, too; any other
    keeps its share of the words before it.
    """
    words = translation.split(" ")
    places: list[tuple[int, str]] = []
    for begin, symbol in _symbols(source):
        if symbol in translation:
            continue
        before = len(_WORD.findall(source[:begin]))
        behind = len(_WORD.findall(source[begin + len(symbol) :]))
        if not before:
            place = 0
        elif not behind:
            place = len(words)
        else:
            place = max(1, round(len(words) * before / (before + behind)))
        places.append((place, symbol))
    for place, symbol in reversed(places):
        words.insert(place, symbol)
    return " ".join(words)


def _symbols(text: str) -> Sequence[tuple[int, str]]:
    """Return the symbols of a text that are no punctuation, and where each begins."""
    symbols: list[tuple[int, str]] = []
    for place, character in enumerate(text):
        category = unicodedata.category(character)
        follows = bool(symbols) and place == symbols[-1][0] + len(symbols[-1][1])
        if follows and (
            category in _LATER_PARTS or (category == "So" and text[place - 1] == "\u200d")
        ):
            symbols[-1] = symbols[-1][0], symbols[-1][1] + character
        elif category == "So":
            symbols.append((place, character))
    return symbols
