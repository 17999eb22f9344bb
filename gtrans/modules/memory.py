"""Recurrent memory: a few vectors that the steps of a document write to and read from.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022. A layer holds a matrix M of ``size`` vectors for every
document. The states h of step t - 1 update M, then the states of step t read it. A step is a
sentence, as in the paper, or a chunk.

====  =====================================================================================
Eq 1  h is the output of the layer's self-attention
Eq 4  ``M <- M + PE(slots)``: the residual of Eq 2 has PE, too
Eq 2  ``M' = AddNorm(MHA(M, h, h))``
Eq 3  ``M <- AddNorm(FFN(M'))``
Eq 5  ``h <- MHA(h, M, M)`` (``printed``); in the authors' code ``h <- AddNorm(MHA(h, M, M))``
      (``residual``, the default); ``h + MHA(h, M, M)``, at first ``h`` (``added``), for
      models that go on from one without memory
====  =====================================================================================

Within a layer h does not depend on M, so all steps run through self-attention at once, the memory
is updated step by step, and all steps read it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gtrans.modules import STEPS
from gtrans.modules.embedding import OFFSET, SinusoidalPositions
from gtrans.modules.group_attention import (
    AttentionPlan,
    DocumentLayout,
    Gather,
    PlanPart,
    Segments,
    attention_plan,
    gather_of,
    rounded_width,
)
from gtrans.modules.transformer import LayerSpec, MultiheadAttention, ResidualLayer, dropout

OUTPUTS = ("residual", "added", "printed")


@dataclass(frozen=True)
class MemorySpec:
    """Settings of all memories of a model.

    Attributes:
        size: memory vectors of a document (d_M).
        bptt: how many steps back a gradient reaches, at least 1; -1: to the first step.
        output: one of :data:`OUTPUTS` (Eq 5).
    """

    size: int
    bptt: int = 1
    output: str = OUTPUTS[0]

    @property
    def passes(self) -> int:
        """The number of passes over a batch in training, one for each distance up to ``bptt``.

        Memories of lower layers reach further back than a layer's own. So that gradients end
        exactly ``bptt`` steps back, the first pass reads memories without gradient, and every later
        one updates them once from the states of the pass before. All passes compute the same
        values.
        """
        return max(self.bptt, 0) + 1


@dataclass
class MemoryFlow:
    """The memories with which a pass over a batch of documents begins and ends.

    Attributes:
        entering: ``(documents, memories, size, dim)`` first values, without gradient; None: all
            documents begin.
        fresh: ``(documents,)`` True if a document begins, with the learned initial memory;
            None: all do.
        leaving: ``(documents, size, dim)`` values after the last step, without gradient, by memory.
        earlier: by memory, the states that wrote to it in the last pass, and its values at every
            step.
        encoded: the encoded source, until the translation updates the decoder's memories.
    """

    entering: Tensor | None = None
    fresh: Tensor | None = None
    leaving: dict[int, Tensor] = field(default_factory=dict)
    earlier: dict[int, tuple[Tensor, list[Tensor]]] = field(default_factory=dict)
    encoded: Any = None

    def copy(self) -> MemoryFlow:
        """Copy the dictionaries, not the memories."""
        return replace(self, leaving=dict(self.leaving), earlier=dict(self.earlier))

    def update(self, other: MemoryFlow) -> None:
        """Take over the memories that a pass wrote into a copy."""
        self.leaving.update(other.leaving)
        self.earlier.update(other.earlier)

    @classmethod
    def of(cls, memories: Sequence[Tensor | None]) -> MemoryFlow:
        """Stack memories ``(memories, size, dim)`` of documents; None: a document begins."""
        going_on = [memory for memory in memories if memory is not None]
        if not going_on:
            return cls()
        blank = torch.zeros_like(going_on[0])
        entering, fresh = [], []
        for memory in memories:
            entering.append(blank if memory is None else memory)
            fresh.append(memory is None)
        return cls(torch.stack(entering), torch.tensor(fresh, device=blank.device))

    @classmethod
    def joined(cls, flows: Sequence[MemoryFlow]) -> MemoryFlow:
        """Join flows of one document each."""
        memories = []
        for flow in flows:
            memories.append(None if flow.entering is None else flow.entering[0])
        return cls.of(memories)

    @property
    def left(self) -> Tensor:
        """``(documents, memories, size, dim)`` values for the next pass."""
        values = [self.leaving[number] for number in sorted(self.leaving)]
        return torch.stack(values, 1)

    def following(self, documents: Tensor) -> MemoryFlow:
        """Return the flow of the next steps of ``documents (n,)``."""
        # No memory was written: decoding left out the layers that have one.
        if not self.leaving:
            return MemoryFlow()
        left = self.left[documents]
        fresh = torch.zeros(len(left), dtype=torch.bool, device=left.device)
        return MemoryFlow(left, fresh)

    def at_start(self, number: int, initial: Tensor, documents: int) -> Tensor:
        """Return memory ``number`` before the first step, ``(documents, size, dim)``."""
        initials = initial.expand(documents, -1, -1)
        if self.entering is None or self.fresh is None:
            return initials
        entering = self.entering[:, number].to(initial)
        return torch.where(self.fresh[:, None, None], initials, entering)


@dataclass(frozen=True)
class MemoryPlan(PlanPart):
    """Which tokens update which memory at which step.

    Documents are sorted, most steps first: the first ``active[t]`` have a step t.

    Attributes:
        order: ``(documents,)`` the numbers of the sorted documents.
        inverse: ``(documents,)`` the index of each document among the sorted ones.
        active: documents at every step.
        widths: most writing tokens at every step.
        masks: for every step ``(active, 1, 1, width)`` True on real tokens, or None.
        gather: packed tokens to the tokens of the steps; None: they are the same.
        to_layout: ``(steps,)`` from (step, sorted document) to the order of the layout.
        reading: lets every step see its own memory.
    """

    order: Tensor
    inverse: Tensor
    active: Sequence[int]
    widths: Sequence[int]
    masks: Sequence[Tensor | None]
    gather: Gather | None
    to_layout: Tensor
    reading: AttentionPlan

    def by_step(self, packed: Tensor) -> list[Tensor]:
        """Split ``(tokens, dim)`` into ``(active, width, dim)`` per step; padding is arbitrary."""
        padded = packed if self.gather is None else self.gather.pad(packed)
        # Split, not sliced: the gradient of every slice would be a tensor of full size.
        sizes = []
        for active, width in zip(self.active, self.widths, strict=True):
            sizes.append(active * width)
        steps = []
        for part, active in zip(torch.split(padded, sizes), self.active, strict=True):
            steps.append(part.view(active, -1, packed.size(1)))
        return steps


def memory_plan(
    layout: DocumentLayout,
    size: int,
    written: Tensor | None = None,
    shapes: str = "exact",
    steps: str = STEPS[0],
) -> MemoryPlan:
    """Plan, on the host, the updates of a batch for all layers of one side.

    Args:
        layout: sentences and chunks; a row is (a part of) one document.
        size: memory vectors of a document.
        written: ``(steps,)`` how many first tokens of a step update the memory; None: all.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        steps: one of :data:`gtrans.modules.STEPS`.
    """
    parts = Segments.of_lengths(layout.sentence_lengths)
    counts = layout.sentence_counts.numpy()
    if steps == "instances":
        parts = Segments.of_lengths(layout.document_lengths)
        counts = np.ones_like(counts)
        if layout.chunks is not None:
            counts = layout.chunks.gt(0).sum(1).numpy()
    order = np.argsort(-counts, kind="stable")
    first = (counts.cumsum() - counts)[order]
    lengths = parts.lengths if written is None else written.numpy()
    writing = Segments(parts.starts, lengths)
    active = []
    for step in range(counts.max(initial=0)):
        active.append(int((counts > step).sum()))
    by_step, padded, masks, widths = [], [], [], []
    for step, documents in enumerate(active):
        numbers = first[:documents] + step
        width = int(lengths[numbers].max())
        if shapes == "rounded":
            width = rounded_width(width)
        index = writing.padded(numbers, width, documents)
        real = index >= 0
        mask = None
        if not real.all():
            mask = torch.from_numpy(real)[:, None, None, :]
        by_step.append(numbers)
        padded.append(index)
        masks.append(mask)
        widths.append(width)
    memories = Segments.of_lengths(torch.full((len(parts.lengths),), size))
    tokens = layout.tokens, len(parts.lengths) * size
    from_steps = np.argsort(np.concatenate(by_step))
    return MemoryPlan(
        order=torch.from_numpy(order),
        inverse=torch.from_numpy(np.argsort(order)),
        active=active,
        widths=widths,
        masks=masks,
        gather=gather_of(padded, layout.tokens),
        to_layout=torch.from_numpy(from_steps),
        reading=attention_plan(parts, memories, tokens, shapes=shapes),
    )


class RecurrentMemory(ResidualLayer):
    """The memory of one layer; ``number`` is its place in a :class:`MemoryFlow`."""

    def __init__(self, spec: LayerSpec, memory: MemorySpec, number: int = 0) -> None:
        # Updates are post-norm in every model: with pre-norm, M would grow without bound.
        super().__init__(replace(spec, pre_norm=False))
        self.memory = memory
        self.number = number
        self.pre_norm = spec.pre_norm
        self.initial = nn.Parameter(torch.randn(memory.size, spec.dim))
        self.sinusoid = SinusoidalPositions(spec.dim, memory.size + OFFSET)
        self.update_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.update_attn_layer_norm = nn.LayerNorm(spec.dim)
        self.output_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        plain = memory.output == "printed" or (memory.output == "added" and not spec.pre_norm)
        self.output_attn_layer_norm = None if plain else nn.LayerNorm(spec.dim)
        if memory.output == "added":
            nn.init.zeros_(self.output_attn.out_proj.weight)
            nn.init.zeros_(self.output_attn.out_proj.bias)

    def forward(self, h: Tensor, flow: MemoryFlow, plan: MemoryPlan) -> Tensor:
        """Update the memory step by step, then let every step read its memory.

        Args:
            h: ``(tokens, dim)`` packed output of self-attention, as the result.
            flow: holds the first memory, receives the last.
            plan: for all memories of this side.
        """
        number = self.number
        initial = flow.at_start(number, self.initial, plan.order.numel())
        start = initial[plan.order]
        states = h
        if self.pre_norm and self.output_attn_layer_norm is not None:
            states = self.output_attn_layer_norm(h)
        earlier = flow.earlier.get(number)
        limited = torch.is_grad_enabled() and self.memory.bptt > 0
        if earlier is None:
            unlimited = torch.is_grad_enabled() and self.memory.bptt < 0
            with torch.set_grad_enabled(unlimited):
                read, after = self._recur(states, plan, start)
            # The initial memory is trained through the steps that read it.
            read[0] = start
            flow.leaving[number] = after.detach()[plan.inverse]
        if limited and earlier is not None:
            read = [start, *self._update_each(*earlier, plan)]
        if limited:
            flow.earlier[number] = states, read
        memories = torch.cat(read)[plan.to_layout].flatten(0, 1)
        if len(read) == 1 and self.training:
            # No step reads an update, but DistributedDataParallel needs a gradient, even
            # a zero one, for every parameter.
            memories = memories + 0.0 * sum(parameter.sum() for parameter in self.parameters())
        return self._read(
            h, lambda query: self.output_attn(query, memories, memories, plan.reading)
        )

    def _read(self, h: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """Eq 5."""
        norm = self.output_attn_layer_norm
        if self.memory.output == "printed":
            return attend(h)
        if self.pre_norm or norm is None:
            read = attend(h if norm is None else norm(h))
            return h + dropout(read, self.spec.dropout, self.training)
        return self._residual(h, norm, attend)

    def _recur(
        self, states: Tensor, plan: MemoryPlan, start: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Return the memory ``(active, size, dim)`` of each step, and ``(documents, ..)`` after."""
        read, updated = [], []
        memory = start
        for active, key, value, mask in self._written(states, plan):
            memory = memory[:active]
            read.append(memory)
            memory = self._update(memory, key, value, mask)
            updated.append(memory)
        # Documents end with the step after which fewer are active.
        ended = []
        for memory, going_on in zip(updated, [*plan.active[1:], 0], strict=True):
            ended.append(memory[going_on:])
        return read, torch.cat(ended[::-1])

    def _update_each(
        self, states: Tensor, read: list[Tensor], plan: MemoryPlan
    ) -> Iterator[Tensor]:
        """Yield the memories of steps 1, 2, ..: the step before's, updated once."""
        steps = zip(plan.active[1:], read, self._written(states, plan), strict=False)
        for active, memory, (_, key, value, mask) in steps:
            visible = None if mask is None else mask[:active]
            yield self._update(memory[:active], key[:active], value[:active], visible)

    def _written(
        self, states: Tensor, plan: MemoryPlan
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor | None]]:
        """Yield active documents, keys, values and mask of every step."""
        keys = plan.by_step(self.update_attn.k_proj(states))
        values = plan.by_step(self.update_attn.v_proj(states))
        return zip(plan.active, keys, values, plan.masks, strict=True)

    def _update(self, memory: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Return the new ``(active, size, dim)`` by Eq 4, 2 and 3."""
        shape = memory.shape
        with_slots = (memory + self._slot_signal()).flatten(0, 1)
        attend = partial(self.update_attn.attend, key=key, value=value, mask=mask)
        updated = self._residual(with_slots, self.update_attn_layer_norm, attend)
        return self._feed_forward(updated).view(shape)

    def _slot_signal(self) -> Tensor:
        numbers = torch.arange(self.memory.size, device=self.initial.device)
        signal: Tensor = self.sinusoid(numbers, self.memory.size)
        return signal.to(self.initial)

    def prepare(self, flow: MemoryFlow, documents: int) -> tuple[Tensor, Tensor]:
        """Return keys and values ``(documents, size, dim)`` of the memory, for :meth:`step`."""
        memory = flow.at_start(self.number, self.initial, documents)
        return self.output_attn.k_proj(memory), self.output_attn.v_proj(memory)

    def step(self, h: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Let a new token of every hypothesis read the memory.

        Args:
            h: ``(hypotheses, dim)``, as the result.
            key, value: from :meth:`prepare`.
        """
        attend = partial(self.output_attn.attend, key=key, value=value, mask=None)
        return self._read(h, attend)
