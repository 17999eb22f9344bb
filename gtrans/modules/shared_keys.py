"""Keys and values that the hypotheses of a document share: stored once, read once.

Of the target they are a :class:`TokenTree`, of the source a :class:`SentenceWindow` or, where all
of it is read, :class:`SharedSources`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gtrans.modules.layout import DocumentLayout


class TokenTree:
    """Keys and values, in some layers, of the tokens that the hypotheses have written.

    Attributes:
        width: number of columns in use; a step adds ``beam`` of them.
    """

    def __init__(self, layers: int, like: Tensor, documents: int, beam: int) -> None:
        """``like``: a tensor whose last dimension, type and device keys and values have, too."""
        capacity = 64
        self.width = 0
        self._beam = beam
        self._data = like.new_zeros(2, layers, documents, capacity, like.size(-1))
        self._mask = like.new_full((documents, beam, capacity), float("-inf"))
        own = torch.eye(beam, dtype=torch.bool, device=like.device)
        self._own = self._mask.new_zeros(beam, beam).masked_fill_(~own, float("-inf"))

    @property
    def mask(self) -> Tensor:
        """``(documents, 1, beam, width)``: 0 where a hypothesis has written a token, else -inf."""
        return self._mask[:, None, :, : self.width]

    def begin_step(self, opens: Tensor | None = None) -> None:
        """Make room for the next tokens, each of which is seen by its own hypothesis.

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

    def write(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values ``(hypotheses, dim)`` of a step's tokens.

        Returns:
            keys and values ``(documents, width, dim)`` of all tokens.
        """
        data = self._data[:, layer, :, : self.width]
        data[0, :, -self._beam :] = key.view(-1, self._beam, key.size(1))
        data[1, :, -self._beam :] = value.view(-1, self._beam, value.size(1))
        return data[0], data[1]

    def reorder(self, rows: Tensor) -> None:
        """Let hypothesis ``i`` continue hypothesis ``rows[i]`` of the same document."""
        used = self._mask[:, :, : self.width]
        used.copy_(used.flatten(0, 1).index_select(0, rows).view_as(used))

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
        self._mask[:, :, most : self.width] = float("-inf")
        self.width = most

    def _used(self) -> Tensor:
        """``(documents, width)`` whether any hypothesis goes back to a token."""
        return self._mask[:, :, : self.width].amax(1) == 0

    def keep(self, documents: Tensor) -> None:
        """Drop all other documents."""
        self._data, self._mask = self._data[:, :, documents], self._mask[documents]


class SentenceWindow:
    """Keys and values, in some layers, of the source sentences that are being translated.

    A document's window reaches from the first to the last sentence that one of its hypotheses
    translates; mostly that is one sentence.
    """

    def __init__(self, source: DocumentLayout, pairs: tuple[Tensor, Tensor], beam: int) -> None:
        """``pairs``: keys and values, each ``(layers, source tokens, dim)``."""
        self._beam = beam
        self._pairs = pairs
        self._sentence = source.sentence
        sizes = iter(source.sentences.sizes)
        # For each document the source tokens before each of its sentences, and before its end.
        self._bounds: list[list[int]] = []
        begin = 0
        for count in source.sentence_counts.tolist():
            bounds = [begin]
            for _ in range(count):
                bounds.append(bounds[-1] + next(sizes))
            begin = bounds[-1]
            self._bounds.append(bounds)
        documents = len(self._bounds)
        self._spans: list[tuple[int, int]] = [(-1, -1)] * documents
        self._data = pairs[0].new_zeros(2, pairs[0].size(0), documents, 0, pairs[0].size(2))
        # (documents, capacity) the sentence of each token, -1 after the end
        self._inside = source.sentence.new_zeros(documents, 0)
        self._width = 0
        self.mask = pairs[0].new_zeros(())

    def move(self, spans: list[tuple[int, int]], sentence: Tensor) -> None:
        """Read other sentences.

        Args:
            spans: first and last sentence that the hypotheses of each document translate.
            sentence: ``(documents, beam)`` the sentence of each.
        """
        if spans != self._spans:
            moved = [number for number, span in enumerate(spans) if span != self._spans[number]]
            self._spans = spans
            self._fill(moved)
        inside = self._inside[:, None, : self._width] == sentence[:, :, None]
        self.mask = self._data.new_zeros(inside.shape).masked_fill_(~inside, float("-inf"))[:, None]

    def _fill(self, moved: list[int]) -> None:
        """Gather the windows of documents whose span is another one."""
        begins, ends = zip(
            *(
                (bounds[first], bounds[last + 1])
                for bounds, (first, last) in zip(self._bounds, self._spans, strict=True)
            ),
            strict=True,
        )
        sizes = [end - begin for begin, end in zip(begins, ends, strict=True)]
        self._width = max(sizes)
        capacity = self._inside.size(1)
        if self._width > capacity:
            more = max(self._width - capacity, capacity)
            self._data = F.pad(self._data, (0, 0, 0, more))
            self._inside = F.pad(self._inside, (0, more), value=-1)
        device = self._inside.device
        width = max(sizes[number] for number in moved)
        windows = torch.tensor([[n, begins[n], sizes[n]] for n in moved], device=device)
        numbers, begin, size = windows.unbind(1)
        columns = torch.arange(width, device=device)
        index = (begin[:, None] + columns).clamp(max=self._sentence.numel() - 1)
        for part, packed in enumerate(self._pairs):
            self._data[part, :, numbers, :width] = packed[:, index]
        self._inside[numbers] = -1
        real = columns < size[:, None]
        self._inside[numbers, :width] = self._sentence[index].masked_fill(~real, -1)

    def for_layer(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Keys, values ``(documents, width, dim)`` and mask ``(documents, 1, beam, width)``."""
        data = self._data[:, layer, :, : self._width]
        return data[0], data[1], self.mask

    def keep(self, documents: Tensor, numbers: Sequence[int]) -> None:
        """Drop all other documents; ``numbers`` are the same as Python numbers."""
        self._data, self._inside = self._data[:, :, documents], self._inside[documents]
        self._bounds = [self._bounds[number] for number in numbers]
        self._spans = [self._spans[number] for number in numbers]


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
        mask = None if lengths is None else columns_below(lengths, keys.size(2))
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


def columns_below(lengths: Tensor, width: int) -> Tensor:
    """``(n, 1, 1, width)``, True in the first ``lengths (n,)`` columns."""
    columns = torch.arange(width, device=lengths.device)
    return (columns < lengths[:, None])[:, None, None, :]
