"""Values that files hold: checks, and errors of one line for damaged ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from gtrans.errors import GtransError


def check_storage(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise GtransError for tensors that lack some of their numbers (``meta``, sparse, ..)."""
    for name, tensor in tensors.items():
        stored = tensor.layout == torch.strided and not tensor.is_meta and not tensor.is_quantized
        if stored:
            stored = tensor.untyped_storage().nbytes() >= tensor.numel() * tensor.element_size()
        if not stored:
            raise GtransError(
                f"{path}: {name} does not hold all of its numbers; save the model again, with "
                "whole tensors on the CPU."
            )


def check_values(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Raise GtransError for NaN and infinite parameters."""
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


@contextmanager
def reading(path: str | Path, what: str) -> Iterator[None]:
    """Report values of wrong types or sizes as GtransError in one line, while ``what`` is read."""
    try:
        yield
    except GtransError as error:
        if str(error).startswith(str(path)):
            raise
        raise GtransError(f"{path}: {error}") from error
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # values of wrong types fail in every possible way
        raise GtransError(f"{path}: {what} is damaged ({reason_of(error)}).") from error


def reason_of(error: BaseException) -> str:
    """A library's exception in a part of a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kind = type(error).__name__
    return f"{kind}: {lines[0].rstrip('.')[:300]}" if lines else kind
