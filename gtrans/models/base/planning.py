"""Plans of batches, made on the host before a model reads them.

Where sentences begin and which tokens attend to which, a model needs as index tensors and as
Python numbers. Read from tokens on a GPU, every number would make the host wait. So the plan of a
batch is made where the batch is made, in the processes that load data, by a small object without
parameters: a planner. It travels with the batch in one block (:mod:`gtrans.modules.packed`).
Without such a plan (fairseq's own tasks, search, force decoding) a model copies its tokens to the
host once and makes the plan there (:func:`planned`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.bert import PAD
from gtrans.modules.context_attention import PackedContext
from gtrans.modules.layout import DocumentLayout, Segments
from gtrans.modules.memory_plan import MemoryFlow, MemoryPass, MemoryPlan
from gtrans.modules.packed import Packed, moved, pack
from gtrans.modules.shared_prefix import SharedPrefixLayout

PLANNED = (
    "src_tokens", "prev_output_tokens", "current", "context_lengths", "source_of_row", "instances",
)  # fmt: skip
"""What a plan depends on, of the arguments of ``forward``."""

Made = TypeVar("Made")

_HOST = torch.device("cpu")


class SourcePlan(Protocol):
    """What an encoder needs to know of the sentence structure of its input."""

    @property
    def encoded(self) -> DocumentLayout:
        """The layout of the encoder's output."""

    context: PackedContext | None
    """The context of each row (its states are unknown); None: there is none."""


@dataclass(frozen=True)
class Needs:
    """What the layers of one side ask of a plan.

    Attributes:
        kinds: the kinds of attention of each sort of plan, ``encoder``, ``decoder`` and
            ``cross`` (:data:`gtrans.modules.attention.KINDS`).
        context: some layers attend to a context.
        backend: one of :data:`gtrans.modules.group_attention.BACKENDS`.
        by_sentence: positions restart in every sentence.
        memory_size: vectors of a memory; 0: there is none.
        memory_steps: what updates a memory at once, one of
            :data:`gtrans.modules.STEPS`.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """

    kinds: Mapping[str, Iterable[str]]
    context: bool
    backend: str
    by_sentence: bool
    memory_size: int
    memory_steps: str
    shapes: str

    def complete(self, plans: AttentionPlans, layout: DocumentLayout) -> AttentionPlans:
        """``plans`` with all that will be asked for; ``layout``: that of the side's words."""
        layout.prepare(self.by_sentence)
        names = [
            f"{sort}_{kind}"
            for sort, kinds in self.kinds.items()
            for kind in ("group", "global")
            if {kind, "combined"} & set(kinds)
        ]
        if self.context:
            names.append("encoder_context" if "encoder" in self.kinds else "decoder_context")
        plans.prepare(names, self.backend)
        if plans.memory is not None:
            plans.memory.plan.prepare(self.backend)
        return plans

    def memory(self, layout: DocumentLayout, written: Tensor | None = None) -> MemoryPass | None:
        """The pass of the memories over rows of this layout; None: there are none.

        ``written``: see :class:`gtrans.modules.memory_plan.MemoryPlan`.
        """
        if not self.memory_size:
            return None
        plan = MemoryPlan(layout, self.memory_size, written, self.shapes, self.memory_steps)
        return MemoryPass(MemoryFlow(), plan)


