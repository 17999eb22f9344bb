"""Packed tokens in padded buckets, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from gtrans.modules.layout import Segments


def padded_index(segments: Segments, chosen: Tensor, width: int) -> Tensor:
    """``(chosen, width)`` packed indices of the tokens of the segments ``chosen (chosen,)``.

    -1 after the end of a segment.
    """
    offsets = torch.arange(width, device=chosen.device)
    index = segments.starts[chosen][:, None] + offsets
    after_end = offsets >= segments.lengths[chosen][:, None]
    if segments.index is not None:
        index = segments.index[index.masked_fill(after_end, 0)]
    return index.masked_fill(after_end, -1)


def with_rows(padded: Tensor, count: int, value: int = -1) -> Tensor:
    """``padded (rows, width)`` with rows of ``value`` after them: ``(count, width)``."""
    return F.pad(padded, (0, 0, 0, count - padded.size(0)), value=value)


def _inverse(index: Tensor, tokens: int) -> Tensor:
    """``(tokens,)`` where each packed token stands in ``index``; -1 for those that do not."""
    real = (index >= 0).nonzero().squeeze(1)
    inverse = real.new_full((tokens,), -1)
    inverse[index[real]] = real
    return inverse


class Gather:
    """Pads packed tokens by an index, with a gather as its gradient.

    If no token occurs twice in the index, the gradient is the inverse permutation; autograd's
    own scatter-add would be several times slower.
    """

    def __init__(self, index: Tensor, tokens: int) -> None:
        """``index (padded,)``: the packed token at each padded position, -1 on padding."""
        self.index = index.clamp(min=0)
        inverse = _inverse(index, tokens)
        unused = inverse < 0
        self.unused = unused if bool(unused.any()) else None
        self.inverse = inverse.clamp(min=0)
        self.repeats = int((index >= 0).sum()) > tokens - int(unused.sum())

    @classmethod
    def build(cls, buckets: Sequence[Tensor], tokens: int) -> Gather | None:
        """From the index ``(rows, width)`` of each bucket; None if nothing is to be moved."""
        index = torch.cat([bucket.flatten() for bucket in buckets])
        if index.numel() == tokens and torch.equal(
            index, torch.arange(tokens, device=index.device)
        ):
            return None
        return cls(index, tokens)

    def pad(self, packed: Tensor) -> Tensor:
        """``(tokens, dim) -> (padded, dim)``, with arbitrary states on padding."""
        if self.repeats:
            return packed.index_select(0, self.index)
        out: Tensor = _GatherFunction.apply(  # type: ignore[no-untyped-call]
            packed, self.index, self.inverse, self.unused
        )
        return out

    def pack(self, padded: Tensor) -> Tensor:
        """``(padded, dim) -> (tokens, dim)``."""
        return padded.index_select(0, self.inverse)


class _GatherFunction(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, packed: Tensor, index: Tensor, inverse: Tensor, unused: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(inverse, unused)
        return packed.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        inverse, unused = ctx.saved_tensors
        gathered = grad.index_select(0, inverse)
        if unused is not None:
            gathered.masked_fill_(unused[:, None], 0)
        return gathered, None, None, None
