"""Streams: several documents that are read in parallel, window after window, with a memory.

Feng et al. 2022, §3.4 and §5.3: sentences are read in document order, and parameters are
updated after a window of sentences, whose length is drawn for every update. The model reads a
document sentence by sentence or chunk by chunk; below, a *step* is either. A stream has
several tracks, each with one document at a time; when it ends, the next document begins in its
track. A batch is one window: the next steps of all tracks of a stream, the same number in each. A
row of the batch is a run of consecutive steps of one document, so a track that changes documents
within a window gives several rows. With windows of whole documents, every track has one document
in a window.

What an update accumulates is the window, whatever its length: one that has more tokens than
``--max-tokens`` is read in parts, one after the other in the same update. In the authors' program
(``yukunnf/RecurrentMemForDocMT``, ``main.py``) each part is one sentence of every document.

The memory with which a window of a document begins comes from the window before, so both must be
read by the same worker, in order. fairseq gives batch i to worker i modulo the number of workers,
and adds up the gradients of ``--update-freq`` consecutive batches of a worker. So there is one
stream for each batch of an update: worker r gets the windows of streams r, r + workers, .. in
turn, and every update reads one window of every stream. One worker with ``--update-freq 2``
therefore sees exactly the batches of two workers.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from itertools import groupby, zip_longest
from typing import Any

import numpy as np

from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.examples import Example
from gtrans.data.units import Ints, StreamSteps, Units, UnitSpan, sums
from gtrans.errors import GtransError

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamOptions:
    """How many steps of a document an update reads.

    Attributes:
        min_window, max_window: the number is drawn from ``min_window .. max_window``;
            ``max_window`` 0: all steps of a document, as long as it may be.
        seed: seed of the random numbers.
    """

    min_window: int
    max_window: int
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises GtransError for lengths out of range."""
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
    """Consecutive steps of one document: ``count`` of them from number ``position`` on."""

    document: int
    position: int
    count: int


# The document of a track and the number of its next step; None: it has no document.
_Track = tuple[int, int] | None
Window = list[list[StreamRun]]
"""The parts of a window, in order; usually one."""


def _read(
    tracks: Sequence[_Track], length: int, counts: Sequence[int], queue: Sequence[int], taken: int
) -> tuple[list[StreamRun], list[_Track], int]:
    """Read the next ``length`` steps of each track of a stream, or all that there are.

    Returns:
        their runs, the tracks after them, and how many documents of ``queue`` have been taken
        then (``taken`` before).
    """
    runs: list[StreamRun] = []
    after: list[_Track] = []
    for track in tracks:
        left = length
        while left:
            if track is None:
                if taken == len(queue):
                    break
                track, taken = (queue[taken], 0), taken + 1
            document, position = track
            count = min(left, counts[document] - position)
            runs.append(StreamRun(document, position, count))
            left -= count
            position += count
            track = None if position == counts[document] else (document, position)
        after.append(track)
    return runs, after, taken


def stream_windows(
    counts: Sequence[int],
    queue: Sequence[int],
    streams: int,
    tracks: int,
    draw: Callable[[], int],
    fits: Callable[[Sequence[StreamRun]], bool],
) -> list[list[Window]]:
    """The windows of every stream.

    Args:
        counts: steps of each document.
        queue: documents in the order in which tracks take them.
        streams: number of streams.
        tracks: tracks of each stream.
        draw: returns the length of a window; 0: one whole document in each track.
        fits: whether steps may be read at once; a window that does not fit is read in
            parts, of at least one step of each track.

    Returns:
        for every stream its windows, in order. Every step is in exactly one of them.
    """
    current: list[list[_Track]] = [[None] * tracks for _ in range(streams)]
    windows: list[list[Window]] = [[] for _ in range(streams)]
    taken, advanced = 0, True
    while advanced:
        advanced = False
        for number, stream in enumerate(current):
            left, waiting = draw(), queue
            if not left:
                for place, track in enumerate(stream):
                    if track is None and taken < len(queue):
                        stream[place], taken = (queue[taken], 0), taken + 1
                # Documents that end leave their tracks empty until the next window.
                left = max((counts[track[0]] - track[1] for track in stream if track), default=0)
                waiting = queue[:taken]
            window: Window = []
            while left:
                read = partial(_read, stream, counts=counts, queue=waiting, taken=taken)
                if not read(1)[0]:
                    break
                # The longest part that fits.
                longer = range(2, left + 1)
                part = 1 + bisect_left(longer, True, key=lambda length: not fits(read(length)[0]))
                runs, stream, taken = read(part)
                window.append(runs)
                left -= part
            current[number] = stream
            if window:
                windows[number].append(window)
                advanced = True
    return windows


def interleave_for_workers(windows: Sequence[Sequence[Any]], workers: int) -> list[Any]:
    """The windows of all streams in the order in which fairseq gives batches to ``workers``.

    Stream s belongs to worker s modulo ``workers``; a worker reads its streams in turn.
    Workers with fewer windows get empty batches at the end.
    """
    by_worker: list[list[Any]] = []
    for worker in range(workers):
        turns = zip_longest(*windows[worker::workers])
        by_worker.append([batch for turn in turns for batch in turn if batch is not None])
    return [[] if batch is None else batch for turn in zip_longest(*by_worker) for batch in turn]


