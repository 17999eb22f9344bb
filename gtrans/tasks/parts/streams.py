"""Training on streams, in which documents keep memories between windows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gtrans.data.stream import StreamDataset, StreamRun
from gtrans.modules.memory import MemoryFlow
from gtrans.tasks.parts import Batch, TaskPart

logger = logging.getLogger(__name__)


_BySteps = dict[int, Tensor | None]  # next step -> the memory before it; None after the last step


class LatestMemory(NamedTuple):
    """The memory of a document before its next step."""

    next_step: int
    memory: Tensor


class MemoryInFlight:
    """Memories of documents between two of their windows.

    A memory is stored under its document and the next step: a repeated batch gets the same one, a
    failed one stores nothing. A missing memory is computed by reading the document up to that step;
    one that overflowed in half precision is replaced by a new one.
    """

    def __init__(self) -> None:
        # By document.
        self._kept: dict[int, _BySteps] = {}
        self._restored: dict[int, _BySteps] = {}  # from a checkpoint, for all processes
        self._update = -1
        # Counted on the device, which this does not wait for.
        self._not_finite: Tensor | None = None

    def clear(self) -> None:
        """Forget all documents."""
        self._kept.clear()
        self._restored.clear()

    def latest(self) -> dict[int, LatestMemory]:
        """Return the latest memory of each unfinished document."""
        latest = {}
        for document, by_steps in self._kept.items():
            next_step = max(by_steps)
            memory = by_steps[next_step]
            if memory is not None:
                latest[document] = LatestMemory(next_step, memory)
        return latest

    def restore(self, latest: Mapping[int, LatestMemory]) -> None:
        """Continue with the result of :meth:`latest`."""
        self._restored = _by_steps(latest)

    def flow(self, model: Any, dataset: StreamDataset, runs: list[StreamRun]) -> MemoryFlow:
        """Return the memories with which a window begins."""
        entering = [self._entering(model, dataset, run) for run in runs]
        flow = MemoryFlow.starting_with(entering)
        if flow.entering is None or flow.fresh is None:
            return flow
        is_finite = flow.entering.isfinite().flatten(1).all(1)
        not_finite = ~is_finite
        count = not_finite.sum()
        if self._not_finite is not None:
            count = count + self._not_finite
        self._not_finite = count
        return replace(flow, fresh=flow.fresh | not_finite)

    def count_not_finite(self) -> int:
        """Return the number of overflows since the last call."""
        count = self._not_finite
        self._not_finite = None
        return 0 if count is None else int(count)

    def _entering(self, model: Any, dataset: StreamDataset, run: StreamRun) -> Tensor | None:
        if run.position == 0:
            return None
        for memories in (self._kept, self._restored):
            by_steps = memories.get(run.document, {})
            memory = by_steps.get(run.position)
            if memory is not None:
                return memory
        return self._read_again(model, dataset, run)

    def _read_again(self, model: Any, dataset: StreamDataset, run: StreamRun) -> Tensor:
        device = next(model.parameters()).device
        input_before = dataset.input_before(run)
        net_input = {name: value.to(device) for name, value in input_before.items()}
        flow = MemoryFlow()
        training = model.training
        model.eval()
        try:
            model.read(net_input, flow)
        finally:
            model.train(training)
        return flow.stacked_leaving[0]

    def keep(
        self, flow: MemoryFlow, dataset: StreamDataset, runs: list[StreamRun], update: int
    ) -> None:
        """Store the memories at the end of a window.

        Older ones stay until the next update: fairseq may repeat the whole update.
        """
        if update != self._update:
            self._update = update
            self._kept = _by_steps(self.latest())
        left = flow.stacked_leaving
        for number, run in enumerate(runs):
            next_step = run.position + run.count
            memory = None
            if next_step < dataset.steps_of(run.document):
                memory = left[number].clone()
            by_steps = self._kept.setdefault(run.document, {})
            by_steps[next_step] = memory


def _by_steps(latest: Mapping[int, LatestMemory]) -> dict[int, _BySteps]:
    memories: dict[int, _BySteps] = {}
    for document, (next_step, memory) in latest.items():
        memories[document] = {next_step: memory}
    return memories


class Streams(TaskPart):
    """Begins each window of a document with the memory at the end of the last."""

    def __init__(self, cfg: Any) -> None:
        self._cfg = cfg
        self._in_flight = {"train": MemoryInFlight(), "valid": MemoryInFlight()}
        self._training_set: Any = None
        self._resumed: dict[int, LatestMemory] = {}

    def before_checkpoint(self) -> dict[Any, Any]:
        """Return the memories of training."""
        self._report()
        latest = self._in_flight["train"].latest()
        state = {}
        for document, (next_step, memory) in latest.items():
            state[document] = [next_step, memory.cpu()]
        return state

    def resume(self, state: dict[Any, Any], device: torch.device) -> None:
        """Begin the first epoch with the memories of the checkpoint."""
        self._resumed = {}
        for document, (next_step, memory) in state.items():
            self._resumed[document] = LatestMemory(next_step, memory.to(device))

    def begin_epoch(self, epoch: int, model: Any, dataset: Any) -> None:
        """Forget all memories but a checkpoint's."""
        self._report()
        self._training_set = dataset
        for in_flight in self._in_flight.values():
            in_flight.clear()
        self._in_flight["train"].restore(self._resumed)
        self._resumed = {}

    def begin_batches(self, dataset: Any, workers: int, epoch: int) -> None:
        """Arrange streams for all workers and the batches of an update."""
        if isinstance(dataset, StreamDataset):
            frequencies = list(self._cfg.update_freq)
            frequency = frequencies[min(epoch, len(frequencies)) - 1]
            dataset.arrange(workers, int(frequency))

    def before_batch(self, batch: Batch) -> Batch:
        """Return the batch with its memory."""
        runs = self._runs(batch)
        if not runs:
            return batch
        in_flight = self._in_flight[batch.phase]
        memory = in_flight.flow(batch.model, self._training_set, runs)
        return batch.with_input(memory=memory)

    def after_batch(self, batch: Batch) -> None:
        """Store the memory."""
        runs = self._runs(batch)
        if runs:
            in_flight = self._in_flight[batch.phase]
            flow = batch.sample["net_input"]["memory"]
            in_flight.keep(flow, self._training_set, runs, batch.update)

    def begin_validation(self) -> None:
        """Report overflows."""
        self._report()

    def _report(self) -> None:
        count = 0
        for in_flight in self._in_flight.values():
            count += in_flight.count_not_finite()
        if count:
            logger.warning(
                "%d windows began with a new memory instead of one that was not finite, because "
                "half precision has overflowed in the window before",
                count,
            )

    def _runs(self, batch: Batch) -> list[StreamRun]:
        if batch.dummy or "runs" not in batch.sample or not batch.model.has_memory:
            return []
        return [StreamRun(*run) for run in batch.sample["runs"]]
