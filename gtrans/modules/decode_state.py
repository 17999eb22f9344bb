"""The memory of a decoder between two steps of beam search.

There are ``documents * beam`` hypotheses, grouped by document. Keys that they share are stored
once:

* Keys of the target in a :class:`TokenTree`. Group attention has a tree of its own, which drops
  finished sentences; in documents of one sentence it is computed as global attention.
* Keys of the source in :class:`SharedSources`, for group attention in a :class:`SentenceWindow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gtrans.modules.group_attention import DocumentLayout, Ints, Positions, to_device

Sources = dict[int, tuple[Tensor, Tensor]]
"""Keys and values by the number of the layer that attends to them."""
# Steps between two times that tokens without a hypothesis are dropped.
_STEPS_BETWEEN = 8
# Added to the scores of keys that a query does not see.
_HIDDEN = float("-inf")


class Keys(NamedTuple):
    """The tokens that an attention reads in a step.

    Attributes:
        keys, values: ``(documents, width, dim)``.
        mask: broadcasts to ``(documents, 1, beam, width)``; None: all are visible.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None


class TokenTree:
    """Keys and values, in some layers, of the tokens that the hypotheses have written.

    Each token is stored once. A mask says which hypotheses contain it, so continuing another
    hypothesis moves a row of the mask, and no keys.

    Attributes:
        layer_numbers: of these layers.
        width: columns in use; a step adds ``beam``.
    """

    def __init__(
        self,
        layers: Sequence[int],
        like: Tensor,
        documents: int,
        beam: int,
    ) -> None:
        """``like``: a tensor with the last dimension, type and device of the keys."""
        capacity = 64
        dim = like.size(-1)
        self.layer_numbers = layers
        self.width = 0
        self._beam = beam
        # (keys and values, layers, documents, capacity, dim)
        self._data = like.new_zeros(2, len(layers), documents, capacity, dim)
        self._mask = like.new_full((documents, beam, capacity), _HIDDEN)
        # The next mask is written here, and then the two change places.
        self._next_mask = torch.empty_like(self._mask)
        is_own = torch.eye(beam, dtype=torch.bool, device=like.device)
        own = self._mask.new_zeros(beam, beam)
        self._own = own.masked_fill_(~is_own, _HIDDEN)

    def begin_step(self, opens: Tensor | None = None) -> None:
        """Make room for the next tokens, each seen by its own hypothesis only.

        ``opens (documents, beam)``: hypotheses that forget earlier tokens.
        """
        if opens is not None:
            seen = self._mask[:, :, : self.width]
            seen.masked_fill_(opens[:, :, None], _HIDDEN)
        width = self.width + self._beam
        self._make_room(width)
        self._mask[:, :, self.width : width] = self._own
        self.width = width

    def begin_with(self, pairs: tuple[Tensor, Tensor], real: Tensor) -> None:
        """Store tokens common to all hypotheses of a document, before the first step.

        Args:
            pairs: keys and values, each ``(layers, documents, longest, dim)``.
            real: ``(documents, longest)`` False on padding.
        """
        longest = real.size(1)
        self._make_room(longest)
        keys, values = pairs
        self._data[0, :, :, :longest] = keys
        self._data[1, :, :, :longest] = values
        seen = self._mask.new_zeros(real.shape)
        seen.masked_fill_(~real, _HIDDEN)
        self._mask[:, :, :longest] = seen[:, None]
        self.width = longest

    def _make_room(self, width: int) -> None:
        capacity = self._mask.size(2)
        if width <= capacity:
            return
        # Doubling keeps the cost of growing constant.
        more = max(width - capacity, capacity)
        self._data = F.pad(self._data, (0, 0, 0, more))
        self._mask = F.pad(self._mask, (0, more), value=_HIDDEN)
        self._next_mask = torch.empty_like(self._mask)

    def keys_by_layer(self) -> dict[int, Keys]:
        """Return the keys by layer; the last ``beam`` columns are the step's tokens."""
        data = self._data[:, :, :, : self.width]
        mask = self._mask[:, None, :, : self.width]
        layers: dict[int, Keys] = {}
        for index, number in enumerate(self.layer_numbers):
            keys = data[0, index]
            values = data[1, index]
            layers[number] = Keys(keys, values, mask)
        return layers

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue hypothesis ``rows[i]`` of the same document."""
        old = self._mask.flatten(0, 1)[:, : self.width]
        new = self._next_mask.flatten(0, 1)[:, : self.width]
        torch.index_select(old, 0, rows, out=new)
        self._mask, self._next_mask = self._next_mask, self._mask

    def unused(self) -> Tensor:
        """``(2,)`` the first unused column and the most columns in use, over all documents."""
        used = self._used().long()
        first = used.cumprod(1).sum(1).amin()
        most = used.sum(1).amax()
        return torch.stack([first, most])

    def drop_unused(self, first: int, most: int) -> None:
        """Drop tokens that no hypothesis contains; see :meth:`unused`."""
        if most == self.width:
            return
        kept = most - first
        used = self._used()[:, first:].byte()
        order = used.argsort(dim=1, descending=True, stable=True)
        columns = order[:, :kept] + first  # (documents, kept)
        numbers = torch.arange(columns.size(0), device=columns.device)
        documents = numbers[:, None]
        self._data[:, :, :, first:most] = self._data[:, :, documents, columns]
        of_hypotheses = columns[:, None].expand(-1, self._beam, -1)
        self._mask[:, :, first:most] = self._mask.gather(2, of_hypotheses)
        self.width = most

    def _used(self) -> Tensor:
        seen = self._mask[:, :, : self.width]
        return seen.amax(1) == 0

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data = self._data.index_select(2, documents)
        self._mask = self._mask.index_select(0, documents)
        self._next_mask = torch.empty_like(self._mask)


class SentenceWindow:
    """Keys and values, in some layers, of the source sentences that are being translated.

    A document's window reaches from the first to the last sentence that its hypotheses translate.
    """

    def __init__(self, source: DocumentLayout, sources: Sources) -> None:
        self._index = {layer: number for number, layer in enumerate(sources)}
        layers = len(sources)
        keys, values = zip(*sources.values(), strict=True)
        tokens, dim = keys[0].shape
        packed = torch.stack([*keys, *values])
        self._packed = packed.view(2, layers, tokens, dim)
        self._sentence = source.sentence
        lengths = source.sentence_lengths.cpu().numpy()
        counts = source.sentence_counts.cpu().numpy()
        # The source tokens of the batch before each of its sentences, and before its end.
        self._begins = np.append(0, lengths.cumsum())
        # The sentences of the batch before the first one of each document.
        self._firsts = counts.cumsum() - counts
        documents = len(counts)
        self._spans = np.full((2, documents), -1)
        self._widths = np.zeros(documents, np.int64)
        # (keys and values, layers, documents, capacity, dim)
        self._data = packed.new_zeros(2, layers, documents, 0, dim)
        # (documents, capacity) the sentence of each token, -1 after the end
        self._sentence_of_column = source.sentence.new_zeros(documents, 0)
        self._columns = source.sentence.new_zeros(0)
        self._width = 0
        self._visible = packed.new_zeros(())
        self._hidden = packed.new_full((), _HIDDEN)
        self._no_sentence = source.sentence.new_full((), -1)
        self.mask = self._visible

    def move(self, spans: Ints, sentence: Tensor) -> None:
        """Read other sentences.

        Args:
            spans: ``(2, documents)`` first and last sentence of each document.
            sentence: ``(documents, beam)`` the sentence of each hypothesis.
        """
        has_moved = (spans != self._spans).any(0)
        moved = np.flatnonzero(has_moved)
        if len(moved):
            self._spans = spans
            self._fill(moved)
        inside = self._sentence_of_column[:, None, : self._width]
        is_seen = inside == sentence[:, :, None]  # (documents, beam, width)
        mask = torch.where(is_seen, self._visible, self._hidden)
        self.mask = mask[:, None]

    def _fill(self, moved: Ints) -> None:
        """Copy the sentences of the documents ``moved (n,)`` into their windows."""
        first, last = self._spans[:, moved] + self._firsts[moved]
        begins = self._begins[first]
        ends = self._begins[last + 1]
        sizes = ends - begins
        self._widths[moved] = sizes
        self._width = int(self._widths.max())
        self._make_room(self._width)
        width = int(sizes.max())
        windows = torch.from_numpy(np.stack([moved, begins, sizes]))
        numbers, begin, size = to_device(windows, self._sentence_of_column.device)
        columns = self._columns[:width]
        index = begin[:, None] + columns  # (moved, width)
        last_token = self._sentence.numel() - 1
        index.clamp_(max=last_token)
        self._data[:, :, numbers, :width] = self._packed[:, :, index]
        is_real = columns < size[:, None]
        self._sentence_of_column.index_fill_(0, numbers, -1)
        sentence = self._sentence[index]
        self._sentence_of_column[numbers, :width] = torch.where(
            is_real, sentence, self._no_sentence
        )

    def _make_room(self, width: int) -> None:
        capacity = self._sentence_of_column.size(1)
        if width <= capacity:
            return
        more = max(width - capacity, capacity)
        self._data = F.pad(self._data, (0, 0, 0, more))
        self._sentence_of_column = F.pad(self._sentence_of_column, (0, more), value=-1)
        self._columns = torch.arange(capacity + more, device=self._sentence_of_column.device)

    def keys_by_layer(self) -> dict[int, Keys]:
        """Return the keys by layer."""
        data = self._data[:, :, :, : self._width]
        layers: dict[int, Keys] = {}
        for number, index in self._index.items():
            keys = data[0, index]
            values = data[1, index]
            layers[number] = Keys(keys, values, self.mask)
        return layers

    def keep(self, documents: Tensor, numbers: Ints) -> None:
        """Drop all other documents; ``numbers`` are the same on the host."""
        self._data = self._data.index_select(2, documents)
        self._sentence_of_column = self._sentence_of_column.index_select(0, documents)
        self._firsts = self._firsts[numbers]
        self._widths = self._widths[numbers]
        self._spans = self._spans[:, numbers]


class SharedSources:
    """Keys and values of some layers, stored once for all hypotheses of a document."""

    def __init__(self, sources: Sources, lengths: Tensor | None = None) -> None:
        """Store ``sources (documents, longest, dim)``; ``lengths (documents,)`` or None."""
        self._index = {layer: number for number, layer in enumerate(sources)}
        keys, values = zip(*sources.values(), strict=True)
        self._keys = torch.stack(keys)
        self._values = torch.stack(values)
        self._mask: Tensor | None = None
        if lengths is not None:
            columns = torch.arange(self._keys.size(2), device=lengths.device)
            is_padding = columns >= lengths[:, None]
            is_padding = is_padding[:, None, None, :]
            # Added to the scores: made once, where every attention would make it of a boolean one.
            mask = self._keys.new_zeros(is_padding.shape)
            self._mask = mask.masked_fill_(is_padding, _HIDDEN)

    @classmethod
    def if_any(cls, sources: Sources, lengths: Tensor | None = None) -> SharedSources | None:
        """Store ``sources``; None if there are none."""
        return cls(sources, lengths) if sources else None

    def for_layer(self, layer: int) -> Keys:
        """Return the keys ``(documents, longest, dim)`` of a layer."""
        index = self._index[layer]
        return Keys(self._keys[index], self._values[index], self._mask)

    def keys_by_layer(self) -> dict[int, Keys]:
        """Return the keys by layer."""
        return {layer: self.for_layer(layer) for layer in self._index}

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._keys = self._keys.index_select(1, documents)
        self._values = self._values.index_select(1, documents)
        if self._mask is not None:
            self._mask = self._mask.index_select(0, documents)


@dataclass(frozen=True)
class LayerKeys:
    """The keys that the attentions of a decoder layer read in a step.

    Attributes:
        own: by kind of self-attention; the layer writes the last ``beam`` columns.
        source: by kind of cross-attention.
        context: for context attention.
        memory: for the recurrent memory.
    """

    own: Mapping[str, Any]
    source: Mapping[str, Any]
    context: Keys | None
    memory: Keys | None


class DecodeState:
    """The memory of one model's decoder for a batch of documents.

    Attributes:
        step: number of the current step, from 0.
        by_sentence: positions restart in every sentence.
        document: ``(documents,)`` numbers of the documents that are left.
        sentence: ``(hypotheses,)`` the sentence that each is writing.
        position_in_sentence: ``(hypotheses,)`` of the current token, where positions restart.
        beam: hypotheses per document.
        most_sentences: of a document.
        layers: the keys for each layer in the current step.
        further_sources: keys of a system's own attentions.
    """

    def __init__(
        self,
        source: DocumentLayout,
        beam: int,
        self_kinds: Sequence[str],
        group_sources: Sources,
        global_sources: Sources,
        like: Tensor,
        by_sentence: bool,
        context: SharedSources | None = None,
        memory: SharedSources | None = None,
    ) -> None:
        """Begin the translation of every document.

        Args:
            source: layout of the source batch.
            beam, by_sentence: see the attributes.
            self_kinds: kind of self-attention of each decoder layer.
            group_sources: ``(source tokens, dim)`` each, for group cross-attention.
            global_sources: ``(documents, longest, dim)`` each, for cross-attention that is computed
                as global (:func:`as_global`).
            like: any state of the model ``(.., dim)``.
            context, memory: keys of context attention and recurrent memories.
        """
        documents = source.shape[0]
        hypotheses = documents * beam
        device = source.index.device
        self.beam = beam
        self.by_sentence = by_sentence
        self.step = -1
        self.document = torch.arange(documents, device=device)
        self.sentence = torch.zeros(hypotheses, dtype=torch.long, device=device)
        self.position_in_sentence = torch.full((hypotheses,), -1, dtype=torch.long, device=device)
        self.most_sentences = source.most_sentences
        last_sentence = source.sentence_counts - 1
        self._last_sentence = last_sentence.repeat_interleave(beam)
        self._depth = len(self_kinds)
        group_layers: list[int] = []
        global_layers: list[int] = []
        for layer, kind in enumerate(self_kinds):
            is_global = as_global(kind, source)
            if kind != "global" and not is_global:
                group_layers.append(layer)
            if kind != "group" or is_global:
                global_layers.append(layer)
        self._trees: dict[str, TokenTree] = {}
        if group_layers:
            self._trees["group"] = TokenTree(group_layers, like, documents, beam)
        if global_layers:
            self._trees["global"] = TokenTree(global_layers, like, documents, beam)
        self.layers: list[LayerKeys] = []
        self._window: SentenceWindow | None = None
        if group_sources:
            self._window = SentenceWindow(source, group_sources)
        lengths = None if source.is_dense else source.document_lengths
        self._global_sources = SharedSources.if_any(global_sources, lengths)
        # (hypotheses,) tokens of each prefix, and of the longest
        self._prefix_lengths: Tensor | None = None
        self._longest_prefix = 0
        self.context = context
        self.memory = memory
        self.further_sources: list[SharedSources] = []

    @property
    def layers_of_document(self) -> list[int]:
        """Layers whose self-attention sees the whole document."""
        tree = self._trees.get("global")
        return [] if tree is None else list(tree.layer_numbers)

    def begin_behind(self, prefix: DocumentLayout, pairs: tuple[Tensor, Tensor] | None) -> None:
        """Begin behind a prefix, whole sentences that all hypotheses of a document share.

        Group attention sees nothing of it, because the search opens the next sentence.

        Args:
            prefix: layout of the prefixes.
            pairs: keys and values of :attr:`layers_of_document`, each ``(layers, documents,
                longest, dim)``; None: there are no such layers.
        """
        lengths = prefix.document_lengths
        self._prefix_lengths = lengths.repeat_interleave(self.beam)
        self._longest_prefix = prefix.longest
        last_sentence = prefix.sentence_counts - 1
        self.sentence = last_sentence.repeat_interleave(self.beam)
        if pairs is not None:
            keys, _ = pairs
            columns = torch.arange(keys.size(2), device=lengths.device)
            is_real = columns < lengths[:, None]
            self._trees["global"].begin_with(pairs, is_real)

    def positions(self) -> Positions:
        """Return the positions of the current tokens."""
        end = self._longest_prefix + self.step + 1
        if self.by_sentence:
            return Positions(self.position_in_sentence, end)
        if self._prefix_lengths is None:
            return Positions(self.step, end)
        return Positions(self._prefix_lengths + self.step, end)

    @property
    def in_several(self) -> Tensor:
        """``(hypotheses,)`` whether the source of each hypothesis has several sentences."""
        return self._last_sentence > 0

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (hypotheses,)``: the token opens a sentence."""
        self.step += 1
        if self.step == 0 and self._prefix_lengths is None:
            self.position_in_sentence.zero_()
        else:
            self._count(opens)
        self._read_on_host()
        for kind, tree in self._trees.items():
            if kind == "group" and self.step > 0:
                tree.begin_step(opens.view(-1, self.beam))
            else:
                tree.begin_step()
        self.layers = self._keys_of_layers()

    def _count(self, opens: Tensor) -> None:
        if self.most_sentences > 1:
            # Dead hypotheses may go on after the last sentence; nobody reads them.
            self.sentence += opens
            torch.minimum(self.sentence, self._last_sentence, out=self.sentence)
        if self.by_sentence:
            self.position_in_sentence += 1
            self.position_in_sentence.masked_fill_(opens, 0)

    def _read_on_host(self) -> None:
        """Read all that the host must know of this step in one transfer."""
        trees: list[TokenTree] = []
        if self.step and self.step % _STEPS_BETWEEN == 0:
            trees = list(self._trees.values())
        wanted = [tree.unused() for tree in trees]
        if self._window is not None:
            wanted.append(self.sentence)
        if not wanted:
            return
        joined = wanted[0]
        if len(wanted) > 1:
            joined = torch.cat(wanted)
        numbers = joined.cpu().numpy()
        for tree in trees:
            first, most = numbers[:2].tolist()
            tree.drop_unused(first, most)
            numbers = numbers[2:]
        if self._window is not None:
            on_host = numbers.reshape(-1, self.beam)
            earliest, latest = on_host.min(1), on_host.max(1)
            spans = np.stack([earliest, latest])
            self._window.move(spans, self.sentence.view(-1, self.beam))

    def _keys_of_layers(self) -> list[LayerKeys]:
        sources = _keys_by_layer(self._global_sources)
        context = _keys_by_layer(self.context)
        memory = _keys_by_layer(self.memory)
        windows = _keys_by_layer(self._window)
        group_trees = _keys_by_layer(self._trees.get("group"))
        global_trees = _keys_by_layer(self._trees.get("global"))
        layers = []
        for number in range(self._depth):
            # Group attention that is computed as global attention reads what that reads.
            own_global = global_trees.get(number)
            own_group = group_trees.get(number, own_global)
            source_global = sources.get(number)
            source_group = windows.get(number, source_global)
            layers.append(
                LayerKeys(
                    own={"group": own_group, "global": own_global},
                    source={"group": source_group, "global": source_global},
                    context=context.get(number),
                    memory=memory.get(number),
                )
            )
        return layers

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue hypothesis ``rows[i]`` of the same document."""
        if self.most_sentences > 1:
            self.sentence = self.sentence.index_select(0, rows)
        if self.by_sentence:
            self.position_in_sentence = self.position_in_sentence.index_select(0, rows)
        for tree in self._trees.values():
            tree.reorder(rows)

    def keep(self, numbers: Tensor) -> None:
        """Drop all documents but ``numbers (n,)``, which are on the host."""
        documents = to_device(numbers, self.document.device)
        offsets = torch.arange(self.beam, device=documents.device)
        first_hypotheses = documents[:, None] * self.beam
        hypotheses = (first_hypotheses + offsets).flatten()
        self.document = self.document.index_select(0, documents)
        self.sentence = self.sentence.index_select(0, hypotheses)
        self.position_in_sentence = self.position_in_sentence.index_select(0, hypotheses)
        self._last_sentence = self._last_sentence.index_select(0, hypotheses)
        if self._prefix_lengths is not None:
            self._prefix_lengths = self._prefix_lengths.index_select(0, hypotheses)
        for tree in self._trees.values():
            tree.keep(documents)
        if self._window is not None:
            self._window.keep(documents, numbers.numpy())
        all_shared = [self._global_sources, self.context, self.memory, *self.further_sources]
        for shared in all_shared:
            if shared is not None:
                shared.keep(documents)


def _keys_by_layer(keys: TokenTree | SentenceWindow | SharedSources | None) -> dict[int, Keys]:
    return {} if keys is None else keys.keys_by_layer()


def as_global(kind: str, source: DocumentLayout) -> bool:
    """Whether group attention is computed as global attention: documents are single sentences."""
    return kind == "group" and source.most_sentences == 1
