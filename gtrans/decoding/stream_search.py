"""Beam search sentence by sentence, for models that remember the previous sentences.

Feng et al. 2022, §3.4: a document is translated in order, one sentence at a time, each by its own
beam search. When that has ended, the memory is updated once, from the states of the complete best
hypothesis. The documents of a batch advance together; those without further sentences are
dropped. Time and memory per sentence do not depend on the length of a document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
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


@dataclass
class _Reader:
    """A model with the memory of the documents that it is translating."""

    model: DocumentModel
    memory: CarriedState

    def begin_decoding(self, source: Mapping[str, Any], beam: int) -> SearchState:
        inputs: dict[str, Any] = {**source, "memory": self.memory}
        return self.model.begin_decoding(inputs, beam)

    def decode_step(self, tokens: Tensor, opens: Tensor, state: SearchState) -> Tensor:
        return self.model.decode_step(tokens, opens, state)

    def search_scores(self, logits: Tensor) -> Tensor:
        return self.model.search_scores(logits)

    def follow(self, written: Tensor, documents: Tensor) -> None:
        """Update the memory with translations, and keep that of ``documents (n,)`` only.

        ``written (documents, longest)``: decoder input of the translated sentences.
        """
        self.model.remember(written, self.memory)
        self.memory = self.memory.following(documents)


class StreamSearch(DocumentSearch):
    """Beam search for one or several models over documents, sentence by sentence.

    The n-th hypothesis of a document consists of the n-th hypotheses of its sentences. Each of
    them continues the best hypotheses of the sentences before.
    """

    def __init__(
        self, vocabulary: SearchVocabulary, options: SearchOptions, frame: Frame
    ) -> None:
        super().__init__(vocabulary, options)
        self.frame = frame

    @torch.no_grad()
    def search(
        self,
        models: Sequence[Any],
        source: Mapping[str, Tensor],
        source_lengths: Sequence[Sequence[int]],
    ) -> list[list[DocumentHypothesis]]:
        """See :meth:`DocumentSearch.search`; the models must have ``new_memory``."""
        device = source["src_tokens"].device
        documents = [self.frame.sentences(row) for row in source["src_tokens"]]
        # For each document, for each of its sentences, the hypotheses.
        translations: list[list[list[DocumentHypothesis]]] = [[] for _ in documents]
        readers = [_Reader(model, model.new_memory()) for model in models]
        active = list(range(len(documents)))
        step = 0
        while active:
            rows = [self.frame.source([documents[number][step]]) for number in active]
            tokens = self.frame.pad_rows(rows)
            lengths = tokens.ne(self.frame.pad).sum(1)
            hypotheses = super().search(
                readers,
                {"src_tokens": tokens, "src_lengths": lengths},
                [[source_lengths[number][step]] for number in active],
            )
            if not all(hypotheses):
                return [[] for _ in documents]
            for number, of_sentence in zip(active, hypotheses, strict=True):
                translations[number].append(of_sentence)
            step += 1
            remaining = [i for i, number in enumerate(active) if len(documents[number]) > step]
            active = [active[i] for i in remaining]
            if active:
                written = self._written([of_sentence[0] for of_sentence in hypotheses], device)
                for reader in readers:
                    reader.follow(written, torch.tensor(remaining, device=device))
        return [self._joined(sentences) for sentences in translations]

    def _written(self, best: Sequence[DocumentHypothesis], device: torch.device) -> Tensor:
        """``(documents, longest)`` decoder input of finished sentences."""
        sentences = [
            torch.tensor(hypothesis.sentences[0].tokens, device=device) for hypothesis in best
        ]
        return self.frame.pad_rows([self.frame.target([sentence])[0] for sentence in sentences])

    def _joined(self, sentences: list[list[DocumentHypothesis]]) -> list[DocumentHypothesis]:
        """The hypotheses of a document, from those of its sentences."""
        count = min(len(hypotheses) for hypotheses in sentences)
        return [
            self._document([hypotheses[n].sentences[0] for hypotheses in sentences])
            for n in range(count)
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
