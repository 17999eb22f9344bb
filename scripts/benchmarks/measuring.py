"""A benchmark, and how it takes turns."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Row = dict[str, Any]
Rows = list[Row]


@dataclass(frozen=True)
class Benchmark:
    """A benchmark.

    Attributes:
        size: name of the models' size in :data:`models.SIZES`.
        settings: further settings of a run.
        toy: other settings to try it with tiny models.
        measure: takes the settings, yields rows for the JSON file; its docstring explains the
            numbers.
        device: device of the rows.
    """

    size: str
    settings: Mapping[str, Any]
    toy: Mapping[str, Any]
    measure: Callable[[argparse.Namespace], Iterable[Row]]
    device: str = "CPU, 1 thread, fp32"


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of ``work``, so that a busy machine spoils little."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def take_turns(tasks: Mapping[Key, Callable[[], float]], rounds: int) -> dict[Key, list[float]]:
    """Results of all ``tasks``, one after the other in every round."""
    results: dict[Key, list[float]] = {key: [] for key in tasks}
    for _ in range(rounds):
        for key, task in tasks.items():
            results[key].append(task())
    return results


def write_in_turns(
    works: Mapping[Key, Callable[[], int]], rounds: int
) -> tuple[dict[Key, int], dict[Key, list[float]]]:
    """The tokens that each of ``works`` writes, and the CPU seconds of every round."""
    tokens: dict[Key, int] = {}

    def timed(key: Key) -> float:
        return seconds(lambda: tokens.update({key: works[key]()}))

    return tokens, take_turns({key: partial(timed, key) for key in works}, rounds)


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios of the rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))
