"""What a decoder remembers between two steps of beam search.

Rows are hypotheses: ``rows = documents * beam``, the hypotheses of a document next to
each other. Hypotheses stand in different sentences, at different positions.

* Group attention needs the keys of the sentence being written only: a row writes
  at its own position and begins again at 0 when a sentence ends.
* Global attention needs everything written so far; all rows have written equally
  much, so a step appends one column.
* Where every document is a single sentence, group attention sees what global attention
  sees, and is computed as such, which is cheaper.
* Keys of the source are computed once for a document, never copied for its
  hypotheses: group attention gathers those of the sentence each row translates,
  and only when some row has gone on to another sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtrans.modules.layout import DocumentLayout


class KeyValueCache:
    """Keys and values of some layers: ``(2, layers, rows, capacity, dim)``, growing."""

    def __init__(self, layers: int, like: Tensor, rows: int) -> None:
        """``like``: a tensor whose last dimension, type and device the cache takes over."""
        self.data = like.new_zeros(2, layers, rows, 32, like.size(-1))

    def reserve(self, width: int) -> None:
        """Make room for ``width`` columns; doubling keeps the cost of growing constant."""
        capacity = self.data.size(3)
        if width > capacity:
            wider = max(width, 2 * capacity)
            data = self.data.new_zeros(*self.data.shape[:3], wider, self.data.size(4))
            data[:, :, :, :capacity] = self.data
            self.data = data

    def reorder(self, rows: Tensor, begin: int, end: int) -> None:
        """Row ``i`` becomes old row ``rows[i]``, in columns ``begin .. end``."""
        if begin < end:
            moved = rows.ne(torch.arange(rows.numel(), device=rows.device)).nonzero().squeeze(1)
            self.data[:, :, moved, begin:end] = self.data[:, :, rows[moved], begin:end]

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        self.data = self.data[:, :, rows]


class SharedSources:
    """Keys and values that all hypotheses of a document share, for some layers.

    They are computed once and stand there once for a document.
    """

    def __init__(
        self, index: dict[int, int], pairs: tuple[Tensor, Tensor], mask: Tensor | None
    ) -> None:
        """``pairs``: keys and values ``(layers, documents, longest, dim)``.

        ``index``: the number of a layer to its index in them; ``mask``: ``(documents, 1, 1,
        longest)`` True where a key is, or None where they are equally many.
        """
        self._index = index
        self._keys, self._values = pairs
        self._mask = mask

    @classmethod
    def of_layers(
        cls, sources: dict[int, tuple[Tensor, Tensor]], lengths: Tensor | None = None
    ) -> SharedSources:
        """``sources``: keys and values ``(documents, longest, dim)`` by layer.

        ``lengths (documents,)``: how many of them are no padding; None: all.
        """
        keys, values = (torch.stack(part) for part in zip(*sources.values(), strict=True))
        index = {layer: at for at, layer in enumerate(sources)}
        mask = None if lengths is None else _real(lengths, keys.size(2))
        return cls(index, (keys, values), mask)

    def of(self, layer: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values ``(documents, longest, dim)`` and mask of a layer."""
        at = self._index[layer]
        return self._keys[at], self._values[at], self._mask

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._keys, self._values = self._keys[:, documents], self._values[:, documents]
        if self._mask is not None:
            self._mask = self._mask[documents]


