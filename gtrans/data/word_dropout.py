"""Word dropout on source and decoder input (G-Transformer, App. C.1)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from gtrans.modules.group_attention import to_device


def word_dropout(
    tokens: Tensor, ratio: float, mask: int, keep: Sequence[int], key: Sequence[int]
) -> Tensor:
    """Replace random words by ``mask``.

    Which words depends on ``key`` alone (seed, epoch and ids of the batch, for example), so it
    is the same on every device, in every data worker and after resuming.

    Args:
        tokens: ids of any shape.
        ratio: probability of replacing a word.
        mask: id of the mask.
        keep: ids that are never replaced (marks, padding).
        key: seed of the random numbers.

    Returns:
        a new tensor of the same shape.
    """
    generator = torch.Generator()
    generator.manual_seed(zlib.crc32(repr(tuple(key)).encode()))
    drop = to_device(torch.rand(tokens.shape, generator=generator), tokens.device) < ratio
    for symbol in keep:
        drop &= tokens.ne(symbol)
    return tokens.masked_fill(drop, mask)
