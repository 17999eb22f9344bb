"""Plans of batches: where sentences begin and which tokens attend to which, as index tensors.

Read from tokens on a GPU, every number of a plan would make the host wait. So the plan of a batch
is made with NumPy where the batch is made, in the processes that load data, and is a part of
``net_input``: dictionaries of tensors, which fairseq moves to the device like all others. Without
it (fairseq's own tasks, search, force decoding) a model copies its tokens to the host once and
makes the plan there.

A plan has the layouts ``source``, of the encoder's output, and ``target``; for ``encoder``,
``decoder`` and ``cross`` the attention plans by kind; where there are memories the plans
``encoder_memory`` and ``decoder_memory``; and what else a system reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.modules import STEPS
from gtrans.modules.group_attention import (
    AttentionPlan,
    DocumentLayout,
    Ints,
    Plan,
    Segments,
    attention_plan,
    entries_of,
    shared_prefixes,
)
from gtrans.modules.memory import memory_plan

PLANNED = (
    "src_tokens",
    "prev_output_tokens",
    "current_sentence",
    "context_lengths",
    "source_of_row",
    "chunks",
)
"""The arguments of ``forward`` on which a plan depends."""


@dataclass(frozen=True)
class PlanSpec:
    """What the plans of a model's batches are made by.

    Attributes:
        pad: id of padding.
        opening, eos: of decoder input, see
            :meth:`gtrans.modules.group_attention.DocumentLayout.of_target`.
        closing: id of the last token of every source sentence.
        kinds: for ``encoder``, ``decoder`` and ``cross`` the plans that are asked for: ``group``,
            ``global``, ``context``.
        memories: vectors of a memory on the sides that have memories.
        source, target: the functions of its system: :func:`plan_source`, :func:`plan_target`, or
            others with the same arguments.
        steps: what updates a memory at once, one of :data:`gtrans.modules.STEPS`.
        shares_prefixes: whether translations of one source share the states of a common prefix.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
        further: what a system must know besides.
    """

    pad: int
    opening: int
    eos: int
    closing: int
    kinds: Mapping[str, set[str]]
    memories: Mapping[str, int]
    source: Callable[[PlanSpec, Mapping[str, Any]], Plan]
    target: Callable[[PlanSpec, Tensor, DocumentLayout, Tensor | None, Tensor | None], Plan]
    steps: str = STEPS[0]
    shares_prefixes: bool = True
    shapes: str = "exact"
    further: Mapping[str, Any] = field(default_factory=dict)

    def source_layout(self, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of source ``tokens (batch, length)`` on the host."""
        return DocumentLayout.of_source(tokens, self.pad, self.closing)

    def target_layout(self, tokens: Tensor) -> DocumentLayout:
        """The sentence structure of decoder input ``(rows, length)`` on the host."""
        return DocumentLayout.of_target(tokens, self.pad, self.opening, self.eos)

    def memory(self, side: str, layout: DocumentLayout, written: Tensor | None = None) -> Plan:
        """The plan of the memories of one side, if it has any."""
        size = self.memories.get(side)
        if size is None:
            return {}
        return {f"{side}_memory": memory_plan(layout, size, written, self.shapes, self.steps)}


def plan_entries(spec: PlanSpec, net_input: Mapping[str, Any]) -> dict[str, Any]:
    """What the collater puts into ``net_input`` as ``plan``."""
    entries: dict[str, Any] = entries_of(plan_batch(spec, net_input))
    return entries


def plan_batch(spec: PlanSpec, net_input: Mapping[str, Any]) -> Plan:
    """The plan of a batch on the host; without decoder input only the source's."""
    if "bert_subwords" in net_input:
        lengths = net_input["bert_subwords"].ne(spec.pad).sum(1)
        net_input = {**net_input, "context_lengths": lengths}
    plan = spec.source(spec, net_input)
    target = net_input.get("prev_output_tokens")
    if target is None:
        return plan
    context, rows = plan.get("context_lengths"), net_input.get("source_of_row")
    return plan | spec.target(spec, target, plan["source"], context, rows)


