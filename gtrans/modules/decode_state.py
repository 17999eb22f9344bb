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


class TokenKeys(NamedTuple):
    """The target tokens that self-attention reads in a step.

    Attributes:
        keys: of all tokens.
        newest: ``(keys and values, documents, beam, dim)``, the last columns, still to be written.
    """

    keys: Keys
    newest: Tensor


class ReadPrefix(NamedTuple):
    """The part of a translation that a decoder has read before the first step.

    Attributes:
        lengths: ``(hypotheses,)`` tokens.
        longest: the most of them.
        sentences: ``(hypotheses,)`` sentences.
        sentences_on_host: ``(documents, 1)``, the same.
    """

    lengths: Tensor
    longest: int
    sentences: Tensor
    sentences_on_host: Ints


class WrittenSentences(NamedTuple):
    """The sentences that the hypotheses of a search write, counted by the search.

    Attributes:
        number: ``(hypotheses,)``, the first one to translate is 0.
        on_host: ``(documents, beam)``, the same.
        any_opens: whether a newest token opens a sentence.
    """

    number: Tensor
    on_host: Ints
    any_opens: bool


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
        own.masked_fill_(~is_own, _HIDDEN)
        # The columns until tokens are dropped for the next time
        self._own = own.repeat(1, _STEPS_BETWEEN)
        self._used: Tensor | None = None
        self._prepare_columns()

    def begin_step(self, opens: Tensor | None = None) -> None:
        """Make room for the next tokens, each seen by its own hypothesis only.

        ``opens (documents, beam)``: hypotheses that forget earlier tokens.
        """
        if opens is not None:
            seen = self._mask[:, :, : self.width]
            seen.masked_fill_(opens[:, :, None], _HIDDEN)
        width = self.width + self._beam
        self._make_room(width)
        self.width = width

    def _prepare_columns(self) -> None:
        """Let the next columns be seen by one hypothesis each, in both masks."""
        own = self._own[:, : self._mask.size(2) - self.width]
        end = self.width + own.size(1)
        self._mask[:, :, self.width : end] = own
        self._next_mask[:, :, self.width : end] = own

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
        self._prepare_columns()

    def _make_room(self, width: int) -> None:
        capacity = self._mask.size(2)
        if width <= capacity:
            return
        # Doubling keeps the cost of growing constant.
        more = max(width - capacity, capacity)
        self._data = F.pad(self._data, (0, 0, 0, more))
        self._mask = F.pad(self._mask, (0, more))
        self._next_mask = torch.empty_like(self._mask)
        self._prepare_columns()

    def keys_by_layer(self) -> dict[int, TokenKeys]:
        """Return the keys by layer; the last ``beam`` columns are the step's tokens."""
        data = self._data[:, :, :, : self.width]
        newest = data[:, :, :, -self._beam :]
        mask = self._mask[:, None, :, : self.width]
        layers: dict[int, TokenKeys] = {}
        for index, number in enumerate(self.layer_numbers):
            keys = Keys(data[0, index], data[1, index], mask)
            layers[number] = TokenKeys(keys, newest[:, index])
        return layers

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue hypothesis ``rows[i]`` of the same document."""
        old = self._mask.flatten(0, 1)[:, : self.width]
        new = self._next_mask.flatten(0, 1)[:, : self.width]
        torch.index_select(old, 0, rows, out=new)
        self._mask, self._next_mask = self._next_mask, self._mask

    def unused(self) -> Tensor:
        """Return what :meth:`drop_unused` must know on the host, ``(width + 1,)``.

        The most columns that a document uses, and for each column whether all documents use it.
        """
        seen = self._mask[:, :, : self.width]
        used = seen.amax(1) == 0  # (documents, width)
        self._used = used
        most = used.sum(1).amax(0, keepdim=True)
        return torch.cat([most, used.all(0)])

    def drop_unused(self, unused: Ints) -> None:
        """Drop tokens that no hypothesis contains; ``unused``: see :meth:`unused`."""
        most, used_by_all = int(unused[0]), unused[1:]
        used, self._used = self._used, None
        if used is not None and most < self.width:
            first = int(used_by_all.argmin())
            self._move_used(used, first, most)
            self.width = most
        self._prepare_columns()

    def _move_used(self, used: Tensor, first: int, most: int) -> None:
        """Move the used columns to the columns from ``first`` to ``most``."""
        kept = most - first
        behind = used[:, first:].byte()
        order = behind.argsort(dim=1, descending=True, stable=True)
        columns = order[:, :kept] + first  # (documents, kept)
        numbers = torch.arange(columns.size(0), device=columns.device)
        documents = numbers[:, None]
        self._data[:, :, :, first:most] = self._data[:, :, documents, columns]
        of_hypotheses = columns[:, None].expand(-1, self._beam, -1)
        self._mask[:, :, first:most] = self._mask.gather(2, of_hypotheses)

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data = self._data.index_select(2, documents)
        self._mask = self._mask.index_select(0, documents)
        self._next_mask = torch.empty_like(self._mask)
        self._prepare_columns()


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
        lengths = source.sentence_lengths.cpu().numpy()
        counts = source.sentence_counts.cpu().numpy()
        # The source tokens of the batch before each of its sentences, and before its end.
        self._begins = np.append(0, lengths.cumsum())
        # The sentences of the batch before the first one of each document.
        self._firsts = counts.cumsum() - counts
        numbers = np.arange(len(lengths)) - np.repeat(self._firsts, counts)
        # (source tokens,) the sentence of each token, counted in its document
        self._sentence = np.repeat(numbers, lengths)
        documents = len(counts)
        self._spans = np.full((2, documents), -1)
        self._widths = np.zeros(documents, np.int64)
        # (keys and values, layers, documents, capacity, dim)
        self._data = packed.new_zeros(2, layers, documents, 0, dim)
        # (documents, capacity) the sentence of each token, -1 after the end
        self._sentence_of_column = source.sentence.new_zeros(documents, 0)
        self._width = 0
        # (documents, beam) the sentences that the mask shows
        self._shown_sentences: Ints | None = None
        self._visible = packed.new_zeros(())
        self._hidden = packed.new_full((), _HIDDEN)
        self.mask = self._visible

    def move(self, on_host: Ints, sentence: Tensor) -> None:
        """Read other sentences.

        ``sentence (documents, beam)`` of each hypothesis, and ``on_host`` the same.
        """
        shown = self._shown_sentences
        if shown is not None and np.array_equal(shown, on_host):
            return
        self._shown_sentences = on_host.copy()
        earliest, latest = on_host.min(1), on_host.max(1)
        spans = np.stack([earliest, latest])
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
        columns = np.arange(width)
        tokens = begins[:, None] + columns  # (moved, width)
        tokens = np.minimum(tokens, len(self._sentence) - 1)
        is_real = columns < sizes[:, None]
        capacity = self._sentence_of_column.size(1)
        sentence = np.full((len(moved), capacity), -1)
        sentence[:, :width] = np.where(is_real, self._sentence[tokens], -1)
        joined = np.concatenate([moved[:, None], sentence, tokens], 1)
        filled = to_device(torch.from_numpy(joined), self._sentence_of_column.device)
        documents = filled[:, 0]
        sentence_of_column = filled[:, 1 : capacity + 1]
        token_of_column = filled[:, capacity + 1 :]
        self._sentence_of_column.index_copy_(0, documents, sentence_of_column)
        self._data[:, :, documents, :width] = self._packed[:, :, token_of_column]

    def _make_room(self, width: int) -> None:
        capacity = self._sentence_of_column.size(1)
        if width <= capacity:
            return
        more = max(width - capacity, capacity)
        self._data = F.pad(self._data, (0, 0, 0, more))
        self._sentence_of_column = F.pad(self._sentence_of_column, (0, more), value=-1)

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
        self._shown_sentences = None


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
        own: by kind of self-attention; the layer writes the newest tokens.
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
        written: a search sets it before each step; None: :meth:`advance` counts sentences itself.
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
        self._prefix: ReadPrefix | None = None
        self.written: WrittenSentences | None = None
        self.context = context
        self.memory = memory
        self.further_sources: list[SharedSources] = []

    @property
    def layers_of_document(self) -> list[int]:
        """Layers whose self-attention sees the whole document."""
        tree = self._trees.get("global")
        return [] if tree is None else list(tree.layer_numbers)

    def begin_after(self, prefix: DocumentLayout, pairs: tuple[Tensor, Tensor] | None) -> None:
        """Begin after a prefix, whole sentences that all hypotheses of a document share.

        Group attention sees nothing of it, because the search opens the next sentence.

        Args:
            prefix: layout of the prefixes.
            pairs: keys and values of :attr:`layers_of_document`, each ``(layers, documents,
                longest, dim)``; None: there are no such layers.
        """
        lengths, counts = prefix.document_lengths, prefix.sentence_counts
        self._prefix = ReadPrefix(
            lengths=lengths.repeat_interleave(self.beam),
            longest=prefix.longest,
            sentences=counts.repeat_interleave(self.beam),
            sentences_on_host=counts.cpu().numpy()[:, None],
        )
        self.sentence = self._prefix.sentences - 1
        if pairs is not None:
            keys, _ = pairs
            columns = torch.arange(keys.size(2), device=lengths.device)
            is_real = columns < lengths[:, None]
            self._trees["global"].begin_with(pairs, is_real)

    def positions(self) -> Positions:
        """Return the positions of the current tokens."""
        end = self.step + 1
        position: Tensor | int = self.step
        if self._prefix is not None:
            end += self._prefix.longest
            position = self._prefix.lengths + self.step
        if self.by_sentence:
            position = self.position_in_sentence
        return Positions(position, end)

    @property
    def in_several(self) -> Tensor:
        """``(hypotheses,)`` whether the source of each hypothesis has several sentences."""
        return self._last_sentence > 0

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (hypotheses,)``: the token opens a sentence."""
        self.step += 1
        is_first_token = self.step == 0 and self._prefix is None
        if self.most_sentences > 1:
            if self.written is not None:
                self._take_sentences(self.written)
            elif not is_first_token:
                # Dead hypotheses may go on after the last sentence; nobody reads them.
                self.sentence += opens
                torch.minimum(self.sentence, self._last_sentence, out=self.sentence)
        if is_first_token:
            self.position_in_sentence.zero_()
        elif self.by_sentence:
            self.position_in_sentence += 1
            self.position_in_sentence.masked_fill_(opens, 0)
        self._read_on_host()
        any_opens = self.written is None or self.written.any_opens
        for kind, tree in self._trees.items():
            if kind == "group" and self.step > 0 and any_opens:
                tree.begin_step(opens.view(-1, self.beam))
            else:
                tree.begin_step()
        self.layers = self._keys_of_layers()

    def _take_sentences(self, written: WrittenSentences) -> None:
        self.sentence = written.number
        if self._prefix is not None:
            self.sentence = self.sentence + self._prefix.sentences

    def _read_on_host(self) -> None:
        """Read all that the host must know of this step in one transfer."""
        trees: list[TokenTree] = []
        if self.step and self.step % _STEPS_BETWEEN == 0:
            trees = list(self._trees.values())
        wanted = [tree.unused() for tree in trees]
        if self._window is not None and self.written is None:
            wanted.append(self.sentence)
        numbers = np.zeros(0, dtype=np.int64)
        if wanted:
            joined = torch.cat(wanted) if len(wanted) > 1 else wanted[0]
            numbers = joined.cpu().numpy()
        for tree in trees:
            size = tree.width + 1
            tree.drop_unused(numbers[:size])
            numbers = numbers[size:]
        if self._window is None:
            return
        if self.written is None:
            on_host = numbers.reshape(-1, self.beam)
        elif self._prefix is None:
            on_host = self.written.on_host
        else:
            on_host = self.written.on_host + self._prefix.sentences_on_host
        sentence = self.sentence.view(-1, self.beam)
        self._window.move(on_host, sentence)

    def _keys_of_layers(self) -> list[LayerKeys]:
        sources = _keys_by_layer(self._global_sources)
        context = _keys_by_layer(self.context)
        memory = _keys_by_layer(self.memory)
        windows = _keys_by_layer(self._window)
        group_trees = _tokens_by_layer(self._trees.get("group"))
        global_trees = _tokens_by_layer(self._trees.get("global"))
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
        if self.most_sentences > 1 and self.written is None:
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
        if self._prefix is not None:
            self._prefix = self._prefix._replace(
                lengths=self._prefix.lengths.index_select(0, hypotheses),
                sentences=self._prefix.sentences.index_select(0, hypotheses),
                sentences_on_host=self._prefix.sentences_on_host[numbers.numpy()],
            )
        for tree in self._trees.values():
            tree.keep(documents)
        if self._window is not None:
            self._window.keep(documents, numbers.numpy())
        all_shared = [self._global_sources, self.context, self.memory, *self.further_sources]
        for shared in all_shared:
            if shared is not None:
                shared.keep(documents)


def _keys_by_layer(keys: SentenceWindow | SharedSources | None) -> dict[int, Keys]:
    return {} if keys is None else keys.keys_by_layer()


def _tokens_by_layer(tree: TokenTree | None) -> dict[int, TokenKeys]:
    return {} if tree is None else tree.keys_by_layer()


def as_global(kind: str, source: DocumentLayout) -> bool:
    """Whether group attention is computed as global attention: documents are single sentences."""
    return kind == "group" and source.most_sentences == 1
