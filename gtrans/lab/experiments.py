"""The papers' tables and figures, and the runs and files that each needs.

They are read from ``exp_gtransformer/experiments``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from itertools import product
from pathlib import Path
from shlex import split
from typing import Any

import yaml

from gtrans.environment import project_file
from gtrans.errors import GtransError, did_you_mean
from gtrans.lab.corpora import ParallelText, find_text, name_of

SCALES = ("tiny", "small", "paper")
PAPERS = ("gtransformer", "memory", "fusion", "bert-context", "flat", "results")
TRANSLATION_MEASURES = ("score", "parts", "speed", "training", "size")
TESTED_SETS = ("synthetic", "consistency", "contrapro", "contracat")
_FOLDER = "exp_gtransformer/experiments"


# --- the catalogue ----------------------------------------------------------------------


@dataclass(frozen=True)
class TableRow:
    """How a row of a table, or a point of a figure, is made.

    Attributes:
        model: in ``models.yaml``; empty: none, or an ``ensemble``.
        train, translate: flags beside the model's own.
        at: ``train`` flags by scale; None: no row at this scale.
        control: test sentences ``alone``, or ``shuffled`` over all documents.
        ensemble: labels of rows whose models translate together.
        against: label of the baseline.
        seeds: by scale, if not all.
        x: values on the axes of a figure, by title.
        series: name of the curve.
        note: why it cannot be made, or the missing part.
    """

    label: str
    model: str = ""
    train: str = ""
    at: Mapping[str, str | None] = field(default_factory=dict)
    translate: str = ""
    control: str = ""
    ensemble: Sequence[str] = ()
    against: str = ""
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    corpora: Sequence[str] = ()  # empty: all
    x: Mapping[str, float] = field(default_factory=dict)
    series: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table or figure.

    Attributes:
        name: such as ``gtransformer-T2``.
        paper: name, title, authors, year and venue.
        scales: what each scale shows; empty: nothing.
        rows: by label; none for counts of a corpus.
        at: other ``corpora`` by scale.
        printed: the paper's ``columns``, ``rows`` by label, ``quoted`` labels, and a ``note``.
        figure: titles of the ``x`` axes, columns on the ``y`` axes.
        commands: ``run`` by name, with optional ``rows``, ``scales`` and ``first_seed`` (only).
        not_free: which corpora or models are not free.
    """

    name: str
    paper: Mapping[str, Any]
    title: str
    section: str
    shows: str
    corpora: Sequence[str]
    scales: Mapping[str, str]
    rows: Mapping[str, TableRow] = field(default_factory=dict)
    columns: Sequence[str] = ()
    at: Mapping[str, Sequence[str]] = field(default_factory=dict)
    printed: Mapping[str, Any] = field(default_factory=dict)
    figure: Mapping[str, Sequence[str]] | None = None
    commands: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    contradictions: Sequence[str] = ()
    not_free: str = ""
    note: str = ""

    def with_rows(self, labels: Iterable[str]) -> Table:
        """Keep some rows, their baselines and members of ensembles."""
        kept = set(labels) & self.rows.keys()
        for _ in self.rows:  # a baseline may have a baseline
            for label in list(kept):
                row = self.rows[label]
                kept.update(row.ensemble)
                if row.against:
                    kept.add(row.against)
        rows = {label: row for label, row in self.rows.items() if label in kept}
        return replace(self, rows=rows)


@cache
def read_definitions(name: str) -> Any:
    """Read NAME.yaml of the experiments."""
    file = project_file(_FOLDER) / f"{name}.yaml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))


@cache
def read_catalogue() -> Mapping[str, Table]:
    """Read all tables and figures, in the order of the papers."""
    tables = {}
    for paper in PAPERS:
        content = read_definitions(paper)
        for key, entry in content["tables"].items():
            name = f"{paper}-{key}"
            rows = {}
            for label, row in entry.get("rows", {}).items():
                rows[label] = TableRow(label, **row)
            values = {**entry, "rows": rows}
            tables[name] = Table(name, content["paper"], **values)
    return tables


def find_tables(names: Sequence[str]) -> dict[str, Table]:
    """Return tables by name; a paper's name stands for all its tables."""
    tables = read_catalogue()
    choices = {name: [name] for name in tables}
    for paper in PAPERS:
        choices[paper] = [name for name in tables if name.startswith(f"{paper}-")]
    found = {}
    for name in names:
        if name not in choices:
            raise GtransError(
                f"there is no table or figure '{name}'{did_you_mean(name, choices)} "
                "`gtrans reproduce --list` names all of them."
            )
        for key in choices[name]:
            found[key] = tables[key]
    return found


