"""The tables and figures of the papers, and the project's own experiments.

A file of ``exp_gtransformer/experiments`` describes one paper, ``results.yaml`` what the project
has tried itself. Numbers are as printed; printed numbers whose last digit is 0 and numbers with a
unit are texts. ``here`` and what variants have besides a recipe say how ``gtrans reproduce`` shows
it; ``docs/reproducing.md`` describes both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from gtrans.errors import GtransError
from gtrans.shipped import shipped

FOLDER = "exp_gtransformer/experiments"
Kind = Literal["table", "figure"]
Recipe = Literal[
    "randinit", "finetune", "mbart", "flat", "memory", "bert", "han", "fusion", "multilingual",
    "compare", "none",
]  # fmt: skip
Scale = Literal["tiny", "small", "paper"]
OWN = "results"
_NAME = re.compile(rf"(\d{{3}})-[TF](?:\d+\.)?\d+|({OWN})-[a-z]+(?:-[a-z]+)*")


@dataclass(frozen=True)
class Paper:
    """One of the papers; ``id``: its number here, or ``results``: what the project has tried."""

    id: str
    title: str
    authors: str
    year: int
    venue: str


@dataclass(frozen=True)
class PrintedRow:
    """A row of a table, or what is printed of a curve.

    Attributes:
        label: its name in the paper.
        values: what is printed in each column; None: nothing.
        quoted: whether the paper took it from another one.
    """

    label: str
    values: tuple[float | int | str | None, ...]
    quoted: bool = False


@dataclass(frozen=True)
class Printed:
    """What a paper prints; ``columns``: what the values of its rows are."""

    columns: tuple[str, ...]
    rows: tuple[PrintedRow, ...]
    note: str = ""


@dataclass(frozen=True)
class Variant:
    """How one row or curve is had here.

    Attributes:
        label: of the row or curve.
        recipe: ``exp_gtransformer/run-RECIPE.sh``; none: there is no way.
        options: for the recipe, and behind ``--`` for training; an option and its value together.
        baseline: label of the row that it is tested against; empty: none.
        note: what is missing for it, or why there is no way.
        model: which model of the recipe it is: ``document``, or the ``sentence`` model before it.
        at: the options at a scale if they are others; None: it is left out there.
        preparation: of ``scales.yaml``, if it is not that of the recipe.
        decoding: options of ``gtrans translate`` with which the model translates once more.
        control: other neighbours than their own, with which the test sentences are translated
            (:mod:`gtrans.experiments.controls`).
        ensemble: labels of the rows whose models translate together; no model is trained.
        seed_plus: what is added to the seed of a run.
        seeds: at a scale, those of the scale or the user that it is run with; else all of them.
        corpora: those that its options are for; on others it is left out; empty: all.
        x: its places on the horizontal axes of a figure, by their titles.
        series: the curve that it belongs to.
    """

    label: str
    recipe: Recipe
    options: tuple[str, ...]
    baseline: str
    note: str
    model: Literal["document", "sentence"] = "document"
    at: Mapping[Scale, tuple[str, ...] | None] = field(default_factory=dict)
    preparation: str = ""
    decoding: tuple[str, ...] = ()
    control: Literal["", "alone", "shuffled"] = ""
    ensemble: tuple[str, ...] = ()
    seed_plus: int = 0
    seeds: Mapping[Scale, tuple[int, ...]] = field(default_factory=dict)
    corpora: tuple[str, ...] = ()
    x: Mapping[str, float] = field(default_factory=dict)
    series: str = ""

    def options_at(self, scale: Scale) -> tuple[str, ...] | None:
        """The options at a scale; None: it is not shown there."""
        return None if self.recipe == "none" else self.at.get(scale, self.options)


@dataclass(frozen=True)
class Figure:
    """A figure of scores.

    Attributes:
        x: titles of horizontal axes.
        y: columns of the table. Every pair of both has axes of its own.
    """

    x: tuple[str, ...]
    y: tuple[str, ...]


@dataclass(frozen=True)
class Command:
    """A command that is run when all models are there.

    Attributes:
        name: of it and of its files in the folder of results, behind the experiment's.
        argv: the command; ``docs/reproducing.md`` lists what may stand in braces.
        makes: the endings of the files that it makes, such as ``.png``; empty: it prints JSON.
        rows: labels of the rows that it reads; empty: all.
        first_seed: it reads the first seed only.
        scales: where it is run.
    """

    name: str
    argv: tuple[str, ...]
    makes: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    first_seed: bool = False
    scales: tuple[Scale, ...] = ("tiny", "small", "paper")


@dataclass(frozen=True)
class Here:
    """How ``gtrans reproduce`` shows an experiment.

    Attributes:
        columns: of its table, by the names of ``measures.yaml``; empty: it has none.
        corpora: by scale, instead of the paper's.
        figure: drawn from the table.
        commands: what makes the rest of it.
    """

    columns: tuple[str, ...] = ()
    corpora: Mapping[Scale, tuple[str, ...]] = field(default_factory=dict)
    figure: Figure | None = None
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table or a figure.

    Attributes:
        name: ``000-T2``: table 2 of paper 000.
        paper: the paper.
        kind: what it is.
        title: what is in it, in a few words.
        section: where the paper speaks of it.
        shows: what its reader learns.
        corpora: names of the corpora.
        needs: models, analyses and programs.
        free: whether all it needs can be had freely.
        not_free: why not, and what would be needed.
        printed: the paper's numbers.
        contradictions: of the paper with itself.
        variants: how its rows or curves are had here; empty for counts of a corpus.
        scales: how it is shown at each scale; an empty text: not at all.
        here: how ``gtrans reproduce`` shows it.
        note: what else there is to know.
    """

    name: str
    paper: Paper
    kind: Kind
    title: str
    section: str
    shows: str
    corpora: tuple[str, ...]
    needs: tuple[str, ...]
    free: bool
    not_free: str
    printed: Printed
    contradictions: tuple[str, ...]
    variants: tuple[Variant, ...]
    scales: Mapping[Scale, str]
    here: Here
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return asdict(self)


