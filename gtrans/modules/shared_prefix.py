"""Translations of one source with a common prefix: its states are computed once.

The rows of a batch are candidates, those of a source next to each other. A row has no states of
its own for the prefix that it shares with the row before it: the packed states hold every
different prefix once, and the rest of a row attends to the states of the rows with which it
shares its prefix. Sorted rows share as much as possible, since the rows with the longest common
prefix are then neighbours.

Only attention between tokens depends on that;
:class:`gtrans.modules.attention_plans.AttentionPlans` reads it from the layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gtrans.modules.layout import DocumentLayout, Segments


@dataclass(frozen=True)
class SharedPrefixLayout(DocumentLayout):
    """The layout of rows that share states; its tokens are the states that are computed.

    Attributes:
        whole: the layout of the same rows without sharing.
        own: ``(tokens,)`` index of each token among the tokens of ``whole``.
        where: ``(tokens of whole,)`` index of the token that computes each token of ``whole``.
        begun: ``(sentences,)`` index among the sentences of ``whole`` of each sentence with
            tokens that are not shared; :attr:`sentences` holds these tokens.
    """

    whole: DocumentLayout
    own: Tensor
    where: Tensor
    begun: Tensor

    @classmethod
    def of(cls, whole: DocumentLayout, tokens: Tensor, sources: Tensor) -> SharedPrefixLayout:
        """Share the common prefixes of neighbouring rows of the same source.

        Args:
            whole: layout of ``tokens``.
            tokens: ``(rows, length)`` decoder input, padded on the right.
            sources: ``(rows,)`` the source of each row.
        """
        lengths = whole.documents.lengths
        common = tokens[1:].eq(tokens[:-1]).long().cumprod(1).sum(1)
        shared = torch.zeros_like(lengths)
        shared[1:] = torch.where(sources[1:].eq(sources[:-1]), common, 0)
        # Every row keeps its last token, so that every row has states of its own.
        shared = torch.minimum(shared, (lengths - 1).clamp(min=0))
        is_own = whole.position >= shared[whole.row]
        own = is_own.nonzero().squeeze(1)
        # (rows, length): the nearest row up to this one that computes its own state there
        owner = (whole.align(torch.where(is_own, whole.row + 1, 0)) - 1).cummax(0).values
        table = torch.full(whole.shape, -1, device=tokens.device)
        table[whole.row[own], whole.position[own]] = torch.arange(
            own.numel(), device=tokens.device
        )
        where = table[owner[whole.row, whole.position], whole.position]
        sentence = torch.repeat_interleave(
            torch.arange(len(whole.sentences), device=tokens.device), whole.sentences.lengths
        )
        begun, sizes = torch.unique_consecutive(sentence[own], return_counts=True)
        remaining = lengths - shared
        return cls(
            shape=whole.shape,
            index=whole.index[own],
            row=whole.row[own],
            sentence=whole.sentence[own],
            sentences=Segments(sizes.cumsum(0) - sizes, sizes),
            documents=Segments(remaining.cumsum(0) - remaining, remaining),
            sentence_counts=whole.sentence_counts,
            whole=whole,
            own=own,
            where=where,
            begun=begun,
        )

    @property
    def most_in_document(self) -> int:
        """Tokens of the longest row."""
        return self.whole.most_in_document

    @property
    def most_in_sentence(self) -> int:
        """Tokens of the longest sentence."""
        return self.whole.most_in_sentence

    @cached_property
    def position(self) -> Tensor:
        """``(tokens,)`` position of a token in its row, from 0."""
        return self.whole.position[self.own]

    @cached_property
    def position_in_sentence(self) -> Tensor:
        """``(tokens,)`` position of a token in its sentence, from 0."""
        return self.whole.position_in_sentence[self.own]

    @cached_property
    def visible_sentences(self) -> Segments:
        """For each of :attr:`sentences` all its tokens, with the shared ones."""
        whole = self.whole.sentences
        return Segments(whole.starts[self.begun], whole.lengths[self.begun], self.where)

    @cached_property
    def visible_documents(self) -> Segments:
        """For each row all its tokens, with the shared ones."""
        whole = self.whole.documents
        return Segments(whole.starts, whole.lengths, self.where)

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """``(tokens, ..) -> (rows, length, ..)``; shared states are copied into every row."""
        return self.whole.pad(packed[self.where], value)

    def choose(self, packed: Tensor, chosen: Tensor) -> Tensor:
        """``(tokens, ..) -> (chosen, ..)``, see :meth:`DocumentLayout.choose`."""
        return packed[self.where[self.whole.pack(chosen)]]