# --- scales -----------------------------------------------------------------------------


def read_settings(scale: str, changes: Iterable[str]) -> dict[str, str]:
    """Return the settings of a scale with changes ``NAME=N``.

    ``updates=N`` changes all settings whose names end in it.
    """
    settings: dict[str, str] = {}
    for key, value in read_definitions("scales")[scale]["settings"].items():
        settings[key] = str(value)
    # Changes of a single setting come last, so that they override `updates=`.
    for change in sorted(changes, key=lambda change: not change.startswith("updates=")):
        key, _, value = change.partition("=")
        # At scale paper most models have the updates of their papers.
        ending = "-updates" if key == "updates" and scale != "paper" else f"/{key}"
        names = [setting for setting in settings if setting == key or setting.endswith(ending)]
        if not names:
            raise GtransError(
                f"`--set {change}`: scale {scale} has no setting '{key}' (it has "
                f"{', '.join(settings)})."
            )
        if not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise GtransError(f"`--set {change}`: give a whole number of at least 1.")
        for name in names:
            settings[name] = value
    return settings


def flag_words(flags: Any) -> list[str]:
    """Split flags, a text or lists of lists of texts."""
    if isinstance(flags, str):
        return split(flags)
    words: list[str] = []
    for part in flags:
        words += flag_words(part)
    return words


# --- the needs of a table ---------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A row on a corpus with a seed, 0 for a corpus itself.

    Attributes:
        model: of an ensemble the first.
        name: of its translation.
    """

    row: TableRow
    corpus: str
    seed: int
    model: str = ""
    name: str = ""
    against: PlannedRun | None = None

    @property
    def folder(self) -> str:
        """The folder of the seed's models and measurements."""
        return f"runs/{self.corpus}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRow:
    """A row on a corpus: its runs, or why there are none."""

    row: TableRow
    corpus: str
    runs: Sequence[PlannedRun]
    why_not: str = ""


@dataclass(frozen=True)
class PlannedTranslation:
    """Models that translate together, and the flags of their search."""

    models: Sequence[str]
    flags: str


@dataclass(frozen=True)
class PlannedAnalysis:
    """A further command of a table, and the runs that it reads."""

    command: str
    runs: Sequence[PlannedRun]


