"""The symbols of a model's embeddings, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fairseq.data import Dictionary

from gtrans.files import fingerprint


@dataclass(frozen=True)
class Vocabulary:
    """The symbols of one side of a model; their positions are the rows of its embeddings.

    Attributes:
        words: the symbols of the dictionary, with ``<s>``, ``<pad>``, ``</s>`` and ``<unk>``.
        added: the symbols that the task has added after them: ``[lang]`` and the mask.
    """

    words: tuple[str, ...]
    added: tuple[str, ...] = ()

    @classmethod
    def of(cls, dictionary: Dictionary, words: int) -> Vocabulary:
        """From a dictionary whose first ``words`` symbols are its own."""
        symbols = list(dictionary.symbols)
        return cls(tuple(symbols[:words]), tuple(symbols[words:]))

    @property
    def symbols(self) -> list[str]:
        """All symbols."""
        return [*self.words, *self.added]

    @property
    def digest(self) -> str:
        """The identity of the vocabulary."""
        return fingerprint(self.words, self.added)

    def dictionary(self) -> Dictionary:
        """A dictionary of all symbols."""
        found = Dictionary()
        for symbol in self.symbols[found.nspecial :]:
            found.add_symbol(symbol)
        return found

    def dictionary_lines(self) -> Iterable[str]:
        """The lines of the dictionary's file."""
        return (f"{symbol} 1\n" for symbol in self.words[Dictionary().nspecial :])

    def difference(self, other: Vocabulary) -> str:
        """How two vocabularies differ, in a few words."""
        here, there = self.symbols, other.symbols
        if len(here) != len(there):
            return f"{len(here)} symbols, not {len(there)}"
        places = (place for place in range(len(here)) if here[place] != there[place])
        first = next(places)
        return f"symbol {first} is '{here[first]}', not '{there[first]}'"
