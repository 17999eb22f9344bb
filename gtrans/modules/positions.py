"""Sinusoidal positions that grow with the text."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """Sinusoidal embeddings (Vaswani et al. 2017) in fairseq's arrangement.

    The first half of a vector holds the sines, the second the cosines. The table
    is not part of the state dict and doubles whenever a longer text comes, so no
    document is too long.
    """

    table: Tensor

    def __init__(self, dim: int, size: int = 1024) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("table", self._build(size), persistent=False)

    def _build(self, size: int) -> Tensor:
        half = self.dim // 2
        rates = torch.exp(torch.arange(half) * -(math.log(10000) / max(half - 1, 1)))
        angles = torch.arange(size)[:, None] * rates[None, :]
        table = torch.cat([angles.sin(), angles.cos()], 1)
        return nn.functional.pad(table, (0, self.dim % 2))

    def forward(self, positions: Tensor, longest: int) -> Tensor:
        """``(tokens,)`` positions below ``longest`` -> ``(tokens, dim)``."""
        if longest > self.table.size(0):
            size = max(longest, 2 * self.table.size(0))
            self.table = self._build(size).to(self.table)
        return self.table.index_select(0, positions)
