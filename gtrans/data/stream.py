"""Documents that advance side by side, window after window, for models with a memory.

Feng et al. 2022, §3.4 and §5.3: sentences are read in document order, and parameters are
updated after a window of sentences whose length is drawn anew for every update. A batch is
one such window: each of its streams' rows moves on by the same number of sentences. Where
a document ends another one begins in its row. The batch holds a row of tokens for each
run of sentences of one document, so that no row mixes two.

What a document's next window finds in the memory depends on its last one, so both must
come to the same worker, in order. fairseq gives batch i to worker i modulo the number of
workers and accumulates ``--update-freq`` consecutive batches of a worker into an update.
There is one stream for each batch of an update: worker r gets the windows of streams r,
r + workers, .. in turn, and every update advances every stream by one window. One worker
with ``--update-freq 2`` therefore sees the very batches of two workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtrans.data.document_dataset import DocumentDataset, LineRanges, Units
from gtrans.data.units import UnitSpan
from gtrans.errors import GtransError

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class StreamOptions:
    """How many sentences an update reads of a document.

    Attributes:
        min_window, max_window: the number is drawn from ``min_window .. max_window``;
            ``max_window`` 0: whole documents.
        seed: of the draws.
    """

    min_window: int
    max_window: int
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises GtransError for lengths that make no window."""
        if self.max_window != 0 and self.max_window < 2:
            raise GtransError(
                "`--max-window` must be at least 2, or 0 for whole documents, but is "
                f"{self.max_window}; in windows of one sentence nothing reads what was written to "
                "the memory."
            )
        if self.min_window < 1 or (self.max_window and self.min_window > self.max_window):
            raise GtransError(
                f"`--min-window` must be between 1 and `--max-window` {self.max_window}, but is "
                f"{self.min_window}."
            )


@dataclass(frozen=True)
class Run:
    """Consecutive sentences of one document: ``count`` of them from number ``position`` on."""

    document: int
    position: int
    count: int


@dataclass
class _Stream:
    """Rows of documents in progress.

    ``rows`` holds for each row its document and the sentence that comes next; None where
    no document is left.
    """

    rows: list[tuple[int, int] | None]

    def window(
        self, length: int, counts: Sequence[int], queue: Sequence[int], taken: int
    ) -> tuple[list[Run], _Stream, int]:
        """The runs of the next ``length`` sentences of each row, the stream after them, and
        how many documents of ``queue`` have been ``taken`` by then."""
        runs: list[Run] = []
        rows: list[tuple[int, int] | None] = []
        for row in self.rows:
            left = length
            while left:
                if row is None:
                    if taken == len(queue):
                        break
                    row, taken = (queue[taken], 0), taken + 1
                document, position = row
                count = min(left, counts[document] - position)
                runs.append(Run(document, position, count))
                left -= count
                position += count
                row = None if position == counts[document] else (document, position)
            rows.append(row)
        return runs, _Stream(rows), taken


def stream_windows(
    counts: Sequence[int],
    queue: Sequence[int],
    streams: int,
    rows: int,
    draw: Callable[[], int],
    fits: Callable[[Sequence[Run]], bool],
) -> list[list[list[Run]]]:
    """The windows of every stream.

    Args:
        counts: sentences of each document.
        queue: documents in the order in which rows take them.
        streams: how many streams there are.
        rows: rows of each stream.
        draw: gives the length of a window.
        fits: whether a window may be as large; one that may not is shortened, at most to
            one sentence a row.

    Returns:
        for every stream its windows, in order. Every sentence is in one of them.
    """
    current = [_Stream([None] * rows) for _ in range(streams)]
    windows: list[list[list[Run]]] = [[] for _ in range(streams)]
    taken, moved = 0, True
    while moved:
        moved = False
        for number in range(streams):
            length = draw()
            found = current[number].window(length, counts, queue, taken)
            while length > 1 and found[0] and not fits(found[0]):
                length -= 1
                found = current[number].window(length, counts, queue, taken)
            runs, current[number], taken = found
            if runs:
                windows[number].append(runs)
                moved = True
    return windows


def interleave_for_workers(windows: Sequence[Sequence[Any]], workers: int) -> list[Any]:
    """Batches in the order in which fairseq hands them to ``workers``.

    Stream s belongs to worker s modulo ``workers``; a worker meets its streams in turn.
    Workers that run out earlier get empty batches.
    """
    of_workers: list[list[Any]] = []
    for worker in range(workers):
        turns = zip_longest(*windows[worker::workers])
        of_workers.append([batch for turn in turns for batch in turn if batch is not None])
    return [
        [] if batch is None else batch for turn in zip_longest(*of_workers) for batch in turn
    ]


