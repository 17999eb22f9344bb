"""Training on streams: memory that waits between the windows of a document."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.tasks import FairseqTask
from torch import Tensor

from gtrans.data.stream import Run, StreamDataset
from gtrans.modules.memory import MemoryFlow

Sample = dict[str, Any]


class MemoryInFlight:
    """The memories of documents between two of their windows.

    A memory is found by its document and the sentence that it precedes, never by the
    order of calls: a batch that is tried again finds what it found before, one that
    failed leaves nothing, and what is not there is made by reading the document up to
    that sentence.
    """

    def __init__(self) -> None:
        # document -> sentence that comes next -> memory; None behind the last sentence
        self._kept: dict[int, dict[int, Tensor | None]] = {}
        self._update = -1

    def clear(self) -> None:
        """Forget all documents."""
        self._kept.clear()

    def flow(self, model: Any, dataset: StreamDataset, runs: list[Run]) -> MemoryFlow:
        """What enters a window of these runs."""
        memories = [self._entering(model, dataset, run) for run in runs]
        fresh = torch.tensor([memory is None for memory in memories])
        known = next((memory for memory in memories if memory is not None), None)
        if known is None:
            return MemoryFlow()
        blank = torch.zeros_like(known)
        entering = torch.stack([blank if memory is None else memory for memory in memories])
        return MemoryFlow(entering, fresh.to(entering.device))

    def _entering(self, model: Any, dataset: StreamDataset, run: Run) -> Tensor | None:
        if run.position == 0:
            return None
        kept = self._kept.get(run.document, {}).get(run.position)
        return self._read_again(model, dataset, run) if kept is None else kept

    def _read_again(self, model: Any, dataset: StreamDataset, run: Run) -> Tensor:
        device = next(model.parameters()).device
        net_input = dataset.before(run)
        flow = MemoryFlow()
        training = model.training
        model.eval()
        try:
            model.read(
                net_input["src_tokens"].to(device),
                net_input["prev_output_tokens"].to(device),
                flow,
            )
        finally:
            model.train(training)
        return flow.left[0]

    def keep(
        self, flow: MemoryFlow, dataset: StreamDataset, runs: list[Run], update: int
    ) -> None:
        """Keep what has left a window in the given update.

        What entered it is kept, too, until the next update: the whole update may be tried
        again.
        """
        if update != self._update:
            self._update = update
            latest = {document: max(kept) for document, kept in self._kept.items()}
            self._kept = {
                document: {position: self._kept[document][position]}
                for document, position in latest.items()
                if self._kept[document][position] is not None
            }
        left = flow.left
        for number, run in enumerate(runs):
            after = run.position + run.count
            ended = after == dataset.sentences(run.document)
            self._kept.setdefault(run.document, {})[after] = None if ended else left[number].clone()


class StreamingTask(FairseqTask):
    """A task whose batches may be windows of documents in progress."""

    def __init__(self, cfg: Any, **kwargs: Any) -> None:
        super().__init__(cfg, **kwargs)
        self._in_flight = {"train": MemoryInFlight(), "valid": MemoryInFlight()}

    def get_batch_iterator(self, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        """As fairseq; the batches of streams stay in their order and come anew every epoch."""
        if not isinstance(dataset, StreamDataset):
            return super().get_batch_iterator(dataset, *args, **kwargs)
        freq = list(self.cfg.update_freq)
        epoch = int(kwargs.get("epoch", 1))
        dataset.arrange(int(kwargs.get("num_shards", 1)), int(freq[min(epoch, len(freq)) - 1]))
        iterator = super().get_batch_iterator(dataset, *args, **kwargs)
        iterator.disable_shuffling = True
        iterator.shuffle = False
        return iterator

    def begin_epoch(self, epoch: int, model: Any) -> None:
        """All documents begin anew."""
        super().begin_epoch(epoch, model)
        for in_flight in self._in_flight.values():
            in_flight.clear()

    def train_step(
        self,
        sample: Sample,
        model: Any,
        criterion: Any,
        optimizer: Any,
        update_num: int,
        ignore_grad: bool = False,
    ) -> Any:
        """One batch, forward and backward; its documents go on from where they are."""
        # A dummy batch stands for one that this worker does not have: it is no progress.
        with self._remembering("train", sample, model, update_num, ignore_grad) as sample:
            return super().train_step(
                sample, model, criterion, optimizer, update_num, ignore_grad
            )

    def valid_step(self, sample: Sample, model: Any, criterion: Any) -> Any:
        """One batch without gradient, with a memory apart from training's."""
        with self._remembering("valid", sample, model, 0, False) as sample:
            return super().valid_step(sample, model, criterion)

    @contextmanager
    def _remembering(
        self, phase: str, sample: Sample, model: Any, update: int, dummy: bool
    ) -> Iterator[Sample]:
        """``sample`` with the memory that enters it; what leaves is kept if nothing fails."""
        if dummy or "runs" not in sample or not model.has_memory:
            yield sample
            return
        dataset: StreamDataset = self.dataset(self.cfg.train_subset)
        runs = [Run(*run) for run in sample["runs"]]
        in_flight = self._in_flight[phase]
        flow = in_flight.flow(model, dataset, runs)
        yield {**sample, "net_input": {**sample["net_input"], "memory": flow}}
        in_flight.keep(flow, dataset, runs, update)
