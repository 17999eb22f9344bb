"""Which tokens of a batch see which others, for every attention of a model."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from functools import cached_property

import torch
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.layout import DocumentLayout, Segments
from gtrans.modules.memory_plan import MemoryFlow, MemoryPass


class AttentionPlans:
    """The plans of one batch, each built when first asked for and shared by all layers.

    A model does not wait for the device if they are built on the host (:meth:`prepare`) and then
    moved (:mod:`gtrans.modules.packed`).
    """

    def __init__(
        self,
        source: DocumentLayout,
        target: DocumentLayout | None = None,
        context: PackedContext | None = None,
        source_of_row: Tensor | None = None,
        memory: MemoryPass | None = None,
        shapes: str = "exact",
    ) -> None:
        """The plans of ``source`` and ``target``.

        Args:
            source: layout of the sources.
            target: layout of the targets; None while only the encoder runs.
            context: the context of each source; None: there is none.
            source_of_row: ``(targets,)`` the source of each target; None: the same numbers.
            memory: the pass of the memories over the batch; None: there are none.
            shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        """
        self.source = source
        self.target = target
        self.context = context
        self.source_of_row = source_of_row
        self.memory = memory
        self.shapes = shapes

    def prepare(self, names: Iterable[str], backend: str) -> None:
        """Compute the plans ``names`` (properties of this class) now, for this backend."""
        for name in names:
            plan: AttentionPlan | None = getattr(self, name)
            if plan is not None:
                plan.prepare(backend)

    def reading(self, context: PackedContext | None, flow: MemoryFlow | None) -> AttentionPlans:
        """The same plans for one pass of a model, with these context states and memories."""
        plans = copy(self)
        plans.context = context
        plans.memory = None
        if flow is not None and self.memory is not None:
            plans.memory = self.memory.again(flow)
        return plans

    @cached_property
    def encoder_group(self) -> AttentionPlan:
        """Source sentence k sees source sentence k (``G_Q = G_K = G_X``)."""
        return AttentionPlan.within(
            self.source.sentences, self.source.tokens, shapes=self.shapes
        )

    @cached_property
    def encoder_global(self) -> AttentionPlan:
        """A source word sees its whole source document."""
        return AttentionPlan.within(
            self.source.documents, self.source.tokens, shapes=self.shapes
        )

    @cached_property
    def decoder_group(self) -> AttentionPlan:
        """Target sentence k sees the words before it in sentence k (``G_Q = G_K = G_Y``)."""
        return self._before(self.words.sentences, self.words.visible_sentences)

    @cached_property
    def decoder_global(self) -> AttentionPlan:
        """A target word sees all words before it."""
        return self._before(self.words.documents, self.words.visible_documents)

    @cached_property
    def cross_group(self) -> AttentionPlan:
        """Target sentence k sees source sentence k (``G_Q = G_Y``, ``G_K = G_X``)."""
        sentences = self.source.sentences
        chosen = matching_sentences(self.source, self.words, self.source_of_row)
        if chosen is not None:
            # If a target is shorter than its source (a forced prefix), nobody sees the rest.
            sentences = sentences.chosen(chosen)
        return self._cross(self.words.sentences, sentences)

    @cached_property
    def cross_global(self) -> AttentionPlan:
        """A target word sees the whole source document."""
        documents = self.source.documents
        if self.source_of_row is not None:
            documents = documents.chosen(self.source_of_row)
        return self._cross(self.words.documents, documents)

    def _before(self, query: Segments, key: Segments) -> AttentionPlan:
        tokens = self.words.tokens
        return AttentionPlan(query, key, tokens, tokens, True, self.shapes)

    @cached_property
    def encoder_context(self) -> AttentionPlan | None:
        """A source word sees the whole context of its row."""
        if self.context is None:
            return None
        return self.context.plan(self.source.documents, self.source.tokens, shapes=self.shapes)

    @cached_property
    def decoder_context(self) -> AttentionPlan | None:
        """A target word sees the whole context of its row."""
        if self.context is None:
            return None
        return self.context.plan(
            self.words.documents, self.words.tokens, self.source_of_row, self.shapes
        )

    def _cross(self, query: Segments, key: Segments) -> AttentionPlan:
        sizes = self.words.tokens, self.source.tokens
        return AttentionPlan(query, key, *sizes, False, self.shapes)

    @property
    def encoded(self) -> DocumentLayout:
        """The layout of the encoder's output: that of what it reads."""
        return self.source

    @property
    def words(self) -> DocumentLayout:
        """The layout of the decoder's input."""
        if self.target is None:
            raise ValueError("a plan of the decoder was asked for before its input was given")
        return self.target


def matching_sentences(
    source: DocumentLayout, target: DocumentLayout, source_of_row: Tensor | None = None
) -> Tensor | None:
    """``(target sentences,)`` index of each one's source sentence; None if it is its own index.

    ``source_of_row`` is that of :class:`AttentionPlans`.

    Raises:
        GtransError: a target has more sentences than its source.
    """
    counts, first = source.sentence_counts, source.first_sentences
    if source_of_row is not None:
        counts, first = counts[source_of_row], first[source_of_row]
    surplus = target.sentence_counts > counts
    if bool(surplus.any()):
        row = int(surplus.nonzero()[0])
        raise GtransError(
            f"row {row} of the batch has {int(target.sentence_counts[row])} target sentences but "
            f"only {int(counts[row])} source sentences; both sides of a document "
            "need the same number of sentences"
        )
    if source_of_row is None and torch.equal(target.sentence_counts, counts):
        return None
    starts = target.sentences.starts
    return first[target.row[starts]] + target.sentence[starts]
