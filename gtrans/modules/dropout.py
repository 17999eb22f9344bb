"""Dropout with cheap random numbers on the CPU."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 1 << 16


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Zero each element with ``probability``, scale the others so that the mean stays.

    On the CPU torch draws one Bernoulli number for each element, which takes as long as
    a whole projection of a small model. Here one random 64-bit number decides on four
    elements, 16 bits each; probabilities are rounded to multiples of ``2 ** -16``, and
    the scale is that of the rounded one.
    """
    if not x.is_cpu:
        return F.dropout(x, probability, training)
    dropped = round(probability * _LEVELS)
    if not training or dropped == 0 or x.numel() == 0:
        return x
    if dropped == _LEVELS:
        return x * 0.0
    lowest = torch.iinfo(torch.int64).min
    numbers = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(lowest, None)
    levels = numbers.view(torch.int16)[: x.numel()].view(x.shape)
    kept = levels.ge(dropped - _LEVELS // 2).to(x.dtype)
    return x * kept.mul_(_LEVELS / (_LEVELS - dropped))