class StreamDataset(DocumentDataset):
    """Windows of documents for training; its units are cut anew for every epoch.

    Batches have, beside what :class:`DocumentDataset` gives them, ``stream`` (its number)
    and ``runs``, the :class:`Run` of every row as a tuple. Documents are numbered as in the
    corpus.
    """

    def __init__(self, *args: Any, options: StreamOptions, **kwargs: Any) -> None:
        """``units`` are whole documents; other arguments as for :class:`DocumentDataset`."""
        super().__init__(*args, **kwargs)
        self.documents = self.units.source
        self._first_sentences = self.units.first_sentence
        self.options = options
        self.workers = self.update_freq = self.epoch = 1
        self._runs: list[Run] = []
        self._stream: list[int] = []

    def arrange(self, workers: int, update_freq: int) -> None:
        """For how many workers, and batches of an update, streams are made."""
        self.workers = workers
        self.update_freq = update_freq

    def set_epoch(self, epoch: int) -> None:
        """Windows of this epoch are drawn next."""
        super().set_epoch(epoch)
        self.epoch = epoch

    def sentences(self, document: int) -> int:
        """Sentences of a document."""
        return len(self.documents[document])

    def before(self, run: Run) -> dict[str, Any]:
        """``net_input`` of one row: the sentences of the document that precede ``run``."""
        begin = int(self.documents.begin[run.document])
        lines = range(begin, begin + run.position)
        batch = self.examples.collate([self.example(UnitSpan(lines, lines, lines, lines))])
        net_input: dict[str, Any] = batch["net_input"]
        return net_input

    def __getitem__(self, index: int) -> dict[str, Any]:
        run = self._runs[index]
        return {
            **super().__getitem__(index),
            "stream": self._stream[index],
            "run": (run.document, run.position, run.count),
        }

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Merge the rows of a window into a batch."""
        batch = super().collater(samples)
        if batch:
            batch["stream"] = samples[0]["stream"]
            batch["runs"] = [sample["run"] for sample in samples]
        return batch

    def ordered_indices(self) -> Ints:
        """Numbers of documents, in random order."""
        return np.random.permutation(len(self.documents.begin))

    def batch_by_size(
        self,
        indices: Ints,
        max_tokens: int | None = None,
        max_sentences: int | None = None,
        required_batch_size_multiple: int = 1,
    ) -> list[list[int]]:
        """Windows of the documents ``indices``, in the order in which workers get them.

        ``max_sentences`` is the number of documents side by side. Without it, it is what
        fills ``max_tokens`` with the longest windows and sentences of average length; a
        window that would exceed ``max_tokens``, padding included, is shortened.
        """
        counts = (self.documents.end - self.documents.begin).tolist()
        draw = np.random.default_rng([self.options.seed, self.epoch])
        least, most = self.options.min_window, self.options.max_window
        windows = stream_windows(
            counts,
            indices.tolist(),
            self.workers * self.update_freq,
            self._side_by_side(sum(counts), max_tokens, max_sentences),
            lambda: int(draw.integers(least, most + 1)),
            lambda runs: max_tokens is None or self._padded(runs) <= max_tokens,
        )
        runs = [(run, number) for number, of in enumerate(windows) for w in of for run in w]
        self._runs = [run for run, _ in runs]
        self._stream = [number for _, number in runs]
        self._cut()
        index = iter(range(len(runs)))
        numbered = [[[next(index) for _ in window] for window in of] for of in windows]
        return interleave_for_workers(numbered, self.workers)

    def _side_by_side(self, sentences: int, max_tokens: int | None, rows: int | None) -> int:
        average = max(float(self._document_tokens().sum()) / sentences, 1.0)
        filling = int((max_tokens or 0) / (self.options.max_window * average))
        return rows or max(filling, 1)

    def _document_tokens(self) -> Ints:
        """``(documents,)`` tokens of the longer side."""
        longer: Ints = np.maximum(*map(self.documents.sums, self._tokens_before))
        return longer

    def _padded(self, runs: Sequence[Run]) -> int:
        begins = [int(self.documents.begin[run.document]) + run.position for run in runs]
        ends = [begin + run.count for begin, run in zip(begins, runs, strict=True)]
        longest = max(int((tokens[ends] - tokens[begins]).max()) for tokens in self._tokens_before)
        return longest * len(runs)

    def _cut(self) -> None:
        """Make the runs the units of the dataset."""
        document, position, count = (
            np.array([getattr(run, name) for run in self._runs], np.int64)
            for name in ("document", "position", "count")
        )
        begin = self.documents.begin[document] + position
        lines = LineRanges(begin, begin + count)
        self.use(Units.whole(lines, self._first_sentences[document] + position))

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Every epoch has windows of its own."""
        return False
