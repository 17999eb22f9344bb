"""What may be in a checkpoint, checked before anything is made of it.

torch's ``weights_only=True`` keeps code out of a checkpoint, but not values of other kinds than a
model's: every reader can rely on what :func:`check_contents` has let through.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.errors import GtransError

_TYPES = {
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}
# A checkpoint of a trainer has its deepest value 7 levels down, and about 20 values a tensor.
_MOST_LEVELS, _MOST_VALUES = 50, 300_000
# What omegaconf would replace by another option, or by a variable of the environment.
_INTERPOLATION = "${"
# What optimizers keep of a parameter besides tensors.
_COUNTED = ("step", "RMS")
_CONTAINERS = (dict, list, tuple, set, frozenset, argparse.Namespace)


def check_contents(state: Mapping[str, Any], path: str | Path) -> None:
    """Check everything of a checkpoint but the values of its parameters.

    Args:
        state: the dictionary in the file, with a dictionary under ``model``.
        path: the file, for messages.

    Raises:
        GtransError: a tensor is of a kind that no model has, or claims to be larger than what is
            stored of it; options, histories or counters are of a wrong type.
    """
    for name, value in _values(state, path):
        if isinstance(value, Tensor):
            _check_kind(value, name, path)
    check_tensors(state["model"], path)
    args = state.get("args")
    if not isinstance(args, argparse.Namespace | None):
        raise _wrong(path, "args", "options", args)
    cfg = _mapping(state, "cfg", path)
    for group, options in cfg.items():
        if group != "_name" and not isinstance(options, Mapping | argparse.Namespace | None):
            raise _wrong(path, f"cfg['{group}']", "options", options)
        if isinstance(options, Mapping):
            _mapping(cfg, group, path)
    for options in (cfg, args):
        for name, value in _values(options, path):
            if isinstance(value, Tensor):
                raise _wrong(path, f"its option {name}", "text or a number", value)
            if isinstance(value, str) and _INTERPOLATION in value:
                raise GtransError(
                    f"{path}: its option {name} is '{value}', which stands for another value; "
                    "checkpoints hold the values themselves."
                )
    _mapping(state, "task_state", path)
    _check_counters(state, path)


def check_tensors(tensors: Mapping[Any, Any], path: str | Path) -> None:
    """Check the parameters of a model by name, kind and size, not by value.

    Raises:
        GtransError: a name is no text, an entry is no tensor or of a kind that no model has, or
            it is empty.
    """
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise GtransError(f"{path}: the name of a tensor is {_shown(name)}, which is no text.")
        if not isinstance(tensor, Tensor):
            raise _wrong(path, name, "a tensor", tensor)
        _check_kind(tensor, name, path)
        is_number = tensor.dim() == 0 and name.endswith((".weight", ".bias"))
        if is_number or not tensor.numel():
            raise GtransError(f"{path}: {name} has the impossible shape {tuple(tensor.shape)}.")


def check_values(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Refuse parameters that are no numbers, with which all results would be meaningless.

    Raises:
        GtransError: a parameter holds NaN or an infinite number.
    """
    for name, tensor in tensors.items():
        # A sum is finite only if all of its terms are, and needs no memory.
        if not tensor.is_floating_point() or bool(tensor.sum(dtype=torch.float64).isfinite()):
            continue
        wrong = int((~tensor.isfinite()).sum())
        if wrong:
            raise GtransError(
                f"{path}: {name} holds NaN or infinite numbers ({wrong} of {tensor.numel()}); its "
                "training has diverged, or the file is damaged; take an earlier checkpoint."
            )


def check_shapes(state: Mapping[str, Tensor], own: Mapping[str, Tensor], path: str | Path) -> None:
    """Raises GtransError unless ``state`` has the names, shapes and kinds of numbers of ``own``."""
    unknown, absent = ([n for n in a if n not in b] for a, b in ((state, own), (own, state)))
    for names, what in ((unknown, "this model does not have"), (absent, "it lacks")):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise GtransError(f"{path}: {what} {', '.join(names[:3])}{more}.")
    for name, tensor in own.items():
        if state[name].shape != tensor.shape:
            raise GtransError(
                f"{path}: {name} has the shape {tuple(state[name].shape)}, but the model "
                f"needs {tuple(tensor.shape)}."
            )
        if state[name].is_floating_point() != tensor.is_floating_point():
            raise GtransError(
                f"{path}: {name} has the type {state[name].dtype}, but should have {tensor.dtype}."
            )


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """While ``what`` of a checkpoint is read, tell values of wrong types or sizes in one line.

    Raises:
        GtransError: with the exception that the values have raised; it begins with ``path``.
    """
    try:
        yield
    except GtransError as error:
        if str(error).startswith(str(path)):
            raise
        raise GtransError(f"{path}: {error}") from error
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # values of wrong types fail in every possible way
        raise GtransError(f"{path}: {what} is damaged ({told(error)}).") from error


