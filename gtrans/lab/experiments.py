"""The catalogue of the papers' tables and figures, and the needs of each at a scale.

``exp_gtransformer/experiments`` has a file for each paper, and the models, scales and columns that
they name. The Snakefile asks a :class:`Plan`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import chain, product
from pathlib import Path
from shlex import split
from typing import Any

import yaml

from gtrans.errors import GtransError, did_you_mean
from gtrans.lab.corpora import Text, find_text, name_of
from gtrans.shipped import shipped

SCALES = ("tiny", "small", "paper")
PAPERS = ("gtransformer", "memory", "fusion", "bert-context", "flat", "results")
OF_TRANSLATIONS = ("score", "parts", "speed", "training", "size")
TESTED_SETS = ("synthetic", "consistency", "contrapro", "contracat")
_FOLDER = "exp_gtransformer/experiments"
_LONGEST_NAME = 80


# --- the catalogue ----------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """How a row of a table, or a point of a figure, is made here.

    Attributes:
        label: its name in the paper.
        model: a model of ``models.yaml``; empty: it cannot be made, or has an ``ensemble``.
        train: flags of ``gtrans train`` besides those of the model.
        at: other such flags at a scale; None: the row is left out there.
        translate: flags of ``gtrans translate`` besides those of the model.
        control: the test sentences ``alone``, or ``shuffled`` over all documents.
        ensemble: labels of the rows whose models translate together.
        against: label of the row that it is tested against.
        seed_plus: is added to the seed.
        seeds: its seeds at a scale; else all.
        corpora: the only corpora on which it is made; empty: all.
        x: its values on the horizontal axes of a figure, by their titles.
        series: its curve.
        note: what is missing for it, or why it cannot be made.
    """

    label: str
    model: str = ""
    train: str = ""
    at: Mapping[str, str | None] = field(default_factory=dict)
    translate: str = ""
    control: str = ""
    ensemble: Sequence[str] = ()
    against: str = ""
    seed_plus: int = 0
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    corpora: Sequence[str] = ()
    x: Mapping[str, float] = field(default_factory=dict)
    series: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table or figure.

    Attributes:
        name: its name, such as ``gtransformer-T2``.
        paper: name, short, title, authors, year and venue of its paper.
        title: its contents, in a few words.
        section: section of the paper.
        shows: what it shows.
        corpora: names of the paper's corpora.
        scales: how it is shown at each scale; an empty text: not at all.
        rows: its rows by label; none for counts of a corpus.
        columns: its columns here, by the titles of ``columns.yaml``.
        at: at a scale, other corpora than the paper's.
        printed: what the paper prints: ``columns``, ``rows`` by label, ``quoted`` labels, ``note``.
        figure: the axes of a figure: ``x``, titles, and ``y``, columns.
        commands: further commands by name: ``run``, and if needed their ``rows`` and ``scales``,
            and whether for the ``first_seed`` only.
        contradictions: contradictions within the paper.
        not_free: which of its needs are not free.
        note: a note for the reader.
    """

    name: str
    paper: Mapping[str, Any]
    title: str
    section: str
    shows: str
    corpora: Sequence[str]
    scales: Mapping[str, str]
    rows: Mapping[str, Row] = field(default_factory=dict)
    columns: Sequence[str] = ()
    at: Mapping[str, Sequence[str]] = field(default_factory=dict)
    printed: Mapping[str, Any] = field(default_factory=dict)
    figure: Mapping[str, Sequence[str]] | None = None
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    contradictions: Sequence[str] = ()
    not_free: str = ""
    note: str = ""

    @property
    def heading(self) -> str:
        """Its name in words: ``G-Transformer, Table 2``."""
        number = self.name.removeprefix(f"{self.paper['name']}-")
        kind = {"T": ", Table ", "F": ", Figure "}.get(number[0])
        return str(self.paper["short"]) + (kind + number[1:] if kind else "")

    def with_rows(self, labels: Iterable[str]) -> Table:
        """The table with these rows, their baselines and the members of ensembles."""
        kept: set[str] = set()
        pending = [label for label in labels if label in self.rows]
        while pending:
            label = pending.pop()
            if label not in kept:
                kept.add(label)
                pending += filter(None, (self.rows[label].against, *self.rows[label].ensemble))
        return replace(self, rows={label: row for label, row in self.rows.items() if label in kept})


