"""Objects whose tensors travel together: one block of memory, one copy to the device.

What a batch needs besides its words (where sentences begin, which tokens attend to which) is some
dozens of small tensors. Copied one by one, each would cost a call, and a wait if its memory is not
pinned. Here all of them are parts of one block of bytes.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, TypeVar

import torch
from torch import Tensor

# Every tensor begins at a multiple of this many bytes.
_ALIGNED = 16

Packed = dict[str, Any]
"""``block``: a tensor of bytes, which fairseq moves to the device like all tensors of a batch;
``skeleton``: the object without its tensors; ``parts``: type, shape and place of each of them."""

Thing = TypeVar("Thing")


class _Taking(pickle.Pickler):
    """Takes the tensors out of an object; one that occurs several times is taken once."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, thing: Any) -> int | None:
        """The number of a tensor; None for everything else."""
        if not isinstance(thing, Tensor):
            return None
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = len(self.tensors)
            self.tensors.append(thing)
        return self._numbers[id(thing)]


class _Giving(pickle.Unpickler):
    def __init__(self, skeleton: bytes, tensors: list[Tensor]) -> None:
        super().__init__(io.BytesIO(skeleton))
        self._tensors = tensors

    def persistent_load(self, number: Any) -> Tensor:
        """The tensor of that number."""
        return self._tensors[int(number)]


def pack(thing: Any) -> Packed:
    """``thing``, whose tensors are on one device, as a block of bytes and a skeleton."""
    return _packed(*_taken(thing))


def unpack(packed: Packed) -> Any:
    """The object of :func:`pack`, with tensors on the device where the block is now."""
    block: Tensor = packed["block"]
    tensors = []
    for dtype, shape, begin in pickle.loads(packed["parts"]):
        size = shape.numel() * dtype.itemsize
        tensors.append(block[begin : begin + size].view(dtype).view(shape))
    return _Giving(packed["skeleton"], tensors).load()


def moved(thing: Thing, device: torch.device) -> Thing:
    """``thing``, whose tensors are on one device, with all of them on ``device`` by one copy."""
    skeleton, tensors = _taken(thing)
    if all(tensor.device == device for tensor in tensors):
        return thing
    packed = _packed(skeleton, tensors)
    there: Thing = unpack({**packed, "block": to_device(packed["block"], device)})
    return there


def _taken(thing: Any) -> tuple[bytes, list[Tensor]]:
    """``thing`` without its tensors, and these."""
    file = io.BytesIO()
    taking = _Taking(file)
    taking.dump(thing)
    return file.getvalue(), taking.tensors


def _packed(skeleton: bytes, tensors: list[Tensor]) -> Packed:
    parts, pieces, end = [], [], 0
    for tensor in tensors:
        flat = tensor.detach().contiguous().view(-1).view(torch.uint8)
        parts.append((tensor.dtype, tensor.shape, end))
        padding = -flat.numel() % _ALIGNED
        pieces += [flat, flat.new_zeros(padding)]
        end += flat.numel() + padding
    block = torch.cat(pieces) if pieces else torch.zeros(0, dtype=torch.uint8)
    return {"block": block, "skeleton": skeleton, "parts": pickle.dumps(parts)}


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``; the host does not wait for a copy from its own memory."""
    if tensor.device == device:
        return tensor
    if not tensor.is_cpu:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
