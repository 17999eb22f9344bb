"""The memory of a decoder between two steps of beam search.

There are ``documents * beam`` hypotheses, grouped by document. They may be
in different sentences, at different positions. What the hypotheses of a document have in common
is stored once and read once, by all of them together:

* Keys and values of the target are a :class:`TokenTree`: each token that some hypothesis of the
  document has written stands in it once, and a mask says which hypothesis goes back to it. So
  going on from another hypothesis moves a row of the mask, and no keys.
* Group attention needs the current sentence only: its tree drops the sentences before.
* If every document is a single sentence, group attention sees the same as global attention,
  and is computed as global attention, which is cheaper.
* Keys of the source are computed once for a document. Group attention reads the keys of the
  sentences that the hypotheses of the document translate (:class:`SentenceWindow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gtrans.modules.group_attention import DocumentLayout, Ints, to_device

Sources = dict[int, tuple[Tensor, Tensor]]
"""Keys and values by the number of the layer that attends to them."""
# Steps between two times that tokens without a hypothesis are dropped.
_STEPS_BETWEEN = 8

Keys = tuple[Tensor, Tensor, Tensor | None]
"""Keys and values ``(documents, width, dim)``, and the mask of who sees them (None: all), which
broadcasts to ``(documents, 1, beam, width)``."""


class TokenTree:
    """Keys and values, in some layers, of the tokens that the hypotheses have written.

    Attributes:
        numbers: of the layers.
        width: number of columns in use; a step adds ``beam`` of them.
    """

    def __init__(self, layers: Sequence[int], like: Tensor, documents: int, beam: int) -> None:
        """``like``: a tensor whose last dimension, type and device keys and values have, too."""
        capacity = 64
        self.numbers = layers
        self.width = 0
        self._beam = beam
        self._data = like.new_zeros(2, len(layers), documents, capacity, like.size(-1))
        self._mask = like.new_full((documents, beam, capacity), float("-inf"))
        # The next mask is written here, and then the two change places.
        self._next_mask = torch.empty_like(self._mask)
        own = torch.eye(beam, dtype=torch.bool, device=like.device)
        self._own = self._mask.new_zeros(beam, beam).masked_fill_(~own, float("-inf"))

    def begin_step(self, opens: Tensor | None = None) -> None:
        """Make room for the next tokens, each seen by its own hypothesis only.

        ``opens (documents, beam)``: hypotheses that forget all tokens before, or None.
        """
        if opens is not None:
            self._mask[:, :, : self.width].masked_fill_(opens[:, :, None], float("-inf"))
        width = self.width + self._beam
        self._make_room(width)
        self._mask[:, :, self.width : width] = self._own
        self.width = width

    def begin_with(self, pairs: tuple[Tensor, Tensor], real: Tensor) -> None:
        """Store tokens that all hypotheses of a document have in common, before the first step.

        Args:
            pairs: keys and values, each ``(layers, documents, longest, dim)``.
            real: ``(documents, longest)`` False on padding.
        """
        self._make_room(real.size(1))
        for number, stored in enumerate(pairs):
            self._data[number, :, :, : real.size(1)] = stored
        seen = self._mask.new_zeros(real.shape).masked_fill_(~real, float("-inf"))
        self._mask[:, :, : real.size(1)] = seen[:, None]
        self.width = real.size(1)

    def _make_room(self, width: int) -> None:
        capacity = self._mask.size(2)
        if width > capacity:  # doubling keeps the cost of growing constant
            more = max(width - capacity, capacity)
            self._data = F.pad(self._data, (0, 0, 0, more))
            self._mask = F.pad(self._mask, (0, more), value=float("-inf"))
            self._next_mask = torch.empty_like(self._mask)

    def layers(self) -> dict[int, Keys]:
        """The keys for each layer; the last ``beam`` columns belong to the step's tokens."""
        data, mask = self._data[:, :, :, : self.width], self._mask[:, None, :, : self.width]
        keys: dict[int, Keys] = {}
        for index, number in enumerate(self.numbers):
            keys[number] = data[0, index], data[1, index], mask
        return keys

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue hypothesis ``rows[i]`` of the same document."""
        old = self._mask.flatten(0, 1)[:, : self.width]
        new = self._next_mask.flatten(0, 1)[:, : self.width]
        torch.index_select(old, 0, rows, out=new)
        self._mask, self._next_mask = self._next_mask, self._mask

    def unused(self) -> Tensor:
        """``(2,)``, what :meth:`drop_unused` must know: the first unused column, the most in use.

        They are the smallest and the largest of all documents.
        """
        used = self._used().long()
        return torch.stack([used.cumprod(1).sum(1).amin(), used.sum(1).amax()])

    def drop_unused(self, first: int, most: int) -> None:
        """Drop the tokens that no hypothesis goes back to; see :meth:`unused`."""
        if most == self.width:
            return
        order = self._used()[:, first:].byte().argsort(dim=1, descending=True, stable=True)
        columns = order[:, : most - first] + first
        documents = torch.arange(columns.size(0), device=columns.device)[:, None]
        self._data[:, :, :, first:most] = self._data[:, :, documents, columns]
        seen = columns[:, None].expand(-1, self._beam, -1)
        self._mask[:, :, first:most] = self._mask.gather(2, seen)
        self.width = most

    def _used(self) -> Tensor:
        """``(documents, width)`` whether any hypothesis goes back to a token."""
        return self._mask[:, :, : self.width].amax(1) == 0

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data = self._data.index_select(2, documents)
        self._mask = self._mask.index_select(0, documents)
        self._next_mask = torch.empty_like(self._mask)


class SentenceWindow:
    """Keys and values, in some layers, of the source sentences that are being translated.

    A document's window reaches from the first to the last sentence that one of its hypotheses
    translates; mostly that is one sentence.
    """

    def __init__(self, source: DocumentLayout, sources: Sources) -> None:
        """``sources``: ``(source tokens, dim)`` each."""
        self._index = {layer: number for number, layer in enumerate(sources)}
        keys, values = zip(*sources.values(), strict=True)
        # (2, layers, source tokens, dim)
        self._packed = torch.stack([*keys, *values]).view(2, len(sources), *keys[0].shape)
        self._sentence = source.sentence
        lengths, counts = (
            source.sentence_lengths.cpu().numpy(),
            source.sentence_counts.cpu().numpy(),
        )
        # The source tokens of the batch before each of its sentences, and before its end.
        self._begins = np.append(0, lengths.cumsum())
        # The sentences of the batch before the first one of each document.
        self._firsts = counts.cumsum() - counts
        documents = len(counts)
        self._spans = np.full((2, documents), -1)
        self._widths = np.zeros(documents, np.int64)
        like = self._packed
        self._data = like.new_zeros(2, like.size(1), documents, 0, like.size(3))
        # (documents, capacity) the sentence of each token, -1 after the end
        self._inside = source.sentence.new_zeros(documents, 0)
        self._columns = source.sentence.new_zeros(0)
        self._width = 0
        self._seen, self._unseen = like.new_zeros(()), like.new_full((), float("-inf"))
        self._outside = source.sentence.new_full((), -1)
        self.mask = self._seen

    def move(self, spans: Ints, sentence: Tensor) -> None:
        """Read other sentences.

        Args:
            spans: ``(2, documents)`` first and last sentence that the hypotheses of each document
                translate.
            sentence: ``(documents, beam)`` the sentence of each.
        """
        moved = np.flatnonzero((spans != self._spans).any(0))
        if len(moved):
            self._spans = spans
            self._fill(moved)
        inside = self._inside[:, None, : self._width] == sentence[:, :, None]
        self.mask = torch.where(inside, self._seen, self._unseen)[:, None]

    def _fill(self, moved: Ints) -> None:
        """Gather the windows of documents whose span is another one."""
        first, last = self._spans[:, moved] + self._firsts[moved]
        begins = self._begins[first]
        self._widths[moved] = self._begins[last + 1] - begins
        self._width = int(self._widths.max())
        self._make_room(self._width)
        width = int(self._widths[moved].max())
        windows = torch.from_numpy(np.stack([moved, begins, self._widths[moved]]))
        numbers, begin, size = to_device(windows, self._inside.device)
        columns = self._columns[:width]
        index = (begin[:, None] + columns).clamp_(max=self._sentence.numel() - 1)
        self._data[:, :, numbers, :width] = self._packed[:, :, index]
        real = columns < size[:, None]
        self._inside.index_fill_(0, numbers, -1)
        inside = torch.where(real, self._sentence[index], self._outside)
        self._inside[numbers, :width] = inside

    def _make_room(self, width: int) -> None:
        capacity = self._inside.size(1)
        if width > capacity:
            more = max(width - capacity, capacity)
            self._data = F.pad(self._data, (0, 0, 0, more))
            self._inside = F.pad(self._inside, (0, more), value=-1)
            self._columns = torch.arange(capacity + more, device=self._inside.device)

    def layers(self) -> dict[int, Keys]:
        """The keys for each layer."""
        data = self._data[:, :, :, : self._width]
        keys: dict[int, Keys] = {}
        for number, index in self._index.items():
            keys[number] = data[0, index], data[1, index], self.mask
        return keys

    def keep(self, documents: Tensor, numbers: Ints) -> None:
        """Drop all other documents; ``numbers`` are the same on the host."""
        self._data = self._data.index_select(2, documents)
        self._inside = self._inside.index_select(0, documents)
        self._firsts, self._widths = self._firsts[numbers], self._widths[numbers]
        self._spans = self._spans[:, numbers]


class SharedSources:
    """Keys and values of some layers, stored once for all hypotheses of a document."""

    def __init__(self, sources: Sources, lengths: Tensor | None = None) -> None:
        """Store them.

        Args:
            sources: ``(documents, longest, dim)`` each.
            lengths: ``(documents,)`` how many of them are real; None: there is no padding.
        """
        self._index = {layer: number for number, layer in enumerate(sources)}
        keys, values = zip(*sources.values(), strict=True)
        self._keys, self._values = torch.stack(keys), torch.stack(values)
        self._mask: Tensor | None = None
        if lengths is not None:
            columns = torch.arange(self._keys.size(2), device=lengths.device)
            padding = (columns >= lengths[:, None])[:, None, None, :]
            # Added to the scores: made once, where every attention would make it of a boolean one.
            self._mask = self._keys.new_zeros(padding.shape).masked_fill_(padding, float("-inf"))

    @classmethod
    def of(cls, sources: Sources, lengths: Tensor | None = None) -> SharedSources | None:
        """The same of some layers; None: there are none."""
        return cls(sources, lengths) if sources else None

    def for_layer(self, layer: int) -> Keys:
        """Keys, values ``(documents, longest, dim)`` and mask of a layer."""
        index = self._index[layer]
        return self._keys[index], self._values[index], self._mask

    def layers(self) -> dict[int, Keys]:
        """The keys for each layer."""
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
        own: of each kind of self-attention. The last columns, one for each hypothesis of a
            document, belong to the newest tokens: the layer fills them in.
        source: of each kind of cross-attention.
        context: of context attention; None: the layer has none.
        memory: of the recurrent memory; None: the layer has none.
    """

    own: Mapping[str, Any]
    source: Mapping[str, Any]
    context: Keys | None
    memory: Keys | None


