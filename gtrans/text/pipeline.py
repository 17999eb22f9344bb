"""Text pipelines: from a sentence to tokens of a vocabulary and back.

Characters without a glyph (soft hyphens, zero-width spaces, marks of direction) are dropped,
because they would split words. A backslash escapes ``<s>``, ``[en]`` and the like in the text
(``<\\s>``), so that they never become special tokens; an escaped token gets one more.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable

# Replaces a sentence without any printable character, so that no line is empty.
PLACEHOLDER = "\ufffd"

# The Moses pipeline uses U+FDD0 to U+FDD3, to which Unicode assigns no characters.
_UNWRITABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ufdd0-\ufdd3]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Arabic to Sinhala, Tibetan, Burmese, Khmer, Mongolian and so on, whose letters are joined: joiner
# and non-joiner after these letters are spelling; the joiner also makes one emoji of several.
_JOINED = (
    "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u1a00-\u1cff\ua800-\uabff"
    "\ufb50-\ufdcf\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"
_WITHOUT_GLYPH = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
    f"|(?<![{_JOINED}])\u200c"
    f"|(?<![{_JOINED}])(?:(?<![{_EMOJI}\ufe0f])\u200d|\u200d(?![{_EMOJI}]))"
)

# Reserved: the special tokens of fairseq, and language tokens as in mBART.
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


# What only a tokeniser or subwords write, how many of the sentences may have it, and its name.
_NOT_PLAIN = (
    (
        re.compile(r"&(?:[A-Za-z]{2,8}|#\d+|#x[0-9A-Fa-f]+);|(?<= )@[-,.:/]@(?= )|\w@@ |▁\w"),
        0.02,
        "`&apos;`, `@-@`, `@@` or the like",
    ),
    (re.compile(r"(?<=\w) [.,](?: |$)"), 0.25, "a space before a full stop or comma"),
)
_MOST_UNKNOWN = 0.25


class TextPipeline(ABC):
    """Encoder and decoder of text in one language, such as ``zh_CN``."""

    def __init__(self, lang: str) -> None:
        self.lang = lang

    def encode(self, sentence: str) -> str:
        """Return at least one token, separated by one space; none is special."""
        return self.segment(self.tokenise(sentence))

    def decode(self, tokens: str) -> str:
        """Return the plain text of tokens from ``encode`` or a model."""
        return self.detokenise(self.unsegment(tokens))

    @abstractmethod
    def tokenise(self, sentence: str) -> str:
        """Return words separated by one space; never empty."""

    @abstractmethod
    def detokenise(self, tokens: str) -> str:
        """Return the plain text of words."""

    @abstractmethod
    def segment(self, tokens: str) -> str:
        """Return the subwords of words, separated by one space."""

    @abstractmethod
    def unsegment(self, tokens: str) -> str:
        """Return the words of subwords from ``segment`` or a model."""


def clean(sentence: str) -> str:
    """Return text on one line, without invisible characters; maybe empty."""
    if sentence.isascii():
        return _UNWRITABLE.sub(" ", sentence).strip()
    visible = _WITHOUT_GLYPH.sub("", _SURROGATE.sub(PLACEHOLDER, sentence))
    return _UNWRITABLE.sub(" ", visible).strip()


def escape(text: str) -> str:
    """Return the escaped words of ``text``, separated by one space; never empty."""
    words = [_replace(_ESCAPE, word) for word in text.split()]
    return " ".join(words) or PLACEHOLDER


def unescape(words: str) -> str:
    """Return the plain text of escaped words."""
    return " ".join(_replace(_UNESCAPE, word) for word in words.split())


def input_warnings(name: str, sentences: Iterable[str], unknown: int, tokens: int) -> list[str]:
    """Return warnings about a text that no model can translate as it is.

    Args:
        sentences: none if they may be tokenised.
        unknown: how many ``tokens`` are not in the vocabulary.
    """
    if unknown <= _MOST_UNKNOWN * tokens:
        return not_plain(name, sentences)
    return [
        f"{name}: {unknown / tokens:.0%} of the tokens are not in the vocabulary (<unk>); is it "
        "plain text in the right language?",
        *not_plain(name, sentences),
    ]


def not_plain(name: str, sentences: Iterable[str]) -> list[str]:
    """Return a warning if a text is tokenised, escaped or in subwords."""
    counts = [0, 0]
    count = 0
    for count, sentence in enumerate(sentences, start=1):  # noqa: B007
        for number, (pattern, _, _) in enumerate(_NOT_PLAIN):
            counts[number] += pattern.search(sentence) is not None
    for number, (_, most, what) in zip(counts, _NOT_PLAIN, strict=True):
        if number > most * count:
            return [
                f"{name}: it is tokenised or escaped already ({number:,} of {count:,} sentences "
                f"have {what}); give the plain text"
            ]
    return []


def _replace(rules: list[tuple[re.Pattern[str], str]], word: str) -> str:
    for pattern, replacement in rules:
        word = pattern.sub(replacement, word)
    return word
