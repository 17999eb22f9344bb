"""Counts operations of torch, and those after which the host waits for the device.

A kernel on a GPU runs while Python already prepares the next ones, so the time of a small step is
mainly the number of its operations. Views cost nothing on the device and are not counted. Whatever
needs a result of the device on the host ends the overlap: ``.item()``, ``bool(tensor)``,
``.tolist()``, ``nonzero``, an index with a boolean mask, a copy to the host, or one to the device
from memory that is not pinned. The host then waits until the device has finished everything before.

:class:`OperationCounter` counts both and names the line of each. On a machine without a GPU,
:func:`pretend` turns tensors and modules into ones of a pretended device: they say that they are
not on the CPU, and are computed there all the same. What a GPU refuses is refused: an operation on
tensors of both sides.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

# The one device type without hardware for which torch's autograd needs no driver.
_PRETENDED = torch.device("meta")
_TORCH = str(Path(torch.__file__).parent)

# Operations that are no views, and start no kernel.
_WITHOUT_WORK = {
    "_record_function_enter_new",
    "_record_function_exit",
    "_unsafe_view",
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "lift_fresh_copy",
    "detach_",
}
# Operations whose result, or the size of it, is needed on the host.
_WAITING = {
    "_local_scalar_dense",
    "_unique",
    "_unique2",
    "argwhere",
    "bincount",
    "equal",
    "is_nonzero",
    "masked_select",
    "nonzero",
    "unique_consecutive",
    "unique_dim",
}
# Operations that read a mask among their indices by `nonzero`.
_INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}

Thing = TypeVar("Thing")


class OperationCounter(TorchDispatchMode):
    """A context in which operations, and waits of the host, are counted.

    Attributes:
        operations: how often each operation that is no view was called, by its name.
        lines: the same, by line (``gtrans/modules/memory.py:80 nonzero``).
        places: how often the host waited, by line.
    """

    def __init__(self, on_host: bool = False) -> None:
        """``on_host``: count operations of the CPU, too, where the model is there."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.on_host = on_host
        self.operations: Counter[str] = Counter()
        self.lines: Counter[str] = Counter()
        self.places: Counter[str] = Counter()
        self._functions = _Functions(self)

    @property
    def count(self) -> int:
        """How many operations were called."""
        return self.operations.total()

    @property
    def waits(self) -> int:
        """How often the host waited."""
        return self.places.total()

    def within(self, folder: str) -> int:
        """How often it waited in lines of files whose path begins with ``folder``."""
        return sum(n for place, n in self.places.items() if place.startswith(folder))

    def add_wait(self, operation: str) -> None:
        """Count a wait of the line that is being executed."""
        self.places[f"{_place()} {operation}"] += 1

    def add(self, operation: str) -> None:
        """Count an operation of the line that is being executed."""
        self.operations[operation] += 1
        self.lines[f"{_place()} {operation}"] += 1

    def __enter__(self) -> OperationCounter:
        self._functions.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._functions.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        reason = _wait_of(func, args, kwargs)
        if reason:
            self.add_wait(reason)
        name = func.overloadpacket.__name__
        works = not func.is_view and name not in _WITHOUT_WORK
        if works and (self.on_host or _concerns_device(args, kwargs)):
            self.add(name)
        return _computed(func, args, kwargs)


def pretend(thing: Thing) -> Thing:
    """``thing`` on the pretended device: a module (in place), a tensor, or tensors in containers.

    It can be used in a :class:`OperationCounter` only.
    """
    if isinstance(thing, nn.Module):
        known: dict[int, nn.Parameter] = {}
        for module in thing.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None and not isinstance(parameter, _Pretended):
                    # Modules may share a parameter.
                    there = known.setdefault(id(parameter), _parameter(parameter))
                    module._parameters[name] = there
            for others in (module._buffers, vars(module)):
                for name, value in others.items():
                    if isinstance(value, Tensor):
                        others[name] = pretend(value)
        return thing
    moved: Thing = tree_map(
        lambda x: _Pretended(x) if isinstance(x, Tensor) and not isinstance(x, _Pretended) else x,
        thing,
    )
    return moved


