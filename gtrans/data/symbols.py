"""Symbols that are no words: sentence marks, language symbols, the mask."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.data import Dictionary

from gtrans.errors import GtransError

MASK = "<mask>"


def language_symbol(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def split_languages(langs: object) -> list[str]:
    """The languages of ``en,de``; a list of them and None are understood, too."""
    if isinstance(langs, (list, tuple)):
        return [str(lang) for lang in langs]
    return [lang for lang in str(langs or "").split(",") if lang]


def symbol_of(lang: object, langs: object) -> str:
    """The symbol of ``lang`` among those of ``langs``: ``[de_DE]`` is that of ``de``, too.

    Raises:
        GtransError: it has none, or several.
    """
    known = split_languages(langs)
    found = [one for one in known if one == lang] or [
        one for one in known if one.split("_")[0] == str(lang)
    ]
    if len(found) != 1:
        raise GtransError(
            f"`--langs` {','.join(known) or 'is empty and'} has "
            f"{'several symbols' if found else 'no symbol'} for the language '{lang}', which "
            "`--sentence-marks` needs; name all languages of the pretrained model, in its order."
        )
    return language_symbol(found[0])


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
