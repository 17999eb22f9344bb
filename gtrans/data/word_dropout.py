"""Word dropout on source and decoder input (G-Transformer, App. C.1)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor


def word_dropout(
    tokens: Tensor, ratio: float, mask: int, keep: Sequence[int], key: Sequence[int]
) -> Tensor:
    """Replace words by ``mask``.

    The words are drawn from ``key`` alone (say seed, epoch, ids of the batch), on
    the CPU: the same on every device, in every data worker and after a resume.

    Args:
        tokens: ids of any shape.
        ratio: probability of replacing a word.
        mask: id that stands in.
        keep: ids that are never replaced (marks, padding).
        key: numbers that identify the draw.

    Returns:
        a new tensor like ``tokens``.
    """
    generator = torch.Generator()
    generator.manual_seed(zlib.crc32(repr(tuple(key)).encode()))
    drop = torch.rand(tokens.shape, generator=generator).to(tokens.device) < ratio
    for symbol in keep:
        drop &= tokens.ne(symbol)
    return tokens.masked_fill(drop, mask)