class DecodeState:
    """The memory of one model's decoder for a batch of documents.

    Attributes:
        step: number of steps before the current one.
        by_sentence: positions restart in every sentence.
        sentence: ``(hypotheses,)`` number of the sentence that each hypothesis is writing.
        position_in_sentence: ``(hypotheses,)`` position of the current token in that sentence; not
            counted where positions do not restart.
        beam: hypotheses per document.
        most_sentences: sentences of the document that has most of them.
        layers: the keys for each layer in the current step.
        further_sources: what else a system reads of each document; empty in a new state.
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
            beam: hypotheses per document.
            self_kinds: kind of self-attention of each decoder layer.
            group_sources: ``(source tokens, dim)`` each, of the layers whose cross-attention has a
                group part.
            global_sources: the same, ``(documents, longest, dim)``, of those whose cross-attention
                has a global part or is computed as global attention (:func:`as_global`).
            like: any state of the model ``(.., dim)``.
            by_sentence: positions restart in every sentence.
            context: keys and values of context attention.
            memory: keys and values of the recurrent memories.
        """
        documents = source.shape[0]
        device = source.index.device
        hypotheses = documents * beam
        self.beam = beam
        self.by_sentence = by_sentence
        self.step = -1
        self.document = torch.arange(documents, device=device)
        self.sentence = torch.zeros(hypotheses, dtype=torch.long, device=device)
        self.position_in_sentence = torch.full((hypotheses,), -1, dtype=torch.long, device=device)
        self.most_sentences = source.most_sentences
        self._last_sentence = (source.sentence_counts - 1).repeat_interleave(beam)
        self._depth = len(self_kinds)
        group_layers: list[int] = []
        global_layers: list[int] = []
        for layer, kind in enumerate(self_kinds):
            if kind != "global" and not as_global(kind, source):
                group_layers.append(layer)
            if kind != "group" or as_global(kind, source):
                global_layers.append(layer)
        self._trees: dict[str, TokenTree] = {}
        if group_layers:
            self._trees["group"] = TokenTree(group_layers, like, documents, beam)
        if global_layers:
            self._trees["global"] = TokenTree(global_layers, like, documents, beam)
        self.layers: list[LayerKeys] = []
        self._window = SentenceWindow(source, group_sources) if group_sources else None
        lengths = None if source.is_dense else source.document_lengths
        self._global_sources = SharedSources.of(global_sources, lengths)
        # (hypotheses,) tokens that each has read before the first step, and the most of them
        self._read: Tensor | None = None
        self._most_read = 0
        self.context = context
        self.memory = memory
        self.further_sources: list[SharedSources] = []

    @property
    def layers_of_document(self) -> list[int]:
        """Layers whose self-attention sees the whole document."""
        tree = self._trees.get("global")
        return [] if tree is None else list(tree.numbers)

    def begin_behind(self, read: DocumentLayout, pairs: tuple[Tensor, Tensor] | None) -> None:
        """Begin behind a part of the translations, which all hypotheses of a document share.

        The first token of the search opens the next sentence, so group attention sees nothing
        of that part.

        Args:
            read: layout of that part of every document.
            pairs: keys and values, each ``(layers, documents, longest, dim)``, of
                :attr:`layers_of_document`; None: there are no such layers.
        """
        lengths = read.document_lengths
        self._read = lengths.repeat_interleave(self.beam)
        self._most_read = read.longest
        self.sentence = (read.sentence_counts - 1).repeat_interleave(self.beam)
        if pairs is not None:
            columns = torch.arange(pairs[0].size(2), device=lengths.device)
            self._trees["global"].begin_with(pairs, columns < lengths[:, None])

    def positions(self) -> tuple[Tensor | int, int]:
        """``(hypotheses,)`` position of each one's token in its document or sentence.

        If all have the same one, its number. With a number above all of them.
        """
        end = self._most_read + self.step + 1
        if self.by_sentence:
            return self.position_in_sentence, end
        return (self.step if self._read is None else self._read + self.step), end

    @property
    def in_several(self) -> Tensor:
        """``(hypotheses,)`` whether the source of each hypothesis has several sentences."""
        return self._last_sentence > 0

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (hypotheses,)`` is True where the token opens a sentence."""
        self.step += 1
        if self.step == 0 and self._read is None:
            self.position_in_sentence.zero_()
        else:
            self._count(opens)
        self._read_on_host()
        for kind, tree in self._trees.items():
            forgets = kind == "group" and self.step
            tree.begin_step(opens.view(-1, self.beam) if forgets else None)
        self.layers = self._layers()

    def _count(self, opens: Tensor) -> None:
        """Count sentences and positions, as far as a model asks for them."""
        if self.most_sentences > 1:
            # Dead hypotheses may go on after the last sentence; nobody reads them.
            self.sentence += opens
            torch.minimum(self.sentence, self._last_sentence, out=self.sentence)
        if self.by_sentence:
            self.position_in_sentence += 1
            self.position_in_sentence.masked_fill_(opens, 0)

    def _read_on_host(self) -> None:
        """All that the host must know of this step, in one transfer, and what follows from it."""
        due = self.step and self.step % _STEPS_BETWEEN == 0
        trees = list(self._trees.values()) if due else []
        wanted = [tree.unused() for tree in trees]
        if self._window is not None:
            wanted.append(self.sentence)
        if not wanted:
            return
        numbers = (torch.cat(wanted) if len(wanted) > 1 else wanted[0]).cpu().numpy()
        for number, tree in enumerate(trees):
            first, most = numbers[2 * number : 2 * number + 2].tolist()
            tree.drop_unused(first, most)
        if self._window is not None:
            written = numbers[2 * len(trees) :].reshape(-1, self.beam)
            spans = np.stack([written.min(1), written.max(1)])
            self._window.move(spans, self.sentence.view(-1, self.beam))

    def _layers(self) -> list[LayerKeys]:
        shared = self._global_sources, self.context, self.memory
        source_trees, context, memory = (
            keys.layers() if keys is not None else {} for keys in shared
        )
        sentence_trees = {} if self._window is None else self._window.layers()
        trees = {kind: tree.layers() for kind, tree in self._trees.items()}
        group_trees, global_trees = trees.get("group", {}), trees.get("global", {})
        # Group attention that is computed as global attention reads what that reads.
        return [
            LayerKeys(
                {"group": group_trees.get(n, global_trees.get(n)), "global": global_trees.get(n)},
                {
                    "group": sentence_trees.get(n, source_trees.get(n)),
                    "global": source_trees.get(n),
                },
                context.get(n),
                memory.get(n),
            )
            for n in range(self._depth)
        ]

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue the old hypothesis ``rows[i]`` of the same document."""
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
        hypotheses = (documents[:, None] * self.beam + offsets).flatten()
        self.document = self.document.index_select(0, documents)
        self.sentence = self.sentence.index_select(0, hypotheses)
        self.position_in_sentence = self.position_in_sentence.index_select(0, hypotheses)
        self._last_sentence = self._last_sentence.index_select(0, hypotheses)
        if self._read is not None:
            self._read = self._read.index_select(0, hypotheses)
        for tree in self._trees.values():
            tree.keep(documents)
        if self._window is not None:
            self._window.keep(documents, numbers.numpy())
        for shared in (self._global_sources, self.context, self.memory, *self.further_sources):
            if shared is not None:
                shared.keep(documents)


def as_global(kind: str, source: DocumentLayout) -> bool:
    """Whether group attention is computed as global attention: documents are single sentences."""
    return kind == "group" and source.most_sentences == 1
