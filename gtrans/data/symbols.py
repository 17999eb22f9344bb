"""Symbols that are no words: sentence marks, language symbols, the mask."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.data import Dictionary

MASK = "<mask>"


def language_symbol(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def add_symbols(dictionary: Dictionary, langs: Sequence[str]) -> None:
    """Give ``dictionary`` the symbols behind its words: ``[lang]`` of each language, ``<mask>``.

    It is changed in place, and calling it again with other languages replaces what
    an earlier call added: fairseq's commands hold on to the dictionaries before
    they read from the checkpoint which languages it knows.
    """
    added = [symbol for symbol in (dictionary.symbols[-1],) if symbol == MASK]
    for symbol in added:
        del dictionary.indices[symbol]
        dictionary.symbols.pop()
        dictionary.count.pop()
    for lang in langs:
        dictionary.add_symbol(language_symbol(lang))
    dictionary.add_symbol(MASK)