@cache
def read(name: str) -> Any:
    """A file of the folder of experiments."""
    return yaml.safe_load((shipped(_FOLDER) / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def read_catalogue() -> Mapping[str, Table]:
    """All tables and figures by name, in the order of the papers."""
    tables = {}
    for paper in PAPERS:
        content = read(paper)
        for key, entry in content["tables"].items():
            rows = {label: Row(label, **row) for label, row in entry.get("rows", {}).items()}
            name = f"{paper}-{key}"
            tables[name] = Table(name, content["paper"], **{**entry, "rows": rows})
    return tables


def find(names: Iterable[str]) -> dict[str, Table]:
    """The tables with these names, in either case; a paper's name stands for all its tables.

    Raises:
        GtransError: there is no table of a name.
    """
    by_name = {name.lower(): table for name, table in read_catalogue().items()}
    by_paper = {paper: [key for key in by_name if key.startswith(f"{paper}-")] for paper in PAPERS}
    tables: dict[str, Table] = {}
    for name in map(str.lower, names):
        if name not in by_name and name not in by_paper:
            raise GtransError(
                f"there is no table or figure '{name}'{did_you_mean(name, [*by_paper, *by_name])} "
                "`gtrans reproduce --list` names all of them."
            )
        tables |= {by_name[key].name: by_name[key] for key in by_paper.get(name, [name])}
    return tables


# --- scales -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """The sizes of everything: ``of``, an entry of ``scales.yaml``, with some settings changed.

    Attributes:
        name: name of the scale.
        label: the name with the changes of the user; the name of its folder.
        changes: the settings that a user has changed, as ``NAME=N``, sorted.
        amp: whether all translation models are trained in mixed precision.
        settings: values for the braces in flags.
    """

    name: str
    label: str
    changes: Sequence[str]
    amp: bool
    settings: Mapping[str, str]
    of: Mapping[str, Any]


def read_scale(name: str, changes: Iterable[str] = (), amp: bool = False) -> Scale:
    """A scale; a change ``updates=N`` changes all settings whose names end in it.

    Raises:
        GtransError: there is no such setting, or its value is no whole number.
    """
    entry = read("scales")[name]
    settings = {key: str(value) for key, value in entry["settings"].items()}
    # Changes of a single setting come last, so that they override `updates=`.
    for change in (order := sorted(changes, key=lambda change: not change.startswith("updates="))):
        key, _, value = change.partition("=")
        # At scale paper most models have the updates of their papers.
        ending = "-updates" if key == "updates" and name != "paper" else f"/{key}"
        names = [setting for setting in settings if setting == key or setting.endswith(ending)]
        if not names:
            raise GtransError(
                f"`--set {change}`: scale {name} has no setting '{key}' (it has "
                f"{', '.join(settings)})."
            )
        if not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise GtransError(f"`--set {change}`: give a whole number of at least 1.")
        settings.update(dict.fromkeys(names, value))
    parts = (change.replace("=", "-") for change in sorted(order))
    label = ".".join([name, *["amp"] * amp, *parts])
    return Scale(name, label, sorted(order), amp, settings, entry)


def words_of(flags: Any) -> list[str]:
    """Single words of flags, which may be lists of lists."""
    return split(flags) if isinstance(flags, str) else list(chain(*map(words_of, flags)))


# --- the needs of a table ---------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A model of ``models.yaml``, ``of``, with the flags of a row."""

    name: str
    of: Mapping[str, Any]
    train: str
    seed_plus: int


@dataclass(frozen=True)
class Run:
    """A row on a corpus with a seed: the names of its model and of its translation, its control.

    A corpus itself has the seed 0.
    """

    corpus: str
    seed: int
    model: str
    name: str
    control: str = ""

    @property
    def folder(self) -> str:
        """The folder of all models of the seed and their measurements."""
        return f"runs/{self.corpus}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRow:
    """A row on a corpus: its runs, or why there are none."""

    row: Row
    corpus: str
    runs: Sequence[Run]
    why_not: str


class Plan:
    """The rows, runs and files that the Snakefile makes.

    Args:
        request: ``scale``, ``set``, ``amp``, ``data``, ``corpora``, ``tables``, ``rows`` and
            ``seeds``, as a user gives them.

    Raises:
        GtransError: nothing of it can be made, or a corpus is missing.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self.scale = read_scale(request["scale"], request.get("set", ()), request.get("amp", False))
        self.data = Path(request["data"]) if request.get("data") else None
        self.named: Sequence[str] = request.get("corpora") or ()
        self.seeds: Sequence[int] = request.get("seeds") or self.scale.of["seeds"]
        self.device = split(self.scale.of.get("device", ""))
        self.values = {**self.scale.settings, "data": str(self.data)}
        self.models: dict[str, Model] = {}
        # Models and flags of translations, by name.
        self.translations: dict[str, tuple[list[str], str]] = {}
        tables = find(request["tables"])
        refused = {name: why for name, table in tables.items() if (why := self._refusal(table))}
        # Tables of a paper that cannot be made are left out.
        if len(refused) == len(tables):
            raise GtransError("; ".join(refused.values()))
        self.left_out = list(refused.values())
        self.whole = {name: table for name, table in tables.items() if name not in refused}
        self.tables = self.whole
        if labels := request.get("rows"):
            chosen = {name: table.with_rows(labels) for name, table in self.whole.items()}
            self.tables = {name: table for name, table in chosen.items() if table.rows}
        rows = [row for table in self.whole.values() for row in self.rows(table)]
        for label in labels or ():
            planned = [row for row in rows if row.row.label == label]
            if not any(row.runs for row in planned):
                names = ", ".join(dict.fromkeys(repr(row.row.label) for row in rows))
                why = planned[0].why_not if planned else f"there is no such row, only {names}"
                raise GtransError(f"`--rows`: '{label}': {why}.")

    def with_all_seeds(self) -> Plan:
        """The plan of all rows, with all seeds in the current folder."""
        present = {int(path.name.removeprefix("seed-")) for path in Path("runs").glob("*/seed-*")}
        return Plan({**self._request, "rows": [], "seeds": sorted({*self.seeds, *present})})

    def _refusal(self, table: Table) -> str:
        """Why a table cannot be made at this scale; empty: it can."""
        name = self.scale.name
        if not table.scales[name]:
            return f"{table.name} is not shown at scale {name}: {table.note.partition('. ')[0]}"
        corpora = self.named or table.corpora
        present = self.data is not None and all((self.data / corpus).is_dir() for corpus in corpora)
        if table.not_free and name == "paper" and not present:
            return f"{table.name} cannot be had freely: {table.not_free}"
        return ""

    def corpora(self, table: Table) -> Sequence[str]:
        """Names of the corpora of a table at this scale.

        Raises:
            GtransError: the user has to name one.
        """
        corpora = self.named or table.at.get(self.scale.name)
        if corpora is None and self.scale.name == "small":
            raise GtransError(
                "`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({table.name}: {table.scales['small']})."
            )
        return corpora or (["synthetic"] if self.scale.name == "tiny" else table.corpora)

    @cache  # noqa: B019 # a process has one plan
    def corpus(self, name: str) -> Text:
        """A corpus that is made or given.

        Raises:
            GtransError: it is missing, or its languages are not clear.
        """
        made, entry = Path("corpora", name), self.scale.of
        if name in entry.get("synthetic", {}):
            return Text(name, made, "valid", *entry["pair"])
        if self.data is None:
            raise GtransError(f"`--data` is missing: the folder that holds {name}/.")
        folder = self.data / name
        if not folder.is_dir():
            folder = self.data / name_of(name)
        if not folder.is_dir() and name in entry.get("assembled", ()):
            return Text(name, made, "valid", *entry["pair"])
        text = find_text(folder, *entry.get("languages", {}).get(name, entry["pair"]))
        return replace(text, name=name)

    # -- models

    def _model(self, name: str, train: str = "", seed_plus: int = 0) -> str:
        """The name of a model with the flags of a row; adds it and its start to the plan."""
        name = self.scale.of.get("models", {}).get(name, name)
        entry = read("models")[name]
        full = slug(name, train) + (f".seed-plus-{seed_plus}" if seed_plus else "")
        self.models[full] = Model(name, entry, train, seed_plus)
        if "start" in entry:
            self._model(entry["start"])
        return full

    def finished(self, model: str, folder: str, file: str = "trained") -> str:
        """The file that marks a finished model; ``file``: another file of its training."""
        averaged = "average" in self.models[model].of and self.scale.name == "paper"
        return f"{folder}/{model}/{'average.pt' if averaged else file}"

    def checkpoint(self, model: str, folder: str) -> str:
        """The file of a trained model."""
        return self.finished(model, folder, "checkpoint_best.pt")

    def preparation(self, model: str) -> str:
        """How the corpus of a model is prepared."""
        name: str = self.models[model].of.get("data", "plain")
        return name if name in self.scale.of["prepare"] else "plain"

    # -- rows

    @cache  # noqa: B019 # a process has one plan
    def _rows(self, name: str) -> list[PlannedRow]:
        table = self.whole[name]
        if not table.rows:  # counts of corpora, which have the paper's labels
            labels = dict(zip(table.corpora, table.printed.get("rows", ()), strict=False))
            return [PlannedRow(Row(labels.get(name, name)), name, [Run(name, 0, "", "")], "")
                    for name in self.corpora(table)]  # fmt: skip
        rows = []
        for corpus, row in product(self.corpora(table), table.rows.values()):
            why_not = self._left_out(row, corpus)
            runs = [] if why_not else self._runs(table, row, corpus)
            if not why_not and not runs:
                why_not = f"only with the seeds {row.seeds[self.scale.name]} at this scale"
            rows.append(PlannedRow(row, corpus, runs, why_not))
        return rows

    def rows(self, table: Table) -> list[PlannedRow]:
        """The rows of a table, or of a part of it, on every corpus."""
        rows = self._rows(table.name)
        return [row for row in rows if row.row.label in table.rows or not table.rows]

    def _left_out(self, row: Row, corpus: str) -> str:
        note = f" ({row.note})" if row.note else ""
        if not row.model and not row.ensemble:
            return row.note
        if row.at.get(self.scale.name, "") is None:
            return f"not at this scale{note}"
        return f"not on {corpus}{note}" if row.corpora and corpus not in row.corpora else ""

    def _runs(self, table: Table, row: Row, corpus: str) -> list[Run]:
        self.corpus(corpus)
        models = [
            self._model(part.model, part.at.get(self.scale.name, part.train) or "", part.seed_plus)
            for part in [table.rows[label] for label in row.ensemble] or [row]
        ]
        name = slug("+".join(models), row.translate)
        self.translations[name] = models, row.translate
        if row.control:
            name = f"{name}.{row.control}"
            self.translations[name] = models, row.translate
        seeds = row.seeds.get(self.scale.name, self.seeds)
        return [
            Run(corpus, seed, models[0], name, row.control) for seed in self.seeds if seed in seeds
        ]

    def translation(self, run: Run) -> str:
        """The file with the translation of the test documents."""
        return f"{run.folder}/test.{run.name}.{self.corpus(run.corpus).target}"

    def other(self, table: Table, row: PlannedRow, run: Run) -> Run | None:
        """The run that a run is tested against, with the same corpus and seed."""
        rows = (other for other in self.rows(table) if other.row.label == row.row.against)
        runs = chain.from_iterable(other.runs for other in rows if other.corpus == row.corpus)
        return next((other for other in runs if other.seed == run.seed), None)

    # -- measures

    def columns(self, table: Table) -> dict[str, dict[str, Any]]:
        """The columns of a table by title; a column for directions becomes one for each."""
        texts = map(self.corpus, self.corpora(table))
        directions = [direction for text in texts for direction in text.directions]
        columns: dict[str, dict[str, Any]] = {}
        for title in table.columns:
            column = read("columns")["columns"][title]
            for direction in directions if "{direction}" in title else [""]:
                at = [word.replace("{direction}", direction) for word in column["at"]]
                columns[title.replace("{direction}", direction)] = {**column, "at": at}
        return columns

    def files(self, measure: str, run: Run, other: Run | None) -> list[str]:
        """The files of a measure: those of the run, and of its comparison with the other one."""
        if run.corpus not in read("columns")["corpora"].get(measure, [run.corpus]):
            return []
        # A control concerns translations; measures of the model are in the model's own row.
        if run.control and measure not in OF_TRANSLATIONS:
            return []
        folder = f"{run.folder}/measures/{measure}"
        if measure == "counts":
            return [f"data/{run.corpus}/plain.counts.json"]
        if measure in ("training", "size"):
            return [f"{run.folder}/{model}/trained" for model in self.translations[run.name][0]]
        if measure == "directions":
            runs, directions = filter(None, (run, other)), self.corpus(run.corpus).directions
            return [f"{folder}/{run.model}/{pair}.json" for run in runs for pair in directions]
        if measure == "speed":
            return [f"{folder}/{run.name}.{ending}" for ending in ("tsv", "txt")]
        if measure in ("score", "parts"):
            return [f"{folder}/{run.name}{f'~{other.name}' if other else ''}.json"]
        both = [f"{folder}/{run.model}~{other.model}.json"] if other else []
        if measure == "likelihood":
            return both
        return [f"{folder}/{run.model}.json", *(both if measure in TESTED_SETS else [])]

    def analyses(self, table: Table) -> dict[str, tuple[str, list[tuple[PlannedRow, Run]]]]:
        """The further commands of a table at this scale and the runs that they read, by name."""
        analyses, corpora = {}, self.corpora(table)
        for corpus, (key, command) in product(corpora, table.commands.items()):
            labels, last = command.get("rows", table.rows), 1 if command.get("first_seed") else None
            rows = [row for row in self.rows(table) if row.row.label in labels]
            runs = [(row, run) for row in rows if row.corpus == corpus for run in row.runs[:last]]
            if runs and self.scale.name in command.get("scales", SCALES):
                end = f".{corpus}" if len(corpora) > 1 else ""
                analyses[f"{table.name}.{key}{end}"] = command["run"], runs
        return analyses

    def inputs(self, table: Table) -> list[str]:
        """All files from which the results of a table are written."""
        files = []
        measures = ["training"] if table.rows else []
        measures += [column["measure"] for column in self.columns(table).values()]
        for row, measure in product(self.rows(table), dict.fromkeys(measures)):
            for run in row.runs:
                files += self.files(measure, run, self.other(table, row, run))
        files += [f"analyses/{name}.done" for name in self.analyses(table)]
        return list(dict.fromkeys(files))

    @property
    def words(self) -> list[str]:
        """The options that make a table, without folders, seeds and rows."""
        words = ["--scale", self.scale.name, *["--amp"] * self.scale.amp]
        words += ["--corpus", *self.named] if self.named else []
        return [*words, *(word for change in self.scale.changes for word in ("--set", change))]


def slug(name: str, flags: str) -> str:
    """A name with flags; long ones end in a digest."""
    if not flags:
        return name
    words = re.sub(r" (?!--)", "-", " ".join(split(flags))).split(" ")
    full = ".".join([name, *(word.removeprefix("--") for word in words)])
    full = re.sub(r"[^A-Za-z0-9.+_-]+", "_", full).rstrip("_")
    cut = full[:_LONGEST_NAME]
    return full if cut == full else f"{cut}.{sha256(full.encode()).hexdigest()[:8]}"
