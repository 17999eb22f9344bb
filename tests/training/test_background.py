"""The thread in which fairseq loads batches."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from fairseq.data.iterators import BackgroundConsumer, BufferedIterator

from gtrans.training.background import end_loading


class Endless:
    """Batches of which there is always one more."""

    def __iter__(self) -> Iterator[int]:
        return iter(int, 1)

    def __len__(self) -> int:
        return 10**9


def loading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, BackgroundConsumer)]


def test_it_ends_although_there_are_batches_left() -> None:
    """Also if it waits for room in its queue."""
    earlier = loading()  # of other tests, which left an iterator behind
    batches = BufferedIterator(2, Endless())
    assert next(batches) == 0
    assert len(loading()) == len(earlier) + 1
    end_loading()
    assert not loading()
