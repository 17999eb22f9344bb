"""The vocabulary of a model: the entries of its embeddings, and those that are no words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairseq.data import Dictionary

from gtrans.data.dictionary_file import dictionary_lines
from gtrans.errors import GtransError
from gtrans.files import digest_of_values
from gtrans.languages import language_code

MASK = "<mask>"


@dataclass(frozen=True)
class Vocabulary:
    """The entries of one side of a model; their positions are the rows of its embeddings.

    Attributes:
        words: the entries of the dictionary, with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``.
        added: the entries that the task has added after them: ``[lang]`` and the mask.
    """

    words: tuple[str, ...]
    added: tuple[str, ...] = ()

    @classmethod
    def of(cls, dictionary: Dictionary, words: int) -> Vocabulary:
        """From a dictionary whose first ``words`` entries are its own."""
        entries = list(dictionary.symbols)
        return cls(tuple(entries[:words]), tuple(entries[words:]))

    @property
    def entries(self) -> list[str]:
        """All entries."""
        return [*self.words, *self.added]

    @property
    def digest(self) -> str:
        """A digest of all entries."""
        return digest_of_values(self.words, self.added)

    def dictionary(self, added: bool = True) -> Dictionary:
        """A dictionary of all entries, or without those that the task has added."""
        dictionary = Dictionary()
        entries = self.entries if added else self.words
        for entry in entries[dictionary.nspecial :]:
            dictionary.add_symbol(entry, overwrite=True)
        return dictionary

    def dictionary_lines(self) -> Iterable[str]:
        """The lines of the dictionary's file."""
        return dictionary_lines((entry, 1) for entry in self.words[Dictionary().nspecial :])

    def difference(self, other: Vocabulary) -> str:
        """How two vocabularies differ, in a few words."""
        here, there = self.entries, other.entries
        if len(here) != len(there):
            return f"{len(here)} entries, not {len(there)}"
        places = (place for place in range(len(here)) if here[place] != there[place])
        first = next(places)
        return f"entry {first} is '{here[first]}', not '{there[first]}'"


def language_token(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def split_languages(langs: object) -> list[str]:
    """The languages in the text ``en,de``; also accepts a list of languages, or None."""
    if isinstance(langs, (list, tuple)):
        return [str(lang) for lang in langs]
    return [lang for lang in str(langs or "").split(",") if lang]


def find_language_token(lang: object, langs: object) -> str:
    """The token of ``lang`` among the languages ``langs``.

    For ``de`` it may also be ``[de_DE]``, ``[deu]`` or ``[deu_Latn]``.

    Raises:
        GtransError: there is none, or there are several.
    """
    known = split_languages(langs)
    matches = [name for name in known if name == lang]
    if not matches:
        code = language_code(str(lang))
        matches = [name for name in known if code is not None and language_code(name) == code]
    if len(matches) == 1:
        return language_token(matches[0])
    if matches:
        raise GtransError(
            f"the model has several tokens for the language '{lang}': name one of "
            f"{', '.join(matches)}."
        )
    raise GtransError(
        f"the model has no token for the language '{lang}', which its special tokens need; "
        f"`--langs` names all its languages, in its order: {','.join(known) or 'none'}."
    )


def add_language_tokens(dictionary: Dictionary, words: int, langs: Sequence[str]) -> None:
    """Add ``[lang]`` of each language and ``<mask>`` after the first ``words`` entries.

    The dictionary is changed in place, and entries that an earlier call has added are removed:
    fairseq's commands get the dictionaries before they read from the checkpoint which languages
    the model knows.
    """
    for entry in dictionary.symbols[words:]:
        del dictionary.indices[entry]
    del dictionary.symbols[words:], dictionary.count[words:]
    for entry in (*map(language_token, langs), MASK):
        dictionary.add_symbol(entry)
