"""A few memory vectors that a document's sentences write to and read from.

Feng, Li, Song, Zheng and Koehn, "Learn To Remember: Transformer with Recurrent Memory for
Document-Level Machine Translation", 2022. A layer with a memory holds a matrix M of
``size`` vectors for every document. Before sentence t its M is updated from the states h of
sentence t - 1 in the same layer, and the states of sentence t read M:

====  =====================================================================================
Eq 1  h is what the layer's self-attention hands on
Eq 4  ``M <- M + PE(slots)``: the memory itself changes, so the residual of Eq 2 has it too
Eq 2  ``M' = AddNorm(MHA(M, h, h))``
Eq 3  ``M <- AddNorm(FFN(M'))``
Eq 5  ``h <- MHA(h, M, M)``; as printed there is neither residual nor norm around it. The
      authors' program has both, ``h <- AddNorm(MHA(h, M, M))``, which is the default here
====  =====================================================================================

Within one layer, h does not depend on M. All sentences of a batch therefore run through
self-attention at once, only the update goes from sentence to sentence, and then all
sentences read at once. The result is that of one sentence after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from gtrans.modules.attention import MultiheadAttention
from gtrans.modules.dropout import dropout
from gtrans.modules.encoder_output import EncoderOutput
from gtrans.modules.group_attention import AttentionPlan, Gather, segment_slots
from gtrans.modules.layout import DocumentLayout, Segments
from gtrans.modules.positions import OFFSET, SinusoidalPositions
from gtrans.modules.residual import LayerSpec, ResidualLayer

SLOTS = ("sinusoidal", "learned")


@dataclass(frozen=True)
class MemorySpec:
    """What all memories of a model share.

    Attributes:
        size: memory vectors of a document (d_M).
        bptt: how many sentences back the gradient of a sentence reaches; -1: to the first.
        slots: what tells the vectors apart, one of :data:`SLOTS`.
        printed_output: Eq 5 as printed, without residual and norm.
    """

    size: int
    bptt: int = 1
    slots: str = "sinusoidal"
    printed_output: bool = False

    @property
    def passes(self) -> int:
        """Passes over a batch that training takes.

        States depend on what other memories, below or in the encoder, hold of sentences
        further back. To end the gradient of a sentence exactly ``bptt`` back, there is a
        pass for each distance: in the first one, memories are read without gradient; in the
        next one they are updated, once, from the states of the one before. What is
        computed is the same in all of them.
        """
        return max(self.bptt, 0) + 1


@dataclass
class MemoryFlow:
    """The memory that enters a pass over a batch of documents, and what leaves it.

    Attributes:
        entering: ``(documents, memories, size, dim)`` values without gradient, or None where
            all documents begin.
        fresh: ``(documents,)`` True where a document begins, with the learned initial
            memory; None where all do.
        leaving: ``(documents, size, dim)`` of each memory after the last sentence, by the
            number of the memory, without gradient.
        earlier: of each memory, by its number, the states that write to it and what each step
            reads of it in the last of several passes; see :attr:`MemorySpec.passes`.
        encoded: the source of the pass, for the decoder's memories when its target is known.
    """

    entering: Tensor | None = None
    fresh: Tensor | None = None
    leaving: dict[int, Tensor] = field(default_factory=dict)
    earlier: dict[int, tuple[Tensor, list[Tensor]]] = field(default_factory=dict)
    encoded: EncoderOutput | None = None

    @property
    def left(self) -> Tensor:
        """``(documents, memories, size, dim)`` to enter the next pass."""
        return torch.stack([self.leaving[number] for number in sorted(self.leaving)], 1)

    def following(self, documents: Tensor) -> MemoryFlow:
        """The memory for what follows in some of the documents."""
        if not self.leaving:
            return MemoryFlow()
        fresh = torch.zeros(documents.numel(), dtype=torch.bool, device=documents.device)
        return MemoryFlow(self.left[documents], fresh)

    def at_start(self, number: int, initial: Tensor, documents: int) -> Tensor:
        """``(documents, size, dim)``: memory ``number`` before the first sentence."""
        begun = initial.expand(documents, -1, -1)
        if self.entering is None or self.fresh is None:
            return begun
        entering = self.entering[:, number].to(initial)
        return torch.where(self.fresh[:, None, None], begun, entering)


class MemoryPlan:
    """Which sentence updates which memory when, and who reads it; one for all layers of a side.

    Documents are ranked by their number of sentences, most first: those that have a
    sentence t are the first ``active[t]``.
    """

    def __init__(self, layout: DocumentLayout, size: int, written: Tensor | None = None) -> None:
        """Plan for a batch.

        Args:
            layout: sentences of every row; a row is (a part of) one document.
            size: memory vectors of a document.
            written: ``(sentences,)`` tokens of each sentence, from its first, that the
                memory is updated from (None: all of them).
        """
        device = layout.index.device
        counts = layout.sentence_counts
        rank = counts.argsort(descending=True, stable=True)
        ranked: list[int] = counts[rank].tolist()
        self.documents = rank
        self.rank = torch.empty_like(rank)
        self.rank[rank] = torch.arange(rank.numel(), device=device)
        self.active = [
            sum(count > step for count in ranked) for step in range(max(ranked, default=0))
        ]
        lengths = layout.sentences.lengths if written is None else written
        first = layout.first_sentences[rank]
        order, slots = [], []
        self.masks: list[Tensor | None] = []
        self.widths: list[int] = []
        for step, active in enumerate(self.active):
            sentences = first[:active] + step
            order.append(sentences)
            members = Segments(layout.sentences.starts[sentences], lengths[sentences])
            width = max(members.sizes)
            index = segment_slots(members, torch.arange(active, device=device), width)
            full = min(members.sizes) == width
            self.masks.append(None if full else index.ge(0)[:, None, None, :])
            self.widths.append(width)
            slots.append(index.flatten())
        self._states = Gather.build(torch.cat(slots), layout.tokens)
        # From (step, rank) back to the order of the layout.
        self.to_layout = torch.argsort(torch.cat(order))
        starts = torch.arange(len(layout.sentences), device=device) * size
        memories = Segments(starts, torch.full_like(starts, size))
        self.reading = AttentionPlan(
            layout.sentences, memories, layout.tokens, len(layout.sentences) * size, causal=False
        )

    def by_step(self, packed: Tensor) -> list[Tensor]:
        """``(tokens, dim)`` -> for every step ``(active, longest, dim)``, padding arbitrary."""
        rows = packed if self._states is None else self._states.rows(packed)
        # Not by slices: the gradient of a slice is a whole tensor of zeros around it.
        sizes = [active * width for active, width in zip(self.active, self.widths, strict=True)]
        parts = torch.split(rows, sizes)
        return [
            part.view(active, -1, packed.size(1))
            for part, active in zip(parts, self.active, strict=True)
        ]


class MemoryPass:
    """One pass over a batch by the memories of one side."""

    def __init__(
        self, flow: MemoryFlow, layout: DocumentLayout, written: Tensor | None = None
    ) -> None:
        """``flow`` gives what enters the pass and takes what leaves it.

        ``layout`` and ``written`` are those of :class:`MemoryPlan`.
        """
        self.flow = flow
        self._layout = layout
        self._written = written
        self._plan: MemoryPlan | None = None

    def plan(self, size: int) -> MemoryPlan:
        """The plan that all memories, of ``size`` vectors each, share."""
        if self._plan is None:
            self._plan = MemoryPlan(self._layout, size, self._written)
        return self._plan


class RecurrentMemory(ResidualLayer):
    """The memory of one layer: initial vectors, update attention, output attention.

    Attributes:
        number: of this memory in a :class:`MemoryFlow`.
    """

    def __init__(self, spec: LayerSpec, memory: MemorySpec, number: int = 0) -> None:
        # Eq 2 and 3 normalise what they write: M would grow without end in a pre-norm model.
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
        """Update the memory sentence by sentence, then let every sentence read its own.

        Args:
            h: ``(tokens, dim)`` packed, what self-attention hands on.
            this_pass: over this batch; its flow gives the memory before the first sentences
                and takes that after the last.

        Returns:
            ``(tokens, dim)``.
        """
        plan, flow, number = this_pass.plan(self.memory.size), this_pass.flow, self.number
        start = flow.at_start(number, self.initial, plan.documents.numel())[plan.documents]
        states = h
        if self.pre_norm and self.output_attn_layer_norm is not None:
            states = self.output_attn_layer_norm(h)
        earlier = flow.earlier.get(number)
        limited = torch.is_grad_enabled() and self.memory.bptt >= 0
        if earlier is None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and self.memory.bptt < 0):
                each, after = self._recur(states, plan, start)
            # The learned initial memory learns from what reads it.
            each[0] = start
            flow.leaving[number] = after.detach()[plan.rank]
        if limited and (earlier is not None or self.memory.bptt == 0):
            before = (states.detach(), each) if earlier is None else earlier
            each = [start, *self._update_each(*before, plan)]
        if limited:
            flow.earlier[number] = states, each
        memories = torch.cat(each)[plan.to_layout].flatten(0, 1)
        if len(each) == 1 and self.training:
            # Nothing reads what is written, but DistributedDataParallel wants a gradient,
            # if only zero, for every parameter.
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
        """The memory ``(active, size, dim)`` each step reads, and ``(documents, ..)`` at the end.

        Both are in the order of the plan's ranks.
        """
        each, ends = [], []
        memory = start
        for active, key, value, mask in self._written(states, plan):
            memory = memory[:active]
            each.append(memory)
            memory = self._update(memory, key, value, mask)
            ends.append(memory)
        last = [
            end[following:] for end, following in zip(ends, [*plan.active[1:], 0], strict=True)
        ]
        return each, torch.cat(last[::-1])

    def _update_each(
        self, states: Tensor, each: list[Tensor], plan: MemoryPlan
    ) -> Iterator[Tensor]:
        """What the second step and all later ones read, from what each one read before."""
        steps = zip(plan.active[1:], each, self._written(states, plan), strict=False)
        for active, memory, (_, key, value, mask) in steps:
            visible = None if mask is None else mask[:active]
            yield self._update(memory[:active], key[:active], value[:active], visible)

    def _written(
        self, states: Tensor, plan: MemoryPlan
    ) -> Iterator[tuple[int, Tensor, Tensor, Tensor | None]]:
        """For every step the active documents, keys, values and mask of its sentences."""
        keys = plan.by_step(self.update_attn.k_proj(states))
        values = plan.by_step(self.update_attn.v_proj(states))
        return zip(plan.active, keys, values, plan.masks, strict=True)

    def _update(self, memory: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """Eq 4, 2 and 3: ``(rows, size, dim)`` from projected states ``(rows, longest, dim)``."""
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
        signal: Tensor = self.sinusoid(numbers)
        return signal.to(self.initial)

    def prepare(self, flow: MemoryFlow, documents: int) -> tuple[Tensor, Tensor]:
        """Keys and values ``(documents, size, dim)`` of the memory, for :meth:`step`."""
        memory = flow.at_start(self.number, self.initial, documents)
        return self.output_attn.k_proj(memory), self.output_attn.v_proj(memory)

    def step(self, h: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """One new token of every hypothesis reads: ``(rows, dim) -> (rows, dim)``."""
        return self._read(h, lambda query: self.output_attn.attend(query, key, value, None))
