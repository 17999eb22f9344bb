"""Beam search in which the model decides where a document ends (document Transformer).

The papers decode the document Transformer so: one sequence for the whole document, in which the
number of sentences is the model's own choice. It needs a model that has learnt where documents end
(:attr:`gtrans.data.frame.Frame.document_mark`). The translation cannot be aligned with the source
sentence by sentence, so only scores over documents are possible.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtrans.decoding.document_search import DocumentSearch, Run
from gtrans.decoding.repetitions import forbid_repetitions
from gtrans.decoding.search_options import SearchOptions, SearchVocabulary


class FreeSearch(DocumentSearch):
    """Beam search without a given number of sentences."""

    @property
    def run_type(self) -> type[Run]:
        """The class of a search in progress."""
        return _FreeRun


class _FreeRun(Run):
    """A search in progress; the whole document counts as one sentence of the base class.

    The document mark can follow ``</s>`` only. A document is ended when it is as long as all its
    sentences could be together.
    """

    def __init__(
        self,
        vocabulary: SearchVocabulary,
        options: SearchOptions,
        source_lengths: Sequence[Sequence[int]],
        device: torch.device,
        read: Tensor | None = None,
    ) -> None:
        if vocabulary.document_mark is None:
            raise ValueError("a free search needs a symbol that ends documents")
        super().__init__(vocabulary, options, [[sum(n)] for n in source_lengths], device, read)
        self.end = vocabulary.document_mark
        # (documents, 1): most tokens, ends of sentences included
        most = [sum(options.limit(words) + 1 for words in of_row) for of_row in source_lengths]
        self.limits = torch.tensor(most, device=device)[:, None]

    def _totals(self, log_probs: Tensor) -> Tensor:
        vocabulary, never = self.vocabulary, float("-inf")
        of_document = log_probs[:, self.end].clone()
        log_probs.index_fill_(1, self.forbidden, never)
        log_probs[:, vocabulary.unk] -= self.options.unkpen
        ended = self.tokens.flatten().eq(vocabulary.eos)
        full = (self.limits <= self.step + 1).expand_as(self.tokens).flatten()
        longest = vocabulary.max_input_tokens
        if longest is not None and self.step + 2 >= longest:
            full = torch.ones_like(full)
        of_sentence = log_probs[:, vocabulary.eos].clone()
        size = self.options.no_repeat_ngram_size
        if size:  # the whole document is one sequence, as in fairseq
            length = torch.full_like(self.written, self.step).flatten()
            forbid_repetitions(log_probs, self.history.flatten(0, 1), length, size)
        too_short = ~full & self.written.flatten().lt(self.options.min_len)
        of_sentence.masked_fill_(too_short | (full & ended), never)
        given = {vocabulary.eos: of_sentence, self.end: of_document.masked_fill(~ended, never)}
        return self._added(log_probs, full, given)

    def _ends(self, token: Tensor, origin: Tensor) -> Tensor:
        return token.eq(self.end)
