"""What a user asks for, and what is planned for it: experiments, rows, cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gtrans.experiments.catalogue import Experiment, Variant
from gtrans.experiments.measures import Column, Measure
from gtrans.experiments.runs import Run
from gtrans.experiments.scales import ScaleSettings


@dataclass(frozen=True)
class Cell:
    """What was measured of a run: the files that :func:`read_number` reads."""

    one: Path | None
    against: Path | None
    others: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Row:
    """A row of a table, or a point of a figure, on one corpus.

    Attributes:
        variant: it.
        corpus: name of the corpus.
        runs: its models, one for each seed.
        cells: by measure, one for each seed.
        baseline: label of the row that it is tested against; empty: it is not.
        why_not: why there are no runs; empty: there are.
        jobs: for each run, names of those that must have ended well before it can be written.
    """

    variant: Variant
    corpus: str
    runs: tuple[Run, ...] = ()
    cells: Mapping[str, tuple[Cell, ...]] | None = None
    baseline: str = ""
    why_not: str = ""
    jobs: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Planned:
    """An experiment at a scale.

    Attributes:
        experiment: it.
        scale: the settings.
        folder: of the scale; results are files of the experiment's name in it.
        corpora: their names.
        columns: by title.
        measures: by name, those of all columns.
        rows: all of them.
        made: files that commands make, such as a figure.
        jobs: names of all that must have ended well before the results can be written.
        named: corpora that the user has named instead of the experiment's own.
    """

    experiment: Experiment
    scale: ScaleSettings
    folder: Path
    corpora: tuple[str, ...]
    columns: dict[str, Column]
    measures: dict[str, Measure]
    rows: tuple[Row, ...]
    made: tuple[Path, ...]
    jobs: tuple[str, ...]
    named: tuple[str, ...] = ()

    @property
    def command(self) -> list[str]:
        """The words that make the experiment, without folders, seeds and rows."""
        corpora = ["--corpus", *self.named] if self.named else []
        changes = [word for change in self.scale.changes for word in ("--set", change)]
        name, scale = self.experiment.name, self.scale.name
        amp = ["--amp"] if self.scale.amp else []
        return ["gtrans", "reproduce", name, "--scale", scale, *amp, *corpora, *changes]


@dataclass(frozen=True)
class Wish:
    """What a user asks for.

    Attributes:
        scale: the settings.
        out: ``--out``; absolute, because jobs run in a folder of their own.
        data: the folder of corpora that are given, or None; absolute as well.
        corpora: names of corpora instead of the experiments' own.
        seeds: of the runs.
    """

    scale: ScaleSettings
    out: Path
    data: Path | None
    corpora: tuple[str, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", self.out.resolve())
        if self.data is not None:
            object.__setattr__(self, "data", self.data.resolve())

    @property
    def folder(self) -> Path:
        """Where all of this scale is written."""
        return self.out / self.scale.label