def read_catalogue(folder: Path | None = None) -> list[Experiment]:
    """All experiments, in the order of the papers; ``folder``: instead of the project's own.

    Raises:
        GtransError: a file is missing or not as described above.
    """
    where = shipped(FOLDER) if folder is None else folder
    files = [*sorted(where.glob("[0-9][0-9][0-9].yaml")), *where.glob(f"{OWN}.yaml")]
    if not files:
        raise GtransError(f"{where}: there is no file of a paper, such as 000.yaml.")
    return [experiment for path in files for experiment in _read(path)]


def find(experiments: Sequence[Experiment], names: Iterable[str]) -> list[Experiment]:
    """The experiments of some names; ``000`` is all of that paper, in either case of letters.

    Raises:
        GtransError: there is none of a name.
    """
    found = []
    for name in names:
        known = name.upper()
        of_name = [e for e in experiments if known in (e.name.upper(), e.paper.id.upper())]
        if not of_name:
            raise GtransError(
                f"there is no experiment '{name}'; `gtrans reproduce --list` names all of them."
            )
        found += of_name
    return found


def with_rows(experiments: Sequence[Experiment], labels: Sequence[str]) -> dict[str, Experiment]:
    """The experiments that have such rows, by name.

    Each has them alone, and those that they are tested against or made of.

    Raises:
        GtransError: none of them has such a row.
    """
    every = {variant.label: None for it in experiments for variant in it.variants}
    for label in labels:
        if label not in every:
            names = ", ".join(it.name for it in experiments)
            only = ", ".join(map(repr, every))
            raise GtransError(f"`--rows`: {names}: no row '{label}', only {only}.")
    found = (_with_rows(it, labels) for it in experiments)
    return {it.name: it for it in found if it.variants}


def _with_rows(experiment: Experiment, labels: Iterable[str]) -> Experiment:
    known = {variant.label: variant for variant in experiment.variants}
    wanted: set[str] = set()
    left = [label for label in labels if label in known]
    while left:
        label = left.pop()
        if label not in wanted:
            wanted.add(label)
            left += [it for it in (known[label].baseline, *known[label].ensemble) if it]
    kept = tuple(it for it in experiment.variants if it.label in wanted)
    return replace(experiment, variants=kept)


def _read(path: Path) -> list[Experiment]:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise GtransError(f"{path}: not readable ({' '.join(str(error).split())}).") from None
    try:
        paper = Paper(**content["paper"])
        found = [_experiment(paper, dict(entry)) for entry in content["experiments"]]
    except (KeyError, TypeError, ValueError) as error:
        raise GtransError(f"{path}: not the experiments of a paper ({error}).") from None
    return found


def _experiment(paper: Paper, entry: dict[str, Any]) -> Experiment:
    printed = dict(entry.pop("paper_says"))
    rows = tuple(
        PrintedRow(row["label"], tuple(row["values"]), row.get("quoted", False))
        for row in printed.pop("rows")
    )
    columns = tuple(printed.pop("columns"))
    variants = tuple(
        Variant(
            **in_tuples(variant)
            | {name: in_tuples(variant.get(name, {})) for name in ("at", "seeds")}
        )
        for variant in entry.pop("variants")
    )
    here = _here(dict(entry.pop("here", {})))
    for key in ("corpora", "needs", "contradictions"):
        entry[key] = tuple(entry[key])
    made = Experiment(
        **entry,
        paper=paper,
        printed=Printed(columns, rows, **printed),
        variants=variants,
        here=here,
    )
    _check(made)
    return made


def in_tuples(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The entry with its lists as tuples, for a dataclass that does not change."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}


def _here(entry: dict[str, Any]) -> Here:
    figure = entry.pop("figure", None)
    return Here(
        **in_tuples({**entry, "commands": [], "corpora": {}})
        | {
            "commands": tuple(Command(**in_tuples(it)) for it in entry.get("commands", [])),
            "corpora": in_tuples(entry.get("corpora", {})),
            "figure": None if figure is None else Figure(**in_tuples(figure)),
        }
    )


def _check(made: Experiment) -> None:
    match = _NAME.fullmatch(made.name)
    if match is None or made.paper.id not in match.groups():
        raise ValueError(f"{made.name!r} is no name of a table or figure of {made.paper.id}")
    if made.kind not in get_args(Kind) or set(made.scales) != set(get_args(Scale)):
        raise ValueError(f"kind or scales of {made.name}")
    if made.free == bool(made.not_free):
        raise ValueError(f"{made.name} is free, or it is said why not")
    if any(len(row.values) != len(made.printed.columns) for row in made.printed.rows):
        raise ValueError(f"a row of {made.name} has not a value for each column")
    labels = [variant.label for variant in made.variants]
    for variant in made.variants:
        if variant.recipe not in get_args(Recipe):
            raise ValueError(f"{made.name}: there is no recipe {variant.recipe!r}")
        if variant.baseline and variant.baseline not in labels:
            raise ValueError(f"{made.name}: there is no variant {variant.baseline!r}")
        if variant.recipe == "none" and not variant.note:
            raise ValueError(f"{made.name}: why is there no way to {variant.label!r}?")
    if len(set(labels)) != len(labels):
        raise ValueError(f"{made.name}: a variant occurs twice")
