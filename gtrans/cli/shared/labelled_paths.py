"""``--path [LABEL=]PATH ..``: several models, some of them of several runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.messages import printable


@dataclass(frozen=True)
class Labelled:
    """An argument of ``--path``; ``label`` names a line or colour of a figure."""

    label: str
    path: str


def add_checkpoints(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """``--path``: models, by checkpoints or run folders."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]CKPT",
        help="checkpoints, or run folders for all their checkpoints; several folders with one "
        "LABEL are seeds of a model",
    )


def labelled_paths(arguments: Sequence[str], flag: str = "--path") -> list[Labelled]:
    """The paths and their labels.

    Without ``LABEL=`` a folder is called by its name, and a file by that of its folder. Paths with
    one label are runs of one model (its seeds), or checkpoints of one run.

    Raises:
        GtransError: a label is empty or cannot be printed, or two folders that are not labelled
            have the same name.
    """
    found, unlabelled = [], dict[str, Path]()
    for argument in arguments:
        label, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            path = argument
            folder = Path(path).resolve()
            folder = folder if folder.is_dir() else folder.parent
            label = folder.name
            if unlabelled.setdefault(label, folder) != folder:
                raise GtransError(
                    f"{flag} {unlabelled[label]} and {folder} have the same name '{label}'; name "
                    f"them with {flag} LABEL=PATH."
                )
        label = label.strip()
        if not label or not path or printable(label) != label:
            raise GtransError(
                f"{flag} '{argument}' must be LABEL=PATH, with a label that can be printed and a "
                "path, or a path alone."
            )
        found.append(Labelled(label, path))
    return found


def by_label(given: Iterable[Labelled]) -> dict[str, list[str]]:
    """The paths of every label, in the order of the labels."""
    paths: dict[str, list[str]] = {}
    for one in given:
        paths.setdefault(one.label, []).append(one.path)
    return paths
