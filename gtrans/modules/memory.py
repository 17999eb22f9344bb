"""Recurrent memory: a few vectors that the sentences of a document write to and read from.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022. A layer with a memory holds a matrix M of
``size`` vectors for every document. Before sentence t its M is updated from the states h of
sentence t - 1 in the same layer, and the states of sentence t read M:

====  =====================================================================================
Eq 1  h is the output of the layer's self-attention
Eq 4  ``M <- M + PE(slots)``: the memory itself changes, so the residual of Eq 2 has PE, too
Eq 2  ``M' = AddNorm(MHA(M, h, h))``
Eq 3  ``M <- AddNorm(FFN(M'))``
Eq 5  ``h <- MHA(h, M, M)``, as printed without residual and norm. The authors' program has
      both, ``h <- AddNorm(MHA(h, M, M))``, which is the default here
====  =====================================================================================

Within one layer, h does not depend on M. So all sentences of a batch run through
self-attention at once, the memory is updated sentence by sentence, and then all sentences read
it at once. The result is the same as that of one sentence after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.dropout import dropout
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.gather import Gather, padded_index
from gtrans.modules.group_attention import AttentionPlan, rounded_width
from gtrans.modules.layout import DocumentLayout, Segments
from gtrans.modules.positions import OFFSET, SinusoidalPositions
from gtrans.modules.residual import LayerSpec, ResidualLayer

SLOTS = ("sinusoidal", "learned")


@dataclass(frozen=True)
class MemorySpec:
    """Settings of all memories of a model.

    Attributes:
        size: memory vectors of a document (d_M).
        bptt: how many sentences back a sentence's gradient reaches; -1: to the first one.
        slots: embedding that distinguishes the vectors, one of :data:`SLOTS`.
        printed_output: Eq 5 as printed, without residual and norm.
    """

    size: int
    bptt: int = 1
    slots: str = "sinusoidal"
    printed_output: bool = False

    @property
    def passes(self) -> int:
        """How many passes over a batch training needs.

        The states of a sentence depend on other memories, in lower layers or in the encoder,
        which depend on sentences further back. So that a gradient ends exactly ``bptt``
        sentences back, there is one pass for each distance. In the first pass, memories are
        read without gradient; in every later pass they are updated once, from the states of
        the pass before. All passes compute the same values.
        """
        return max(self.bptt, 0) + 1


@dataclass
class MemoryFlow:
    """The memories with which a pass over a batch of documents begins and ends.

    Attributes:
        entering: ``(documents, memories, size, dim)`` values at the beginning, without gradient;
            None: all documents begin.
        fresh: ``(documents,)`` True if a document begins, with the learned initial memory;
            None: all do.
        leaving: number of a memory -> its values ``(documents, size, dim)`` after the last
            sentence, without gradient.
        earlier: number of a memory -> the states that wrote to it in the last pass, and its
            values at every step of that pass (:attr:`MemorySpec.passes`).
        encoded: the encoded source, kept until the translation is known and the decoder's
            memories can be updated.
    """

    entering: Tensor | None = None
    fresh: Tensor | None = None
    leaving: dict[int, Tensor] = field(default_factory=dict)
    earlier: dict[int, tuple[Tensor, list[Tensor]]] = field(default_factory=dict)
    encoded: EncoderOutput | None = None

    @property
    def left(self) -> Tensor:
        """``(documents, memories, size, dim)``: the values with which the next pass begins."""
        return torch.stack([self.leaving[number] for number in sorted(self.leaving)], 1)

    def following(self, documents: Tensor) -> MemoryFlow:
        """The memories with which the next sentences of ``documents (n,)`` begin."""
        if not self.leaving:
            return MemoryFlow()
        fresh = torch.zeros(documents.numel(), dtype=torch.bool, device=documents.device)
        return MemoryFlow(self.left[documents], fresh)

    def at_start(self, number: int, initial: Tensor, documents: int) -> Tensor:
        """``(documents, size, dim)``: memory ``number`` before the first sentence."""
        initials = initial.expand(documents, -1, -1)
        if self.entering is None or self.fresh is None:
            return initials
        entering = self.entering[:, number].to(initial)
        return torch.where(self.fresh[:, None, None], initials, entering)


class MemoryPlan:
    """Which sentence updates which memory at which step, for all layers of a side.

    Documents are sorted by their number of sentences, the longest first, so that those with a
    sentence t are the first ``active[t]``.

    Attributes:
        order: ``(documents,)`` the numbers of the sorted documents.
        inverse: ``(documents,)`` the index of each document among the sorted ones.
        active: for every step, how many documents have a sentence.
        masks: for every step ``(active, 1, 1, longest)`` True on real tokens, or None.
        to_layout: ``(sentences,)`` from (step, sorted document) to the order of the layout.
        reading: every sentence sees its own memory.
    """

    def __init__(
        self,
        layout: DocumentLayout,
        size: int,
        written: Tensor | None = None,
        shapes: str = "exact",
    ) -> None:
        """Plan for a batch.

        Args:
            layout: sentences of every row; a row is (a part of) one document.
            size: memory vectors of a document.
            written: ``(sentences,)`` how many tokens of each sentence, from its first, update
                the memory (None: all of them).
            shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        """
        device = layout.index.device
        counts = layout.sentence_counts
        self.order = counts.argsort(descending=True, stable=True)
        self.inverse = torch.empty_like(self.order)
        self.inverse[self.order] = torch.arange(self.order.numel(), device=device)
        sorted_counts: list[int] = counts[self.order].tolist()
        self.active = [
            sum(count > step for count in sorted_counts)
            for step in range(max(sorted_counts, default=0))
        ]
        lengths = layout.sentences.lengths if written is None else written
        first = layout.first_sentences[self.order]
        by_step, padded = [], []
        self.masks: list[Tensor | None] = []
        self._widths: list[int] = []
        for step, active in enumerate(self.active):
            sentences = first[:active] + step
            by_step.append(sentences)
            segments = Segments(layout.sentences.starts[sentences], lengths[sentences])
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
        starts = torch.arange(len(layout.sentences), device=device) * size
        memories = Segments(starts, torch.full_like(starts, size))
        self.reading = AttentionPlan(
            layout.sentences, memories, layout.tokens, len(layout.sentences) * size, False, shapes
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


class MemoryPass:
    """One pass over a batch by the memories of one side."""

    def __init__(
        self,
        flow: MemoryFlow,
        layout: DocumentLayout,
        written: Tensor | None = None,
        shapes: str = "exact",
    ) -> None:
        """``flow`` holds the memories at the beginning, and receives those at the end.

        The other arguments are those of :class:`MemoryPlan`.
        """
        self.flow = flow
        self._layout = layout
        self._written = written
        self._shapes = shapes
        self._plan: MemoryPlan | None = None

    def plan(self, size: int) -> MemoryPlan:
        """The plan of all memories of this side, with ``size`` vectors each."""
        if self._plan is None:
            self._plan = MemoryPlan(self._layout, size, self._written, self._shapes)
        return self._plan

    def again(self, flow: MemoryFlow) -> MemoryPass:
        """A pass over the same batch, by the same plan."""
        following = copy(self)
        following.flow = flow
        return following

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


class RecurrentMemory(ResidualLayer):
    """The memory of one layer: initial vectors, update attention, output attention.

    Attributes:
        number: the number of this memory in a :class:`MemoryFlow`.
    """

    def __init__(self, spec: LayerSpec, memory: MemorySpec, number: int = 0) -> None:
        # Updates are post-norm in every model: with pre-norm, M would grow without bound.
        super().__init__(replace(spec, pre_norm=False))
        self.memory = memory
        self.number = number
        self.pre_norm = spec.pre_norm
        self.initial = nn.Parameter(torch.randn(memory.size, spec.dim))
        self.slots = (
            nn.Parameter(torch.randn(memory.size, spec.dim) * spec.dim**-0.5)
            if memory.slots == "learned"
            else None
        )
        self.sinusoid = SinusoidalPositions(spec.dim, memory.size + OFFSET)
        self.update_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.update_attn_layer_norm = nn.LayerNorm(spec.dim)
        self.output_attn = MultiheadAttention(spec.dim, spec.heads, spec.attention_dropout)
        self.output_attn_layer_norm = None if memory.printed_output else nn.LayerNorm(spec.dim)

    def forward(self, h: Tensor, this_pass: MemoryPass) -> Tensor:
        """Update the memory sentence by sentence, then let every sentence read its memory.

        Args:
            h: ``(tokens, dim)`` packed output of self-attention.
            this_pass: the pass over this batch. Its flow holds the memory before the first
                sentences and receives that after the last ones.

        Returns:
            ``(tokens, dim)``.
        """
        plan, flow, number = this_pass.plan(self.memory.size), this_pass.flow, self.number
        start = flow.at_start(number, self.initial, plan.order.numel())[plan.order]
        states = h
        if self.pre_norm and self.output_attn_layer_norm is not None:
            states = self.output_attn_layer_norm(h)
        earlier = flow.earlier.get(number)
        limited = torch.is_grad_enabled() and self.memory.bptt >= 0
        if earlier is None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.memory.bptt < 0):
                read, after = self._recur(states, plan, start)
            # The initial memory is trained through the sentences that read it.
            read[0] = start
            flow.leaving[number] = after.detach()[plan.inverse]
        if limited and (earlier is not None or self.memory.bptt == 0):
            before = (states.detach(), read) if earlier is None else earlier
            read = [start, *self._update_each(*before, plan)]
        if limited:
            flow.earlier[number] = states, read
        memories = torch.cat(read)[plan.to_layout].flatten(0, 1)
        if len(read) == 1 and self.training:
            # No sentence reads an update, but DistributedDataParallel needs a gradient, even
            # a zero one, for every parameter.
            memories = memories + 0.0 * sum(parameter.sum() for parameter in self.parameters())
        return self._read(
            h, lambda query: self.output_attn(query, memories, memories, plan.reading)
        )

    def _read(self, h: Tensor, attend: Callable[[Tensor], Tensor]) -> Tensor:
        """Eq 5."""
        if self.output_attn_layer_norm is None:
            return attend(h)
        if self.pre_norm:
            read = attend(self.output_attn_layer_norm(h))
            return h + dropout(read, self.spec.dropout, self.training)
        return self._residual(h, self.output_attn_layer_norm, attend)

    def _recur(
        self, states: Tensor, plan: MemoryPlan, start: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """The memory ``(active, size, dim)`` that each step reads, and ``(documents, ..)`` after.

        Documents are in the order of the plan.
        """
        read, updated = [], []
        memory = start
        for active, key, value, mask in self._written(states, plan):
            memory = memory[:active]
            read.append(memory)
            memory = self._update(memory, key, value, mask)
            updated.append(memory)
        # Documents that have no further sentence, step by step.
        ended = [
            memory[going_on:]
            for memory, going_on in zip(updated, [*plan.active[1:], 0], strict=True)
        ]
        return read, torch.cat(ended[::-1])

    def _update_each(
        self, states: Tensor, read: list[Tensor], plan: MemoryPlan
    ) -> Iterator[Tensor]:
        """The memory that steps 1, 2, .. read: one update of what the step before has read."""
        steps = zip(plan.active[1:], read, self._written(states, plan), strict=False)
        for active, memory, (_, key, value, mask) in steps:
            visible = None if mask is None else mask[:active]
            yield self._update(memory[:active], key[:active], value[:active], visible)

    def _written(
        self, states: Tensor, plan: MemoryPlan
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor | None]]:
        """For every step the number of active documents, and its keys, values and mask."""
        keys = plan.by_step(self.update_attn.k_proj(states))
        values = plan.by_step(self.update_attn.v_proj(states))
        return zip(plan.active, keys, values, plan.masks, strict=True)

    def _update(self, memory: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Eq 4, 2 and 3: the new ``(active, size, dim)``; key, value ``(active, longest, dim)``."""
        shape = memory.shape
        with_slots = (memory + self._slot_signal()).flatten(0, 1)
        updated = self._residual(
            with_slots,
            self.update_attn_layer_norm,
            lambda query: self.update_attn.attend(query, key, value, mask),
        )
        return self._feed_forward(updated).view(shape)

    def _slot_signal(self) -> Tensor:
        if self.slots is not None:
            return self.slots
        numbers = torch.arange(self.memory.size, device=self.initial.device)
        signal: Tensor = self.sinusoid(numbers, self.memory.size)
        return signal.to(self.initial)

    def prepare(self, flow: MemoryFlow, documents: int) -> tuple[Tensor, Tensor]:
        """Keys and values ``(documents, size, dim)`` of the memory, for :meth:`step`."""
        memory = flow.at_start(self.number, self.initial, documents)
        return self.output_attn.k_proj(memory), self.output_attn.v_proj(memory)

    def step(self, h: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Let one new token of every hypothesis read the memory.

        Args:
            h: ``(hypotheses, dim)``.
            key, value: as returned by :meth:`prepare`.

        Returns:
            ``(hypotheses, dim)``.
        """
        return self._read(h, lambda query: self.output_attn.attend(query, key, value, None))
