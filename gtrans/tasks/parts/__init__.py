"""Parts of a task, which it calls at a few named moments.

The task calls its parts in this order: word dropout, BERT's output, memory, translations of
validation documents.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

Sample = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A batch on its way to the model.

    Attributes:
        sample: fairseq's batch; the model gets its ``net_input``.
        model: the model.
        phase: ``train`` or ``valid``.
        update: number of the update.
        dummy: this worker has no batch left; the sample is a dummy that must not count.
    """

    sample: Sample
    model: Any
    phase: str
    update: int = 0
    dummy: bool = False

    def with_input(self, **net_input: Any) -> Batch:
        """The batch with entries of ``net_input`` replaced or added."""
        changed = {**self.sample["net_input"], **net_input}
        return replace(self, sample={**self.sample, "net_input": changed})


class TaskPart:
    """A part of a task; it overrides the methods that it needs."""

    def loaded(self, split: str, dataset: Any) -> None:
        """Called when a split has been loaded, with the model built before."""

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Called before the first batch of an epoch; ``dataset`` is the training set."""

    def begin_validation(self) -> None:
        """Called before validation."""

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Called before the batches of ``dataset`` are formed for ``workers`` workers."""

    def before_batch(self, batch: Batch) -> Batch:
        """Called before the model reads a batch; returns its new input."""
        return batch

    def after_batch(self, batch: Batch) -> None:
        """Called after a step without error, with the batch that the model has read."""

    def before_checkpoint(self) -> dict[Any, Any]:
        """Called in all processes before a checkpoint is written.

        Returns:
            what :meth:`resume` needs. The entries of all processes are put together, so their
            keys must differ.
        """
        return {}

    def resume(self, state: dict[Any, Any], device: torch.device) -> None:
        """Called before the first epoch of a resumed run, with what all processes returned."""