class DecodeState:
    """The memory of one model's decoder for a batch of documents.

    Attributes:
        step: number of tokens every row has read, the current one excluded.
        sentence: ``(rows,)`` number of the sentence each row is writing.
        slot: ``(rows,)`` position in that sentence of the token being read.
        beam: hypotheses per document.
        more: what else a system reads of each document; empty in a new state.
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
        """Begin a document in every row.

        Args:
            source: layout of the source batch.
            beam: hypotheses per document.
            self_kinds: kind of self-attention of each decoder layer.
            group_sources: keys and values ``(source tokens, dim)`` of each layer
                whose cross-attention has a group part.
            global_sources: the same ``(documents, longest, dim)`` of each with a
                global part, or group attention computed as such
                (:func:`effective_kinds`).
            cross_kinds: kind of cross-attention of each decoder layer.
            like: any state of the model ``(.., dim)``.
            context: what context attention reads, by layer.
            memory: what output attention of a recurrent memory reads, by layer.
        """
        documents = source.shape[0]
        device = source.index.device
        self._single = _of_single_sentences(source)
        self_kinds = effective_kinds(self_kinds, source)
        cross_kinds = effective_kinds(cross_kinds, source)
        rows = documents * beam
        self.beam = beam
        self.step = -1
        self.document = torch.arange(documents, device=device)
        self.sentence = torch.zeros(rows, dtype=torch.long, device=device)
        self.slot = torch.full((rows,), -1, dtype=torch.long, device=device)
        self._source = source
        self._last_sentence = (source.sentence_counts - 1).repeat_interleave(beam)
        self._group_self = _index_of(self_kinds, without="global")
        self._global_self = _index_of(self_kinds, without="group")
        self._group_cross = _index_of(cross_kinds, without="global")
        self._group_cache = KeyValueCache(len(self._group_self), like, rows)
        self._global_cache = KeyValueCache(len(self._global_self), like, rows)
        self._group_sources = _stacked(group_sources)
        stacked = _stacked(global_sources)
        index = _index_of(cross_kinds, without="group")
        padding = None if source.is_dense else _real(source.documents.lengths, source.shape[1])
        self._global_sources = stacked and SharedSources(index, stacked, padding)
        self.context = context
        self.memory = memory
        self.more: list[SharedSources] = []
        self._rows = torch.arange(rows, device=device)
        self._group_width = 0
        self._group_mask: Tensor | None = None
        self._gathered_for: Tensor | None = None
        self._gathered: tuple[Tensor, Tensor, Tensor] | None = None

    @property
    def document_position(self) -> Tensor:
        """``(rows,)`` position in its document of the token being read."""
        return torch.full_like(self.slot, self.step)

    def in_one_sentence(self, kind: str) -> bool:
        """Whether a layer of this kind computes global attention, see :func:`effective_kinds`."""
        return self._single and kind == "group"

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (rows,)`` is True where the token opens a sentence."""
        self.step += 1
        if self.step == 0:
            self.slot = torch.zeros_like(self.slot)
        else:
            # Dead hypotheses may run on after the last sentence; they are never read.
            self.sentence = torch.minimum(self.sentence + opens.long(), self._last_sentence)
            self.slot = torch.where(opens, torch.zeros_like(self.slot), self.slot + 1)
        if self._group_self:
            self._group_width = int(self.slot.max()) + 1
            self._group_cache.reserve(self._group_width)
            columns = torch.arange(self._group_width, device=self.slot.device)
            self._group_mask = (columns <= self.slot[:, None])[:, None, None, :]
        if self._global_self:
            self._global_cache.reserve(self.step + 1)
        if self._group_sources is not None:
            self._gather_sources(self._group_sources)

    def extend_group(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store ``(rows, dim)`` keys and values; returns those of the sentences in writing."""
        data = self._group_cache.data[:, self._group_self[layer]]
        data[0, self._rows, self.slot] = key
        data[1, self._rows, self.slot] = value
        return data[0, :, : self._group_width], data[1, :, : self._group_width]

    @property
    def group_mask(self) -> Tensor | None:
        """``(rows, 1, 1, width)`` True on the keys a row's sentence really has."""
        return self._group_mask

    def extend_global(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store ``(rows, dim)`` keys and values; returns all of the document so far."""
        data = self._global_cache.data[:, self._global_self[layer]]
        data[0, :, self.step] = key
        data[1, :, self.step] = value
        return data[0, :, : self.step + 1], data[1, :, : self.step + 1]

    def group_source(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values ``(rows, longest, dim)`` and mask of the sentences in translation."""
        if self._gathered is None:
            raise ValueError(f"layer {layer} has no group cross-attention, or no step has begun")
        keys, values, mask = self._gathered
        index_of_layer = self._group_cross[layer]
        return keys[index_of_layer], values[index_of_layer], mask

    def _gather_sources(self, sources: tuple[Tensor, Tensor]) -> None:
        """Fetch the source sentences that the rows translate, unless they are at hand."""
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
        return self._global_sources.of(layer)

    def reorder(self, rows: Tensor, common: int) -> None:
        """Row ``i`` goes on from old row ``rows[i]`` of the same document.

        ``common``: so many first tokens all hypotheses of a document share; what
        was computed from them is not touched.
        """
        self.sentence = self.sentence[rows]
        self.slot = self.slot[rows]
        self._group_cache.reorder(rows, 0, self._group_width)
        self._global_cache.reorder(rows, common, self.step + 1)

    def keep(self, documents: Tensor) -> None:
        """Drop the finished documents; ``documents`` indexes those that go on."""
        offsets = torch.arange(self.beam, device=documents.device)
        rows = (documents[:, None] * self.beam + offsets).flatten()
        self.document = self.document[documents]
        self.sentence = self.sentence[rows]
        self.slot = self.slot[rows]
        self._last_sentence = self._last_sentence[rows]
        self._rows = self._rows[: rows.numel()]
        self._group_cache.keep(rows)
        self._global_cache.keep(rows)
        self._gathered = None
        for shared in (self._global_sources, self.context, self.memory, *self.more):
            if shared is not None:
                shared.keep(documents)


def _real(lengths: Tensor, width: int) -> Tensor:
    """``(documents, 1, 1, width)`` True before a document's end."""
    columns = torch.arange(width, device=lengths.device)
    return (columns < lengths[:, None])[:, None, None, :]


def effective_kinds(kinds: Sequence[str], source: DocumentLayout) -> list[str]:
    """The kinds as they are computed: in single sentences, group attention is global."""
    single = _of_single_sentences(source)
    return ["global" if single and kind == "group" else kind for kind in kinds]


def _of_single_sentences(source: DocumentLayout) -> bool:
    return int(source.sentence_counts.max()) == 1


def _index_of(kinds: Sequence[str], without: str) -> dict[int, int]:
    """Layer number -> index among the layers whose kind is not ``without``."""
    layers = [layer for layer, kind in enumerate(kinds) if kind != without]
    return {layer: at for at, layer in enumerate(layers)}


def _stacked(pairs: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor] | None:
    if not pairs:
        return None
    keys, values = zip(*pairs, strict=True)
    return torch.stack(keys), torch.stack(values)