def plan_source(spec: PlanSpec, net_input: Mapping[str, Any]) -> Plan:
    """The encoder's part of a plan."""
    layout = spec.source_layout(net_input["src_tokens"])
    return plan_rows(spec, layout.divided(net_input.get("chunks")))


def plan_rows(spec: PlanSpec, layout: DocumentLayout, context: Tensor | None = None) -> Plan:
    """The plan of rows that are read as they are; ``context (batch,)`` tokens of contexts."""
    attention = self_plans(layout, spec.kinds["encoder"], spec.shapes, context)
    return {"source": layout, "encoder": attention, **spec.memory("encoder", layout)}


def plan_target(
    spec: PlanSpec,
    tokens: Tensor,
    source: DocumentLayout,
    context: Tensor | None,
    rows: Tensor | None,
) -> Plan:
    """The decoder's part of a plan.

    Args:
        spec: of the model.
        tokens: ``(rows, length)`` the decoder's input.
        source: the layout of the encoder's output.
        context: ``(sources,)`` tokens of the context of each source, or None.
        rows: ``(rows,)`` the source of each row; None: the same number.
    """
    chunks = source.chunks
    if chunks is not None and rows is not None:
        chunks = chunks[rows]
    layout = spec.target_layout(tokens).divided(chunks)
    lengths = layout.sentence_lengths if spec.steps == STEPS[0] else layout.document_lengths
    written = lengths_without_end(layout, tokens, spec.eos, lengths)
    memory = spec.memory("decoder", layout, written)
    documents = source_documents(source, rows)
    several = source.sentence_counts.gt(1)
    several = several if documents is None else several[torch.from_numpy(documents)]
    if rows is not None and spec.shares_prefixes:
        layout = shared_prefixes(layout, tokens, rows)
    numbers = None if rows is None else rows.numpy()
    return {
        "target": layout,
        "decoder": self_plans(layout, spec.kinds["decoder"], spec.shapes, context, True, numbers),
        "cross": cross_plans(source, layout, spec.kinds["cross"], spec.shapes, documents),
        "in_several": several[layout.row],
        **memory,
    }


def self_plans(
    layout: DocumentLayout,
    kinds: Iterable[str],
    shapes: str,
    context: Tensor | None = None,
    causal: bool = False,
    source_of_row: Ints | None = None,
) -> dict[str, AttentionPlan]:
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
    counts = whole.sentence_counts.numpy()
    begun = _same_sentences(layout, counts.cumsum() - counts)
    return Segments.of(whole.sentence_lengths, layout.computed).chosen(begun)


def _same_sentences(layout: DocumentLayout, first: Ints) -> Ints:
    """``(sentences,)`` of ``layout``: their numbers, where documents begin at ``first``."""
    starts = layout.sentence_starts.numpy()
    sentences: Ints = first[layout.row.numpy()[starts]] + layout.sentence.numpy()[starts]
    return sentences


def cross_plans(
    source: DocumentLayout,
    target: DocumentLayout,
    kinds: Iterable[str],
    shapes: str,
    documents: Ints | None = None,
) -> dict[str, AttentionPlan]:
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
    return _same_sentences(target, first)


def lengths_without_end(
    layout: DocumentLayout, tokens: Tensor, eos: int, lengths: Tensor
) -> Tensor:
    """``(parts,)`` tokens of each part of the decoder input, without its end token.

    In a row ``<s> .. </s> <s> ..`` all sentences but the last one have their end token in the
    input. What later ones read must not depend on that, so it is never read.

    Args:
        layout: of ``tokens``.
        tokens: ``(batch, length)``.
        eos: the end token.
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
    if source.chunks is None:
        return rows.numpy()
    counts = source.chunks.gt(0).sum(1).numpy()
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