def told(error: BaseException) -> str:
    """An exception of a library in a part of a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return f"{kind}: {lines[0].rstrip('.')[:300]}" if lines else kind


def options_of(state: Mapping[str, Any], group: str) -> dict[str, Any]:
    """A group of options, from either form in which fairseq writes them; empty if there is none.

    Older fairseq had all options in one namespace; ``_name`` is added to it.

    Args:
        state: a checkpoint that :func:`check_contents` has let through.
        group: such as ``task`` or ``model``.
    """
    cfg, args = state.get("cfg"), state.get("args")
    found = (cfg or {}).get(group)
    if found is not None:
        return dict(found) if isinstance(found, Mapping) else dict(vars(found))
    if args is None:
        return {}
    name = {"model": "arch"}.get(group, group)
    return {**vars(args), "_name": getattr(args, name, None)}


def _values(whole: Any, path: str | Path) -> Iterator[tuple[str, Any]]:
    """Everything in nested containers that is none, with its name such as ``cfg.model.arch``."""
    waiting: list[tuple[str, Any, int]] = [("", whole, 0)]
    count = 0
    while waiting:
        name, value, level = waiting.pop()
        if not isinstance(value, _CONTAINERS):
            yield name, value
            continue
        parts = _parts(value)
        count += len(parts)
        if level == _MOST_LEVELS or count > _MOST_VALUES:
            raise GtransError(
                f"{path}: {name.split('.')[0] or 'it'} holds more values in each other than any "
                "checkpoint."
            )
        prefix = f"{name}." if name else ""
        waiting += [(f"{prefix}{_shown(key)}", part, level + 1) for key, part in parts]


def _parts(container: Any) -> list[tuple[Any, Any]]:
    if isinstance(container, argparse.Namespace):
        container = vars(container)
    return list(container.items() if isinstance(container, dict) else enumerate(container))


def _check_kind(tensor: Tensor, name: str, path: str | Path) -> None:
    """Raises GtransError for a tensor that is not simply an array of numbers in the file."""
    kind = None
    if tensor.is_meta:
        kind = "without values (meta)"
    elif tensor.layout is not torch.strided or tensor.is_nested:
        kind = f"sparse or nested ({tensor.layout})"
    elif tensor.is_quantized or tensor.dtype not in _TYPES:
        kind = f"of the type {tensor.dtype}"
    elif tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        stored = tensor.untyped_storage().nbytes() // tensor.element_size()
        kind = f"of {tensor.numel()} numbers, of which {stored} are stored"
    if kind is not None:
        raise GtransError(f"{path}: {name} is a tensor {kind}, as no model has.")


def _mapping(state: Mapping[str, Any], name: str, path: str | Path) -> Mapping[str, Any]:
    found = state.get(name)
    if not isinstance(found, Mapping | None):
        raise _wrong(path, name, "a dictionary", found)
    for key in found or {}:
        if not isinstance(key, str):
            raise GtransError(f"{path}: {name} has the name {_shown(key)}, which is no text.")
    return found or {}


def _check_counters(state: Mapping[str, Any], path: str | Path) -> None:
    """Raises GtransError for histories and positions of a training of wrong types."""
    history = state.get("optimizer_history", [])
    if not isinstance(history, list | tuple):
        raise _wrong(path, "optimizer_history", "a list", history)
    for entry in history:
        if not isinstance(entry, dict):
            raise _wrong(path, "optimizer_history", "a list of dictionaries", entry)
        _check_count(entry, "num_updates", path)
    extra = _mapping(state, "extra_state", path)
    position = _mapping(extra, "train_iterator", path)
    for name in ("epoch", "iterations_in_epoch"):
        _check_count(position, name, path)
    _mapping(extra, "run_state", path)
    for name in ("val_loss", "best"):
        if not isinstance(extra.get(name), Real | None):
            raise _wrong(path, name, "a number", extra[name])
    _check_optimizer(_mapping(state, "last_optimizer_state", path), path)


def _check_optimizer(state: Mapping[str, Any], path: str | Path) -> None:
    """Raises GtransError unless what is kept of each parameter are tensors and numbers."""
    kept = state.get("state", {})
    if not isinstance(kept, Mapping):
        raise _wrong(path, "the state of the optimizer", "a dictionary", kept)
    for of_parameter in kept.values():
        if not isinstance(of_parameter, Mapping):
            raise _wrong(path, "the optimizer's state of a parameter", "a dictionary", of_parameter)
        for name, value in of_parameter.items():
            if not isinstance(value, Tensor | None) and name not in _COUNTED:
                raise _wrong(path, _shown(name), "a tensor", value)
            if not isinstance(value, Tensor | Real | None):
                raise _wrong(path, _shown(name), "a number", value)
    if "scaler" in state:  # of --amp
        _check_scaler(_mapping(state, "scaler", path), path)


def _check_scaler(scaler: Mapping[str, Any], path: str | Path) -> None:
    """Raises GtransError unless these are the numbers of torch's ``GradScaler``."""
    for name in ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"):
        value, of = scaler.get(name), f"the loss scale's {name}"
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise _wrong(path, of, "a number from 0", value)
        if name == "growth_interval" and value < 1:
            raise _wrong(path, of, "a number from 1", value)
        if name != "_growth_tracker" and not value:
            raise _wrong(path, of, "above 0", value)


def _check_count(entries: Mapping[str, Any], name: str, path: str | Path) -> None:
    value = entries.get(name, 0)
    if not isinstance(value, Integral) or not 0 <= int(value) < 2**53:
        raise _wrong(path, name, "a number from 0", value)


def _wrong(path: str | Path, name: str, wanted: str, found: Any) -> GtransError:
    return GtransError(f"{path}: {name} should be {wanted}, but is {_shown(found)}.")


def _shown(value: Any) -> str:
    """A value of any kind in a few printable characters."""
    if isinstance(value, str):
        text = value if value.isprintable() else ascii(value)
    elif isinstance(value, int) and value.bit_length() > 999:  # Python prints no longer ones
        text = f"an integer of {value.bit_length()} bits"
    elif isinstance(value, int | float | None):
        text = repr(value)
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:80]}.."
