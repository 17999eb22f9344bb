"""Beam search over documents whose parts are translated one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from gtrans.data.frame import Frame
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchOptions,
    SearchVocabulary,
    SentenceHypothesis,
)
from gtrans.models.base.contract import CarriedState, DocumentModel, SearchState


class FinishedParts(Protocol):
    """Keeps the translations of parts, so that an interrupted search can go on behind them."""

    def get(self, document: int, part: int) -> list[list[SentenceHypothesis]] | None:
        """The hypotheses of a part, the best first, as sentences; None: it is not translated."""

    def add(self, document: int, part: int, hypotheses: list[list[SentenceHypothesis]]) -> None:
        """Keep a part; ``document`` is its row in the batch."""


@dataclass
class Reader:
    """A model with the memory of the documents that it is translating."""

    model: DocumentModel
    memory: CarriedState

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        """See :class:`gtrans.models.base.contract.DocumentModel`, as the two below."""
        inputs: dict[str, Any] = {**source, "memory": self.memory}
        return self.model.begin_decoding(inputs, beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: SearchState) -> Tensor:
        """Logits of the next token."""
        return self.model.decode_step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        """What the search adds up."""
        return self.model.search_scores(logits)

    def follow(self, written: Tensor, documents: Tensor) -> None:
        """Update the memory with translations, and keep that of ``documents (n,)`` only.

        ``written (documents, longest)``: decoder input of the translated parts.
        """
        self.model.remember(written, self.memory)
        self.memory = self.memory.following(documents)


class PartSearch(DocumentSearch):
    """Base of searches that translate a document part by part.

    The n-th hypothesis of a document consists of the n-th hypotheses of its parts. Each of them
    continues the best hypotheses of the parts before.
    """

    def __init__(
        self, vocabulary: SearchVocabulary, options: SearchOptions, frame: Frame
    ) -> None:
        super().__init__(vocabulary, options)
        self.frame = frame

    def joined(self, parts: Sequence[Sequence[DocumentHypothesis]]) -> list[DocumentHypothesis]:
        """The hypotheses of a document, from those of its parts."""
        count = min(len(hypotheses) for hypotheses in parts)
        return [
            self._document([one for part in parts for one in part[number].sentences])
            for number in range(count)
        ]

    def _document(self, sentences: list[SentenceHypothesis]) -> DocumentHypothesis:
        tokens: list[int] = []
        scores: list[float] = []
        # The search itself sets the marks between the sentences and at the end.
        marked = self.vocabulary.opening != self.vocabulary.eos
        for sentence in sentences:
            if marked and tokens:
                tokens.append(self.vocabulary.opening)
                scores.append(0.0)
            tokens += sentence.tokens
            scores += sentence.scores
        if marked:
            tokens.append(self.vocabulary.eos)
            scores.append(0.0)
        return DocumentHypothesis(sentences, self.options.score(scores), tokens, scores)
