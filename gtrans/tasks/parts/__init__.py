"""What takes part in a task's work at a few named moments.

The task holds its parts in a list, in the order in which they see a batch: word dropout, what
a BERT says of it, the memory that enters it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

Sample = dict[str, Any]


@dataclass(frozen=True)
class Batch:
    """A batch on its way to the model.

    Attributes:
        sample: as fairseq hands it on; its ``net_input`` is what the model gets.
        model: the model.
        phase: ``train`` or ``valid``.
        update: number of the update.
        dummy: it stands for a batch that this worker does not have: it is no progress.
    """

    sample: Sample
    model: Any
    phase: str
    update: int = 0
    dummy: bool = False

    def with_input(self, **net_input: Any) -> Batch:
        """The batch with entries of ``net_input`` replaced or added."""
        own = {**self.sample["net_input"], **net_input}
        return replace(self, sample={**self.sample, "net_input": own})


class TaskPart:
    """A part of a task; it overrides the moments that concern it."""

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Before the first batch of an epoch on the training set ``dataset``."""

    def begin_validation(self) -> None:
        """Before validation."""

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Before the batches of ``dataset`` are formed for this many workers."""

    def before_batch(self, batch: Batch) -> Batch:
        """Before a model sees the batch: what it is to see."""
        return batch

    def after_batch(self, batch: Batch) -> None:
        """After forward and backward, if nothing failed; ``batch`` is what the model saw."""
