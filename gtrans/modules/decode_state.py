"""What a decoder remembers between two steps of beam search.

There are ``documents * beam`` hypotheses, those of a document next to each other. They may be
in different sentences, at different positions. What the hypotheses of a document have in common
is stored once and read once, by all of them together:

* Keys and values of the target are a :class:`TokenTree`: each token that some hypothesis of the
  document has written stands in it once, and a mask says which hypothesis goes back to it. So
  going on from another hypothesis moves a row of the mask, and no keys.
* Group attention needs the current sentence only: its tree drops the sentences before.
* If every document is a single sentence, group attention sees the same as global attention,
  and is computed as global attention, which is cheaper.
* Keys of the source are computed once for a document. Group attention reads those of the
  sentences that the hypotheses of the document translate (:class:`SentenceWindow`).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gtrans.modules.layout import DocumentLayout, Positions
from gtrans.modules.shared_keys import SentenceWindow, SharedSources, TokenTree, columns_below

# Steps between two times that tokens without a hypothesis are dropped.
_STEPS_BETWEEN = 8


class DecodeState:
    """The memory of one model's decoder for a batch of documents.

    Attributes:
        step: number of steps before the current one.
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
        self._most_sentences = source.most_sentences
        self._last_sentence = (source.sentence_counts - 1).repeat_interleave(beam)
        self._group_self = _index_of(self_kinds, without="global")
        self._global_self = _index_of(self_kinds, without="group")
        self._group_cross = _index_of(cross_kinds, without="global")
        self._group_tree = TokenTree(len(self._group_self), like, documents, beam)
        self._global_tree = TokenTree(len(self._global_self), like, documents, beam)
        group_pairs = _stacked(group_sources)
        self._window = group_pairs and SentenceWindow(source, group_pairs, beam)
        stacked = _stacked(global_sources)
        index = _index_of(cross_kinds, without="group")
        padding = None
        if not source.is_dense:
            padding = columns_below(source.documents.lengths, source.shape[1])
        self._global_sources = stacked and SharedSources(index, stacked, padding)
        # (hypotheses,) tokens that each has read before the first step, and the most of them
        self._read: Tensor | None = None
        self._most_read = 0
        self.context = context
        self.memory = memory
        self.further_sources: list[SharedSources] = []

    @property
    def layers_of_document(self) -> list[int]:
        """Layers whose self-attention sees the whole document."""
        return list(self._global_self)

    def begin_behind(self, read: DocumentLayout, pairs: tuple[Tensor, Tensor] | None) -> None:
        """Begin behind a part of the translations, which all hypotheses of a document share.

        The first token of the search opens the next sentence, so group attention sees nothing
        of that part.

        Args:
            read: layout of that part of every document.
            pairs: keys and values, each ``(layers, documents, longest, dim)``, of
                :attr:`layers_of_document`; None: there are no such layers.
        """
        lengths = read.documents.lengths
        self._read = lengths.repeat_interleave(self.beam)
        self._most_read = read.most_in_document
        self.sentence = (read.sentence_counts - 1).repeat_interleave(self.beam)
        if pairs is not None:
            columns = torch.arange(pairs[0].size(2), device=lengths.device)
            self._global_tree.begin_with(pairs, columns < lengths[:, None])

    def positions(self, by_sentence: bool) -> Positions:
        """``(hypotheses,)`` position of the current token in its document or sentence."""
        numbers = self.position_in_sentence
        if not by_sentence:
            numbers = torch.full_like(numbers, self.step)
            if self._read is not None:
                numbers = numbers + self._read
        return Positions(numbers, self._most_read + self.step + 1)

    @property
    def sentence_numbers(self) -> Positions:
        """``(hypotheses,)`` number of the sentence that each hypothesis is writing."""
        return Positions(self.sentence, self._most_sentences)

    @property
    def of_several(self) -> Tensor:
        """``(hypotheses,)`` whether the source of each hypothesis has several sentences."""
        return self._last_sentence > 0

    def in_one_sentence(self, kind: str) -> bool:
        """Whether group attention is computed as global attention (:func:`effective_kinds`)."""
        return self._single and kind == "group"

    def advance(self, opens: Tensor) -> None:
        """Begin a step; ``opens (hypotheses,)`` is True where the token opens a sentence."""
        self.step += 1
        if self.step == 0 and self._read is None:
            self.position_in_sentence = torch.zeros_like(self.position_in_sentence)
        else:
            # Dead hypotheses may go on after the last sentence; nobody reads them.
            self.sentence = torch.minimum(self.sentence + opens.long(), self._last_sentence)
            self.position_in_sentence = torch.where(opens, 0, self.position_in_sentence + 1)
        sentence = self.sentence.view(-1, self.beam)
        trees = [tree for tree in self._trees if self.step and self.step % _STEPS_BETWEEN == 0]
        # All that the host must know of this step, in one transfer.
        wanted = [tree.unused() for tree in trees]
        window = self._window
        if window is not None:
            wanted += [sentence.amin(1), sentence.amax(1)]
        numbers = iter(torch.cat(wanted).tolist() if wanted else ())
        for tree in trees:
            tree.drop_unused(next(numbers), next(numbers))
        if window is not None:
            spans = list(numbers)
            documents = len(spans) // 2
            window.move(list(zip(spans[:documents], spans[documents:], strict=True)), sentence)
        if self._group_self:
            opening = opens.view(-1, self.beam) if self.step else None
            self._group_tree.begin_step(opening)
        if self._global_self:
            self._global_tree.begin_step()

    @property
    def _trees(self) -> list[TokenTree]:
        """Those in use."""
        group, whole = (self._group_self, self._group_tree), (self._global_self, self._global_tree)
        return [tree for layers, tree in (group, whole) if layers]

    def extend_group(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Store keys and values ``(hypotheses, dim)`` of the new tokens.

        Returns:
            keys and values ``(documents, width, dim)`` of the sentences that are being written,
            and the mask ``(documents, 1, beam, width)`` that is added to the attention.
        """
        tree = self._group_tree
        return *tree.write(self._group_self[layer], key, value), tree.mask

    def extend_global(
        self, layer: int, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """As :meth:`extend_group`, of the documents so far."""
        tree = self._global_tree
        return *tree.write(self._global_self[layer], key, value), tree.mask

    def group_source(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values ``(documents, longest, dim)`` and mask of the current source sentences."""
        if self._window is None:
            raise ValueError(f"layer {layer} has no group cross-attention")
        return self._window.for_layer(self._group_cross[layer])

    def global_source(self, layer: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys, values ``(documents, longest, dim)`` and padding mask of the source."""
        if self._global_sources is None:
            raise ValueError(f"layer {layer} has no global cross-attention")
        return self._global_sources.for_layer(layer)

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue the old hypothesis ``rows[i]`` of the same document."""
        self.sentence = self.sentence[rows]
        self.position_in_sentence = self.position_in_sentence[rows]
        for tree in self._trees:
            tree.reorder(rows)

    def keep(self, documents: Tensor) -> None:
        """Drop all documents but ``documents (n,)``."""
        offsets = torch.arange(self.beam, device=documents.device)
        hypotheses = (documents[:, None] * self.beam + offsets).flatten()
        self.document = self.document[documents]
        self.sentence = self.sentence[hypotheses]
        self.position_in_sentence = self.position_in_sentence[hypotheses]
        self._last_sentence = self._last_sentence[hypotheses]
        if self._read is not None:
            self._read = self._read[hypotheses]
        for tree in self._trees:
            tree.keep(documents)
        if self._window is not None:
            self._window.keep(documents, documents.tolist())
        for shared in (self._global_sources, self.context, self.memory, *self.further_sources):
            if shared is not None:
                shared.keep(documents)


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
