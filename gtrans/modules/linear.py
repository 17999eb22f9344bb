"""Linear layers, dropout and precision: what every layer does, made fast."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Measured with MKL: with more states torch's own product is faster.
_FEW_STATES = 8
# Of dropout: probabilities are multiples of 1 / _LEVELS.
_LEVELS = 1 << 16


def lowered(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Both in the precision of autocast, if it is on; for what several projections read.

    Each of them would convert it again, and its gradient.
    """
    dtype = autocast_dtype(query.device)
    if dtype is None:
        return query, key
    low = query.to(dtype)
    return low, low if key is query else key.to(dtype)


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


class Int8Linear(nn.Module):
    """``nn.Linear`` for inference on a CPU, with weights of 8 bits and a scale for each output.

    Inputs become 8 bits, too, by one scale for all of them at a time.

    Attributes:
        weight: empty, of the type and on the device of the outputs.
    """

    weight: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1).clamp(min=1e-8).double() / 127
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # deprecated; the pinned version has nothing instead
            warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        bias = None if linear.bias is None else linear.bias.detach().float()
        self._packed = torch.ops.quantized.linear_prepack(rounded, bias)
        self.register_buffer("weight", weight.new_empty(0), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """``(.., in) -> (.., out)``."""
        # Of the inputs 7 bits: sums of products of 8 bits overflow on older processors.
        product: Tensor = torch.ops.quantized.linear_dynamic(input, self._packed, True)
        return product


def to_int8(model: nn.Module) -> None:
    """Replace all linear layers by those of 8 bits; the model can then only infer, on a CPU."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))


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
