"""The batches of a training: those of a resumed one, long units, and batches read in parts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

logger = logging.getLogger(__name__)

Step = tuple[Any, int, dict[str, Any]]
"""What fairseq's ``train_step`` returns: loss, sample size and what is logged."""


def as_in_first_epoch(
    task: Any, dataset: Any, named: dict[str, Any], run_seed: int
) -> dict[str, Any]:
    """Arguments with which a resumed run forms the batches of an undisturbed one.

    fairseq forms the batches of most data sets once, in the first epoch of a process, and what
    is random in them depends on that epoch.

    Args:
        task: the task.
        dataset: the data set.
        named: the arguments of ``get_batch_iterator``.
        run_seed: ``--seed``.
    """
    anew = named.get("disable_iterator_cache") or named.get("update_epoch_batch_itr")
    if anew or not task.can_reuse_epoch_itr(dataset):
        return named
    seed, epoch = named.get("seed", 1), named.get("epoch", 1)
    if seed == run_seed + epoch:  # --update-ordered-indices-seed
        seed = run_seed + 1
    return {**named, "seed": seed, "epoch": 1}


def report_long_units(task: Any, dataset: Any, named: dict[str, Any]) -> None:
    """Warn of units that are longer than ``--max-tokens``, once for each split.

    They are read all the same; each is a batch of its own.

    Args:
        task: the task, with the splits that it has ``reported``.
        dataset: the data set, which has ``indivisible``.
        named: the arguments of ``get_batch_iterator``.
    """
    limit = named.get("max_tokens")
    name = next((name for name, known in task.datasets.items() if known is dataset), None)
    if limit is None or name is None or name in task.reported or named.get("shard_id", 0) != 0:
        return
    task.reported.add(name)
    what, lengths = dataset.indivisible
    too_long = int((lengths > limit).sum())
    if too_long:
        flag = "--max-tokens" if name == task.cfg.train_subset else "--max-tokens-valid"
        logger.warning(
            f"{flag} {limit}: {too_long} of {len(lengths)} {what} of '{name}' are longer, the "
            f"longest has {lengths.max()} tokens; each of them is a batch of its own"
        )


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
