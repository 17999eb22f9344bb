"""What a decoder remembers between two steps of beam search.

There are ``documents * beam`` hypotheses, those of a document next to each other. They may be
in different sentences, at different positions.

* Group attention needs the keys of the current sentence only: a hypothesis stores them at its
  position in the sentence, and begins again at 0 in the next sentence.
* Global attention needs all keys so far. All hypotheses have the same number of tokens, so a
  step appends one column.
* If every document is a single sentence, group attention sees the same as global attention,
  and is computed as global attention, which is cheaper.
* Keys of the source are computed once for a document and never copied for its hypotheses.
  Group attention gathers those of the sentence that each hypothesis translates, and only in
  steps in which some hypothesis begins another sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtrans.modules.layout import DocumentLayout, Positions


class KeyValueCache:
    """Keys and values of some layers: ``(2, layers, hypotheses, capacity, dim)``, growing."""

    def __init__(self, layers: int, like: Tensor, hypotheses: int) -> None:
        """``like``: a tensor whose last dimension, type and device the cache has, too."""
        self.data = like.new_zeros(2, layers, hypotheses, 32, like.size(-1))

    def reserve(self, width: int) -> None:
        """Make room for ``width`` columns; doubling keeps the cost of growing constant."""
        capacity = self.data.size(3)
        if width > capacity:
            wider = max(width, 2 * capacity)
            data = self.data.new_zeros(*self.data.shape[:3], wider, self.data.size(4))
            data[:, :, :, :capacity] = self.data
            self.data = data

    def reorder(self, parents: Tensor, begin: int, end: int) -> None:
        """Copy hypothesis ``parents[i]`` to hypothesis ``i``, in columns ``begin .. end - 1``."""
        if begin < end:
            numbers = torch.arange(parents.numel(), device=parents.device)
            moved = parents.ne(numbers).nonzero().squeeze(1)
            self.data[:, :, moved, begin:end] = self.data[:, :, parents[moved], begin:end]

    def keep(self, hypotheses: Tensor) -> None:
        """Drop all other hypotheses."""
        self.data = self.data[:, :, hypotheses]


class SharedSources:
    """Keys and values of some layers, stored once for all hypotheses of a document."""

    def __init__(
        self, index: dict[int, int], pairs: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> None:
        """Store ``pairs``.

        Args:
            index: number of a layer -> its index in ``pairs``.
            pairs: keys and values, each ``(layers, documents, longest, dim)``.
            mask: ``(documents, 1, 1, longest)`` False on padding; None: there is none.
        """
        self._index = index
        self._keys, self._values = pairs
        self._mask = mask

    @classmethod
    def of_layers(
        cls, sources: dict[int, tuple[Tensor, Tensor]], lengths: Tensor | None = None
    ) -> SharedSources:
        """From the keys and values of each layer.

        Args:
            sources: number of a layer -> its keys and values, each ``(documents, longest, dim)``.
            lengths: ``(documents,)`` how many of them are real; None: there is no padding.
        """
        keys, values = (torch.stack(part) for part in zip(*sources.values(), strict=True))
        index = {layer: number for number, layer in enumerate(sources)}
        mask = None if lengths is None else _real(lengths, keys.size(2))
        return cls(index, (keys, values), mask)

    def for_layer(self, layer: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values ``(documents, longest, dim)`` and mask of a layer."""
        index = self._index[layer]
        return self._keys[index], self._values[index], self._mask

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._keys, self._values = self._keys[:, documents], self._values[:, documents]
        if self._mask is not None:
            self._mask = self._mask[documents]


