"""Plans of batches: where sentences begin and which tokens attend to which, as index tensors.

Read from tokens on a GPU, every number of a plan would make the host wait. So the plan of a batch
is made with NumPy where the batch is made, in the processes that load data, and is a part of
``net_input``: dictionaries of tensors, which fairseq moves to the device like all others. Without
it (fairseq's own tasks, search, force decoding) a model copies its tokens to the host once and
makes the plan there. :class:`BatchPlan` is how a model reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.modules.group_attention import (
    AttentionPlan,
    DocumentLayout,
    Entries,
    Ints,
    Segments,
    attention_plan,
)
from gtrans.modules.memory import MemoryFlow, MemoryPass, MemoryPlan, memory_plan

PLANNED = (
    "src_tokens", "prev_output_tokens", "current", "context_lengths", "source_of_row", "instances",
)  # fmt: skip
"""What a plan depends on, of the arguments of ``forward``."""


@dataclass(frozen=True)
class Needs:
    """What the layers of one side ask of a plan.

    Attributes:
        pad: id of padding.
        opening, eos: of decoder input, see
            :meth:`gtrans.modules.group_attention.DocumentLayout.of_target`.
        closing: id of the last symbol of every source sentence.
        kinds: for ``encoder``, ``decoder`` and ``cross`` the plans that are asked for: ``group``,
            ``global``, ``context``.
        memory_size: vectors of a memory; 0: there is none.
        memory_steps: what updates a memory at once, one of :data:`gtrans.modules.STEPS`.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        further: what a system asks for besides.
    """

    pad: int
    opening: int
    eos: int
    closing: int
    kinds: Mapping[str, frozenset[str]]
    memory_size: int
    memory_steps: str
    shapes: str
    further: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class BatchPlan:
    """The plan of a batch on the device of the model.

    Attributes:
        layouts: ``source``, that of the encoder's output, and ``target``; others by system.
        attention: for ``encoder``, ``decoder`` and ``cross`` the plans by kind of attention.
        memory: those of the memories of ``encoder`` and ``decoder``.
        further: index tensors of a system.
    """

    layouts: Mapping[str, DocumentLayout]
    attention: Mapping[str, Mapping[str, AttentionPlan]]
    memory: Mapping[str, MemoryPlan]
    further: Mapping[str, Any]

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> BatchPlan:
        """The plan in ``net_input``."""
        return cls(
            {name: DocumentLayout.of_entries(e) for name, e in entries["layouts"].items()},
            {
                side: {kind: AttentionPlan.of(e) for kind, e in plans.items()}
                for side, plans in entries["attention"].items()
            },
            {side: MemoryPlan.of(e) for side, e in entries["memory"].items()},
            entries["further"],
        )

    @property
    def source(self) -> DocumentLayout:
        """The layout of the encoder's output."""
        return self.layouts["source"]

    @property
    def target(self) -> DocumentLayout:
        """The layout of the decoder's input."""
        return self.layouts["target"]

    def memory_pass(self, side: str, flow: MemoryFlow) -> MemoryPass | None:
        """The pass of the memories of a side over the batch; None if it has none."""
        return MemoryPass(flow, self.memory[side]) if side in self.memory else None


def entries_of(
    layouts: Mapping[str, DocumentLayout],
    attention: Mapping[str, Mapping[str, Entries]],
    memory: Mapping[str, Entries] | None = None,
    **further: Any,
) -> Entries:
    """The entries of a :class:`BatchPlan`; arguments as its attributes."""
    made = {name: layout.entries() for name, layout in layouts.items()}
    return {"layouts": made, "attention": attention, "memory": memory or {}, "further": further}


def joined(*parts: Entries) -> Entries:
    """The entries of all parts of a plan."""
    return {
        name: {key: value for part in parts for key, value in part[name].items()}
        for name in parts[0]
    }


def self_plans(
    layout: DocumentLayout,
    kinds: Iterable[str],
    shapes: str,
    context: Tensor | None = None,
    causal: bool = False,
    source_of_row: Ints | None = None,
) -> dict[str, Entries]:
    """Plans of self-attention and context attention, by kind.

    Args:
        layout: of the rows.
        kinds: ``group``: a token sees its own sentence (``G_Q = G_K``); ``global``: its document;
            ``context``: the whole context of its row.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        context: ``(batch,)`` tokens of each context; None: there are none.
        causal: a token sees none behind it.
        source_of_row: ``(rows,)`` the context of each row; None: the same number.
    """
    tokens, plans = layout.tokens, {}
    for kind in kinds:
        lengths = layout.sentence_lengths if kind == "group" else layout.document_lengths
        query = key = Segments.of(lengths)
        size = tokens, tokens
        if kind == "context":
            if context is None:
                continue
            key, size = Segments.of(context), (tokens, int(context.sum()))
            key = key if source_of_row is None else key.chosen(source_of_row)
        elif layout.whole is not None:
            key = _with_shared(layout, layout.whole, kind)
        plans[kind] = attention_plan(query, key, size, causal and kind != "context", shapes)
    return plans


