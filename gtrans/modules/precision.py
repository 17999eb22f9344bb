"""Numbers of fewer bits: autocast, and weights of 8 bits."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """Return the precision of autocast on ``device``; None: it is off or missing."""
    if not torch.amp.is_autocast_available(device.type):
        return None
    if not torch.is_autocast_enabled(device.type):
        return None
    return torch.get_autocast_dtype(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Return a context in which autocast is off on ``device``."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


class Int8Linear(nn.Module):
    """``nn.Linear`` for inference on a CPU: weights of 8 bits, a scale for each output.

    Inputs become 8 bits by one scale for all at a time.

    Attributes:
        weight: empty, of the type and on the device of the outputs.
    """

    weight: Tensor

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        largest = weight.abs().amax(1)
        largest = largest.clamp(min=1e-8)
        scales = largest.double() / 127
        zeros = torch.zeros(len(scales), dtype=torch.long)
        with warnings.catch_warnings():  # deprecated; the pinned version has nothing instead
            warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
            rounded = torch.quantize_per_channel(
                weight,
                scales,
                zero_points=zeros,
                axis=0,
                dtype=torch.qint8,
            )
        bias: Tensor | None = None
        if linear.bias is not None:
            bias = linear.bias.detach().float()
        self._packed = torch.ops.quantized.linear_prepack(rounded, bias)
        self.register_buffer("weight", weight.new_empty(0), persistent=False)

    def forward(self, input: Tensor) -> Tensor:
        """Map ``(.., in)`` to ``(.., out)``."""
        # Of the inputs 7 bits: sums of products of 8 bits overflow on older processors.
        product: Tensor = torch.ops.quantized.linear_dynamic(
            input,
            self._packed,
            reduce_range=True,
        )
        return product


def to_int8(model: nn.Module) -> None:
    """Replace all linear layers by 8-bit ones; the model can then only infer, on a CPU."""
    modules = list(model.modules())
    for module in modules:
        children = list(module.named_children())
        for name, child in children:
            if isinstance(child, nn.Linear):
                setattr(module, name, Int8Linear(child))
