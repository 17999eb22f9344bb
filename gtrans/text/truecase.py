"""Truecasing models: the usual case of each word, learnt from the training text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sacremoses import MosesTruecaser

from gtrans.errors import GtransError
from gtrans.identity.files import atomic_writer


def train_best_case(lines: Iterable[str], path: Path) -> None:
    """Train a Moses truecaser on tokenised lines and write its model to ``path``.

    Each line of the model holds the spellings of one word, the most frequent one first:
    ``Debian (90/95) DEBIAN (3) debian (2)``.
    """
    model = MosesTruecaser().train(line.split(" ") for line in lines)
    with atomic_writer(path) as file:
        for spellings in model["casing"].values():
            (best, count), *others = spellings.most_common()
            file.write(f"{best} ({count}/{sum(spellings.values())})")
            file.write("".join(f" {word} ({count})" for word, count in others) + "\n")


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