def _parameter(old: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(_Pretended(old.detach()), requires_grad=old.requires_grad)


class _Pretended(Tensor):
    """A tensor of the pretended device; ``held`` is where it really is."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _Pretended:
        tensor: _Pretended = Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=_PRETENDED,
        )
        tensor.held = held
        return tensor

    def __init__(self, held: Tensor) -> None:
        """``held``: the tensor on the CPU."""

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _computed(func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """What cannot be seen in single operations: Python's lists in the place of tensors."""

    def __init__(self, counter: OperationCounter) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and _is_device(kwargs.get("device")):
            self._counter.add_wait("tensor")
            on_host = func(*args, **{**kwargs, "device": None})
            return pretend(on_host) if kwargs["device"] == _PRETENDED else func(*args, **kwargs)
        if func is Tensor.new_tensor and not args[0].is_cpu:
            self._counter.add_wait("new_tensor")
            if isinstance(args[0], _Pretended):
                return pretend(args[0].held.new_tensor(*args[1:], **kwargs))
        if func in (Tensor.tolist, Tensor.numpy) and not args[0].is_cpu:
            self._counter.add_wait(func.__name__)
            return func(args[0].held if isinstance(args[0], _Pretended) else args[0].cpu())
        if func is F.scaled_dot_product_attention and not torch.is_grad_enabled():
            return self._attended(func, args, kwargs)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and not args[0].is_cpu:
            index, lists = _without_lists(args[1])
            if lists:
                self._counter.add_wait("index")
                args = (args[0], index, *args[2:])
        if func is Tensor.pin_memory and not torch.cuda.is_available():
            pinned: Tensor = args[0].clone()
            pinned._gtrans_pinned = True  # type: ignore[attr-defined]
            return pinned
        return func(*args, **kwargs)

    def _attended(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Attention without gradients, which is one kernel on a GPU.

        Torch would take the pretended device for one that has no such kernel.
        """
        if not isinstance(args[0], _Pretended):
            return func(*args, **kwargs)
        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
        if mask is not None and mask.dtype == torch.bool:
            self._counter.add("where")  # torch adds a mask to the scores
        self._counter.add("scaled_dot_product_attention")
        held = tree_map(lambda x: x.held if isinstance(x, _Pretended) else x, (args, kwargs))
        return _Pretended(func(*held[0], **held[1]))


def _without_lists(index: Any) -> tuple[Any, bool]:
    """An index of ``tensor[..]`` with tensors instead of lists, and whether it had lists."""
    parts = index if isinstance(index, tuple) else (index,)
    tensors = tuple(pretend(torch.tensor(x)) if isinstance(x, list) else x for x in parts)
    lists = any(isinstance(part, list) for part in parts)
    return (tensors if isinstance(index, tuple) else tensors[0]), lists


def _is_device(device: Any) -> bool:
    return device is not None and torch.device(device).type != "cpu"


def _on_device(x: Any) -> bool:
    return isinstance(x, Tensor) and not x.is_cpu


def _concerns_device(args: Any, kwargs: dict[str, Any]) -> bool:
    leaves = tree_leaves((args, kwargs))
    return any(_on_device(x) or (isinstance(x, torch.device) and _is_device(x)) for x in leaves)


def _wait_of(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """The name of an operation for which the host waits; None if it does not."""
    name = func.overloadpacket.__name__
    if name in ("_to_copy", "copy_"):
        return _wait_of_copy(name, args, kwargs)
    if not any(_on_device(x) for x in tree_leaves((args, kwargs))):
        return None
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        counts = func._overloadname == "Tensor" or isinstance(args[1], Tensor)
        return name if counts else None
    if name in _INDEXING:
        indices = [x for x in args[1] if x is not None]
        masks = any(x.dtype in (torch.bool, torch.uint8) for x in indices)
        return name if masks or any(x.is_cpu and x.dim() for x in indices) else None
    return name if name in _WAITING else None


def _wait_of_copy(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str | None:
    """As :func:`_wait_of`, for a copy: to the host always, to the device if it must."""
    source = args[0] if name == "_to_copy" else args[1]
    target = kwargs.get("device") if name == "_to_copy" else args[0].device
    if target is None or _on_device(source) == _is_device(target):
        return None
    if _on_device(source):
        return f"{name} to the host"
    asynchronous = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
    pinned = getattr(source, "_gtrans_pinned", False) or (
        torch.cuda.is_available() and source.is_pinned()
    )
    # A number without dimensions travels with the kernel.
    return None if (asynchronous and pinned) or not source.dim() else f"{name} to the device"


def _computed(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operation, on the pretended device if its arguments are there."""
    leaves = tree_leaves((args, kwargs))
    if not any(isinstance(x, _Pretended) or _is_pretended(x) for x in leaves):
        return func(*args, **kwargs)
    name = func.overloadpacket.__name__  # type: ignore[attr-defined]
    if name not in (*_INDEXING, "_to_copy", "copy_"):
        _refuse_both_sides(name, leaves)
    held = {id(x.held): x for x in leaves if isinstance(x, _Pretended)}
    there = name != "_to_copy" or _is_device(kwargs.get("device") or args[0].device)

    def real(x: Any) -> Any:
        if isinstance(x, _Pretended):
            return x.held
        return torch.device("cpu") if _is_pretended(x) else x

    result = func(*tree_map(real, args), **tree_map(real, kwargs))
    if name == "copy_" and args[0].is_cpu:
        return result

    def there_again(x: Any) -> Any:
        if not there or not isinstance(x, Tensor):
            return x
        return held[id(x)] if id(x) in held else _Pretended(x)

    return tree_map(there_again, result)


def _is_pretended(x: Any) -> bool:
    return isinstance(x, torch.device) and x == _PRETENDED


def _refuse_both_sides(name: str, leaves: Sequence[Any]) -> None:
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    if any(x.is_cpu and x.dim() for x in tensors) and any(not x.is_cpu for x in tensors):
        raise RuntimeError(f"{name}: tensors of the host and of the device")


def _place() -> str:
    """``file:line`` of the nearest caller outside torch and this file."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not file.startswith((_TORCH, "<")):
            break
        frame = frame.f_back
    parts = Path(frame.f_code.co_filename).parts
    roots = [n for n, part in enumerate(parts) if part in ("gtrans", "fairseq", "tests")]
    shown = "/".join(parts[roots[-1] :] if roots else parts[-1:])
    return f"{shown}:{frame.f_lineno}"
