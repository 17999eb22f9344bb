"""Linear layers, dropout and precision: what every layer does, made fast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Measured with MKL: with more states torch's own product is faster.
_FEW_STATES = 8
# Of dropout: probabilities are multiples of 1 / _LEVELS.
_LEVELS = 1 << 16


def lowered(x: Tensor) -> Tensor:
    """``x`` in the precision of autocast, if it is on; for what several projections read.

    Each of them would convert it again, and its gradient.
    """
    dtype = autocast_dtype(x.device)
    return x if dtype is None else x.to(dtype)


class Linear(nn.Linear):
    """``nn.Linear``, with the same parameters.

    A decoding step of one document has as few states as the beam has hypotheses, but reads all
    weights of the model, which no processor's cache holds. Then ``W x'``, with the weight as
    the left factor, is faster on the CPU by a third or more.
    """

    def forward(self, input: Tensor) -> Tensor:
        """``(.., in) -> (.., out)``."""
        few = input.dim() == 2 and input.size(0) <= _FEW_STATES
        measured = input.is_cpu and input.dtype == torch.float32
        if not few or not measured or torch.is_grad_enabled():
            return super().forward(input)
        product = torch.mm(self.weight, input.t())
        if self.bias is not None:
            product += self.bias[:, None]
        return product.t().contiguous()


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The precision of autocast on ``device``; None where it is off, or the device has none."""
    if not torch.amp.is_autocast_available(device.type):
        return None
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """A context in which autocast is off on ``device``."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


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
