"""Lines of text that nobody would write, and documents of them.

A line is drawn from one of several families: random characters of all planes, control characters,
combining marks, scripts from right to left, emoji, digits of all scripts, what this project, Moses
and BPE use as marks, broken HTML, very long words and lines, and sentences of a corpus that have
been cut, joined, and sprinkled with all of these.
"""

from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

Draw = random.Random
Family = Callable[[Draw, Sequence[str]], str]

BOUNDARIES = (
    *("", "", "", " ", "\t ", "<d>", " <d> ", "\u2028", "\x0b", "\x0c\x1c", "\x85", "\u3000"),
)
"""Lines that end a document: empty, ``<d>``, white space of all kinds."""

# What programs, vocabularies and files use as marks.
_MARKS = (
    *("@@", "@-@", "@/@", "@,@", "@lower@", "@\\lower@", "@", "@@@", "a@@", "@@b", "@/", "/@"),
    *("&amp;", "&#91;", "&#93;", "&apos;", "&quot;", "&#124;", "&#32;", "&#64;", "&lt"),
    *("<s>", "</s>", "<unk>", "<pad>", "<mask>", "<d>", "<\\s>", "<\\\\s>", "<sep>", "<lang>"),
    *("[en]", "[de_DE]", "[\\en]", "__en__", "<2de>", "[SEP]", "[CLS]", "[MASK]", "[UNK]", "##x"),
    *("\u2581", "\u2581\u2581", "\u2581a", "\u0120", "\u010a", "\u00ad", "\ufffd", "\\", "|||"),
    *("madeupword0000", "<<unk>>", "{", "%s", "$x", "`", "#", "//", "-", "--", "0", "null", "NaN"),
)
_SPACES = " \u00a0\u1680\u2000\u2003\u2007\u2009\u200a\u202f\u205f\u3000\t"
_CONTROLS = (
    *map(chr, (*range(1, 10), *range(11, 32), *range(127, 160))),
    *("\x00", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff", "\ufdd0", "\ufdd2", "\U0010ffff"),
    *("\u200b", "\u200c", "\u200d", "\u200e", "\u200f", "\u202a", "\u202b", "\u202c", "\u202e"),
    *("\u2060", "\u2063", "\u2066", "\u2069", "\ufff9", "\ufffb", "\u034f", "\u061c", "\U000e0001"),
)
_EMOJI = (
    *("\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3ff"),
    *("\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\u2764\ufe0f", "\U0001f3f4\U000e0067\U000e007f"),
)
# First and last character of scripts from right to left, without spaces, with marks, of no letters.
_SCRIPTS = (
    *((0x0590, 0x05FF), (0x0600, 0x06FF), (0x0700, 0x074F), (0xFB1D, 0xFDCF), (0x0900, 0x097F)),
    *((0x0E00, 0x0E7F), (0x1100, 0x11FF), (0x3040, 0x30FF), (0x4E00, 0x4FFF), (0xAC00, 0xAD00)),
    *((0x0400, 0x04FF), (0x0370, 0x03FF), (0x1E00, 0x1FFF), (0xFF00, 0xFFEF), (0x2000, 0x206F)),
    *((0x10A0, 0x10FF), (0x13A0, 0x13FF), (0x1D400, 0x1D4FF), (0x20000, 0x200FF), (0xE000, 0xE0FF)),
)
_HTML = ("<b>", "</p>", "<a href='x", '">', "<br/", "<!--", "-->", "&nbsp", "&#x1F600;", "&;")
_PUNCTUATION = "\"'`.,;:!?-()[]{}<>/|\\@#$%^&*_+=~\u2018\u2019\u201c\u201d\u00ab\u00bb\u2026\u2013"


@cache
def _digits() -> list[str]:
    return [char for char in map(chr, range(sys.maxunicode)) if char.isnumeric()]


@cache
def _combining() -> list[str]:
    return [char for char in map(chr, range(0x20000)) if unicodedata.combining(char)]


def _any_character(draw: Draw) -> str:
    """Of all planes, each as likely as the others; no half of a pair, which UTF-8 has not."""
    plane = draw.choice((0, 0, 0, 1, 2, 3, 14, 15, 16))
    code = (plane << 16) + draw.randrange(0x10000)
    return chr(code) if not 0xD800 <= code < 0xE000 else "\ud7ff"


def _characters(draw: Draw, corpus: Sequence[str]) -> str:
    return "".join(_any_character(draw) for _ in range(draw.randint(1, 30)))


def _script(draw: Draw, corpus: Sequence[str]) -> str:
    first, last = draw.choice(_SCRIPTS)
    return "".join(
        chr(draw.randint(first, last)) if draw.random() < 0.85 else draw.choice(" .,!?\u060c\u3002")
        for _ in range(draw.randint(1, 60))
    )


def _controls(draw: Draw, corpus: Sequence[str]) -> str:
    return "".join(
        draw.choice(_CONTROLS) if draw.random() < 0.6 else draw.choice("ab .")
        for _ in range(draw.randint(1, 20))
    )


def _combined(draw: Draw, corpus: Sequence[str]) -> str:
    letters = draw.choices("aeiou \u05d0\u0e01\u304b\u0130\u0131\u00df\ufb01\u212b", k=8)
    return "".join(
        letter + "".join(draw.choices(_combining(), k=draw.randint(0, 6))) for letter in letters
    )


def _emoji(draw: Draw, corpus: Sequence[str]) -> str:
    return draw.choice(("", " ")).join(draw.choices(_EMOJI, k=draw.randint(1, 8)))


def _numbers(draw: Draw, corpus: Sequence[str]) -> str:
    return "".join(
        draw.choice((*"0123456789", draw.choice(_digits()), draw.choice(".,-/:' ")))
        for _ in range(draw.randint(1, 40))
    )


def _marks(draw: Draw, corpus: Sequence[str]) -> str:
    return draw.choice((" ", " ", "")).join(draw.choices(_MARKS, k=draw.randint(1, 8)))


def _html(draw: Draw, corpus: Sequence[str]) -> str:
    words = [*_HTML, *draw.choice(corpus).split()]
    return "".join(
        draw.choice(words) + draw.choice(("", " ")) for _ in range(draw.randint(1, 12))
    )


def _punctuation(draw: Draw, corpus: Sequence[str]) -> str:
    return "".join(
        draw.choice(_PUNCTUATION) if draw.random() < 0.7 else draw.choice("aB 1")
        for _ in range(draw.randint(1, 25))
    )


def _spaced(draw: Draw, corpus: Sequence[str]) -> str:
    return "".join(
        word + "".join(draw.choices(_SPACES, k=draw.randint(1, 9)))
        for word in draw.choice(corpus).split()
    )


def _word(draw: Draw, corpus: Sequence[str]) -> str:
    """One very long word, of a single character or of many."""
    alphabet = draw.choice(("a", "ab@", "\u4e2d", "0123456789", "-", "\u0301", ".", "xyz&<"))
    return "".join(draw.choices(alphabet, k=draw.choice((100, 300, 1000))))


def _long(draw: Draw, corpus: Sequence[str]) -> str:
    return " ".join(draw.choices(corpus, k=draw.choice((20, 60))))


def _mutated(draw: Draw, corpus: Sequence[str]) -> str:
    """A sentence of the corpus to which a few things have happened."""
    text = draw.choice(corpus)
    for _ in range(draw.randint(1, 4)):
        begin, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        what = draw.random()
        if what < 0.2:
            text = text[:begin] + text[end:]
        elif what < 0.3:
            text = text[:begin] + text[begin:end].swapcase() + text[end:]
        elif what < 0.4:
            text = f"{text[begin:]} {text[:begin]}"
        else:
            other = draw.choice((_characters, _controls, _marks, _punctuation, _emoji, _numbers))
            text = text[:begin] + other(draw, corpus)[:12] + text[begin:]
        text = text or "a"
    return text


def _plain(draw: Draw, corpus: Sequence[str]) -> str:
    return draw.choice(corpus)


FAMILIES: dict[Family, int] = {
    _mutated: 30, _characters: 10, _script: 10, _controls: 8, _combined: 6, _emoji: 4,
    _numbers: 6, _marks: 10, _html: 5, _punctuation: 6, _spaced: 4, _plain: 8, _word: 1, _long: 1,
}  # fmt: skip
"""Families of lines and how often they are drawn."""


def is_boundary(line: str) -> bool:
    """Whether a line ends a document: it is empty but for white space, or ``<d>``."""
    return line.strip() in ("", "<d>")


def sentence(draw: Draw, corpus: Sequence[str]) -> str:
    """A line that is no boundary, without a line feed."""
    (family,) = draw.choices(list(FAMILIES), list(FAMILIES.values()))
    text = family(draw, corpus).replace("\n", " ")
    return f"{text}x" if is_boundary(text) else text


def text(draw: Draw, corpus: Sequence[str], lines: int) -> list[str]:
    """``lines`` lines, sentences and boundaries; the first and the last one are sentences."""
    found = [_first(draw, corpus)]
    while len(found) < lines:
        if draw.random() < 0.1 and len(found) < lines - 1:
            found.append(draw.choice(BOUNDARIES))
        else:
            found.append(sentence(draw, corpus))
    return found


def other_side(draw: Draw, corpus: Sequence[str], source: Sequence[str]) -> list[str]:
    """The other language of a text: other sentences, the same boundaries."""
    rest = ["" if is_boundary(line) else sentence(draw, corpus) for line in source[1:]]
    return [_first(draw, corpus), *rest]


def _first(draw: Draw, corpus: Sequence[str]) -> str:
    """A sentence at the beginning of a file, where a byte order mark would be dropped."""
    return f"x{sentence(draw, corpus)}"
