"""Items of contrastive sets.

An item is a source document, its right translation and one or more wrong ones. A model gives
each candidate a score. The item counts as right if the score of the right candidate is strictly
the highest, so ties gain nothing. This package imports neither torch nor fairseq;
:mod:`gtrans.decoding.contrast` computes the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from gtrans.files import fingerprint

_Value = TypeVar("_Value")
Sentences = tuple[str, ...]
FORMS = ("text", "tokenised", "truecased")
"""Plain text; tokens between spaces; plain text whose sentences begin in lower case."""
SET = "set"
"""A grouping of :attr:`Item.groups`: parts of the items that have a total of their own."""


@dataclass(frozen=True)
class Item:
    """A source document, its right translation and wrong ones, sentence by sentence.

    Attributes:
        id: name, unique in its file.
        phenomenon: what the item tests.
        distance: how many sentences the cue is before the sentence that needs it; 0 is the
            same sentence. None: unknown.
        cue: the side that has the cue: ``source``, or ``target`` if it is not in the source.
        source: the K source sentences.
        target: the right K target sentences.
        contrastive: wrong candidates of K sentences each.
        form: how the sentences are written, one of :data:`FORMS`.
        right_index: place of the right candidate among those of the published file, from 0.
        has_right: False if the set only asks which candidate a model prefers, as the priors of
            ContraCAT do; ``target`` is then the first candidate of the file.
        labels: what the candidates stand for, in the order of :attr:`candidates`; or nothing.
        groups: what the item belongs to in the tables of its authors: name of a grouping (such
            as ``gender``) to the value (``f``).
        block: the items of a block belong together, as in the sets of Bawden et al.; or nothing.
    """

    id: str
    phenomenon: str
    distance: int | None
    cue: str
    source: Sentences
    target: Sentences
    contrastive: tuple[Sentences, ...]
    form: str = "text"
    right_index: int = 0
    has_right: bool = True
    labels: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict, hash=False)
    block: str = ""

    @property
    def candidates(self) -> tuple[Sentences, ...]:
        """All translations, the right one first."""
        return (self.target, *self.contrastive)

    @cached_property
    def texts_digest(self) -> str:
        """Of the last sentences; those before them may be more or fewer, as by ``--context``."""
        return fingerprint(self.source[-1], *(one[-1] for one in self.candidates))[:16]

    @property
    def rivals(self) -> list[int]:
        """Places in :attr:`candidates` of the wrong ones; a copy of the right one is no rival."""
        return [n for n, wrong in enumerate(self.contrastive, 1) if wrong != self.target]

    def in_file_order(self, values: Sequence[_Value]) -> list[_Value]:
        """Values of the candidates, the right one first, in the order of the published file."""
        first, *others = values
        return [*others[: self.right_index], first, *others[self.right_index :]]

    def right_first(self, values: Sequence[_Value]) -> list[_Value]:
        """The reverse of :meth:`in_file_order`."""
        place = self.right_index
        return [values[place], *values[:place], *values[place + 1 :]]

    @property
    def context(self) -> int:
        """Number of sentences before the first one in which candidates differ."""
        columns = zip(*self.candidates, strict=True)
        return next(
            (number for number, column in enumerate(columns) if len(set(column)) > 1),
            len(self.target) - 1,
        )

    def as_text(self, join: tuple[Callable[[str], str], Callable[[str], str]]) -> Item:
        """The item as plain text, the input of the text pipelines.

        Tokens are joined and truecased sentences begin with a capital again, so that the
        pipeline produces the tokens that the model was trained on.

        Args:
            join: functions that detokenise a sentence of Moses tokens, for source and target.
        """
        if self.form == "text":
            return self

        def restored(sentences: Sentences, side: int) -> Sentences:
            if self.form == "tokenised":
                return tuple(join[side](sentence) for sentence in sentences)
            return tuple(sentence[:1].upper() + sentence[1:] for sentence in sentences)

        return replace(
            self,
            source=restored(self.source, 0),
            target=restored(self.target, 1),
            contrastive=tuple(restored(candidate, 1) for candidate in self.contrastive),
            form="text",
        )


@dataclass(frozen=True)
class ReadOptions:
    """Options of the readers.

    Attributes:
        documents: folder of the documents that contain the contexts of a JSON file.
        context: the most sentences of context, for sets that do not define it.
    """

    documents: Path | None = None
    context: int = 1
