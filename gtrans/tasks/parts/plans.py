"""The plans of batches: made where batches are made, in the processes that load data."""

from __future__ import annotations

from typing import Any

from gtrans.data.document_dataset import DocumentDataset
from gtrans.tasks.parts import TaskPart


class Plans(TaskPart):
    """Batches of training and validation come with their plans, so that no pass waits for them.

    See :mod:`gtrans.models.base.planning`.
    """

    def __init__(self, model: Any) -> None:
        """``model``: that the batches are for."""
        self._model = model

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Let the data set plan its batches for the model where the model is now."""
        if isinstance(dataset, DocumentDataset):
            dataset.plan_batch = self._model.planner
