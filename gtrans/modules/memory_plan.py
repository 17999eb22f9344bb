"""What goes through the memories of a batch: their values, and who updates which of them when.

:mod:`gtrans.modules.memory` has the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gtrans.modules import STEPS
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.gather import Gather, padded_index
from gtrans.modules.group_attention import AttentionPlan, rounded_width
from gtrans.modules.layout import DocumentLayout, Segments


@dataclass
class MemoryFlow:
    """The memories with which a pass over a batch of documents begins and ends.

    Attributes:
        entering: ``(documents, memories, size, dim)`` values at the beginning, without gradient;
            None: all documents begin.
        fresh: ``(documents,)`` True if a document begins, with the learned initial memory;
            None: all do.
        leaving: number of a memory -> its values ``(documents, size, dim)`` after the last
            step, without gradient.
        earlier: number of a memory -> the states that wrote to it in the last pass, and its
            values at every step of that pass (:attr:`gtrans.modules.memory.MemorySpec.passes`).
        encoded: the encoded source, kept until the translation is known and the decoder's
            memories can be updated.
    """

    entering: Tensor | None = None
    fresh: Tensor | None = None
    leaving: dict[int, Tensor] = field(default_factory=dict)
    earlier: dict[int, tuple[Tensor, list[Tensor]]] = field(default_factory=dict)
    encoded: EncoderOutput | None = None

    @classmethod
    def of(cls, memories: Sequence[Tensor | None]) -> MemoryFlow:
        """The memories of some documents; ``(memories, size, dim)`` each, None: it begins."""
        known = next((memory for memory in memories if memory is not None), None)
        if known is None:
            return cls()
        blank = torch.zeros_like(known)
        entering = torch.stack([blank if memory is None else memory for memory in memories])
        fresh = torch.tensor([memory is None for memory in memories], device=known.device)
        return cls(entering, fresh)

    @classmethod
    def joined(cls, flows: Sequence[MemoryFlow]) -> MemoryFlow:
        """The memories with which some documents begin, each from a flow of its own."""
        return cls.of([None if flow.entering is None else flow.entering[0] for flow in flows])

    @property
    def left(self) -> Tensor:
        """``(documents, memories, size, dim)``: the values with which the next pass begins."""
        return torch.stack([self.leaving[number] for number in sorted(self.leaving)], 1)

    def following(self, documents: Tensor) -> MemoryFlow:
        """The memories with which the next steps of ``documents (n,)`` begin."""
        # No memory was written, such as where decoding leaves out the layers that have one.
        if not self.leaving:
            return MemoryFlow()
        left = self.left[documents]
        return MemoryFlow(left, torch.zeros(len(left), dtype=torch.bool, device=left.device))

    def by_document(self, documents: int) -> list[MemoryFlow]:
        """Of each of so many documents alone the memory with which its next step begins."""
        return [self.following(torch.tensor([number])) for number in range(documents)]

    def at_start(self, number: int, initial: Tensor, documents: int) -> Tensor:
        """``(documents, size, dim)``: memory ``number`` before the first step."""
        initials = initial.expand(documents, -1, -1)
        if self.entering is None or self.fresh is None:
            return initials
        entering = self.entering[:, number].to(initial)
        return torch.where(self.fresh[:, None, None], initials, entering)


class MemoryPlan:
    """Which tokens update which memory at which step, for all layers of a side.

    Documents are sorted by their number of steps, the longest first, so that those with a
    step t are the first ``active[t]``.

    Attributes:
        order: ``(documents,)`` the numbers of the sorted documents.
        inverse: ``(documents,)`` the index of each document among the sorted ones.
        active: for every step, how many documents have it.
        masks: for every step ``(active, 1, 1, longest)`` True on real tokens, or None.
        to_layout: ``(steps,)`` from (step, sorted document) to the order of the layout.
        reading: every step sees its own memory.
    """

    def __init__(
        self,
        layout: DocumentLayout,
        size: int,
        written: Tensor | None = None,
        shapes: str = "exact",
        steps: str = STEPS[0],
    ) -> None:
        """Plan for a batch.

        Args:
            layout: sentences and instances of every row; a row is (a part of) one document.
            size: memory vectors of a document.
            written: ``(steps,)`` how many tokens of each step, from its first, update
                the memory (None: all of them).
            shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
            steps: one of :data:`gtrans.modules.STEPS`.
        """
        device = layout.index.device
        if steps == "instances":
            parts, counts = layout.documents, layout.documents_of_row
        else:
            parts, counts = layout.sentences, layout.sentence_counts
        self.order = counts.argsort(descending=True, stable=True)
        self.inverse = torch.empty_like(self.order)
        self.inverse[self.order] = torch.arange(self.order.numel(), device=device)
        sorted_counts: list[int] = counts[self.order].tolist()
        self.active = [
            sum(count > step for count in sorted_counts)
            for step in range(max(sorted_counts, default=0))
        ]
        lengths = parts.lengths if written is None else written
        first = (counts.cumsum(0) - counts)[self.order]
        by_step, padded = [], []
        self.masks: list[Tensor | None] = []
        self._widths: list[int] = []
        for step, active in enumerate(self.active):
            numbers = first[:active] + step
            by_step.append(numbers)
            segments = Segments(parts.starts[numbers], lengths[numbers])
            width = max(segments.sizes)
            if shapes == "rounded":
                width = rounded_width(width)
            index = padded_index(segments, torch.arange(active, device=device), width)
            full = min(segments.sizes) == width
            self.masks.append(None if full else index.ge(0)[:, None, None, :])
            self._widths.append(width)
            padded.append(index)
        self._gather = Gather.build(padded, layout.tokens)
        self.to_layout = torch.argsort(torch.cat(by_step))
        starts = torch.arange(len(parts), device=device) * size
        memories = Segments(starts, torch.full_like(starts, size))
        self.reading = AttentionPlan(
            parts, memories, layout.tokens, len(parts) * size, False, shapes
        )

    def prepare(self, backend: str) -> None:
        """See :meth:`gtrans.modules.group_attention.AttentionPlan.prepare`."""
        self.reading.prepare(backend)

    def by_step(self, packed: Tensor) -> list[Tensor]:
        """``(tokens, dim)`` -> for every step ``(active, longest, dim)``, padding arbitrary."""
        padded = packed if self._gather is None else self._gather.pad(packed)
        # Split, not sliced: the gradient of every slice would be a tensor of full size.
        sizes = [active * width for active, width in zip(self.active, self._widths, strict=True)]
        parts = torch.split(padded, sizes)
        return [
            part.view(active, -1, packed.size(1))
            for part, active in zip(parts, self.active, strict=True)
        ]


@dataclass
class MemoryPass:
    """One pass over a batch by the memories of one side.

    Attributes:
        flow: holds the memories at the beginning, and receives those at the end.
        plan: that of all memories of the side.
    """

    flow: MemoryFlow
    plan: MemoryPlan

    def again(self, flow: MemoryFlow) -> MemoryPass:
        """A pass over the same batch, by the same plan."""
        return replace(self, flow=flow)

    def repeatable(self, run: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """``run``, which reads and writes the flow, for calls that all find it as it is now.

        Only the first call writes to it.
        """
        earlier = dict(self.flow.earlier)
        called: list[bool] = []

        def repeated(x: Tensor) -> Tensor:
            flow = self.flow
            self.flow = own = replace(flow, leaving={}, earlier=dict(earlier))
            try:
                return run(x)
            finally:
                self.flow = flow
                if not called:
                    called.append(True)
                    flow.leaving.update(own.leaving)
                    flow.earlier.update(own.earlier)

        return repeated
