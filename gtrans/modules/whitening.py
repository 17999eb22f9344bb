"""States of a frozen encoder, made uncorrelated and of one variance.

What an encoder says of a word that is the subject of its sentence, and what makes one
noun different from the next, may differ in variance by several orders of magnitude. An
optimizer that scales every parameter by itself, as Adam does, cannot make up for that
where the directions are no axes, so that a projection of such states learns the small
ones last. An affine map with fixed parameters in front of the projections changes
nothing of what they can express: keys and values of ``(x - m) W`` are keys and values
of ``x`` with other weights and another bias, and the bias of a key has no effect.

The map is ZCA whitening (Bell and Sejnowski 1997; Kessy, Lewin and Strimmer 2018), the
one that keeps states closest to what they were.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

SHRINKAGE = 0.01
"""Share of the mean variance that is added to every variance: noise stays noise."""


class Whitening(nn.Module):
    """``(x - mean) map``; what comes in as it is until :meth:`measure` was called.

    Attributes:
        mean: ``(dim,)``.
        map: ``(dim, dim)``, ``(C + SHRINKAGE trace(C) / dim)^(-1/2)`` with covariance ``C``.
        of: ``(32,)`` bytes, the SHA-256 of the encoder whose states were measured; zeros
            before.
    """

    mean: Tensor
    map: Tensor
    of: Tensor

    def __init__(self, dim: int, raw: bool = False) -> None:
        """``raw``: leave states as they are, and only remember whose they are."""
        super().__init__()
        self.raw = raw
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("map", torch.eye(dim))
        self.register_buffer("of", torch.zeros(32, dtype=torch.uint8))

    def forward(self, states: Tensor) -> Tensor:
        """``(.., dim) -> (.., dim)`` in the precision of ``mean``."""
        if not self.raw:
            # Some of BERT's outputs are far from 0: half precision would round away their rest.
            states = (states.float() - self.mean.float()) @ self.map.float()
        return states.to(self.mean)

    @property
    def measured_on(self) -> str | None:
        """The fingerprint given to :meth:`measure`, in hexadecimal; None before."""
        return bytes(self.of.tolist()).hex() if bool(self.of.any()) else None

    @torch.no_grad()
    def measure(self, chunks: Iterable[Tensor], of: str) -> None:
        """Take mean and covariance from states.

        Args:
            chunks: each ``(states, dim)``; not looked at when ``raw``.
            of: SHA-256 of their encoder, in hexadecimal.
        """
        self.of.copy_(torch.tensor(list(bytes.fromhex(of))))
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
        # States that are all the same have no direction; they become zero.
        least = (SHRINKAGE * variances.mean()).clamp_min(torch.finfo(torch.float).eps)
        self.mean.copy_(mean)
        self.map.copy_((axes * (variances + least).rsqrt()) @ axes.T)