class DecodeState:
    """The memory of one model's decoder for a batch of documents.

    Attributes:
        step: number of tokens that every hypothesis has read before the current one.
        sentence: ``(hypotheses,)`` number of the sentence that each hypothesis is writing.
        position_in_sentence: ``(hypotheses,)`` position of the current token in that sentence.
        beam: hypotheses per document.
        further_sources: what else a system reads of each document; empty in a new state.
    """

    def __init__(
        self,
        source: DocumentLayout,
        beam: int,
        self_kinds: Sequence[str],
        group_sources: Sequence[tuple[Tensor, Tensor]],
        global_sources: Sequence[tuple[Tensor, Tensor]],
        cross_kinds: Sequence[str],
        like: Tensor,
        context: SharedSources | None = None,
        memory: SharedSources | None = None,
    ) -> None:
        """Begin the translation of every document.

        Args:
            source: layout of the source batch.
            beam: hypotheses per document.
            self_kinds: kind of self-attention of each decoder layer.
            group_sources: keys and values, each ``(source tokens, dim)``, of every layer whose
                cross-attention has a group part.
            global_sources: keys and values, each ``(documents, longest, dim)``, of every layer
                whose cross-attention has a global part or is computed as global attention
                (:func:`effective_kinds`).
            cross_kinds: kind of cross-attention of each decoder layer.
            like: any state of the model ``(.., dim)``.
            context: keys and values of context attention.
            memory: keys and values of the recurrent memories.
        """
        documents = source.shape[0]
        device = source.index.device
        self._single = _of_single_sentences(source)
        self_kinds = effective_kinds(self_kinds, source)
        cross_kinds = effective_kinds(cross_kinds, source)
        hypotheses = documents * beam
        self.beam = beam
        self.step = -1
        self.document = torch.arange(documents, device=device)
        self.sentence = torch.zeros(hypotheses, dtype=torch.long, device=device)
        self.position_in_sentence = torch.full((hypotheses,), -1, dtype=torch.long, device=device)
        self._source = source
        self._most_sentences = source.most_sentences
        self._last_sentence = (source.sentence_counts - 1).repeat_interleave(beam)
        self._group_self = _index_of(self_kinds, without="global")
        self._global_self = _index_of(self_kinds, without="group")
        self._group_cross = _index_of(cross_kinds, without="global")
        self._group_cache = KeyValueCache(len(self._group_self), like, hypotheses)
        self._global_cache = KeyValueCache(len(self._global_self), like, hypotheses)
        self._group_sources = _stacked(group_sources)
        stacked = _stacked(global_sources)
        index = _index_of(cross_kinds, without="group")
        padding = None if source.is_dense else _real(source.documents.lengths, source.shape[1])
        self._global_sources = stacked and SharedSources(index, stacked, padding)
        self.context = context
        self.memory = memory
        self.further_sources: list[SharedSources] = []
        self._numbers = torch.arange(hypotheses, device=device)
        self._group_width = 0
        self._group_mask: Tensor | None = None
        self._gathered_for: Tensor | None = None
        self._gathered: tuple[Tensor, Tensor, Tensor] | None = None

    def positions(self, by_sentence: bool) -> Positions:
        """``(hypotheses,)`` position of the current token in its document or sentence."""
        numbers = self.position_in_sentence
        return Positions(
            numbers if by_sentence else torch.full_like(numbers, self.step), self.step + 1
        )

    @property
    def sentence_numbers(self) -> Positions:
        """``(hypotheses,)`` number of the sentence that each hypothesis is writing."""
        return Positions(self.sentence, self._most_sentences)

    def in_one_sentence(self, kind: str) -> bool:
        """Whether group attention is computed as global attention (:func:`effective_kinds`)."""
        return self._single and kind == "group"

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (hypotheses,)`` is True where the token opens a sentence."""
        self.step += 1
        if self.step == 0:
            self.position_in_sentence = torch.zeros_like(self.position_in_sentence)
        else:
            # Dead hypotheses may go on after the last sentence; nobody reads them.
            self.sentence = torch.minimum(self.sentence + opens.long(), self._last_sentence)
            self.position_in_sentence = torch.where(opens, 0, self.position_in_sentence + 1)
        if self._group_self:
            self._group_width = int(self.position_in_sentence.max()) + 1
            self._group_cache.reserve(self._group_width)
            self._group_mask = _real(self.position_in_sentence + 1, self._group_width)
        if self._global_self:
            self._global_cache.reserve(self.step + 1)
        if self._group_sources is not None:
            self._gather_sources(self._group_sources)

    def extend_group(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values ``(hypotheses, dim)``; returns those of the current sentences."""
        data = self._group_cache.data[:, self._group_self[layer]]
        data[0, self._numbers, self.position_in_sentence] = key
        data[1, self._numbers, self.position_in_sentence] = value
        return data[0, :, : self._group_width], data[1, :, : self._group_width]

    @property
    def group_mask(self) -> Tensor | None:
        """``(hypotheses, 1, 1, width)`` True on the keys of a hypothesis's current sentence."""
        return self._group_mask

    def extend_global(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store keys and values ``(hypotheses, dim)``; returns those of the document so far."""
        data = self._global_cache.data[:, self._global_self[layer]]
        data[0, :, self.step] = key
        data[1, :, self.step] = value
        return data[0, :, : self.step + 1], data[1, :, : self.step + 1]

    def group_source(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values ``(hypotheses, longest, dim)`` and mask of the current source sentences."""
        if self._gathered is None:
            raise ValueError(f"layer {layer} has no group cross-attention, or no step has begun")
        keys, values, mask = self._gathered
        index_of_layer = self._group_cross[layer]
        return keys[index_of_layer], values[index_of_layer], mask

    def _gather_sources(self, sources: tuple[Tensor, Tensor]) -> None:
        """Gather the source sentences that the hypotheses translate, unless that is done."""
        documents = self.document.repeat_interleave(self.beam)
        wanted = self._source.first_sentences[documents] + self.sentence
        if (
            self._gathered is not None
            and self._gathered_for is not None
            and torch.equal(wanted, self._gathered_for)
        ):
            return
        sentences = self._source.sentences
        lengths = sentences.lengths[wanted]
        columns = torch.arange(int(lengths.max()), device=wanted.device)
        real = columns < lengths[:, None]
        index = (sentences.starts[wanted][:, None] + columns).masked_fill(~real, 0)
        keys, values = sources
        self._gathered = keys[:, index], values[:, index], real[:, None, None, :]
        self._gathered_for = wanted

    def global_source(self, layer: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values ``(documents, longest, dim)`` and padding mask of the source."""
        if self._global_sources is None:
            raise ValueError(f"layer {layer} has no global cross-attention")
        return self._global_sources.for_layer(layer)

    def reorder(self, rows: Tensor, common: int) -> None:
        """Let hypothesis ``i`` continue the old hypothesis ``rows[i]`` of the same document.

        The first ``common`` tokens are the same in all hypotheses of a document; what was
        computed from them is not moved.
        """
        self.sentence = self.sentence[rows]
        self.position_in_sentence = self.position_in_sentence[rows]
        self._group_cache.reorder(rows, 0, self._group_width)
        self._global_cache.reorder(rows, common, self.step + 1)

    def keep(self, documents: Tensor) -> None:
        """Drop all documents but ``documents (n,)``."""
        offsets = torch.arange(self.beam, device=documents.device)
        hypotheses = (documents[:, None] * self.beam + offsets).flatten()
        self.document = self.document[documents]
        self.sentence = self.sentence[hypotheses]
        self.position_in_sentence = self.position_in_sentence[hypotheses]
        self._last_sentence = self._last_sentence[hypotheses]
        self._numbers = self._numbers[: hypotheses.numel()]
        self._group_cache.keep(hypotheses)
        self._global_cache.keep(hypotheses)
        self._gathered = None
        for shared in (self._global_sources, self.context, self.memory, *self.further_sources):
            if shared is not None:
                shared.keep(documents)


def _real(lengths: Tensor, width: int) -> Tensor:
    """``(n, 1, 1, width)``, True in the first ``lengths (n,)`` columns."""
    columns = torch.arange(width, device=lengths.device)
    return (columns < lengths[:, None])[:, None, None, :]


def effective_kinds(kinds: Sequence[str], source: DocumentLayout) -> list[str]:
    """The kinds that are computed: global for group if all documents are single sentences."""
    single = _of_single_sentences(source)
    return ["global" if single and kind == "group" else kind for kind in kinds]


def _of_single_sentences(source: DocumentLayout) -> bool:
    return source.most_sentences == 1


def _index_of(kinds: Sequence[str], without: str) -> dict[int, int]:
    """Number of a layer -> its index among the layers whose kind is not ``without``."""
    layers = [layer for layer, kind in enumerate(kinds) if kind != without]
    return {layer: index for index, layer in enumerate(layers)}


def _stacked(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
    if not pairs:
        return None
    keys, values = zip(*pairs, strict=True)
    return torch.stack(keys), torch.stack(values)
