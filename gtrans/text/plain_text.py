"""Cleaning of plain text in all text pipelines: white space and reserved symbols.

White space and control characters of every kind become one space. ``<s>``, ``[en]`` and the
like in the text must never become symbols of the vocabulary, so they are escaped by a backslash
(``<\\s>``). Text that looks like an escaped symbol gets one more backslash. This module imports
neither torch nor fairseq.
"""

from __future__ import annotations

import re

# Replaces a sentence without any printable character, so that no line is empty.
PLACEHOLDER = "\ufffd"

# U+FDD0 and the next two, to which Unicode assigns no characters, are marks of the Moses pipeline.
_UNWRITABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufdd0-\ufdd2]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

# Reserved: the special symbols of fairseq, and language marks as in mBART.
_RESERVED_WORD = r"/?s|pad|unk|mask"
_LANGUAGE_WORD = r"[A-Za-z]{2,3}(?:[_-][A-Za-z]+)?"
_ESCAPE = [
    (re.compile(rf"<(\\*)({_RESERVED_WORD})>"), r"<\\\1\2>"),
    (re.compile(rf"\[(\\*)({_LANGUAGE_WORD})\]"), r"[\\\1\2]"),
    (re.compile(r"^@(\\*)lower@$"), r"@\\\1lower@"),
    # A word that ends in the BPE separator would be joined with the next word.
    (re.compile(r"@(\\*)@$"), r"@\\\1@"),
]
_UNESCAPE = [
    (re.compile(r"@\\(\\*)@$"), r"@\1@"),
    (re.compile(r"^@\\(\\*)lower@$"), r"@\1lower@"),
    (re.compile(rf"\[\\(\\*)({_LANGUAGE_WORD})\]"), r"[\1\2]"),
    (re.compile(rf"<\\(\\*)({_RESERVED_WORD})>"), r"<\1\2>"),
]


def clean(sentence: str) -> str:
    """The text on one line, without control characters and surrogates; it may be empty."""
    return _UNWRITABLE.sub(" ", _SURROGATE.sub(PLACEHOLDER, sentence)).strip()


def escape(text: str) -> str:
    """The words of ``text``, separated by one space, reserved symbols escaped; never empty."""
    return " ".join(_replace(_ESCAPE, word) for word in text.split()) or PLACEHOLDER


def unescape(words: str) -> str:
    """Plain text of what ``escape`` returned."""
    return " ".join(_replace(_UNESCAPE, word) for word in words.split())


def tokenise(sentence: str) -> str:
    """The words of a sentence as they are, cleaned and escaped; undone by ``unescape``."""
    return escape(clean(sentence))


def _replace(rules: list[tuple[re.Pattern[str], str]], word: str) -> str:
    for pattern, replacement in rules:
        word = pattern.sub(replacement, word)
    return word
