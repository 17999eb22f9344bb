"""The batches of a run: those of a resumed one, and what there is to say about them."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger(__name__)


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
        task: the task, with its run.
        dataset: the data set, which has ``indivisible``.
        named: the arguments of ``get_batch_iterator``.
    """
    limit = named.get("max_tokens")
    name = next((name for name, known in task.datasets.items() if known is dataset), None)
    if limit is None or name is None or name in task.run.reported or named.get("shard_id", 0) != 0:
        return
    task.run.reported.add(name)
    what, lengths = dataset.indivisible
    too_long = int((lengths > limit).sum())
    if too_long:
        flag = "--max-tokens" if name == task.cfg.train_subset else "--max-tokens-valid"
        logger.warning(
            f"{flag} {limit}: {too_long} of {len(lengths)} {what} of '{name}' are longer, the "
            f"longest has {lengths.max()} tokens; each of them is a batch of its own"
        )