def _with_shared(layout: DocumentLayout, whole: DocumentLayout, kind: str) -> Segments:
    """What the sentences or documents of a layout with shared states see: also those."""
    if kind == "global":
        return Segments.of(whole.document_lengths, layout.computed)
    starts = layout.sentence_starts.numpy()
    counts = whole.sentence_counts.numpy()
    first = (counts.cumsum() - counts)[layout.row.numpy()[starts]]
    begun = first + layout.sentence.numpy()[starts]
    return Segments.of(whole.sentence_lengths, layout.computed).chosen(begun)


def cross_plans(
    source: DocumentLayout,
    target: DocumentLayout,
    kinds: Iterable[str],
    shapes: str,
    documents: Ints | None = None,
) -> dict[str, Entries]:
    """Plans of cross-attention, by kind.

    Args:
        source, target: layouts of both sides.
        kinds: ``group``: target sentence k sees source sentence k (``G_Q = G_Y``, ``G_K = G_X``);
            ``global``: a target word sees the whole source document.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        documents: ``(documents of target,)`` the source of each; None: the same number.

    Raises:
        GtransError: a target has more sentences than its source.
    """
    size, plans = (target.tokens, source.tokens), {}
    chosen: Ints | None
    for kind in kinds:
        if kind == "group":
            query, key = Segments.of(target.sentence_lengths), Segments.of(source.sentence_lengths)
            chosen = _matching_sentences(source, target, documents)
        else:
            query, key = Segments.of(target.document_lengths), Segments.of(source.document_lengths)
            chosen = documents
        # If a target is shorter than its source (a forced prefix), nobody sees the rest.
        key = key if chosen is None else key.chosen(chosen)
        plans[kind] = attention_plan(query, key, size, shapes=shapes)
    return plans


def _matching_sentences(
    source: DocumentLayout, target: DocumentLayout, documents: Ints | None
) -> Ints:
    """``(target sentences,)`` index of each one's source sentence."""
    counts, own = source.sentence_counts.numpy(), target.sentence_counts.numpy()
    first = counts.cumsum() - counts
    if documents is not None:
        counts, first = counts[documents], first[documents]
    surplus = np.flatnonzero(own > counts)
    if len(surplus):
        row = int(surplus[0])
        raise GtransError(
            f"row {row} of the batch has {own[row]} target sentences but only {counts[row]} source "
            "sentences; both sides of a document need the same number of sentences"
        )
    starts = target.sentence_starts.numpy()
    sentences: Ints = first[target.row.numpy()[starts]] + target.sentence.numpy()[starts]
    return sentences


def memory_plans(
    needs: Needs, side: str, layout: DocumentLayout, written: Tensor | None = None
) -> dict[str, Entries]:
    """The plan of the memories of a side; none if there are none. ``written``: of memory_plan."""
    if not needs.memory_size:
        return {}
    plan = memory_plan(layout, needs.memory_size, written, needs.shapes, needs.memory_steps)
    return {side: plan}


def lengths_without_end(
    layout: DocumentLayout, tokens: Tensor, eos: int, lengths: Tensor
) -> Tensor:
    """``(parts,)`` tokens of each part of the decoder input, without its end mark.

    In a row ``<s> .. </s> <s> ..`` all sentences but the last one have their end mark in the input.
    What later ones read must not depend on that, so it is never read.

    Args:
        layout: of ``tokens``.
        tokens: ``(batch, length)``.
        eos: the end mark.
        lengths: ``(parts,)`` of sentences or documents of ``layout``.
    """
    last = layout.pack(tokens)[lengths.cumsum(0) - 1]
    closed = last.eq(eos) & lengths.gt(1)
    return lengths - closed.long()


def source_documents(source: DocumentLayout, rows: Tensor | None) -> Ints | None:
    """``(documents of the target,)`` the document of ``source`` that each one translates.

    ``rows (targets,)`` are the rows of the source; None: every source has one target.
    """
    if rows is None:
        return None
    if source.instances is None:
        return rows.numpy()
    counts = source.instances.gt(0).sum(1).numpy()
    first = counts.cumsum() - counts
    documents: Ints = np.concatenate([first[row] + np.arange(counts[row]) for row in rows.tolist()])
    return documents


def chosen_index(chosen: Tensor) -> Tensor:
    """Where the chosen tokens of every row are, without gaps and padded on the right.

    Args:
        chosen: ``(batch, length)`` True on those to keep.

    Returns:
        ``(batch, most chosen of a row)`` their numbers in the flattened batch; -1 on padding.
    """
    lengths = chosen.sum(1)
    index = lengths.new_full((chosen.size(0), int(lengths.max())), -1)
    real = torch.arange(index.size(1)) < lengths[:, None]
    index[real] = chosen.flatten().nonzero().squeeze(1)
    return index


def taken(tokens: Tensor, index: Tensor, pad: int) -> Tensor:
    """The ids ``tokens (batch, length)`` at ``index`` (:func:`chosen_index`), in its shape."""
    return tokens.flatten()[index.clamp(min=0)].masked_fill(index < 0, pad)
