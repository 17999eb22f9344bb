"""The vocabulary of a model, and its language tokens."""

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
    """The entries of one side of a model, in the order of its embeddings.

    Attributes:
        words: the entries of the dictionary with its special tokens.
        added: ``[lang]`` and the mask, which the task adds.
    """

    words: tuple[str, ...]
    added: tuple[str, ...] = ()

    @classmethod
    def of(cls, dictionary: Dictionary, words: int) -> Vocabulary:
        """Split a dictionary after its first ``words`` entries."""
        entries = list(dictionary.symbols)
        return cls(tuple(entries[:words]), tuple(entries[words:]))

    @property
    def entries(self) -> list[str]:
        """``words``, then ``added``."""
        return [*self.words, *self.added]

    @property
    def digest(self) -> str:
        """A digest of all entries."""
        return digest_of_values(self.words, self.added)

    def dictionary(self, added: bool = True) -> Dictionary:
        """Return a dictionary of all entries, or of ``words``."""
        dictionary = Dictionary()
        entries = self.entries if added else self.words
        for entry in entries[dictionary.nspecial :]:
            dictionary.add_symbol(entry, overwrite=True)
        return dictionary

    def dictionary_lines(self) -> Iterable[str]:
        """Return the lines of the dictionary's file."""
        own = self.words[Dictionary().nspecial :]
        return dictionary_lines((entry, 1) for entry in own)

    def difference(self, other: Vocabulary) -> str:
        """Return the first difference from another vocabulary."""
        if len(self.entries) != len(other.entries):
            return f"{len(self.entries)} entries, not {len(other.entries)}"
        pairs = zip(self.entries, other.entries, strict=True)
        for number, (here, there) in enumerate(pairs):
            if here != there:
                return f"entry {number} is '{here}', not '{there}'"
        raise ValueError("the vocabularies are the same")


def language_token(lang: str) -> str:
    """``en -> [en]``."""
    return f"[{lang}]"


def split_languages(langs: object) -> list[str]:
    """Return the languages of ``en,de`` or a list."""
    if isinstance(langs, (list, tuple)):
        return [str(lang) for lang in langs]
    return [lang for lang in str(langs or "").split(",") if lang]


def find_language_token(lang: object, langs: object) -> str:
    """Return the token of ``lang``; for ``de`` also ``[de_DE]``, ``[deu]`` or ``[deu_Latn]``.

    Raises:
        GtransError: ``langs`` has none, or several.
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
    """Put ``[lang]`` of each language and ``<mask>`` behind the first ``words`` entries, in place.

    Later entries are removed: fairseq needs dictionaries before it knows a checkpoint's languages.
    """
    for entry in dictionary.symbols[words:]:
        del dictionary.indices[entry]
    del dictionary.symbols[words:], dictionary.count[words:]
    for lang in langs:
        dictionary.add_symbol(language_token(lang))
    dictionary.add_symbol(MASK)
