"""Checkpoints of models, by run and number of updates."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.messages import printable


@dataclass(frozen=True)
class Step:
    """A checkpoint of a run, and its number of updates."""

    path: Path
    updates: int


@dataclass(frozen=True)
class TrainingRun:
    """Checkpoints of one training, by updates; several seeds of a model share its label."""

    label: str
    steps: tuple[Step, ...]


def runs_of(models: Mapping[str, Sequence[str]]) -> list[TrainingRun]:
    """Return the runs of models, from checkpoints or run folders by label.

    Checkpoints in one folder belong to one run, one for each number of updates:
    ``checkpoint_best.pt`` is a copy of another.
    """
    runs = []
    for label, paths in models.items():
        # By folder and path.
        folders: dict[Path, dict[Path, Step]] = {}
        for path in map(Path, paths):
            place = path.resolve()
            folder = place if path.is_dir() else place.parent
            own = folders.setdefault(folder, {})
            for step in _steps_of(path):
                own[step.path] = step
        for own in folders.values():
            ordered = sorted(own.values(), key=lambda step: step.updates)
            runs.append(TrainingRun(label, tuple(ordered)))
    return runs


def _steps_of(path: Path) -> list[Step]:
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.train.folder import RunFolder

    if not path.is_dir():
        return [Step(path, updates_of(path))]
    steps: dict[int, Step] = {}
    for file in RunFolder(path).checkpoints():
        step = Step(file, updates_of(file))
        steps.setdefault(step.updates, step)
    if not steps:
        raise GtransError(f"--path {path}: there are no checkpoints in this folder.")
    return list(steps.values())


def checkpoints_of(runs: Iterable[TrainingRun]) -> list[Path]:
    """Return the files of all checkpoints of some runs."""
    files: list[Path] = []
    for run in runs:
        files += [step.path for step in run.steps]
    return files


def updates_of(path: Path) -> int:
    """Return the number of updates that a checkpoint stores, or 0."""
    from gtrans.checkpoints.reading import read_checkpoint
    from gtrans.modules.file_values import reading  # see _steps_of

    state = read_checkpoint(path, in_memory=False)
    with reading(path, "its number of updates"):
        history = state.get("optimizer_history") or [{}]
        return int(history[-1].get("num_updates", 0))


# -------------------------------------------------------------------------------------------------
#
# ``--path [LABEL=]PATH ..``: several models, some of them of several runs.


def add_checkpoints(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add ``--path``: checkpoints or run folders."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]CKPT",
        help="checkpoints, or run folders for all their checkpoints; several folders with one "
        "LABEL are seeds of a model",
    )


def labelled_paths(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Return the paths of every label.

    Without ``LABEL=`` a folder is called by its name, and a file by its folder.
    """
    labelled: dict[str, list[str]] = {}
    named_folders: dict[str, Path] = {}
    for argument in arguments:
        label, equals, path = argument.partition("=")
        if not equals or Path(argument).exists():
            path = argument
            place = Path(path).resolve()
            folder = place if place.is_dir() else place.parent
            label = folder.name
            other = named_folders.setdefault(label, folder)
            if other != folder:
                raise GtransError(
                    f"--path {other} and {folder} have the same name '{label}'; name "
                    "them with --path LABEL=PATH."
                )
        label = label.strip()
        if not label or not path or printable(label) != label:
            raise GtransError(
                f"--path '{argument}' must be LABEL=PATH, with a label that can be printed and a "
                "path, or a path alone."
            )
        labelled.setdefault(label, []).append(path)
    return labelled
