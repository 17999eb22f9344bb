"""Beam search sentence by sentence, for models that remember the previous sentences.

Feng et al. 2022, §3.4: a document is translated in order, one sentence at a time, each by its own
beam search. When that has ended, the memory is updated once, from the states of the complete best
hypothesis. The documents of a batch advance together; those without further sentences are
dropped. Time and memory per sentence do not depend on the length of a document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gtrans.decoding.document_search import DocumentHypothesis
from gtrans.decoding.part_search import PartSearch, Reader


class StreamSearch(PartSearch):
    """Beam search for one or several models over documents, sentence by sentence.

    Its parts are sentences.
    """

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
        readers = [Reader(model, model.new_memory()) for model in models]
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
        return [self.joined(sentences) for sentences in translations]

    def _written(self, best: Sequence[DocumentHypothesis], device: torch.device) -> Tensor:
        """``(documents, longest)`` decoder input of finished sentences."""
        sentences = [
            torch.tensor(hypothesis.sentences[0].tokens, device=device) for hypothesis in best
        ]
        return self.frame.pad_rows([self.frame.target([sentence])[0] for sentence in sentences])
