"""Plans of batches: where sentences begin and which tokens attend to which, as index tensors.

Plans are made on the host, because every number read from a GPU makes the host wait: in training
by the data workers, otherwise from a copy of the tokens (:meth:`Planner.on_device`).

===================================  ============================================================
``source``, ``target``               layouts of the encoder's output and of the decoder's input
``encoder``, ``decoder``, ``cross``  attention plans, by name
``encoder_memory``,                  plans of memories, if any
``decoder_memory``
``in_several``                       ``(target tokens,)`` whether the source has several sentences
===================================  ============================================================
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
    """Plans batches. A system may replace :meth:`source` or :meth:`target`.

    Attributes:
        opening, eos: ids of decoder input, see
            :meth:`gtrans.modules.group_attention.DocumentLayout.of_target`.
        closing: id of the last token of a source sentence.
        attention: the plans to make for ``encoder``, ``decoder`` (:func:`self_plans`) and ``cross``
            (:func:`cross_plans`).
        memory_sizes: vectors of a memory, for the sides that have memories.
        memory_step: one of :data:`gtrans.modules.STEPS`.
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
        """Return the plan of a batch on the host."""
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
        """Return the plan of a batch on a device; the host waits for its ids.

        With ``source``, the layout of an encoded source, only the target is planned.
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
        """Return the planner with the shapes that suit ``device``."""
        return replace(self, shapes=shapes_for(device))

    def source(self, net_input: Mapping[str, Any]) -> Plan:
        """Return the encoder's part of a plan."""
        layout = self.source_layout(net_input["src_tokens"])
        return self.source_rows(layout.divided(net_input.get("chunks")))

    def source_rows(self, layout: DocumentLayout, context_lengths: Tensor | None = None) -> Plan:
        """Return the encoder's part of a plan; ``context_lengths (batch,)``: tokens of contexts."""
        attention = self_plans(layout, self.attention["encoder"], self.shapes, context_lengths)
        memory = self.memory("encoder", layout)
        return {"source": layout, "encoder": attention, **memory}

    def target(
        self,
        net_input: Mapping[str, Any],
        source: DocumentLayout,
        context_lengths: Tensor | None = None,
    ) -> Plan:
        """Return the decoder's part of a plan.

        Args:
            net_input: ``prev_output_tokens (rows, length)``; optional ``source_of_row (rows,)``.
            source: layout of the encoder's output.
            context_lengths: ``(sources,)`` tokens of contexts.
        """
        tokens = net_input["prev_output_tokens"]
        source_of_row = net_input.get("source_of_row")
        chunks = source.chunks
        if chunks is not None and source_of_row is not None:
            chunks = chunks[source_of_row]
        layout = self.target_layout(tokens).divided(chunks)
        memory = self._decoder_memory(layout, tokens)
        documents = source_documents(source, source_of_row)
        has_several = source.sentence_counts.gt(1)
        if documents is not None:
            has_several = has_several[torch.from_numpy(documents)]
        if source_of_row is not None and self.reuses_prefix_states:
            layout = shared_prefixes(layout, tokens, source_of_row)
        attention = self_plans(
            layout,
            self.attention["decoder"],
            self.shapes,
            context_lengths,
            causal=True,
            source_of_row=None if source_of_row is None else source_of_row.numpy(),
        )
        cross = cross_plans(source, layout, self.attention["cross"], self.shapes, documents)
        return {
            "target": layout,
            "decoder": attention,
            "cross": cross,
            "in_several": has_several[layout.row],
            **memory,
        }

    def _decoder_memory(self, layout: DocumentLayout, tokens: Tensor) -> Plan:
        by_sentence = self.memory_step == STEPS[0]
        lengths = layout.sentence_lengths if by_sentence else layout.document_lengths
        written = lengths_without_end(layout, tokens, self.eos, lengths)
        return self.memory("decoder", layout, written)

    def source_layout(self, tokens: Tensor) -> DocumentLayout:
        """Return the layout of source ids ``(batch, length)`` on the host."""
        return DocumentLayout.of_source(tokens, self.pad, self.closing)

    def target_layout(self, tokens: Tensor) -> DocumentLayout:
        """Return the layout of decoder input ``(rows, length)`` on the host."""
        return DocumentLayout.of_target(tokens, self.pad, self.opening, self.eos)

    def memory(self, side: str, layout: DocumentLayout, written: Tensor | None = None) -> Plan:
        """Return the plan of one side's memories, if it has any."""
        size = self.memory_sizes.get(side)
        if size is None:
            return {}
        plan = memory_plan(layout, size, written, self.shapes, self.memory_step)
        return {f"{side}_memory": plan}


def self_plans(
    layout: DocumentLayout,
    names: Iterable[str],
    shapes: str,
    context_lengths: Tensor | None = None,
    causal: bool = False,
    source_of_row: Ints | None = None,
) -> dict[str, AttentionPlan]:
    """Return plans of self-attention and context attention, by name.

    Args:
        layout: of rows.
        names: ``group``: a token sees its sentence (``G_Q = G_K``); ``global``: its document;
            ``context``: the context of its row.
        shapes: see :class:`Planner`.
        context_lengths: ``(batch,)`` tokens of contexts; None: no plan ``context``.
        causal: no token sees a later one.
        source_of_row: ``(rows,)`` the context of each row.
    """
    plans: dict[str, AttentionPlan] = {}
    tokens = layout.tokens
    for name in names:
        if name == "context":
            if context_lengths is not None:
                plans[name] = _context_plan(layout, context_lengths, source_of_row, shapes)
            continue
        lengths = layout.sentence_lengths if name == "group" else layout.document_lengths
        query = key = Segments.of_lengths(lengths)
        if layout.whole is not None:
            key = _with_shared(layout, layout.whole, name)
        plans[name] = attention_plan(query, key, (tokens, tokens), causal, shapes)
    return plans


