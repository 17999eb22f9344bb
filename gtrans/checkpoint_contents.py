"""What is in a checkpoint, and whether it is what a model and its options are.

torch's ``weights_only=True`` keeps code out of a checkpoint. What else may be wrong is told by the
command that reads it, in one line (:func:`reading`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.errors import GtransError

# What omegaconf would replace by another option, or by a variable of the environment.
_INTERPOLATION = "${"


def check_contents(state: Mapping[str, Any], path: str | Path) -> None:
    """Check the names and kinds of what every reader of a checkpoint relies on.

    Args:
        state: the dictionary in the file, with a dictionary under ``model``.
        path: the file, for messages.

    Raises:
        GtransError: a parameter is no tensor, options are no options, or one of them stands for
            another value.
    """
    check_tensors(state["model"], path)
    cfg, args = state.get("cfg"), state.get("args")
    whole = isinstance(cfg, Mapping | None) and isinstance(args, argparse.Namespace | None)
    kinds = (Mapping, argparse.Namespace, type(None))
    if not whole or not all(
        isinstance(group, kinds) for name, group in (cfg or {}).items() if name != "_name"
    ):
        raise GtransError(f"{path}: its options are damaged; take another checkpoint.")
    if not isinstance(state.get("task_state"), Mapping | None):
        raise GtransError(f"{path}: its task_state is damaged; take another checkpoint.")
    with reading(path, "what it says of its options"):
        for name, value in _values(cfg or vars(args or argparse.Namespace())):
            if isinstance(value, str) and _INTERPOLATION in value:
                raise GtransError(
                    f"{path}: its option {name} is '{value}', which stands for another value; "
                    "checkpoints hold the values themselves."
                )


def _values(options: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value in nested options, with its name."""
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    if isinstance(options, Mapping):
        for key, value in options.items():
            yield from _values(value, f"{name}.{key}" if name else str(key))
    elif isinstance(options, list | tuple):
        for value in options:
            yield from _values(value, name)
    else:
        yield name, options


def check_tensors(tensors: Mapping[Any, Any], path: str | Path) -> None:
    """Raises GtransError for a parameter without a name, or one that is no array of numbers."""
    for name, tensor in tensors.items():
        # One that claims more than is stored of it would take hours to look at.
        plain = isinstance(tensor, Tensor) and tensor.layout is torch.strided
        plain = plain and tensor.nbytes <= tensor.untyped_storage().nbytes()
        if not isinstance(name, str) or not plain or tensor.is_meta:
            raise GtransError(
                f"{path}: its parameter {name!r:.80} is no array of numbers but a "
                f"{type(tensor).__name__}."
            )


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
