"""Streams: documents that are read in parallel, window after window, with a memory.

Feng et al. 2022, §3.4 and §5.3: sentences are read in document order, and parameters are updated
after a window of sentences of random length. A *step* is a sentence or a chunk. A stream has
several tracks, each with one document at a time. A batch is one window: the next steps of all
tracks of a stream, the same number in each. A row of the batch is a *run*, consecutive steps of one
document, so a track that changes documents gives several rows.

A window with more than ``--max-tokens`` is read in parts in the same update. In the authors' code
(``yukunnf/RecurrentMemForDocMT``, ``main.py``) each part is one sentence of every document.

The memory of a document goes from window to window, so the same worker must read them in order.
fairseq gives batch i to worker i modulo the number of workers, and adds up the gradients of
``--update-freq`` consecutive batches of a worker. So there is one stream for each batch of an
update, and every update reads one window of every stream: worker r gets streams r, r + workers, ..
in turn. One worker with ``--update-freq 2`` sees exactly the batches of two workers.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from itertools import chain, groupby, islice, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.examples import Example
from gtrans.data.units import Ints, StreamSteps, Units, UnitSpan, sums
from gtrans.errors import GtransError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamOptions:
    """A window has ``min_window .. max_window`` steps; ``max_window`` 0: whole documents."""

    min_window: int
    max_window: int
    seed: int = 1

    def __post_init__(self) -> None:
        if self.max_window != 0 and self.max_window < 2:
            raise GtransError(
                "`--max-window` must be at least 2, or 0 for whole documents, but is "
                f"{self.max_window}; in a window of one step no update of the memory is used."
            )
        if self.min_window < 1 or (self.max_window and self.min_window > self.max_window):
            raise GtransError(
                f"`--min-window` must be between 1 and `--max-window` {self.max_window}, but is "
                f"{self.min_window}."
            )


@dataclass(frozen=True)
class StreamRun:
    """``count`` consecutive steps of one document, from number ``position`` on."""

    document: int
    position: int
    count: int


Window = list[list[StreamRun]]
"""The parts of a window, in order; usually one."""


class _Place(NamedTuple):
    document: int
    step: int


@dataclass
class _Stream:
    """The places of the tracks of a stream; ``counts``: steps of each document."""

    counts: Sequence[int]
    tracks: list[_Place | None]

    def fill(self, waiting: deque[int]) -> None:
        for number, place in enumerate(self.tracks):
            if place is None and waiting:
                self.tracks[number] = _Place(waiting.popleft(), 0)

    @property
    def longest(self) -> int:
        left = [self.counts[place.document] - place.step for place in self.tracks if place]
        return max(left, default=0)

    def read(self, length: int, waiting: deque[int]) -> list[StreamRun]:
        """Read up to ``length`` steps of each track."""
        runs: list[StreamRun] = []
        for number, place in enumerate(self.tracks):
            left = length
            while left and (place is not None or waiting):
                if place is None:
                    place = _Place(waiting.popleft(), 0)
                document, step = place
                count = min(left, self.counts[document] - step)
                runs.append(StreamRun(document, step, count))
                left -= count
                step += count
                place = None if step == self.counts[document] else _Place(document, step)
            self.tracks[number] = place
        return runs

    def peek(self, length: int, waiting: deque[int]) -> list[StreamRun]:
        """Return what :meth:`read` would read."""
        most = length * len(self.tracks)  # a document has at least one step
        copy = _Stream(self.counts, list(self.tracks))
        return copy.read(length, deque(islice(waiting, most)))

    def window(
        self, length: int, waiting: deque[int], fits: Callable[[Sequence[StreamRun]], bool]
    ) -> Window:
        """Read ``length`` steps of each track, in the longest parts that fit."""
        window: Window = []
        left = length
        while left and self.peek(1, waiting):
            longer = range(2, left + 1)
            too_long = bisect_left(longer, True, key=lambda n: not fits(self.peek(n, waiting)))
            part = 1 + too_long
            window.append(self.read(part, waiting))
            left -= part
        return window


def stream_windows(
    counts: Sequence[int],
    queue: Sequence[int],
    streams: int,
    tracks: int,
    draw: Callable[[], int],
    fits: Callable[[Sequence[StreamRun]], bool],
) -> list[list[Window]]:
    """Return the windows of every stream, in order; every step is in exactly one of them.

    Args:
        counts: steps of each document.
        queue: documents in the order in which tracks take them.
        tracks: their number in each stream.
        draw: returns the length of a window; 0: one whole document in each track.
        fits: whether runs may be read at once; otherwise a window is read in parts.
    """
    waiting = deque(queue)
    all_streams = [_Stream(counts, [None] * tracks) for _ in range(streams)]
    windows: list[list[Window]] = [[] for _ in range(streams)]
    has_advanced = True
    while has_advanced:
        has_advanced = False
        for stream, windows_of_stream in zip(all_streams, windows, strict=True):
            length = draw()
            if length:
                window = stream.window(length, waiting, fits)
            else:
                stream.fill(waiting)
                # Documents that end leave their tracks empty until the next window.
                window = stream.window(stream.longest, deque(), fits)
            if window:
                windows_of_stream.append(window)
                has_advanced = True
    return windows


def interleave_for_workers(windows: Sequence[Sequence[Any]], workers: int) -> list[Any]:
    """Return the windows of all streams in the order in which fairseq gives them to ``workers``.

    Workers with fewer windows end with empty batches.
    """
    by_worker: list[list[Any]] = []
    for worker in range(workers):
        turns = chain.from_iterable(zip_longest(*windows[worker::workers]))
        by_worker.append([batch for batch in turns if batch is not None])
    return list(chain.from_iterable(zip_longest(*by_worker, fillvalue=[])))


class StreamDataset(DocumentDataset):
    """Windows of documents for training, drawn anew for every epoch; its units are the runs.

    A batch also has ``stream``, its number, and ``runs``, each :class:`StreamRun` as a tuple. A
    window of several parts has only ``parts``, a list of such batches.
    """

    def __init__(self, *args: Any, options: StreamOptions, **kwargs: Any) -> None:
        """As :class:`DocumentDataset`; ``units`` are whole documents."""
        super().__init__(*args, **kwargs)
        self.documents = self.units.lines[:, 0]
        self._first_sentences = self.units.first_sentence
        self._steps = StreamSteps.of(self.documents, self.line_sizes, self.examples.unit)
        self.options = options
        self.workers = self.update_freq = self.epoch = 1
        self._runs: list[StreamRun] = []
        # For every run: its stream, and the part of the window.
        self._stream_and_part: list[tuple[int, int]] = []

    def arrange(self, workers: int, update_freq: int) -> None:
        """Set the number of workers, and of their batches in an update."""
        self.workers = workers
        self.update_freq = update_freq

    def set_epoch(self, epoch: int) -> None:
        """Let :meth:`batch_by_size` draw the windows of this epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def read_at_once(self) -> Ints:
        """Return ``(steps, 2)`` the lines of all steps."""
        return self._steps.lines

    def steps_of(self, document: int) -> int:
        """Return the number of steps of a document."""
        return int(self._steps.counts[document])

    def before(self, run: StreamRun) -> dict[str, Any]:
        """Return ``net_input`` of one row, the steps before ``run``."""
        batch = self.examples.collate([self._row(StreamRun(run.document, 0, run.position))])
        net_input: dict[str, Any] = batch["net_input"]
        return net_input

    def _row(self, run: StreamRun) -> Example:
        first = int(self._steps.first[run.document]) + run.position
        steps = self._steps.lines[first : first + run.count]
        lines = range(int(steps[0, 0]), int(steps[-1, 1]))
        return self.example(UnitSpan.whole(lines), np.diff(steps)[:, 0].tolist())

    def __getitem__(self, index: int) -> dict[str, Any]:
        run = self._runs[index]
        stream, part = self._stream_and_part[index]
        example = self._row(run)
        example.update(self.place(index))
        example.update(stream=stream, part=part, run=astuple(run))
        return example

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge the runs of a window into a batch, or into ``parts``."""
        batches = []
        for _, part in groupby(samples, itemgetter("part")):
            rows = list(part)
            batch = super().collater(rows)
            batch["stream"] = rows[0]["stream"]
            batch["runs"] = [row["run"] for row in rows]
            batches.append(batch)
        if len(batches) > 1:
            return {"parts": batches}
        return batches[0] if batches else {}

    def ordered_indices(self) -> Ints:
        """Return the numbers of all documents in random order."""
        return np.random.permutation(len(self.documents))

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[list[int]]:
        """Return windows of the documents ``indices``, in the order in which workers get them.

        A stream has ``max_sentences`` tracks; None: as many as fill ``max_tokens`` with the longest
        windows of average steps, if each has room for two long steps.

        Raises:
            GtransError: nearly all parts are single steps, which would hardly train the memory.
        """
        counts = self._steps.counts.tolist()
        generator = np.random.default_rng([self.options.seed, self.epoch])
        least, most = self.options.min_window, self.options.max_window
        windows = stream_windows(
            counts,
            indices.tolist(),
            self.workers * self.update_freq,
            max_sentences or self._tracks(sum(counts), max_tokens),
            lambda: int(generator.integers(least, most + 1)) if most else 0,
            lambda runs: max_tokens is None or self._padded(runs) <= max_tokens,
        )
        batches = self._take(windows)
        self._check_memory_is_trained(max_tokens, max_sentences)
        lines = self._lines(self._runs)
        document = np.array([run.document for run in self._runs], np.int64)
        before = lines[:, 0] - self.documents[document, 0]
        self.set_units(Units.whole(lines, self._first_sentences[document] + before))
        return interleave_for_workers(batches, self.workers)

    def _take(self, windows: Sequence[Sequence[Window]]) -> list[list[list[int]]]:
        self._runs = []
        self._stream_and_part = []
        batches: list[list[list[int]]] = []
        for number, windows_of_stream in enumerate(windows):
            batches_of_stream = []
            for window in windows_of_stream:
                first = len(self._runs)
                for part, runs in enumerate(window):
                    self._runs += runs
                    self._stream_and_part += [(number, part)] * len(runs)
                batches_of_stream.append(list(range(first, len(self._runs))))
            batches.append(batches_of_stream)
        return batches

    def _check_memory_is_trained(self, max_tokens: int | None, tracks: int | None) -> None:
        """Reject limits that leave single steps; warn if documents have no others."""
        name = self._steps.name
        steps = trained = 0  # of documents with several steps
        for run in self._runs:
            if self.steps_of(run.document) > 1:
                steps += run.count
                trained += run.count if run.count > 1 else 0
        if not steps:
            logger.warning("no document has two %s: no update of the memory is trained", name)
        elif 10 * trained < steps:
            beside = f" with `--batch-size` {tracks}" if tracks else ""
            fewer = ", or a smaller `--batch-size`" if tracks else ""
            smaller = ", or a smaller `--max-doc-tokens`" if name == "instances" else ""
            raise GtransError(
                f"`--max-tokens` {max_tokens}{beside}: documents side by side with two {name} "
                "each have more tokens, so that the memory would not be trained; give more "
                f"tokens{fewer}{smaller}."
            )

    def _tracks(self, steps: int, max_tokens: int | None) -> int:
        tokens = self._longer(self.documents)
        window = float(tokens.mean())  # tokens of a window of one track: a document
        if self.options.max_window:
            step = max(float(tokens.sum()) / steps, 1.0)
            window = step * self.options.max_window
        room = max(window, self._two_long_steps(), 1.0)
        return max(int((max_tokens or 0) / room), 1)

    def _two_long_steps(self) -> float:
        """Return the 0.9 quantile of the tokens of two consecutive steps."""
        tokens = self._longer(self._steps.lines)
        has_next = np.ones(len(tokens), bool)
        has_next[self._steps.first + self._steps.counts - 1] = False
        first = np.flatnonzero(has_next)
        pairs = tokens[first] + tokens[first + 1]
        return float(np.quantile(pairs, 0.9)) if len(pairs) else 0.0

    @property
    def indivisible(self) -> tuple[str, Ints]:
        """The steps: the shortest window has one."""
        return self._steps.name, self._longer(self._steps.lines)

    def _longer(self, lines: Ints) -> Ints:
        """Return ``(n,)`` tokens of the longer side of ``lines (n, 2)``."""
        source, target = self._tokens_before
        longer: Ints = np.maximum(sums(lines, source), sums(lines, target))
        return longer

    def _padded(self, runs: Sequence[StreamRun]) -> int:
        longest = int(self._longer(self._lines(runs)).max())
        return longest * len(runs)

    def _lines(self, runs: Sequence[StreamRun]) -> Ints:
        numbers = np.array([astuple(run) for run in runs], np.int64)
        document, position, count = numbers.reshape(-1, 3).T
        first = self._steps.first[document] + position
        last = first + count - 1
        steps = self._steps.lines
        return np.stack([steps[first, 0], steps[last, 1]], 1)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False: every epoch has its own windows."""
        return False