class StreamDataset(DocumentDataset):
    """Windows of documents for training; its units, the runs, are cut anew for every epoch.

    Besides the entries of a :class:`DocumentDataset`, a batch has ``stream``, the number of its
    stream, and ``runs``, the :class:`StreamRun` of every row as a tuple. Documents are numbered in
    the order of the corpus. A window of several parts has only ``parts``, a list of such batches.
    """

    def __init__(self, *args: Any, options: StreamOptions, **kwargs: Any) -> None:
        """``units`` are whole documents; the base class has the other arguments."""
        super().__init__(*args, **kwargs)
        self.documents = self.units.lines[:, 0]
        self._first_sentences = self.units.first_sentence
        self._steps = StreamSteps.of(self.documents, self.line_sizes, self.examples.unit)
        self.options = options
        self.workers = self.update_freq = self.epoch = 1
        self._runs: list[StreamRun] = []
        # Of every run: the stream, and which part of its window it belongs to.
        self._place: list[tuple[int, int]] = []

    def arrange(self, workers: int, update_freq: int) -> None:
        """Set the number of workers, and of batches in a worker's update."""
        self.workers = workers
        self.update_freq = update_freq

    def set_epoch(self, epoch: int) -> None:
        """Draw the windows of this epoch next."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def read_at_once(self) -> Ints:
        """``(steps, 2)`` the lines of all steps."""
        return self._steps.lines

    def steps_of(self, document: int) -> int:
        """Number of steps of a document."""
        return int(self._steps.counts[document])

    def before(self, run: StreamRun) -> dict[str, Any]:
        """``net_input`` of one row: the steps of the document that precede ``run``."""
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
        stream, part = self._place[index]
        further = {"stream": stream, "part": part, "run": astuple(run)}
        return {**self._row(run), **self.place(index), **further}

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge the runs of a window into a batch, or into ``parts`` that are read in turn."""
        by_part = [list(part) for _, part in groupby(samples, lambda sample: sample["part"])]
        batches = []
        for part in by_part:
            batch = super().collater(part)
            batch["stream"] = part[0]["stream"]
            batch["runs"] = [sample["run"] for sample in part]
            batches.append(batch)
        if len(batches) > 1:
            return {"parts": batches}
        return batches[0] if batches else {}

    def ordered_indices(self) -> Ints:
        """Numbers of documents, in random order."""
        return np.random.permutation(len(self.documents))

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[list[int]]:
        """Windows of the documents ``indices``, in the order in which workers get them.

        A stream has ``max_sentences`` tracks. If that is None, it has as many as fill
        ``max_tokens`` with the longest windows of steps of average length, so that longer
        windows make fewer tracks, but no more than two long steps of each leave room for. A
        window that exceeds ``max_tokens``, with padding, has several parts.

        Raises:
            GtransError: nearly all parts are single steps of their documents. What a step writes
                to the memory would be read without gradient only, and hardly be trained.
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
        self._runs, self._place = [], []
        batches: list[list[list[int]]] = []
        for number, windows_of_stream in enumerate(windows):
            batches.append([])
            for window in windows_of_stream:
                first = len(self._runs)
                for part, runs in enumerate(window):
                    self._runs += runs
                    self._place += [(number, part)] * len(runs)
                batches[-1].append(list(range(first, len(self._runs))))
        self._check_memory_is_trained(max_tokens, max_sentences)
        lines = self._lines(self._runs)
        document = np.array([run.document for run in self._runs], np.int64)
        before = lines[:, 0] - self.documents[document, 0]
        self.set_units(Units.whole(lines, self._first_sentences[document] + before))
        return interleave_for_workers(batches, self.workers)

    def _check_memory_is_trained(self, max_tokens: int | None, tracks: int | None) -> None:
        """Refuse limits that leave single steps, and tell if documents have no others."""
        name = self._steps.name
        possible = [run.count for run in self._runs if self.steps_of(run.document) > 1]
        if not possible:
            logger.warning("no document has two %s: no update of the memory is trained", name)
        elif 10 * sum(count for count in possible if count > 1) < sum(possible):
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
        # Of a window of one track: its steps are of average length, or it is a document.
        average = max(float(tokens.sum()) / steps, 1.0) * self.options.max_window
        room = max(average or float(tokens.mean()), self._two_long_steps(), 1.0)
        return max(int((max_tokens or 0) / room), 1)

    def _two_long_steps(self) -> float:
        """Tokens of two steps in a row that exceed the tokens of nine pairs in ten."""
        longer = self._longer(self._steps.lines)
        not_last = np.ones(len(longer), bool)
        not_last[self._steps.first + self._steps.counts - 1] = False
        pairs = longer[:-1][not_last[:-1]] + longer[1:][not_last[:-1]]
        return float(np.quantile(pairs, 0.9)) if len(pairs) else 0.0

    @property
    def indivisible(self) -> tuple[str, Ints]:
        """The steps; a window is shortened to a single one if it must be."""
        return self._steps.name, self._longer(self._steps.lines)

    def _longer(self, lines: Ints) -> Ints:
        """``(n,)`` tokens of the longer side of ``lines (n, 2)``."""
        longer: Ints = np.maximum(*(sums(lines, totals) for totals in self._tokens_before))
        return longer

    def _padded(self, runs: Sequence[StreamRun]) -> int:
        """Tokens of the longer side of a batch of these runs, with padding."""
        return int(self._longer(self._lines(runs)).max()) * len(runs)

    def _lines(self, runs: Sequence[StreamRun]) -> Ints:
        """``(runs, 2)`` the lines of every run."""
        places = [astuple(run) for run in runs]
        document, position, count = np.array(places, np.int64).reshape(-1, 3).T
        first, steps = self._steps.first[document] + position, self._steps.lines
        return np.stack([steps[first, 0], steps[first + count - 1, 1]], 1)

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """False: every epoch has its own windows."""
        return False
