"""How far a translation is: a bar on a terminal, a line every half minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from tqdm import tqdm

from gtrans.messages import say

EVERY = 30.0
"""Seconds between two lines of a log."""


class Progress:
    """Sentences that are translated, source tokens a second, and the time that is left.

    Args:
        sentences: how many there are.
        clock: seconds, from any begin.
    """

    def __init__(self, sentences: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._all = sentences
        self._clock = clock
        self._sentences = self._tokens = self._known = 0
        self._bar = tqdm(total=sentences, desc="translating", unit=" sentences", disable=None)

    def __enter__(self) -> Progress:
        self._started = self._told = self._clock()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def add(self, sentences: int, tokens: int = 0, known: bool = False) -> None:
        """Some more are translated, from so many source tokens; ``known``: by an earlier run."""
        self._sentences += sentences
        self._known += sentences if known else 0
        self._tokens += 0 if known else tokens
        self._bar.update(sentences)
        now = self._clock()
        seconds = max(now - self._started, 1e-9)
        self._bar.set_postfix_str(f"{self._tokens / seconds:.0f} tokens/s", refresh=False)
        if self._bar.disable and now - self._told >= EVERY:
            self._told = now
            new = self._sentences - self._known
            left = (self._all - self._sentences) * seconds / new if new else 0.0
            say(
                f"translating: {self._sentences} of {self._all} sentences, "
                f"{self._tokens / seconds:.0f} tokens/s, {_time(left)} left"
            )


class BatchProgress:
    """Tells of a batch of documents, whose parts may be finished before it is.

    Args:
        progress: is told.
        sentences: of the batch.
        tokens: source tokens of the batch; a part has its share by its sentences.
    """

    def __init__(self, progress: Progress, sentences: int, tokens: int) -> None:
        self._progress = progress
        self._of_all, self._tokens = sentences, tokens
        self._told = self._counted = 0

    def part(self, sentences: int) -> None:
        """A part of the batch is finished."""
        self._told += sentences
        tokens = self._tokens * self._told // max(self._of_all, 1) - self._counted
        self._counted += tokens
        self._progress.add(sentences, tokens)

    def end(self, sentences: int, known: bool) -> None:
        """The batch is finished, with so many sentences in all; ``known``: by an earlier run."""
        self._progress.add(sentences - self._told, self._tokens - self._counted, known)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"

