"""The batches that an update adds up: what each counts, and in which precision it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gtrans.optim.amp import autocast
from gtrans.training.parts import Step


def train_step(
    original: Callable[..., Step],
    task: Any,
    sample: dict[str, Any],
    model: Any,
    criterion: Any,
    optimizer: Any,
    update_num: int,
    ignore_grad: bool = False,
) -> Step:
    """``FairseqTask.train_step``; a dummy counts nothing, and ``--amp`` is bf16 on CPUs.

    Args:
        original: fairseq's own.
        task: the task.
        sample: a batch.
        model: the model.
        criterion: the criterion.
        optimizer: the optimizer.
        update_num: number of the update.
        ignore_grad: the batch is a dummy, of a worker that has none left.
    """
    with autocast(optimizer):
        loss, size, logged = original(
            task, sample, model, criterion, optimizer, update_num, ignore_grad
        )
    if ignore_grad:
        size, logged = _nothing(size), {name: _nothing(value) for name, value in logged.items()}
    return loss, size, logged


def _nothing(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value)
    return type(value)(0) if isinstance(value, int | float) else value


def dummies_first(samples: Sequence[Any]) -> list[Any]:
    """The batches of an update, those that are empty before the others.

    In their place fairseq reads a dummy. If the last batch is one, it takes the whole update of
    the worker for a dummy and forgets what its other batches count, but not their gradients.
    """
    return sorted(samples, key=bool)
