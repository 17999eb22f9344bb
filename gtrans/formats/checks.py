"""Which blocks of a file are sent to a model: prose whose markup was understood.

A block was misread if its own sentences as translations change it. Other blocks are left as they
are and counted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import TypeVar

from gtrans.errors import GtransError
from gtrans.formats.inline import Block, Content
from gtrans.text.document_file import LEFT, Note

_T = TypeVar("_T")

# ---- prose or code -------------------------------------------------------------------------------

_LETTER = r"[^\W\d_]"
_WORD = re.compile(
    rf"{_LETTER}+(?:['’ʼ‐‑–·/&+-]{_LETTER}+)*(?:\({_LETTER}{{1,3}}\))?['’]?|(?:{_LETTER}{{1,3}}\.)+{_LETTER}?"
)
_SIMPLE_WORD = re.compile(rf"{_LETTER}+(?:['’ʼ‐‑-]{_LETTER}+)*(?:\({_LETTER}{{1,3}}\))?")
_NUMBER = re.compile(r"[^\w\s]*\w*\d[\w.,:/%°+-]{0,9}[^\w\s]*")
_MOST_COUNTED = 8  # characters of a path or an address that is no word
_CAMEL = re.compile(r"[a-z]+[A-Z]")
_AROUND = "\"'“”‘’«»‹›„()[]¿¡,.:;!?…*–—"
_BETWEEN = re.compile(r"[\s\u3000-\u303f\uff00-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65]+")
# What only code has at its begin (a comment, a marker of an extension) or at its end.
_CODE = re.compile(
    r"""[{}]                                        # braces that are no placeholder
      | ^(?:%|\#!|//|/\*|\$\s|\.\.\s)               # a comment, a prompt
      | ^[:/+=<>%@!?&|;^#]{3,}                      # a marker: "=== ", ":::"
      | ^--+\d*<                                    # --8<--
      | ^\*?\[[^\]]*\]:                             # a definition
      | ^\[+[^\]\s]*\]+$                            # [TOC]
      | ^\([^()\s]*\)=                              # (a target)=
      | ^:[\w-]+:.*\n:[\w-]+:                       # options of a directive
      | (?:[\]}'"`]|\w\([^()\s]*\))\s*;$             # the end of a statement
      | ^[\w.-]+\s*:?=\s*["'\[]                     # an assignment
      | ^(?:import|export|from|const|let|var|return|function|class|def|using|include|require|if|for
        |while)\b.*(?:[;{(,=]|(['"])[^\s'"]+\1)\s*$  # a statement
    """,
    re.VERBOSE | re.DOTALL,
)


def is_prose(text: str) -> bool:
    """Return whether most letters of a text stand in words; in doubt, it is no prose.

    Letters of words count against all other characters (names such as ``maxLength``, paths,
    operators), in any language. The text has no markup, code, addresses and placeholders.
    """
    text = text.strip()
    if _CODE.search(text):
        return False
    tokens = [token for token in _BETWEEN.split(_without_accents(text)) if token]
    words = 0
    others = 0
    for token in tokens:
        inner = token.strip(_AROUND)
        forms = (inner, token.rstrip(",.:;!?…"), token.strip(",:;!?…"))  # word, file(s), e.g.
        if any(map(_WORD.fullmatch, forms)) and not _CAMEL.match(inner):
            words += len(inner)
        elif inner and not _NUMBER.fullmatch(inner):
            others += min(len(inner), _MOST_COUNTED)
    if len(tokens) == 1 and not _SIMPLE_WORD.fullmatch(tokens[0].strip(_AROUND)):
        return False
    return words > others


def _without_accents(text: str) -> str:
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    return "".join(char for char in composed if not unicodedata.category(char).startswith("M"))


# ---- the identity check --------------------------------------------------------------------------

_SHOWN = 12
"""Places that a note names."""
_LEAST_MISREAD = 5
"""Fewer misread blocks do not reject a file."""


class BlockCheck:
    """Decides for every block of a file whether it is sent to the model, and counts the others.

    Attributes:
        taken: number of blocks that are sent.
        misread: places of blocks that would not come back unchanged.
        code: places of blocks that are no prose.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.misread: list[str] = []
        self.code: list[str] = []

    def takes(self, block: Block, original: _T, written: Callable[[Content], _T]) -> bool:
        """Return whether a block is sent to the model.

        Args:
            original: the block in the file.
            written: writes text and markup as in the file, to be compared with ``original``.
        """
        if not block.sentences:
            return False
        place = str(block.line) if block.line else f"'{block.words.strip()[:30]}'"
        if not is_prose(block.words):
            self.code.append(place)
            return False
        if written(block.unchanged()) != original:
            self.misread.append(place)
            return False
        self.taken += 1
        return True

    def check_file(self, path: str) -> None:
        """Raise GtransError if most blocks would not come back unchanged."""
        if len(self.misread) >= _LEAST_MISREAD and len(self.misread) > self.taken:
            raise GtransError(
                f"'{path}': {len(self.misread)} of {len(self.misread) + self.taken} blocks would "
                f"not come back unchanged ({_listed(self.misread)}), so its markup is another; "
                "give a file of this format, or name its own with `--format`"
            )

    def notes(self, path: str) -> list[Note]:
        """Return a note about blocks that are left as they are, if any."""
        parts = []
        for places, reason, reasons in (
            (self.misread, "its markup is not known", "their markup is not known"),
            (self.code, "it is no prose", "they are no prose"),
        ):
            if len(places) == 1:
                parts.append(f"1 block left as it is, as {reason}: {_listed(places)}")
            elif places:
                blocks = f"{len(places)} blocks left as they are"
                parts.append(f"{blocks}, as {reasons}: {_listed(places)}")
        count = len(self.misread) + len(self.code)
        return [Note(path, LEFT, "; ".join(parts), count)] if parts else []


def _listed(places: Sequence[str]) -> str:
    rest = len(places) - _SHOWN
    shown = ", ".join(places[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
    if not places[0].isdigit():
        return shown
    return f"line {shown}" if len(places) == 1 else f"lines {shown}"
