"""Items of contrastive sets.

An item is a source document, its right translation and one or more wrong ones. A model
gives each candidate a score; it is right where the right one's is strictly the highest,
so a system that cannot tell the candidates apart gains nothing from ties. No torch and
no fairseq here: who scores the candidates is no concern of this package (see
:mod:`gtrans.decoding.contrast`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

Sentences = tuple[str, ...]
FORMS = ("text", "tokenised", "truecased")
"""Plain text; tokens between spaces; plain text whose sentences begin in lower case."""


@dataclass(frozen=True)
class Item:
    """A source document, its right translation and wrong ones, sentence by sentence.

    Attributes:
        id: name, unique in its file.
        phenomenon: what the item tests.
        distance: sentences between the cue and the sentence that needs it; 0 is the
            same sentence. None: the set does not tell.
        cue: the side on which the cue stands: ``source``, or ``target`` alone.
        source: the K source sentences.
        target: the right K target sentences.
        contrastive: wrong candidates, each of K sentences and other than the right one.
        form: how the sentences are written, one of :data:`FORMS`.
    """

    id: str
    phenomenon: str
    distance: int | None
    cue: str
    source: Sentences
    target: Sentences
    contrastive: tuple[Sentences, ...]
    form: str = "text"

    @property
    def candidates(self) -> tuple[Sentences, ...]:
        """All translations, the right one first."""
        return (self.target, *self.contrastive)

    @property
    def context(self) -> int:
        """How many sentences come before the first one in which candidates differ."""
        columns = zip(*self.candidates, strict=True)
        return next(
            (number for number, column in enumerate(columns) if len(set(column)) > 1),
            len(self.target) - 1,
        )

    def as_text(self, join: tuple[Callable[[str], str], Callable[[str], str]]) -> Item:
        """The item in plain text, as models' pipelines take it.

        Tokens are joined, and a sentence whose first word was truecased begins with a
        capital again: a model then meets the tokens that it was trained on.

        Args:
            join: makes text of a sentence in Moses tokens, of the source and of the target.
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
    """What reading a published set may need beside its file.

    Attributes:
        documents: folder of the documents that a JSON file takes its contexts from.
        context: most sentences of context, where the set leaves it open.
    """

    documents: Path | None = None
    context: int = 1
