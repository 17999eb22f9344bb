"""Truecasing models: the usual case of each word, learnt from the training text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from sacremoses import MosesTruecaser

from gtrans.errors import GtransError
from gtrans.files import atomic_writer
from gtrans.text.workers import map_chunks


def train_best_case(lines: Iterable[str], path: Path, workers: int = 1) -> None:
    """Train a Moses truecaser on tokenised lines and write its model to ``path``.

    Each line of the model holds the spellings of one word, the most frequent one first:
    ``Debian (90/95) DEBIAN (3) debian (2)``.
    """
    spellings: dict[str, Counter[str]] = {}
    for of_chunk in map_chunks(_spellings, lines, workers):
        for lower, counts in of_chunk.items():
            spellings.setdefault(lower, Counter()).update(counts)
    with atomic_writer(path) as file:
        for counts in spellings.values():
            (best, count), *others = counts.most_common()
            file.write(f"{best} ({count}/{sum(counts.values())})")
            file.write("".join(f" {word} ({count})" for word, count in others) + "\n")


def _spellings(lines: list[str]) -> dict[str, Counter[str]]:
    """How often each lower-cased word of some lines is written in which way."""
    found: dict[str, Counter[str]] = {}
    for line in lines:
        for lower, spelling, count in _truecaser().learn_truecase_weights(line.split(" ")):
            found.setdefault(lower, Counter())[spelling] += count
    return found


@cache
def _truecaser() -> MosesTruecaser:
    return MosesTruecaser()


def load_best_case(path: Path) -> dict[str, str]:
    """The most frequent spelling of each lower-cased word, from a Moses truecaser model."""
    best_case: dict[str, str] = {}
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                best, *counts = line.split() or [""]
                if not counts:
                    raise GtransError(f"{path}:{number}: not a line of a truecaser model")
                best_case[best.lower()] = best
    except OSError as error:
        raise GtransError(f"cannot read '{path}': {error.strerror}") from None
    except UnicodeDecodeError:
        raise GtransError(f"'{path}' is not UTF-8; prepare the data anew") from None
    return best_case
