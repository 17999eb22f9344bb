"""Streams: several documents that are read in parallel, window after window, with a memory.

Feng et al. 2022, §3.4 and §5.3: sentences are read in document order, and parameters are
updated after a window of sentences, whose length is drawn for every update. What is read there
sentence by sentence may also be read instance by instance; below, a *step* is either. A stream has
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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.errors import GtransError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StreamOptions:
    """How many steps of a document an update reads.

    Attributes:
        min_window, max_window: the number is drawn from ``min_window .. max_window``;
            ``max_window`` 0: all steps of a document, as long as it may be.
        seed: seed of the random numbers.
        recut: documents are cut into other instances in every epoch.
    """

    min_window: int
    max_window: int
    seed: int = 1
    recut: bool = False

    def __post_init__(self) -> None:
        """Raises GtransError for lengths out of range."""
        if self.max_window != 0 and self.max_window < 2:
            raise GtransError(
                "`--max-window` must be at least 2, or 0 for whole documents, but is "
                f"{self.max_window}; in a window of one step no update of the memory is read."
            )
        if self.min_window < 1 or (self.max_window and self.min_window > self.max_window):
            raise GtransError(
                f"`--min-window` must be between 1 and `--max-window` {self.max_window}, but is "
                f"{self.min_window}."
            )


@dataclass(frozen=True)
class Run:
    """Consecutive steps of one document: ``count`` of them from number ``position`` on."""

    document: int
    position: int
    count: int


@dataclass
class _Stream:
    """Tracks of documents in progress.

    Attributes:
        tracks: for each track its document and the number of the next step; None: it has
            no document.
    """

    tracks: list[tuple[int, int] | None]

    def filled(self, queue: Sequence[int], taken: int) -> tuple[_Stream, int]:
        """The stream with the next documents of ``queue`` in tracks that have none.

        Returns:
            it, and how many documents of ``queue`` have been taken then (``taken`` before).
        """
        tracks = list(self.tracks)
        for number, track in enumerate(tracks):
            if track is None and taken < len(queue):
                tracks[number], taken = (queue[taken], 0), taken + 1
        return _Stream(tracks), taken

    def longest(self, counts: Sequence[int]) -> int:
        """How many steps the longest document in progress still has."""
        tracks = [track for track in self.tracks if track is not None]
        return max((counts[document] - position for document, position in tracks), default=0)

    def read(
        self, length: int, counts: Sequence[int], queue: Sequence[int], taken: int
    ) -> tuple[list[Run], _Stream, int]:
        """Read the next ``length`` steps of each track, or all that there are.

        Returns:
            their runs, the stream after them, and how many documents of ``queue`` have been
            taken then (``taken`` before).
        """
        runs: list[Run] = []
        tracks: list[tuple[int, int] | None] = []
        for track in self.tracks:
            left = length
            while left:
                if track is None:
                    if taken == len(queue):
                        break
                    track, taken = (queue[taken], 0), taken + 1
                document, position = track
                count = min(left, counts[document] - position)
                runs.append(Run(document, position, count))
                left -= count
                position += count
                track = None if position == counts[document] else (document, position)
            tracks.append(track)
        return runs, _Stream(tracks), taken


Window = list[list[Run]]
"""The parts of a window, in order; usually one."""


def stream_windows(
    counts: Sequence[int],
    queue: Sequence[int],
    streams: int,
    tracks: int,
    draw: Callable[[], int],
    fits: Callable[[Sequence[Run]], bool],
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
    current = [_Stream([None] * tracks) for _ in range(streams)]
    windows: list[list[Window]] = [[] for _ in range(streams)]
    taken, advanced = 0, True
    while advanced:
        advanced = False
        for number, stream in enumerate(list(current)):
            left, waiting = draw(), queue
            if not left:
                stream, taken = stream.filled(queue, taken)
                # Documents that end leave their tracks empty until the next window.
                left, waiting = stream.longest(counts), queue[:taken]
            window: Window = []
            while left:
                read = partial(stream.read, counts=counts, queue=waiting, taken=taken)
                if not read(1)[0]:
                    break
                # The longest part that fits, by halving.
                part, longest = 1, left
                while part < longest:
                    middle = (part + longest + 1) // 2
                    if fits(read(middle)[0]):
                        part = middle
                    else:
                        longest = middle - 1
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
    return [
        [] if batch is None else batch for turn in zip_longest(*by_worker) for batch in turn
    ]
