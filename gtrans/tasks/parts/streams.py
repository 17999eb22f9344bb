"""Training on streams: the memory of each document is kept between its windows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from gtrans.data.stream import StreamDataset, StreamRun
from gtrans.modules.memory import MemoryFlow
from gtrans.tasks.parts import Batch, TaskPart

logger = logging.getLogger(__name__)


class MemoryInFlight:
    """The memories of documents between two of their windows.

    A memory is stored under its document and the step that comes next, independently of the
    order of calls: a batch that is repeated gets the same memory again, and one that failed
    stores nothing. A memory that is missing is computed by reading the document up to that
    step. One that is not finite, because half precision has overflowed in the window before,
    is not used: the document goes on with a new memory, as if it began.
    """

    def __init__(self) -> None:
        # document -> next step -> memory; None after the last one
        self._kept: dict[int, dict[int, Tensor | None]] = {}
        # Of a checkpoint, also those that another process goes on with: document -> the same
        self._restored: dict[int, dict[int, Tensor | None]] = {}
        self._update = -1
        # Counted on the device, which this does not wait for.
        self._not_finite: Tensor | None = None

    def clear(self) -> None:
        """Forget all documents."""
        self._kept.clear()
        self._restored.clear()

    def latest(self) -> dict[int, tuple[int, Tensor]]:
        """By document that is not at its end: the next step, and the memory before it."""
        memories = {}
        for document, by_position in self._kept.items():
            position = max(by_position)
            memory = by_position[position]
            if memory is not None:
                memories[document] = position, memory
        return memories

    def restore(self, latest: Mapping[int, tuple[int, Tensor]]) -> None:
        """Continue with what :meth:`latest` has returned, in any process of a run."""
        self._restored = _by_position(latest)

    def flow(self, model: Any, dataset: StreamDataset, runs: list[StreamRun]) -> MemoryFlow:
        """The memories with which a window of these runs begins."""
        flow = MemoryFlow.of([self._entering(model, dataset, run) for run in runs])
        if flow.entering is None or flow.fresh is None:
            return flow
        not_finite = ~flow.entering.isfinite().flatten(1).all(1)
        before = 0 if self._not_finite is None else self._not_finite
        self._not_finite = not_finite.sum() + before
        return replace(flow, fresh=flow.fresh | not_finite)

    def count_not_finite(self) -> int:
        """How many memories were not finite since the last call."""
        count, self._not_finite = self._not_finite, None
        return 0 if count is None else int(count)

    def _entering(self, model: Any, dataset: StreamDataset, run: StreamRun) -> Tensor | None:
        if run.position == 0:
            return None
        kept = self._kept.get(run.document, {}).get(run.position)
        if kept is None:
            kept = self._restored.get(run.document, {}).get(run.position)
        return self._read_again(model, dataset, run) if kept is None else kept

    def _read_again(self, model: Any, dataset: StreamDataset, run: StreamRun) -> Tensor:
        device = next(model.parameters()).device
        net_input = dataset.before(run)
        flow = MemoryFlow()
        training = model.training
        model.eval()
        try:
            model.read({name: value.to(device) for name, value in net_input.items()}, flow)
        finally:
            model.train(training)
        return flow.left[0]

    def keep(
        self, flow: MemoryFlow, dataset: StreamDataset, runs: list[StreamRun], update: int
    ) -> None:
        """Store the memories with which a window ends in the given update.

        Those with which it began are kept until the next update, since fairseq may repeat the
        whole update.
        """
        if update != self._update:
            self._update = update
            self._kept = _by_position(self.latest())
        left = flow.left
        for number, run in enumerate(runs):
            after = run.position + run.count
            ended = after == dataset.steps_of(run.document)
            self._kept.setdefault(run.document, {})[after] = None if ended else left[number].clone()


def _by_position(latest: Mapping[int, tuple[int, Tensor]]) -> dict[int, dict[int, Tensor | None]]:
    return {document: {place: memory} for document, (place, memory) in latest.items()}


class Streams(TaskPart):
    """Each window of a document begins with the memory with which the window before ended."""

    def __init__(self, cfg: Any) -> None:
        """``cfg``: options of the task (``update_freq`` is needed in training only)."""
        self._cfg = cfg
        self._in_flight = {"train": MemoryInFlight(), "valid": MemoryInFlight()}
        self._training_set: Any = None
        self._resumed: dict[int, tuple[int, Tensor]] = {}

    def before_checkpoint(self) -> dict[Any, Any]:
        """The memories of training; each process has documents of its own."""
        self._report()
        latest = self._in_flight["train"].latest()
        return {document: [place, memory.cpu()] for document, (place, memory) in latest.items()}

    def resume(self, state: dict[Any, Any], device: torch.device) -> None:
        """Begin the first epoch with the memories of the checkpoint."""
        self._resumed = {
            document: (place, memory.to(device)) for document, (place, memory) in state.items()
        }

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Forget the memories, because all documents begin anew, except a checkpoint's."""
        self._report()
        self._training_set = dataset
        for in_flight in self._in_flight.values():
            in_flight.clear()
        self._in_flight["train"].restore(self._resumed)
        self._resumed = {}

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Set the numbers of workers and of batches in an update, for which streams are made."""
        if isinstance(dataset, StreamDataset):
            by_epoch = list(self._cfg.update_freq)
            dataset.arrange(workers, int(by_epoch[min(epoch, len(by_epoch)) - 1]))

    def before_batch(self, batch: Batch) -> Batch:
        """The batch with the memory with which it begins."""
        runs = self._runs(batch)
        if not runs:
            return batch
        in_flight = self._in_flight[batch.phase]
        return batch.with_input(memory=in_flight.flow(batch.model, self._training_set, runs))

    def after_batch(self, batch: Batch) -> None:
        """Store the memory with which the batch ends."""
        runs = self._runs(batch)
        if runs:
            flow = batch.sample["net_input"]["memory"]
            self._in_flight[batch.phase].keep(flow, self._training_set, runs, batch.update)

    def begin_validation(self) -> None:
        """Tell how many memories were not finite."""
        self._report()

    def _report(self) -> None:
        count = sum(in_flight.count_not_finite() for in_flight in self._in_flight.values())
        if count:
            logger.warning(
                "%d windows began with a new memory instead of one that was not finite, because "
                "half precision has overflowed in the window before",
                count,
            )

    def _runs(self, batch: Batch) -> list[StreamRun]:
        """The runs of the batch; none if it is a dummy or the model has no memory."""
        if batch.dummy or "runs" not in batch.sample or not batch.model.has_memory:
            return []
        return [StreamRun(*run) for run in batch.sample["runs"]]
