"""Streams: documents that are read in parallel, window after window, with a memory.

Feng et al. 2022, §3.4 and §5.3: parameters are updated after a window of random length.

=======  ==========================================================================================
step     a sentence or a chunk
track    documents, read one after the other
stream   several tracks, read side by side
window   a batch: the next steps of all tracks of a stream, the same number in each
run      a row of the batch: consecutive steps of one document; several if a track changes documents
part     windows with more than ``--max-tokens`` are read in parts in the same update. In the
         authors' code (``yukunnf/RecurrentMemForDocMT``, ``main.py``) a part has one sentence of
         every document
=======  ==========================================================================================

The memory of a document goes from window to window, so the same worker must read them in order.
fairseq gives batch i to worker i modulo the number of workers, and adds up the gradients of
``--update-freq`` consecutive batches of a worker. So there is one stream for each batch of an
update: worker r gets streams r, r + workers, .. in turn. One worker with ``--update-freq 2`` sees
the batches of two workers.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import chain, groupby, islice, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from gtrans.data.document_dataset import DocumentDataset, SmallestParts
from gtrans.data.examples import Example
from gtrans.data.units import Ints, StreamSteps, Units, UnitSpan, sums
from gtrans.errors import GtransError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamOptions:
    """Windows have ``min_window`` to ``max_window`` steps; ``max_window`` 0: whole documents."""

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
    """``count`` consecutive steps of one document, from step ``position`` on."""

    document: int
    position: int
    count: int


Window = list[list[StreamRun]]
"""The parts of a window, in order; usually one."""


class _NextStep(NamedTuple):
    document: int
    step: int


@dataclass
class _Stream:
    counts: Sequence[int]  # steps of each document
    tracks: list[_NextStep | None]  # None between two documents

    def fill(self, waiting: deque[int]) -> None:
        for number, following in enumerate(self.tracks):
            if following is None and waiting:
                self.tracks[number] = _NextStep(waiting.popleft(), 0)

    @property
    def longest(self) -> int:
        longest = 0
        for following in self.tracks:
            if following is not None:
                left = self.counts[following.document] - following.step
                longest = max(longest, left)
        return longest

    def read(self, length: int, waiting: deque[int]) -> list[StreamRun]:
        """Read up to ``length`` steps of each track."""
        runs: list[StreamRun] = []
        for number in range(len(self.tracks)):
            runs += self._read_track(number, length, waiting)
        return runs

    def _read_track(self, number: int, length: int, waiting: deque[int]) -> list[StreamRun]:
        runs: list[StreamRun] = []
        following = self.tracks[number]
        left = length
        while left:
            if following is None:
                if not waiting:
                    break
                following = _NextStep(waiting.popleft(), 0)
            document, step = following
            count = min(left, self.counts[document] - step)
            runs.append(StreamRun(document, step, count))
            left -= count
            step += count
            following = None if step == self.counts[document] else _NextStep(document, step)
        self.tracks[number] = following
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
            fitting = bisect_left(longer, True, key=lambda n: not fits(self.peek(n, waiting)))
            part = 1 + fitting
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
        streams, tracks: how many, tracks in each stream.
        draw: returns the steps of a window; 0: a whole document in each track.
        fits: whether runs may be read at once.
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
        turns = zip_longest(*windows[worker::workers])
        batches = chain.from_iterable(turns)
        by_worker.append([batch for batch in batches if batch is not None])
    rounds = zip_longest(*by_worker, fillvalue=[])
    return list(chain.from_iterable(rounds))


class _PlacedRun(NamedTuple):
    run: StreamRun
    stream: int
    part: int


class StreamDataset(DocumentDataset):
    """Windows of documents for training, drawn anew for every epoch; its units are the runs.

    A batch also has ``stream``, its number, and ``runs``, each :class:`StreamRun` as a tuple. A
    window of several parts has only ``parts``, a list of batches.
    """

    def __init__(self, *args: Any, options: StreamOptions, **kwargs: Any) -> None:
        """As :class:`DocumentDataset`; ``units`` are whole documents."""
        super().__init__(*args, **kwargs)
        self.documents = self.units.lines[:, 0]
        self._first_sentences = self.units.first_sentence
        self._steps = StreamSteps.of(self.documents, self.line_sizes, self.examples.unit)
        self.options = options
        self.workers = self.update_freq = self.epoch = 1
        self._runs: list[_PlacedRun] = []

    def arrange(self, workers: int, update_freq: int) -> None:
        """Set the number of workers, and of batches that each has in an update."""
        self.workers = workers
        self.update_freq = update_freq

    def set_epoch(self, epoch: int) -> None:
        """Let :meth:`batch_by_size` draw the windows of this epoch."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def lines_of_steps(self) -> Ints:
        """Return ``(steps, 2)`` the lines of all steps."""
        return self._steps.lines

    def steps_of(self, document: int) -> int:
        """Return the number of steps of a document."""
        return int(self._steps.counts[document])

    def input_before(self, run: StreamRun) -> dict[str, Any]:
        """Return ``net_input`` of the steps of the document before ``run``."""
        earlier = StreamRun(run.document, position=0, count=run.position)
        batch = self.examples.collate([self._row(earlier)])
        net_input: dict[str, Any] = batch["net_input"]
        return net_input

    def _row(self, run: StreamRun) -> Example:
        first = int(self._steps.first[run.document]) + run.position
        steps = self._steps.lines[first : first + run.count]
        begin, end = int(steps[0, 0]), int(steps[-1, 1])
        sentences_of_steps = steps[:, 1] - steps[:, 0]
        return self.example(UnitSpan.whole(range(begin, end)), sentences_of_steps.tolist())

    def __getitem__(self, index: int) -> dict[str, Any]:
        run, stream, part = self._runs[index]
        example = self._row(run)
        example.update(self.place(index))
        example.update(stream=stream, part=part, run=astuple(run))
        return example

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge the runs of a window into a batch, or into ``parts``."""
        batches = []
        for _, samples_of_part in groupby(samples, itemgetter("part")):
            rows = list(samples_of_part)
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

        A stream has ``max_sentences`` tracks; None: as many as :meth:`_tracks_that_fit`.

        Raises:
            GtransError: nearly all parts are single steps, which would hardly train the memory.
        """
        generator = np.random.default_rng([self.options.seed, self.epoch])
        windows = stream_windows(
            counts=self._steps.counts.tolist(),
            queue=indices.tolist(),
            streams=self.workers * self.update_freq,
            tracks=max_sentences or self._tracks_that_fit(max_tokens),
            draw=partial(self._draw_length, generator),
            fits=partial(self._fit, max_tokens),
        )
        batches = self._take(windows)
        self._check_memory_is_trained(max_tokens, max_sentences)
        self._make_runs_units()
        return interleave_for_workers(batches, self.workers)

    def _draw_length(self, generator: np.random.Generator) -> int:
        least, most = self.options.min_window, self.options.max_window
        if most == 0:  # whole documents
            return 0
        return int(generator.integers(least, most + 1))

    def _fit(self, max_tokens: int | None, runs: Sequence[StreamRun]) -> bool:
        if max_tokens is None:
            return True
        tokens = self._tokens_of_longer_side(self._lines(runs))
        padded = int(tokens.max()) * len(runs)
        return padded <= max_tokens

    def _take(self, windows: Sequence[Sequence[Window]]) -> list[list[list[int]]]:
        """Store the runs; return windows as numbers of runs, by stream."""
        self._runs = []
        batches: list[list[list[int]]] = []
        for stream, windows_of_stream in enumerate(windows):
            batches_of_stream = []
            for window in windows_of_stream:
                first = len(self._runs)
                for part, runs in enumerate(window):
                    self._runs += [_PlacedRun(run, stream, part) for run in runs]
                batches_of_stream.append(list(range(first, len(self._runs))))
            batches.append(batches_of_stream)
        return batches

    def _make_runs_units(self) -> None:
        runs = [placed.run for placed in self._runs]
        lines = self._lines(runs)
        document = np.array([run.document for run in runs], np.int64)
        sentences_before = lines[:, 0] - self.documents[document, 0]
        first_sentence = self._first_sentences[document] + sentences_before
        self.set_units(Units.whole(lines, first_sentence))

    def _check_memory_is_trained(self, max_tokens: int | None, tracks: int | None) -> None:
        """Reject limits that leave single steps; warn if documents have no others."""
        name = self._steps.name
        steps = trained = 0  # of documents with several steps
        for run, _, _ in self._runs:
            if self.steps_of(run.document) == 1:
                continue
            steps += run.count
            if run.count > 1:
                trained += run.count
        if not steps:
            logger.warning("no document has two %s: no update of the memory is trained", name)
        elif 10 * trained < steps:
            given = f"`--max-tokens` {max_tokens}"
            ways = "give more tokens"
            if tracks:
                given += f" with `--batch-size` {tracks}"
                ways += ", or a smaller `--batch-size`"
            if name == "instances":
                ways += ", or a smaller `--max-doc-tokens`"
            raise GtransError(
                f"{given}: documents side by side with two {name} each have more tokens, so that "
                f"the memory would not be trained; {ways}."
            )

    def _tracks_that_fit(self, max_tokens: int | None) -> int:
        """Return how many longest windows of average steps fit, with room for two long steps."""
        tokens = self._tokens_of_longer_side(self.documents)
        tokens_of_window = float(tokens.mean())  # a whole document
        if self.options.max_window:
            tokens_of_step = float(tokens.sum()) / len(self._steps.lines)
            tokens_of_window = max(tokens_of_step, 1.0) * self.options.max_window
        room = max(tokens_of_window, self._two_long_steps(), 1.0)
        tracks = int((max_tokens or 0) / room)
        return max(tracks, 1)

    def _two_long_steps(self) -> float:
        """Return the 0.9 quantile of the tokens of two consecutive steps."""
        tokens = self._tokens_of_longer_side(self._steps.lines)
        last = self._steps.first + self._steps.counts - 1
        has_next = np.ones(len(tokens), bool)
        has_next[last] = False
        first = np.flatnonzero(has_next)
        pairs = tokens[first] + tokens[first + 1]
        if not len(pairs):
            return 0.0
        return float(np.quantile(pairs, 0.9))

    @property
    def smallest_parts(self) -> SmallestParts:
        """The steps: the shortest window has one."""
        tokens = self._tokens_of_longer_side(self._steps.lines)
        return SmallestParts(self._steps.name, tokens)

    def _tokens_of_longer_side(self, lines: Ints) -> Ints:
        """Return ``(n,)`` tokens of ``lines (n, 2)``."""
        source = sums(lines, self._tokens_before[0])
        target = sums(lines, self._tokens_before[1])
        longer: Ints = np.maximum(source, target)
        return longer

    def _lines(self, runs: Sequence[StreamRun]) -> Ints:
        """Return ``(runs, 2)`` the lines of each run."""
        numbers = np.array([astuple(run) for run in runs], np.int64)
        document, position, count = numbers.reshape(-1, 3).T
        first = self._steps.first[document] + position
        last = first + count - 1
        begin = self._steps.lines[first, 0]
        end = self._steps.lines[last, 1]
        return np.stack([begin, end], 1)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False: every epoch has its own windows."""
        return False
