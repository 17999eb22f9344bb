"""A benchmark, how it takes turns, and its tables."""

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
    """What is measured, and how it is shown.

    Attributes:
        title, text: of the section; the text may name settings in braces.
        size: name of the models' size in :data:`models.SIZES`.
        settings: what else a reader must know of a run.
        toy: other settings to try it with tiny models.
        measure: takes the settings, gives rows for the JSON file one by one.
        table: the rows as a markdown table.
        device: for the heading.
    """

    title: str
    text: str
    size: str
    settings: Mapping[str, Any]
    toy: Mapping[str, Any]
    measure: Callable[[argparse.Namespace], Iterable[Row]]
    table: Callable[[Rows], str]
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


def cell(row: Row, *formats: str) -> str:
    """The first of ``formats`` whose values the row has, filled in; – if there is none."""
    for text in formats:
        try:
            return text.format(**row)
        except KeyError:
            continue
    return "–"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]], texts: int = 1) -> str:
    """A markdown table; the first ``texts`` columns are text, the others numbers."""
    rules = ["---"] * texts + ["---:"] * (len(heads) - texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rules, *lines)) + "\n"


def listed(columns: Mapping[str, str], rows: Rows, texts: int = 1) -> str:
    """A line for each row; ``columns`` are heads and formats."""
    lines = [[cell(row, text) for text in columns.values()] for row in rows]
    return table(list(columns), lines, texts)


def grid(formats: Sequence[str], rows: Rows) -> str:
    """Systems down, words of a document across."""
    lengths = sorted({row["words"] for row in rows})
    found = {(row["system"], row["words"]): row for row in rows}
    return table(
        ["words of a document", *(f"{words:,}" for words in lengths)],
        [
            [system, *(cell(found.get((system, words), {}), *formats) for words in lengths)]
            for system in dict.fromkeys(row["system"] for row in rows)
        ],
    )
