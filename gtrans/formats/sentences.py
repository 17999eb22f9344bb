"""Sentences of running text: the rules of sentencex, and which of its sentences belong together.

sentencex (Wikimedia) ends sentences behind ordinals, titles and quotations. A long sentence costs
little, and a cut one is lost, so neighbours are joined when in doubt.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.text.document_file import Splitter

# Languages that write ordinals as numbers with a full stop, and those that write years so, too.
_ORDINALS = re.compile(
    "az|bs|cs|da|de|dsb|et|fi|fo|hr|hsb|hu|is|lb|lt|lv|nb|nds|nn|no|pl|sk|sl|sr|tk|tr"
)
_ORDINAL_YEARS = ("bs", "et", "hr", "hu", "lt", "lv", "sl", "sr")
# Titles and the like, of which a list of some languages lacks one or the other.
_ABBREVIATIONS = re.compile(
    "approx|ca|cf|chap|dipl|dr|eds?|eqs?|figs?|ing|mgr|mlle|mme|mrs?|ms|nr|pp|prof|sect|sra?|ste?|"
    "vols?|vs"
)
_BEFORE_NUMBERS = ("art", "ch", "no", "p", "ref", "sec", "tab")
_NUMERIC_ONLY = "#NUMERIC_ONLY#"

_LAST_WORD = re.compile(r"(?:^|(?<=[\s(\[\"'„“«‘/–—-]))((?:[^\W_]+\.)*[^\W_]+)\.$")
_INITIAL = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")  # A. or Z.B.
_ROMAN = re.compile(r"[IVXLC]+")
_OPENING = "「『（〈《【“„«‹"
_CLOSING = "」』）〉》】”“»›"
_CLOSED = re.compile(r"[」』）〉》】”’]$")


def splitter(lang: str) -> Splitter:
    """Return a function that splits running text into sentences; nothing is downloaded.

    General rules serve an unknown language.
    """
    from sentencex import segment

    code = language_code(lang) or lang

    def split(text: str) -> list[str]:
        sentences: list[str] = []
        begin = end = 0  # of the last sentence
        for part in segment(code, text):
            words = part.strip()
            if not words:
                continue
            place = text.index(words, end)
            is_new = not sentences or not _go_on(text[begin:end], text[end:place], words, code)
            if is_new:
                begin = place
                sentences.append("")
            end = place + len(words)
            sentences[-1] = text[begin:end]
        return sentences

    return split


def whole(text: str) -> list[str]:
    """Return a text as one sentence."""
    sentence = text.strip()
    return [sentence] if sentence else []


def _go_on(before: str, space: str, behind: str, lang: str) -> bool:
    first = behind.lstrip("\"'„“«‘([")[:1]
    begins_with_accent = unicodedata.category(behind[0]).startswith("M")
    if first.islower() or begins_with_accent:
        return True
    if _in_quotation(before, space, behind, lang):
        return True
    match = _LAST_WORD.search(before)
    return match is not None and _is_short(match[1], before, first, lang)


def _is_short(word: str, before: str, first: str, lang: str) -> bool:
    """Return whether the full stop behind a word belongs to it.

    ``word`` ends ``before``; ``first`` is the letter behind the full stop.
    """
    has_ordinals = _ORDINALS.fullmatch(lang) is not None
    if word.isdigit():
        is_number_of_item = before == f"{word}."
        digits = 4 if lang in _ORDINAL_YEARS else 3
        return is_number_of_item or (has_ordinals and len(word) <= digits)
    if has_ordinals and _ROMAN.fullmatch(word):
        return True
    if _INITIAL.fullmatch(word) and (word[0].isupper() or "." in word):
        return True
    abbreviations = _abbreviations(lang)
    if word in abbreviations.always or _ABBREVIATIONS.fullmatch(word.lower()):
        return True
    stands_before_numbers = word in abbreviations.before_numbers or word.lower() in _BEFORE_NUMBERS
    return first.isdigit() and stands_before_numbers


class _Abbreviations(NamedTuple):
    """Abbreviations before any word, and before numbers alone."""

    always: frozenset[str]
    before_numbers: frozenset[str]


@cache
def _abbreviations(lang: str) -> _Abbreviations:
    from sacremoses.corpus import NonbreakingPrefixes

    always, before_numbers = set[str](), set[str]()
    for word in NonbreakingPrefixes().words(lang):
        if _NUMERIC_ONLY in word:
            before_numbers.add(word.split()[0])
        else:
            always.add(word)
    return _Abbreviations(frozenset(always), frozenset(before_numbers))


def _in_quotation(before: str, space: str, behind: str, lang: str) -> bool:
    """Return whether a quotation goes on, or the sentence that holds it does: 「…？」と聞いた。"""
    if lang in WITHOUT_SPACES and not space and _CLOSED.search(before):
        return behind[0] not in _OPENING
    for opening, closing in zip(_OPENING, _CLOSING, strict=True):
        is_open = before.rfind(opening) > before.rfind(closing)
        end = behind.find(closing)
        if is_open and opening != closing and 0 <= end < len(behind) - 1:
            return True
    return False