class ExperimentPlan:
    """The rows, runs and files that the Snakefile makes.

    ``request`` has ``scale``, ``set``, ``amp``, ``data``, ``corpora``, ``tables``, ``rows`` and
    ``seeds``, as a user gives them.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self.scale: str = request["scale"]
        self.sizes = read_definitions("scales")[self.scale]
        self.amp: bool = request.get("amp", False)
        self.changes = sorted(request.get("set", ()))
        self.settings = read_settings(self.scale, self.changes)
        self.label = _label(self.scale, self.amp, self.changes)
        self.data = Path(request["data"]) if request.get("data") else None
        self.chosen_corpora: Sequence[str] = request.get("corpora") or ()
        self.seeds: Sequence[int] = request.get("seeds") or self.sizes["seeds"]
        # The models, as `models.yaml` has them, with the flags of their rows.
        self.models: dict[str, Mapping[str, Any]] = {}
        self.translations: dict[str, PlannedTranslation] = {}
        self.tables: dict[str, Table] = {}
        self.left_out: list[str] = []
        for name, table in find_tables(request["tables"]).items():
            if table.scales[self.scale]:
                self.tables[name] = table
            else:
                reason = table.note.partition(". ")[0]
                self.left_out.append(f"{name} is not shown at scale {self.scale}: {reason}")
        if not self.tables:
            raise GtransError("; ".join(self.left_out))
        labels = request.get("rows") or ()
        if labels:
            self._check_labels(labels)
            self._keep_rows(labels)
        else:
            self._plan_all()

    def _plan_all(self) -> list[PlannedRow]:
        rows: list[PlannedRow] = []
        for table in self.tables.values():
            rows += self.rows(table)
        return rows

    def _check_labels(self, labels: Sequence[str]) -> None:
        rows = self._plan_all()
        for label in labels:
            planned = [row for row in rows if row.row.label == label]
            if any(row.runs for row in planned):
                continue
            if planned:
                why = planned[0].why_not
            else:
                quoted = [repr(row.row.label) for row in rows]
                names = ", ".join(dict.fromkeys(quoted))
                why = f"there is no such row, only {names}"
            raise GtransError(f"`--rows`: '{label}': {why}.")

    def _keep_rows(self, labels: Sequence[str]) -> None:
        tables = self.tables
        self.tables = {}
        for name, table in tables.items():
            shorter = table.with_rows(labels)
            if shorter.rows:
                self.tables[name] = shorter

    def with_all_seeds(self) -> ExperimentPlan:
        """Plan all rows, with all seeds in the current folder."""
        seeds = set(self.seeds)
        for folder in Path("runs").glob("*/seed-*"):
            seeds.add(int(folder.name.removeprefix("seed-")))
        return ExperimentPlan({**self._request, "rows": [], "seeds": sorted(seeds)})

    def corpora(self, table: Table) -> Sequence[str]:
        """Return a table's corpora; GtransError if the user must name one."""
        corpora = self.chosen_corpora or table.at.get(self.scale)
        if corpora:
            return corpora
        if corpora is None and self.scale == "small":
            raise GtransError(
                "`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({table.name}: {table.scales['small']})."
            )
        return ["synthetic"] if self.scale == "tiny" else table.corpora

    @cache  # noqa: B019 # a process has one plan
    def corpus(self, name: str) -> ParallelText:
        """Return the text of a corpus; GtransError if it is missing."""
        source, target = self.sizes["pair"]
        made = ParallelText(name, Path("corpora", name), "valid", source, target)
        if name in self.sizes.get("synthetic", {}):
            return made
        if self.data is None:
            raise GtransError(f"`--data` is missing: the folder that holds {name}/.")
        folder = self.data / name
        if not folder.is_dir():
            folder = self.data / name_of(name)
        if not folder.is_dir() and name in self.sizes.get("assembled", ()):
            return made
        pairs = self.sizes.get("languages", {})
        source, target = pairs.get(name, (source, target))
        return replace(find_text(folder, source, target), name=name)

    # -- models

    def _add_model(self, name: str, train: str = "") -> str:
        """Add a model and the one it starts from; return its name."""
        name = self.sizes.get("models", {}).get(name, name)
        entry = read_definitions("models")[name]
        full_name = slug(name, train)
        flags = [entry.get("train", ""), train]
        self.models[full_name] = {"kind": name, **entry, "train": flags}
        if "start" in entry:
            self._add_model(entry["start"])
        return full_name

    def finished(self, model: str, folder: str, file: str = "trained") -> str:
        """Return the file of a finished model, or a ``file`` of its training."""
        if "average" in self.models[model] and self.scale == "paper":
            file = "average.pt"
        return f"{folder}/{model}/{file}"

    def checkpoint(self, model: str, folder: str) -> str:
        """Return the checkpoint that translates."""
        return self.finished(model, folder, "checkpoint_best.pt")

    def preparation(self, model: str) -> str:
        """Return how a model's corpus is prepared."""
        name: str = self.models[model].get("data", "plain")
        return name if name in self.sizes["prepare"] else "plain"

    # -- rows

    def rows(self, table: Table) -> list[PlannedRow]:
        """Return the rows of a table on every corpus."""
        corpora = self.corpora(table)
        if not table.rows:
            return _counted_corpora(table, corpora)
        rows = []
        for corpus in corpora:
            for row in table.rows.values():
                rows.append(self._plan_row(table, corpus, row))
        return rows

    def _plan_row(self, table: Table, corpus: str, row: TableRow) -> PlannedRow:
        seeds = row.seeds.get(self.scale, self.seeds)
        why_not = self._why_not(row, corpus, seeds)
        if why_not is not None:
            return PlannedRow(row, corpus, [], why_not)
        self.corpus(corpus)
        members = [table.rows[label] for label in row.ensemble] or [row]
        models = []
        for member in members:
            flags = member.at.get(self.scale, member.train) or ""
            models.append(self._add_model(member.model, flags))
        name = slug("+".join(models), row.translate)
        translation = PlannedTranslation(models, row.translate)
        self.translations[name] = translation
        if row.control:
            name = f"{name}.{row.control}"
            self.translations[name] = translation
        baselines = {}
        if row.against:
            baseline = self._plan_row(table, corpus, table.rows[row.against])
            baselines = {run.seed: run for run in baseline.runs}
        runs = []
        for seed in self.seeds:
            if seed not in seeds:
                continue
            run = PlannedRun(
                row=row,
                corpus=corpus,
                seed=seed,
                model=models[0],
                name=name,
                against=baselines.get(seed),
            )
            runs.append(run)
        return PlannedRow(row, corpus, runs)

    def _why_not(self, row: TableRow, corpus: str, seeds: Sequence[int]) -> str | None:
        """Say why a row is not made; None: it is made."""
        note = f" ({row.note})" if row.note else ""
        if not row.model and not row.ensemble:
            return row.note
        if row.at.get(self.scale, "") is None:
            return f"not at this scale{note}"
        if row.corpora and corpus not in row.corpora:
            return f"not on {corpus}{note}"
        if not set(self.seeds) & set(seeds):
            return f"only with the seeds {seeds} at this scale"
        return None

    def translation(self, run: PlannedRun) -> str:
        """Return the file of translated test documents."""
        return f"{run.folder}/test.{run.name}.{self.corpus(run.corpus).target}"

    # -- measures

    def files(self, measure: str, run: PlannedRun) -> list[str]:
        """Return the files of a measure of a run, and of its comparison."""
        measured_corpora = read_definitions("columns")["corpora"].get(measure)
        if measured_corpora is not None and run.corpus not in measured_corpora:
            return []
        # A control concerns translations; the model's own row has the measures of the model.
        if run.row.control and measure not in TRANSLATION_MEASURES:
            return []
        folder = f"{run.folder}/measures/{measure}"
        if measure == "counts":
            return [f"data/{run.corpus}/plain.counts.json"]
        if measure in ("training", "size"):
            models = self.translations[run.name].models
            return [f"{run.folder}/{model}/trained" for model in models]
        if measure == "directions":
            files = self._directions(folder, run)
            if run.against:
                files += self._directions(folder, run.against)
            return files
        if measure == "speed":
            return [f"{folder}/{run.name}.tsv", f"{folder}/{run.name}.txt"]
        if measure in ("score", "parts"):
            baseline = f"~{run.against.name}" if run.against else ""
            return [f"{folder}/{run.name}{baseline}.json"]
        alone = f"{folder}/{run.model}.json"
        compared = []
        if run.against:
            compared = [f"{folder}/{run.model}~{run.against.model}.json"]
        if measure == "likelihood":
            return compared
        if measure in TESTED_SETS:
            return [alone, *compared]
        return [alone]

    def _directions(self, folder: str, run: PlannedRun) -> list[str]:
        pairs = self.corpus(run.corpus).directions
        return [f"{folder}/{run.model}/{pair}.json" for pair in pairs]

    def analyses(self, table: Table) -> dict[str, PlannedAnalysis]:
        """Return the analyses of a table's ``commands`` on every corpus, by name."""
        analyses = {}
        corpora = self.corpora(table)
        for corpus, key in product(corpora, table.commands):
            command = table.commands[key]
            if self.scale not in command.get("scales", SCALES):
                continue
            runs = self._analysed_runs(table, corpus, command)
            if runs:
                ending = f".{corpus}" if len(corpora) > 1 else ""
                analyses[f"{table.name}.{key}{ending}"] = PlannedAnalysis(command["run"], runs)
        return analyses

    def _analysed_runs(
        self, table: Table, corpus: str, command: Mapping[str, Any]
    ) -> list[PlannedRun]:
        labels = command.get("rows", table.rows)
        runs: list[PlannedRun] = []
        for row in self.rows(table):
            if row.corpus == corpus and row.row.label in labels:
                runs += row.runs[:1] if command.get("first_seed") else row.runs
        return runs

    def inputs(self, table: Table) -> list[str]:
        """Return all files from which a table is written."""
        columns = read_definitions("columns")["columns"]
        measures = ["training"] if table.rows else []
        for title in table.columns:
            measures.append(columns[title]["measure"])
        runs: list[PlannedRun] = []
        for row in self.rows(table):
            runs += row.runs
        files: list[str] = []
        for measure in measures:
            for run in runs:
                files += self.files(measure, run)
        for name in self.analyses(table):
            files.append(f"analyses/{name}.done")
        return list(dict.fromkeys(files))


def _counted_corpora(table: Table, corpora: Sequence[str]) -> list[PlannedRow]:
    printed_labels = table.printed.get("rows", ())
    labels = dict(zip(table.corpora, printed_labels, strict=False))
    rows = []
    for name in corpora:
        row = TableRow(labels.get(name, name))
        run = PlannedRun(row, name, seed=0)
        rows.append(PlannedRow(row, name, [run]))
    return rows


def _label(scale: str, amp: bool, changes: Iterable[str]) -> str:
    parts = [scale]
    if amp:
        parts.append("amp")
    for change in changes:
        parts.append(change.replace("=", "-"))
    return ".".join(parts)


def slug(name: str, flags: str) -> str:
    """Name a model with flags, in at most 80 characters and, if cut, a digest."""
    words = " ".join([name, *split(flags)]).replace(" --", ".")
    full = re.sub(r"[^A-Za-z0-9.+_-]+", "-", words)
    if not flags or len(full) <= 80:
        return full
    full_digest = sha256(full.encode()).hexdigest()
    return f"{full[:80]}.{full_digest[:8]}"