@dataclass(frozen=True)
class SourcePlanner:
    """Plans what an encoder reads.

    Attributes:
        pad: id of padding.
        closing: id of the last symbol of every source sentence.
        needs: what its layers ask for.
    """

    pad: int
    closing: int
    needs: Needs

    def __call__(self, source: Mapping[str, Any]) -> SourcePlan:
        """The plan of ``net_input`` without decoder input, on the host."""
        context = None
        if self.needs.context and "context_lengths" in source:
            context = PackedContext.of_lengths(source["context_lengths"])
        layout = self.layout(source["src_tokens"]).divided(source.get("instances"))
        return self.of_layout(layout, context)

    def layout(self, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``tokens (batch, length)``."""
        return DocumentLayout.of_source(tokens, self.pad, self.closing)

    def of_tokens(self, tokens: Tensor, context: PackedContext | None = None) -> AttentionPlans:
        """The plans of rows that are read as they are: ``tokens (batch, length)``."""
        return self.of_layout(self.layout(tokens), context)

    def of_layout(
        self, layout: DocumentLayout, context: PackedContext | None = None
    ) -> AttentionPlans:
        """The plans of rows of this layout."""
        memory, shapes = self.needs.memory(layout), self.needs.shapes
        plans = AttentionPlans(layout, context=context, memory=memory, shapes=shapes)
        return self.needs.complete(plans, layout)


@dataclass(frozen=True)
class TargetPlanner:
    """Plans what a decoder reads.

    Attributes:
        pad: id of padding.
        opening, eos: as in :meth:`gtrans.modules.layout.DocumentLayout.of_target`.
        needs: what its layers ask for.
    """

    pad: int
    opening: int
    eos: int
    needs: Needs

    def __call__(
        self,
        tokens: Tensor,
        source: DocumentLayout,
        context: PackedContext | None,
        source_of_row: Tensor | None = None,
    ) -> AttentionPlans:
        """The plans of decoder input ``tokens (batch, length)``, on the host.

        Args:
            tokens: the decoder's input.
            source: the layout of the encoder's output.
            context: the context of each source, or None.
            source_of_row: the source of each row; None: the same number.
        """
        layout = self.layout(tokens).divided(source.instances)
        memory, shapes = None, self.needs.shapes
        if self.needs.memory_size:
            by_instance = self.needs.memory_steps == "instances"
            steps = layout.documents if by_instance else layout.sentences
            memory = self.needs.memory(layout, self.lengths_without_end(layout, tokens, steps))
        if source_of_row is not None:
            layout = SharedPrefixLayout.of(layout, tokens, source_of_row)
        plans = AttentionPlans(source, layout, context, source_of_row, memory, shapes)
        return self.needs.complete(plans, layout)

    def with_words(self, tokens: Tensor, source: DocumentLayout) -> tuple[AttentionPlans, Tensor]:
        """The plans, and :meth:`lengths_without_end`."""
        plans = TargetPlanner.__call__(self, tokens, source, None)
        return plans, self.lengths_without_end(plans.words, tokens)

    def layout(self, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of ``tokens (batch, length)``."""
        return DocumentLayout.of_target(tokens, self.pad, self.opening, self.eos)

    def lengths_without_end(
        self, layout: DocumentLayout, tokens: Tensor, parts: Segments | None = None
    ) -> Tensor:
        """``(parts,)`` tokens of each sentence of the decoder input, without its end mark.

        ``parts`` are instances instead of the sentences of ``layout``, if they are given.

        In a row ``<s> .. </s> <s> ..`` all sentences but the last one have their end mark in
        the input. What later ones read must not depend on that, so it is never read.
        """
        parts = layout.sentences if parts is None else parts
        last = layout.pack(tokens)[parts.starts + parts.lengths - 1]
        closed = last.eq(self.eos) & parts.lengths.gt(1)
        return parts.lengths - closed.long()


@dataclass
class BatchPlan:
    """The plan of a batch: that of its sources, and that of its targets if it has them."""

    source: Any
    target: AttentionPlans | None


@dataclass(frozen=True)
class BatchPlanner:
    """Plans the batches of a model; it has no parameters and can be sent to other processes."""

    source: Callable[[Mapping[str, Any]], SourcePlan]
    target: TargetPlanner

    def __call__(self, net_input: Mapping[str, Any]) -> BatchPlan:
        """The plan of a batch on the host."""
        source = dict(net_input)
        if "word_pieces" in source:
            source["context_lengths"] = source["word_pieces"].ne(PAD).sum(1)
        plan, target = self.source(source), None
        # Rows that share a source are planned when it is known how they are laid out.
        if "prev_output_tokens" in source and source.get("source_of_row") is None:
            target = self.target(source["prev_output_tokens"], plan.encoded, plan.context)
        return BatchPlan(plan, target)

    def packed(self, net_input: Mapping[str, Any]) -> Packed:
        """The plan of a batch, ready for its way to the device."""
        return pack(self(net_input))


def planned(make: Callable[..., Made], device: torch.device, *read: Any) -> Made:
    """``make(*read)`` where ``read`` has tensors of ``device``, computed on the host.

    The host waits once, for what is read; the result is copied to the device at once.
    """
    if device == _HOST:
        return make(*read)
    return moved(make(*moved(read, _HOST)), device)