def _context_plan(
    layout: DocumentLayout, context_lengths: Tensor, source_of_row: Ints | None, shapes: str
) -> AttentionPlan:
    query = Segments.of_lengths(layout.document_lengths)
    key = Segments.of_lengths(context_lengths)
    if source_of_row is not None:
        key = key.chosen(source_of_row)
    size = layout.tokens, int(context_lengths.sum())
    return attention_plan(query, key, size, shapes=shapes)


def _with_shared(layout: DocumentLayout, whole: DocumentLayout, name: str) -> Segments:
    if name == "global":
        return Segments.of_lengths(whole.document_lengths, layout.computed)
    counts = whole.sentence_counts.numpy()
    visible = _same_sentences(layout, counts.cumsum() - counts)
    return Segments.of_lengths(whole.sentence_lengths, layout.computed).chosen(visible)


def _same_sentences(layout: DocumentLayout, first: Ints) -> Ints:
    """Return the numbers of sentences in a batch whose documents begin at ``first``."""
    starts = layout.sentence_starts.numpy()
    document = layout.row.numpy()[starts]
    number = layout.sentence.numpy()[starts]
    sentences: Ints = first[document] + number
    return sentences


def cross_plans(
    source: DocumentLayout,
    target: DocumentLayout,
    names: Iterable[str],
    shapes: str,
    documents: Ints | None = None,
) -> dict[str, AttentionPlan]:
    """Return plans of cross-attention, by name.

    Args:
        source, target: layouts of both sides.
        names: ``group``: target sentence k sees source sentence k (``G_Q = G_Y``, ``G_K = G_X``);
            ``global``: it sees the source document.
        shapes: see :class:`Planner`.
        documents: ``(target documents,)`` the source of each; None: the same number.

    Raises:
        GtransError: a target has more sentences than its source.
    """
    plans: dict[str, AttentionPlan] = {}
    size = target.tokens, source.tokens
    for name in names:
        if name == "group":
            query = Segments.of_lengths(target.sentence_lengths)
            key = Segments.of_lengths(source.sentence_lengths)
            # A target may be shorter than its source (a forced prefix).
            key = key.chosen(_matching_sentences(source, target, documents))
        else:
            query = Segments.of_lengths(target.document_lengths)
            key = Segments.of_lengths(source.document_lengths)
            if documents is not None:
                key = key.chosen(documents)
        plans[name] = attention_plan(query, key, size, shapes=shapes)
    return plans


def _matching_sentences(
    source: DocumentLayout, target: DocumentLayout, documents: Ints | None
) -> Ints:
    source_counts = source.sentence_counts.numpy()
    target_counts = target.sentence_counts.numpy()
    first = source_counts.cumsum() - source_counts
    if documents is not None:
        source_counts = source_counts[documents]
        first = first[documents]
    surplus = np.flatnonzero(target_counts > source_counts)
    if len(surplus):
        row = int(surplus[0])
        raise GtransError(
            f"row {row} of the batch has {target_counts[row]} target sentences but only "
            f"{source_counts[row]} source sentences; both sides of a document need the same number "
            "of sentences"
        )
    return _same_sentences(target, first)


def lengths_without_end(
    layout: DocumentLayout, tokens: Tensor, eos: int, lengths: Tensor
) -> Tensor:
    """Return the ``lengths (parts,)`` of sentences or documents without their end tokens.

    In decoder input all sentences of a row but the last have an end token. Later sentences must not
    depend on that, so they never read it.
    """
    ends = lengths.cumsum(0)
    last = layout.pack(tokens)[ends - 1]
    has_end = last.eq(eos) & lengths.gt(1)
    return lengths - has_end.long()


def source_documents(source: DocumentLayout, source_of_row: Tensor | None) -> Ints | None:
    """Return the source of each target document; None: the same number."""
    if source_of_row is None:
        return None
    if source.chunks is None:
        return source_of_row.numpy()
    counts = source.chunks.gt(0).sum(1).numpy()
    first = counts.cumsum() - counts
    chunks_of_rows = []
    for row in source_of_row.tolist():
        chunks_of_rows.append(first[row] + np.arange(counts[row]))
    documents: Ints = np.concatenate(chunks_of_rows)
    return documents


def chosen_index(chosen: Tensor) -> Tensor:
    """Return the places of the tokens ``chosen (batch, length)`` in the flattened batch.

    The result ``(batch, most of a row)`` is padded on the right with -1.
    """
    lengths = chosen.sum(1)
    longest = int(lengths.max())
    index = lengths.new_full((chosen.size(0), longest), -1)
    real = torch.arange(longest) < lengths[:, None]
    index[real] = chosen.flatten().nonzero().squeeze(1)
    return index


def tokens_at(tokens: Tensor, index: Tensor, pad: int) -> Tensor:
    """Return the ids at the places ``index`` (:func:`chosen_index`), ``pad`` at -1."""
    ids = tokens.flatten()[index.clamp(min=0)]
    return ids.masked_fill(index < 0, pad)
