"""A training step on a batch that is read in parts, one after the other in the same update."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

Step = tuple[Any, int, dict[str, Any]]
"""What fairseq's ``train_step`` returns: loss, sample size and what is logged."""


def step_in_parts(
    sample: dict[str, Any], model: Any, step: Callable[[dict[str, Any]], Step]
) -> Step:
    """``step`` of every part of a batch; of the batch itself if it has no ``parts``.

    Losses are sums over tokens, so the gradients of all parts add up to that of the batch. With
    several processes only the last part exchanges gradients, since others may have fewer parts.

    Args:
        sample: a batch, or ``parts``, a list of batches.
        model: the model that ``step`` trains.
        step: forward and backward pass of one batch.

    Returns:
        the sums over the parts.
    """
    parts: list[dict[str, Any]] = sample.get("parts") or [sample]
    steps: list[Step] = []
    for number, part in enumerate(parts, 1):
        with _without_exchange(model) if number < len(parts) else nullcontext():
            steps.append(step(part))
    losses, sizes, logged = zip(*steps, strict=True)
    return sum(losses), sum(sizes), {key: sum(of[key] for of in logged) for key in logged[0]}


def _without_exchange(model: Any) -> AbstractContextManager[None]:
    """The context in which a distributed model only adds up its gradients."""
    context: AbstractContextManager[None] = getattr(model, "no_sync", nullcontext)()
    return context
