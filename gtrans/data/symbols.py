"""Symbols that are no words: sentence marks, language symbols, the mask."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.data import Dictionary

MASK = "<mask>"


def language_symbol(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def add_symbols(dictionary: Dictionary, words: int, langs: Sequence[str]) -> None:
    """Put ``[lang]`` of each language and ``<mask>`` behind the first ``words`` symbols.

    The dictionary is changed in place, and symbols of an earlier call are taken back:
    fairseq's commands hold on to the dictionaries before they read from the
    checkpoint which languages it knows.
    """
    for symbol in dictionary.symbols[words:]:
        del dictionary.indices[symbol]
    del dictionary.symbols[words:], dictionary.count[words:]
    for symbol in (*map(language_symbol, langs), MASK):
        dictionary.add_symbol(symbol)
