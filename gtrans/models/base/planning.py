"""Plans of batches: where sentences begin and which tokens attend to which, as index tensors.

Read from tokens on a GPU, every number of a plan would make the host wait. So a :class:`Planner`
makes the plan with NumPy where the batch is made, in the processes that load data, and the plan is
a part of ``net_input``. A model that gets no plan (fairseq's own tasks, search, force decoding)
copies its tokens to the host once and makes the plan there (:meth:`Planner.on_device`).

A plan has these entries:

==================================  ===========================================================
``source``, ``target``              layouts of the encoder's output and of the decoder's input
``encoder``, ``decoder``, ``cross`` attention plans, by kind
``encoder_memory``,                 plans of memories, where there are any
``decoder_memory``
``in_several``                      ``(target tokens,)`` whether the source of a token has several
                                    sentences
==================================  ===========================================================

and what the planner of a system adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    on_host,
    shapes_for,
    shared_prefixes,
    to_device,
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


@dataclass(frozen=True, kw_only=True)
class Planner:
    """Makes the plans of a model's batches. It has no parameters, so data workers get a copy.

    A system replaces :meth:`source` or :meth:`target` in a subclass
    (:attr:`gtrans.models.base.model.DocumentModel.planner_type`).

    Attributes:
        pad: id of padding.
        opening, eos: of decoder input, see
            :meth:`gtrans.modules.group_attention.DocumentLayout.of_target`.
        closing: id of the last token of every source sentence.
        attention: for ``encoder``, ``decoder`` and ``cross`` the attention plans to make:
            ``group``, ``global``, ``context``.
        memory_sizes: vectors of a memory, for the sides that have memories.
        memory_step: what updates a memory at once, one of :data:`gtrans.modules.STEPS`.
        reuses_prefix_states: translations of one source share the states of a common prefix.
        shapes: one of :data:`gtrans.modules.group_attention.SHAPES`.
    """

    pad: int
    opening: int
    eos: int
    closing: int
    attention: Mapping[str, set[str]]
    memory_sizes: Mapping[str, int]
    memory_step: str = STEPS[0]
    reuses_prefix_states: bool = True
    shapes: str = "exact"

    def batch(self, net_input: Mapping[str, Any]) -> Plan:
        """Return the plan of a batch on the host; without decoder input only the source's."""
        if "bert_subwords" in net_input:
            lengths = net_input["bert_subwords"].ne(self.pad).sum(1)
            net_input = {**net_input, "context_lengths": lengths}
        plan = self.source(net_input)
        if net_input.get("prev_output_tokens") is None:
            return plan
        return plan | self.target(net_input, plan["source"], plan.get("context_lengths"))

    def on_device(
        self, net_input: Mapping[str, Tensor | None], source: DocumentLayout | None = None
    ) -> Plan:
        """Return the plan of a batch that is on a device, there; the host waits once for its ids.

        Args:
            net_input: the entries :data:`PLANNED`, as far as there are any.
            source: the layout of the encoded source, to plan only the target; the host then
                waits for it, too.
        """
        ids: dict[str, Tensor] = {}
        for name in PLANNED:
            tensor = net_input.get(name)
            if tensor is not None:
                ids[name] = tensor
        device = next(iter(ids.values())).device
        planner = self.for_device(device)
        ids = on_host(ids)
        if source is None:
            plan = planner.batch(ids)
        else:
            plan = planner.target(ids, source.on_host(), ids.get("context_lengths"))
        moved: Plan = to_device(plan, device)
        return moved

    def for_device(self, device: torch.device) -> Planner:
        """Return the same planner with the shapes that suit ``device``."""
        return replace(self, shapes=shapes_for(device))

    def source(self, net_input: Mapping[str, Any]) -> Plan:
        """Return the encoder's part of a plan."""
        layout = self.source_layout(net_input["src_tokens"])
        return self.source_rows(layout.divided(net_input.get("chunks")))

    def source_rows(self, layout: DocumentLayout, context: Tensor | None = None) -> Plan:
        """Return the encoder's part of the plan of rows that are read whole.

        Args:
            layout: of the rows.
            context: ``(batch,)`` tokens of the context of each row, or None.
        """
        attention = self_plans(layout, self.attention["encoder"], self.shapes, context)
        return {"source": layout, "encoder": attention, **self.memory("encoder", layout)}

    def target(
        self,
        net_input: Mapping[str, Any],
        source: DocumentLayout,
        context: Tensor | None = None,
    ) -> Plan:
        """Return the decoder's part of a plan.

        Args:
            net_input: ``prev_output_tokens (rows, length)``, and ``source_of_row (rows,)`` if the
                sources have other numbers than the rows.
            source: the layout of the encoder's output.
            context: ``(sources,)`` tokens of the context of each source, or None.
        """
        tokens, rows = net_input["prev_output_tokens"], net_input.get("source_of_row")
        chunks = source.chunks
        if chunks is not None and rows is not None:
            chunks = chunks[rows]
        layout = self.target_layout(tokens).divided(chunks)
        by_sentence = self.memory_step == STEPS[0]
        lengths = layout.sentence_lengths if by_sentence else layout.document_lengths
        written = lengths_without_end(layout, tokens, self.eos, lengths)
        memory = self.memory("decoder", layout, written)
        documents = source_documents(source, rows)
        several = source.sentence_counts.gt(1)
        if documents is not None:
            several = several[torch.from_numpy(documents)]
        if rows is not None and self.reuses_prefix_states:
            layout = shared_prefixes(layout, tokens, rows)
        attention = self_plans(
            layout,
            self.attention["decoder"],
            self.shapes,
            context,
            causal=True,
            source_of_row=None if rows is None else rows.numpy(),
        )
        cross = cross_plans(source, layout, self.attention["cross"], self.shapes, documents)
        return {
            "target": layout,
            "decoder": attention,
            "cross": cross,
            "in_several": several[layout.row],
            **memory,
        }

    def source_layout(self, tokens: Tensor) -> DocumentLayout:
        """Return the sentence structure of source ``tokens (batch, length)`` on the host."""
        return DocumentLayout.of_source(tokens, self.pad, self.closing)

    def target_layout(self, tokens: Tensor) -> DocumentLayout:
        """Return the sentence structure of decoder input ``(rows, length)`` on the host."""
        return DocumentLayout.of_target(tokens, self.pad, self.opening, self.eos)

    def memory(self, side: str, layout: DocumentLayout, written: Tensor | None = None) -> Plan:
        """Return the plan of the memories of one side, empty if it has none."""
        size = self.memory_sizes.get(side)
        if size is None:
            return {}
        plan = memory_plan(layout, size, written, self.shapes, self.memory_step)
        return {f"{side}_memory": plan}


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


def tokens_at(tokens: Tensor, index: Tensor, pad: int) -> Tensor:
    """Return the ids ``tokens (batch, length)`` at ``index`` (:func:`chosen_index`), in its shape.

    ``pad`` where the index is -1.
    """
    return tokens.flatten()[index.clamp(min=0)].masked_fill(index < 0, pad)
