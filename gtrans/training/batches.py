"""The batches of a resumed run."""

from __future__ import annotations

from typing import Any


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
