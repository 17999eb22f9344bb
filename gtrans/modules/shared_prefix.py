"""Translations of one source that begin alike: what they share is computed once.

The rows of a batch are candidates, those of a source next to each other. Where a row
begins with the same tokens as the row before it, it has no states of its own: the
packed states hold every different beginning once, and the rest of a row attends to the
states of the rows that it shares its beginning with. Sorted rows share as much as rows
can, since the two that begin most alike stand next to each other.

Only attention between tokens needs to know, and the plans of
:class:`gtrans.modules.group_attention.AttentionPlans` take it from the layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gtrans.modules.layout import DocumentLayout, Segments


@dataclass(frozen=True)
class SharedPrefixLayout(DocumentLayout):
    """The layout of rows that share states; its tokens are the states there are.

    Attributes:
        whole: the layout of the same rows, had each its own states.
        own: ``(tokens,)`` number, among the tokens of ``whole``, of each token.
        where: ``(tokens of whole,)`` the token that stands for each token of ``whole``.
        begun: ``(sentences,)`` number, among the sentences of ``whole``, of each sentence
            that has a token of its own; :attr:`sentences` has the own tokens of those.
    """

    whole: DocumentLayout
    own: Tensor
    where: Tensor
    begun: Tensor

    @classmethod
    def of(cls, whole: DocumentLayout, tokens: Tensor, sources: Tensor) -> SharedPrefixLayout:
        """Share what neighbouring rows of the same source have in common.

        Args:
            whole: layout of ``tokens``.
            tokens: ``(rows, length)`` decoder input, padded on the right.
            sources: ``(rows,)`` the source of each row.
        """
        lengths = whole.documents.lengths
        alike = tokens[1:].eq(tokens[:-1]).long().cumprod(1).sum(1)
        shared = torch.zeros_like(lengths)
        shared[1:] = torch.where(sources[1:].eq(sources[:-1]), alike, 0)
        # Every row keeps its last token, so that none is without states.
        shared = torch.minimum(shared, (lengths - 1).clamp(min=0))
        is_own = whole.position >= shared[whole.row]
        own = is_own.nonzero().squeeze(1)
        # (rows, length): the nearest row above that has a state of its own in that column
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
        """For each of :attr:`sentences` all its tokens, the shared ones included."""
        whole = self.whole.sentences
        return Segments(whole.starts[self.begun], whole.lengths[self.begun], self.where)

    @cached_property
    def visible_documents(self) -> Segments:
        """For each row all its tokens, the shared ones included."""
        whole = self.whole.documents
        return Segments(whole.starts, whole.lengths, self.where)

    def pad(self, packed: Tensor, value: float = 0.0) -> Tensor:
        """``(tokens, ..) -> (rows, length, ..)``; what rows share stands in each of them."""
        return self.whole.pad(packed[self.where], value)

    def choose(self, packed: Tensor, chosen: Tensor) -> Tensor:
        """``(tokens, ..) -> (chosen, ..)``, see :meth:`DocumentLayout.choose`."""
        return packed[self.where[self.whole.pack(chosen)]]
