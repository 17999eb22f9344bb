"""Symbols that are not words: language symbols and the mask."""

from __future__ import annotations

from collections.abc import Sequence

from fairseq.data import Dictionary

from gtrans.errors import GtransError

MASK = "<mask>"


def language_symbol(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def split_languages(langs: object) -> list[str]:
    """The languages in the text ``en,de``; also accepts a list of languages, or None."""
    if isinstance(langs, (list, tuple)):
        return [str(lang) for lang in langs]
    return [lang for lang in str(langs or "").split(",") if lang]


def symbol_of(lang: object, langs: object) -> str:
    """The symbol of ``lang`` among those of ``langs``; that of ``de`` may also be ``[de_DE]``.

    Raises:
        GtransError: there is none, or there are several.
    """
    known = split_languages(langs)
    matches = [name for name in known if name == lang]
    if not matches:
        matches = [name for name in known if name.split("_")[0] == str(lang)]
    if len(matches) != 1:
        raise GtransError(
            f"`--langs` {','.join(known) or 'is empty and'} has "
            f"{'several symbols' if matches else 'no symbol'} for the language '{lang}', which "
            "`--sentence-marks` needs; name all languages of the pretrained model, in its order."
        )
    return language_symbol(matches[0])


def add_symbols(dictionary: Dictionary, words: int, langs: Sequence[str]) -> None:
    """Add ``[lang]`` of each language and ``<mask>`` after the first ``words`` symbols.

    The dictionary is changed in place, and symbols that an earlier call has added are removed:
    fairseq's commands get the dictionaries before they read from the checkpoint which languages
    the model knows.
    """
    for symbol in dictionary.symbols[words:]:
        del dictionary.indices[symbol]
    del dictionary.symbols[words:], dictionary.count[words:]
    for symbol in (*map(language_symbol, langs), MASK):
        dictionary.add_symbol(symbol)
