"""Recurrent memory: a few vectors that the steps of a document write to and read from.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022. A layer holds a matrix M of ``size`` vectors for every
document. The states h of step t - 1 update M, then the states of step t read it. A step is a
sentence (paper) or a chunk.

====  =====================================================================================
Eq 1  h is the output of the layer's self-attention
Eq 4  ``M <- M + PE(slots)``: the residual of Eq 2 has PE, too
Eq 2  ``M' = AddNorm(MHA(M, h, h))``
Eq 3  ``M <- AddNorm(FFN(M'))``
Eq 5  ``h <- MHA(h, M, M)`` (``printed``); in the authors' code ``h <- AddNorm(MHA(h, M, M))``
      (``residual``, the default); ``h + MHA(h, M, M)``, at first ``h`` (``added``), for
      models that start from one without memory
====  =====================================================================================

Within a layer h does not depend on M, so all steps run through self-attention at once, the memory
is updated step by step, and all steps read it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from gtrans.modules import STEPS
from gtrans.modules.embedding import OFFSET, SinusoidalPositions
from gtrans.modules.group_attention import (
    AttentionPlan,
    DocumentLayout,
    Gather,
    Ints,
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
        """The number of passes over a batch in training.

        Gradients must end ``bptt`` steps back, but memories of lower layers reach further back. So
        the first pass reads memories without gradient, and each later one updates them once from
        the states of the pass before. All compute the same values.
        """
        return max(self.bptt, 0) + 1


class EarlierPass(NamedTuple):
    """A memory's ``states (tokens, dim)`` and values ``(active, size, dim)`` by step."""

    states: Tensor
    memories: list[Tensor]


@dataclass
class MemoryFlow:
    """The memories with which a pass over a batch of documents begins and ends.

    Attributes:
        entering: ``(documents, memories, size, dim)`` first values, without gradient; None: all
            documents begin.
        fresh: ``(documents,)`` True if a document begins, with the learned initial memory;
            None: all do.
        leaving: ``(documents, size, dim)`` values after the last step, without gradient, by memory.
        earlier: the pass before, by memory.
        encoded: the encoded source, until the translation updates the decoder's memories.
    """

    entering: Tensor | None = None
    fresh: Tensor | None = None
    leaving: dict[int, Tensor] = field(default_factory=dict)
    earlier: dict[int, EarlierPass] = field(default_factory=dict)
    encoded: Any = None

    def copy(self) -> MemoryFlow:
        """Copy the dictionaries, not the memories."""
        leaving = dict(self.leaving)
        earlier = dict(self.earlier)
        return replace(self, leaving=leaving, earlier=earlier)

    def update(self, other: MemoryFlow) -> None:
        """Take over the memories that a pass wrote into a copy."""
        self.leaving.update(other.leaving)
        self.earlier.update(other.earlier)

    @classmethod
    def starting_with(cls, memories: Sequence[Tensor | None]) -> MemoryFlow:
        """Start with ``(memories, size, dim)`` of each document; None: it begins."""
        continued = [memory for memory in memories if memory is not None]
        if not continued:
            return cls()
        blank = torch.zeros_like(continued[0])
        entering = [blank if memory is None else memory for memory in memories]
        fresh = [memory is None for memory in memories]
        return cls(
            entering=torch.stack(entering),
            fresh=torch.tensor(fresh, device=blank.device),
        )

    @classmethod
    def joined(cls, flows: Sequence[MemoryFlow]) -> MemoryFlow:
        """Join flows of one document each."""
        memories: list[Tensor | None] = []
        for flow in flows:
            if flow.entering is None:
                memories.append(None)
            else:
                memories.append(flow.entering[0])
        return cls.starting_with(memories)

    @property
    def stacked_leaving(self) -> Tensor:
        """``(documents, memories, size, dim)``: ``leaving`` of all memories."""
        values = [self.leaving[number] for number in sorted(self.leaving)]
        return torch.stack(values, 1)

    def following(self, documents: Tensor) -> MemoryFlow:
        """Return the flow of the next steps of ``documents (n,)``."""
        # No memory was written: decoding left out the layers that have one.
        if not self.leaving:
            return MemoryFlow()
        entering = self.stacked_leaving[documents]
        fresh = torch.zeros(len(entering), dtype=torch.bool, device=entering.device)
        return MemoryFlow(entering, fresh)

    def at_start(self, number: int, initial: Tensor, documents: int) -> Tensor:
        """Return memory ``number`` before the first step, ``(documents, size, dim)``."""
        initials = initial.expand(documents, -1, -1)
        if self.entering is None or self.fresh is None:
            return initials
        entering = self.entering[:, number].to(initial)
        is_fresh = self.fresh[:, None, None]
        return torch.where(is_fresh, initials, entering)


