"""Embeddings of positions: sinusoidal ones, for texts of any length, and learned ones.

Both are called with positions counted from 0 and add fairseq's offset themselves: in fairseq
the first token has position ``padding_idx + 1``, and checkpoints rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.modules.packed import to_device

# fairseq's padding_idx + 1.
OFFSET = 2


class SinusoidalPositions(nn.Module):
    """Sinusoidal embeddings (Vaswani et al. 2017) in fairseq's arrangement.

    The first half of a vector holds the sines, the second the cosines. The table is not part
    of the state dict, and it grows when a longer text comes, so no document is too long. It is no
    buffer: ``--broadcast-buffers`` sends those to all processes, whose tables have grown
    differently.
    """

    def __init__(self, dim: int, size: int = 1024) -> None:
        super().__init__()
        self.dim = dim
        self.table = self._build(size)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> SinusoidalPositions:
        """Move the table with the rest of the model, which torch does with buffers only."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.table = fn(self.table)
        return self

    def _build(self, size: int) -> Tensor:
        half = self.dim // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / max(half - 1, 1)))
        angles = torch.arange(size)[:, None] * rates[None, :]
        table = torch.cat([angles.sin(), angles.cos()], 1)
        return nn.functional.pad(table, (0, self.dim % 2))

    def forward(self, positions: Tensor, end: int | None = None) -> Tensor:
        """``(tokens,)`` positions from 0 -> ``(tokens, dim)``.

        ``end`` is more than any of them, perhaps by far; None: it is read from them, for which
        the host waits.
        """
        longest = (_end(positions) if end is None else end) + OFFSET
        if longest > self.table.size(0):
            size = max(longest, 2 * self.table.size(0))
            self.table = to_device(self._build(size).to(self.table.dtype), self.table.device)
        return self.table.index_select(0, positions + OFFSET)


class LearnedPositions(nn.Embedding):
    """Learned positions, as in BERT, BART and mBART; the weight is ``(offset + size, dim)``.

    The first ``offset`` vectors belong to no position. fairseq's tables have two of them, of
    which the second, for padding, is zero; BERT's tables have none.
    """

    def __init__(self, dim: int, size: int = 1024, offset: int = OFFSET) -> None:
        super().__init__(offset + size, dim, offset - 1 if offset else None)
        self.offset = offset
        nn.init.normal_(self.weight, std=dim**-0.5)
        if self.padding_idx is not None:
            nn.init.zeros_(self.weight[self.padding_idx])

    @property
    def size(self) -> int:
        """The number of positions."""
        return self.num_embeddings - self.offset

    def forward(self, positions: Tensor, end: int | None = None) -> Tensor:
        """``(tokens,)`` positions from 0 -> ``(tokens, dim)``; ``end``: as for sinusoidal ones.

        Raises:
            GtransError: a position after the last one of the table.
        """
        longest = end
        if longest is None or longest > self.size:
            longest = _end(positions)
        if longest > self.size:
            raise GtransError(
                f"a text has {longest} tokens, but the model has learned only {self.size} "
                "positions; give a smaller --max-doc-tokens, let positions restart in every "
                "sentence (--positions sentence), or extend the model's positions "
                "(`gtrans convert --extend-positions N`)."
            )
        embedded: Tensor = super().forward(positions + self.offset)
        return embedded


def _end(positions: Tensor) -> int:
    return int(positions.max()) + 1 if positions.numel() else 0
