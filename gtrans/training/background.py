"""The thread in which fairseq loads the next batches."""

from __future__ import annotations

import threading
import time
from queue import Empty

from fairseq.data.iterators import BackgroundConsumer

_LONGEST = 10.0  # seconds


def end_loading() -> None:
    """Let the thread end before Python does; to be called at the end of a process.

    A thread that is in the middle of torch's code when Python ends ends the process by SIGABRT,
    whatever its status should have been.
    """
    end = time.monotonic() + _LONGEST
    for thread in threading.enumerate():
        if not isinstance(thread, BackgroundConsumer):
            continue
        thread._max_len = 0  # it ends after the batch that it is loading
        while thread.is_alive() and time.monotonic() < end:
            try:
                thread._queue.get_nowait()
            except Empty:
                thread.join(0.01)
