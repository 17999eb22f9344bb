"""Beam search over documents whose parts are translated one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gtrans.data.frame import Frame
from gtrans.decoding.document_search import (
    DocumentHypothesis,
    DocumentSearch,
    SearchOptions,
    SearchVocabulary,
    SentenceHypothesis,
)


class FinishedParts(Protocol):
    """Keeps the best translation of parts, so that an interrupted search can go on behind them."""

    def get(self, document: int, part: int) -> list[list[int]] | None:
        """The tokens of each sentence of a part, with ``</s>``; None if it is not translated."""

    def add(self, document: int, part: int, sentences: list[list[int]]) -> None:
        """Keep a part; ``document`` is its row in the batch."""


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
        length = len(tokens) ** self.options.lenpen if self.options.normalize else 1.0
        return DocumentHypothesis(sentences, sum(scores) / length, tokens, scores)
