"""Whitening: states of a frozen encoder, made uncorrelated and of equal variance.

The variance of a frozen encoder's states may differ between directions by several orders of
magnitude: one direction may tell subjects from objects, a far smaller one may tell two nouns
apart. Adam scales every parameter on its own, which does not help where the directions are not
the axes, so a projection of such states learns the small directions last.

Where the states are attended to directly, a fixed affine map before the projections does not
change what these can express: keys and values of ``(x - m) W`` are keys and values of ``x`` with
other weights and another bias, and the bias of a key has no effect. What a model learns from its
random start does change: it is another system. Where trained layers read the states
(``--context-input bert``), residual connections carry them past all projections, so the two models
do not express the same functions either, unless the widths differ and a projection comes first.

The map is ZCA whitening (Bell and Sejnowski 1997; Kessy, Lewin and Strimmer 2018), the whitening
that changes states least. It is this project's own; the thesis (Guo Zhiyu 2021) and Zhu et al.
(2020) attend to BERT's output as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

SHRINKAGE = 0.01
"""Share of the mean variance that is added to every variance, so that noise stays small."""


class Whitening(nn.Module):
    """``(x - mean) map``; the identity until :meth:`measure` is called.

    Attributes:
        mean: ``(dim,)``.
        map: ``(dim, dim)``, ``(C + SHRINKAGE trace(C) / dim)^(-1/2)`` with covariance ``C``.
        of: ``(32,)`` bytes, the SHA-256 of the encoder whose states were measured; zeros before
            that. (The name is part of checkpoints.)
    """

    mean: Tensor
    map: Tensor
    of: Tensor

    def __init__(self, dim: int, raw: bool = False) -> None:
        """``raw``: leave states as they are, and only store their encoder's fingerprint."""
        super().__init__()
        self.raw = raw
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("map", torch.eye(dim))
        self.register_buffer("of", torch.zeros(32, dtype=torch.uint8))

    def forward(self, states: Tensor) -> Tensor:
        """``(.., dim) -> (.., dim)`` in the precision of ``mean``."""
        if not self.raw:
            # Some of BERT's outputs have a mean far from 0: half precision would lose the rest.
            states = (states.float() - self.mean.float()) @ self.map.float()
        return states.to(self.mean)

    @property
    def measured_on(self) -> str | None:
        """The fingerprint given to :meth:`measure`, in hexadecimal; None before that."""
        return bytes(self.of.tolist()).hex() if bool(self.of.any()) else None

    @torch.no_grad()
    def measure(self, chunks: Iterable[Tensor], fingerprint: str) -> None:
        """Set ``mean`` and ``map`` from states.

        Args:
            chunks: each ``(states, dim)``; not read if ``raw``.
            fingerprint: SHA-256 of their encoder, in hexadecimal.
        """
        self.of.copy_(torch.tensor(list(bytes.fromhex(fingerprint))))
        if self.raw:
            return
        dim = self.mean.numel()
        count, total = 0, self.mean.new_zeros(dim, dtype=torch.double)
        squares = self.map.new_zeros(dim, dim, dtype=torch.double)
        for chunk in chunks:
            states = chunk.to(total)
            count += states.size(0)
            total += states.sum(0)
            squares += states.T @ states
        mean = total / count
        variances, axes = torch.linalg.eigh(squares / count - torch.outer(mean, mean))
        variances = variances.clamp_min(0)
        # The floor avoids a division by 0 if all states are equal; they become zero.
        added = (SHRINKAGE * variances.mean()).clamp_min(torch.finfo(torch.float).eps)
        self.mean.copy_(mean)
        self.map.copy_((axes * (variances + added).rsqrt()) @ axes.T)