@dataclass(frozen=True)
class MemoryPlan(PlanPart):
    """Which tokens update which memory at which step.

    Documents are sorted, most steps first: the first ``active[t]`` have a step t.

    Attributes:
        order: ``(documents,)`` the numbers of the sorted documents.
        inverse: ``(documents,)`` the index of each document among the sorted ones.
        active: documents at every step.
        widths: most writing tokens at every step.
        masks: for every step ``(active, 1, 1, width)`` True on real tokens; None: all are real.
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
        dim = packed.size(1)
        padded = packed
        if self.gather is not None:
            padded = self.gather.pad(packed)
        sizes = []
        for active, width in zip(self.active, self.widths, strict=True):
            sizes.append(active * width)
        # Split, not sliced: the gradient of every slice would be a tensor of full size.
        parts = torch.split(padded, sizes)
        steps = []
        for part, active in zip(parts, self.active, strict=True):
            steps.append(part.view(active, -1, dim))
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
    parts, counts = _steps_of(layout, steps)
    order = np.argsort(-counts, kind="stable")
    before = counts.cumsum() - counts
    first = before[order]
    lengths = parts.lengths
    if written is not None:
        lengths = written.numpy()
    writing = Segments(parts.starts, lengths)
    active = []
    for step in range(counts.max(initial=0)):
        has_step = counts > step
        active.append(int(has_step.sum()))
    by_step: list[Ints] = []
    padded: list[Ints] = []
    masks: list[Tensor | None] = []
    widths: list[int] = []
    for step, documents in enumerate(active):
        numbers = first[:documents] + step
        width = int(lengths[numbers].max())
        if shapes == "rounded":
            width = rounded_width(width)
        index = writing.padded(numbers, width, documents)
        is_real = index >= 0
        mask = None
        if not is_real.all():
            mask = torch.from_numpy(is_real)[:, None, None, :]
        by_step.append(numbers)
        padded.append(index)
        masks.append(mask)
        widths.append(width)
    step_count = len(parts.lengths)
    memories = Segments.of_lengths(torch.full((step_count,), size))
    tokens = layout.tokens, step_count * size
    inverse = np.argsort(order)
    to_layout = np.argsort(np.concatenate(by_step))
    return MemoryPlan(
        order=torch.from_numpy(order),
        inverse=torch.from_numpy(inverse),
        active=active,
        widths=widths,
        masks=masks,
        gather=gather_of(padded, layout.tokens),
        to_layout=torch.from_numpy(to_layout),
        reading=attention_plan(parts, memories, tokens, shapes=shapes),
    )


def _steps_of(layout: DocumentLayout, steps: str) -> tuple[Segments, Ints]:
    """Return the tokens of every step, and ``(documents,)`` numbers of steps."""
    counts: Ints = layout.sentence_counts.numpy()
    if steps != "instances":
        return Segments.of_lengths(layout.sentence_lengths), counts
    chunks = Segments.of_lengths(layout.document_lengths)
    if layout.chunks is None:
        return chunks, np.ones_like(counts)
    return chunks, layout.chunks.gt(0).sum(1).numpy()


class _Writing(NamedTuple):
    """The tokens that write to the memory at one step, in as many ``documents``.

    ``key`` and ``value`` are ``(documents, width, dim)``, ``mask`` as in :class:`MemoryPlan`.
    """

    documents: int
    key: Tensor
    value: Tensor
    mask: Tensor | None

    def of_first(self, documents: int) -> _Writing:
        """Return the tokens of the first ``documents`` only."""
        mask = None if self.mask is None else self.mask[:documents]
        return _Writing(documents, self.key[:documents], self.value[:documents], mask)


class RecurrentMemory(ResidualLayer):
    """The memory of one layer; ``number`` is its place in a :class:`MemoryFlow`."""

    def __init__(self, spec: LayerSpec, memory: MemorySpec, number: int = 0) -> None:
        # Updates are post-norm in every model: with pre-norm, M would grow without bound.
        super().__init__(replace(spec, pre_norm=False))
        self.memory_spec = memory
        self.number = number
        self.pre_norm = spec.pre_norm
        self.initial = nn.Parameter(torch.randn(memory.size, spec.dim))
        self.sinusoid = SinusoidalPositions(spec.dim, memory.size + OFFSET)
        self.update_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.update_attn_layer_norm = nn.LayerNorm(spec.dim)
        self.output_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.output_attn_layer_norm: nn.LayerNorm | None = None
        is_added_to_pre_norm = memory.output == "added" and spec.pre_norm
        if memory.output == "residual" or is_added_to_pre_norm:
            self.output_attn_layer_norm = nn.LayerNorm(spec.dim)
        if memory.output == "added":
            nn.init.zeros_(self.output_attn.out_proj.weight)
            nn.init.zeros_(self.output_attn.out_proj.bias)

    def forward(self, h: Tensor, flow: MemoryFlow, plan: MemoryPlan) -> Tensor:
        """Update the memory step by step, then let every step read its memory.

        Args:
            h: ``(tokens, dim)`` packed output of self-attention, as the result.
            flow: holds the first memory, receives the last.
            plan: of this side.
        """
        number = self.number
        documents = plan.order.numel()
        initial = flow.at_start(number, self.initial, documents)
        start = initial[plan.order]
        states = h
        if self.pre_norm and self.output_attn_layer_norm is not None:
            states = self.output_attn_layer_norm(h)
        earlier = flow.earlier.get(number)
        bptt = self.memory_spec.bptt
        is_truncated = torch.is_grad_enabled() and bptt > 0
        if earlier is None:
            # The first pass (MemorySpec.passes).
            is_unlimited = torch.is_grad_enabled() and bptt < 0
            with torch.set_grad_enabled(is_unlimited):
                by_step, after = self._recur(states, plan, start)
            # The initial memory is trained through the steps that read it.
            by_step[0] = start
            flow.leaving[number] = after.detach()[plan.inverse]
        if is_truncated and earlier is not None:
            by_step = [start, *self._update_each(earlier, plan)]
        if is_truncated:
            flow.earlier[number] = EarlierPass(states, by_step)
        memories = torch.cat(by_step)[plan.to_layout].flatten(0, 1)
        if len(by_step) == 1 and self.training:
            # No step reads an update, but DistributedDataParallel needs a gradient, even
            # a zero one, for every parameter.
            total = sum(parameter.sum() for parameter in self.parameters())
            memories = memories + 0.0 * total
        attend = partial(self.output_attn, key=memories, value=memories, plan=plan.reading)
        return self._read(h, attend)

    def _read(self, h: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """Eq 5."""
        norm = self.output_attn_layer_norm
        if self.memory_spec.output == "printed":
            return attend(h)
        if norm is not None and not self.pre_norm:
            return self._residual(h, norm, attend)
        query = h if norm is None else norm(h)
        read = attend(query)
        return h + dropout(read, self.spec.dropout, self.training)

    def _recur(
        self, states: Tensor, plan: MemoryPlan, start: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Return the memory ``(active, size, dim)`` of each step, and ``(documents, ..)`` after."""
        read, updated = [], []
        memory = start
        for writing in self._written(states, plan):
            memory = memory[: writing.documents]
            read.append(memory)
            memory = self._update(memory, writing)
            updated.append(memory)
        # Documents end with the step after which fewer are active.
        ended = []
        active_after = [*plan.active[1:], 0]
        for memory, active in zip(updated, active_after, strict=True):
            ended.append(memory[active:])
        return read, torch.cat(ended[::-1])

    def _update_each(self, earlier: EarlierPass, plan: MemoryPlan) -> Iterator[Tensor]:
        """Yield the memories of steps 1, 2, ..: the step before's, updated once."""
        all_writing = self._written(earlier.states, plan)
        steps = zip(plan.active[1:], earlier.memories, all_writing, strict=False)
        for active, memory, writing in steps:
            yield self._update(memory[:active], writing.of_first(active))

    def _written(self, states: Tensor, plan: MemoryPlan) -> list[_Writing]:
        """Return the tokens that write at every step."""
        keys = plan.by_step(self.update_attn.k_proj(states))
        values = plan.by_step(self.update_attn.v_proj(states))
        steps = zip(plan.active, keys, values, plan.masks, strict=True)
        return [_Writing(*step) for step in steps]

    def _update(self, memory: Tensor, writing: _Writing) -> Tensor:
        """Return the new ``(active, size, dim)`` by Eq 4, 2 and 3."""
        with_slots = memory + self._slot_signal()
        query = with_slots.flatten(0, 1)
        attend = partial(
            self.update_attn.attend,
            key=writing.key,
            value=writing.value,
            mask=writing.mask,
        )
        updated = self._residual(query, self.update_attn_layer_norm, attend)
        updated = self._feed_forward(updated)
        return updated.view(memory.shape)

    def _slot_signal(self) -> Tensor:
        size = self.memory_spec.size
        numbers = torch.arange(size, device=self.initial.device)
        signal: Tensor = self.sinusoid(numbers, size)
        return signal.to(self.initial)

    def prepare(self, flow: MemoryFlow, documents: int) -> tuple[Tensor, Tensor]:
        """Return keys and values ``(documents, size, dim)`` of the memory, for :meth:`step`."""
        memory = flow.at_start(self.number, self.initial, documents)
        key = self.output_attn.k_proj(memory)
        value = self.output_attn.v_proj(memory)
        return key, value

    def step(self, h: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Let a new token of every hypothesis read the memory.

        Args:
            h: ``(hypotheses, dim)``, as the result.
            key, value: from :meth:`prepare`.
        """
        attend = partial(self.output_attn.attend, key=key, value=value, mask=None)
        return self._read(h, attend)
