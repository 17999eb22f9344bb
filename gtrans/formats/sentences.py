"""Splitters of running text into sentences."""

from __future__ import annotations

from gtrans.formats.blocks import Splitter
from gtrans.languages import language_code


def splitter(lang: str) -> Splitter:
    """The rules of sentencex for a language, or its general ones; nothing is downloaded.

    Args:
        lang: code of the language.
    """
    from sentencex import segment

    code = language_code(lang) or lang  # one that this project does not know

    def split(text: str) -> list[str]:
        return [found for one in segment(code, text) if (found := one.strip())]

    return split


def as_one(text: str) -> list[str]:
    """The splitter of text that is one sentence."""
    return [text] if text else []
