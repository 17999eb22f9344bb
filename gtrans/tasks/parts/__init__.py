"""Parts of a task: word dropout, BERT's output, memory, validation by translations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

Sample = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A batch on its way to the model.

    Attributes:
        phase: ``train`` or ``valid``.
        update: number of the update.
        dummy: fairseq's placeholder for a missing batch, which must not count.
    """

    sample: Sample
    model: Any
    phase: str
    update: int = 0
    dummy: bool = False

    def with_input(self, **net_input: Any) -> Batch:
        """Return the batch with entries of ``net_input`` replaced or added."""
        changed = {**self.sample["net_input"], **net_input}
        return replace(self, sample={**self.sample, "net_input": changed})


class TaskPart:
    """A part of a task, called at named moments."""

    def loaded(self, split: str, dataset: Any) -> None:
        """Called after a split was loaded."""

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Called before an epoch; ``dataset`` is the training set."""

    def begin_validation(self) -> None:
        """Called before validation."""

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Called before the batches of ``dataset`` are formed."""

    def before_batch(self, batch: Batch) -> Batch:
        """Return the batch that the model reads instead."""
        return batch

    def after_batch(self, batch: Batch) -> None:
        """Called after a step without error."""

    def before_checkpoint(self) -> dict[Any, Any]:
        """Return the state for :meth:`resume`, with keys of this process alone."""
        return {}

    def resume(self, state: dict[Any, Any], device: torch.device) -> None:
        """Called before the first epoch of a resumed run, with all processes' states."""
