"""The catalogue of the papers' tables and figures, and the needs of each at a scale.

``exp_gtransformer/experiments`` has a file for each paper, and the models, scales and columns that
they name. The Snakefile asks a :class:`ExperimentPlan`.
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

from gtrans.environment import project_file
from gtrans.errors import GtransError, did_you_mean
from gtrans.lab.corpora import ParallelText, find_text, name_of

SCALES = ("tiny", "small", "paper")
PAPERS = ("gtransformer", "memory", "fusion", "bert-context", "flat", "results")
OF_TRANSLATIONS = ("score", "parts", "speed", "training", "size")
TESTED_SETS = ("synthetic", "consistency", "contrapro", "contracat")
_FOLDER = "exp_gtransformer/experiments"


# --- the catalogue ----------------------------------------------------------------------


@dataclass(frozen=True)
class TableRow:
    """How a row of a table, or a point of a figure, is made here.

    Attributes:
        label: its name in the paper.
        model: a model of ``models.yaml``; empty: it cannot be made, or has an ``ensemble``.
        train: flags of ``gtrans train`` beside the model's own.
        at: other such flags at a scale; None: the row is left out there.
        translate: flags of ``gtrans translate`` beside the model's own.
        control: the test sentences ``alone``, or ``shuffled`` over all documents.
        ensemble: labels of the rows whose models translate together.
        against: label of the row that it is tested against.
        seeds: its seeds at a scale; else all.
        corpora: the only corpora on which it is made; empty: all.
        x: its values on the horizontal axes of a figure, by their titles.
        series: its curve.
        note: the missing part, or why it cannot be made.
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
    corpora: Sequence[str] = ()
    x: Mapping[str, float] = field(default_factory=dict)
    series: str = ""
    note: str = ""


@dataclass(frozen=True)
class Table:
    """A table or figure.

    Attributes:
        name: its name, such as ``gtransformer-T2``.
        paper: name, title, authors, year and venue of its paper.
        title: its contents, in a few words.
        section: section of the paper.
        shows: its message.
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
        """The table with these rows, their baselines and the members of ensembles."""
        kept = set(labels) & self.rows.keys()
        for _ in self.rows:  # a baseline may have a baseline
            for label in list(kept):
                row = self.rows[label]
                kept.update(row.ensemble)
                if row.against:
                    kept.add(row.against)
        return replace(self, rows={label: row for label, row in self.rows.items() if label in kept})


@cache
def read(name: str) -> Any:
    """A file of the folder of experiments."""
    return yaml.safe_load((project_file(_FOLDER) / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def read_catalogue() -> Mapping[str, Table]:
    """All tables and figures by name, in the order of the papers."""
    tables = {}
    for paper in PAPERS:
        content = read(paper)
        for key, entry in content["tables"].items():
            rows = {label: TableRow(label, **row) for label, row in entry.get("rows", {}).items()}
            name = f"{paper}-{key}"
            tables[name] = Table(name, content["paper"], **{**entry, "rows": rows})
    return tables


def find(names: Sequence[str]) -> dict[str, Table]:
    """The tables with these names; a paper's name stands for all its tables.

    Raises:
        GtransError: there is no table of a name.
    """
    tables = read_catalogue()
    known = {name: [name] for name in tables}
    for paper in PAPERS:
        known[paper] = [name for name in tables if name.startswith(f"{paper}-")]
    for name in names:
        if name not in known:
            raise GtransError(
                f"there is no table or figure '{name}'{did_you_mean(name, known)} "
                "`gtrans reproduce --list` names all of them."
            )
    found = {}
    for name in names:
        for key in known[name]:
            found[key] = tables[key]
    return found


# --- scales -----------------------------------------------------------------------------


def read_settings(scale: str, changes: Iterable[str]) -> dict[str, str]:
    """The settings of a scale; a change ``updates=N`` is for all whose names end in it.

    Raises:
        GtransError: there is no such setting, or its value is no whole number.
    """
    settings = {key: str(value) for key, value in read("scales")[scale]["settings"].items()}
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
        settings.update(dict.fromkeys(names, value))
    return settings


def words_of(flags: Any) -> list[str]:
    """Single words of flags, which may be lists of lists."""
    return split(flags) if isinstance(flags, str) else list(chain(*map(words_of, flags)))


# --- the needs of a table ---------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A row on a corpus with a seed; a corpus itself has the seed 0.

    Attributes:
        row, corpus, seed: the row, on a corpus, with a seed.
        model: the name of its model; of an ensemble, of the first one.
        name: the name of its translation.
        against: the run that it is tested against, with the same corpus and seed.
    """

    row: TableRow
    corpus: str
    seed: int
    model: str = ""
    name: str = ""
    against: PlannedRun | None = None

    @property
    def folder(self) -> str:
        """The folder of all models of the seed and their measurements."""
        return f"runs/{self.corpus}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRow:
    """A row on a corpus: its runs, or why there are none."""

    row: TableRow
    corpus: str
    runs: Sequence[PlannedRun]
    why_not: str = ""


class ExperimentPlan:
    """The rows, runs and files that the Snakefile makes.

    Args:
        request: ``scale``, ``set``, ``amp``, ``data``, ``corpora``, ``tables``, ``rows`` and
            ``seeds``, as a user gives them.

    Raises:
        GtransError: nothing of it can be made, or a corpus is missing.
    """

    def __init__(self, request: Mapping[str, Any]) -> None:
        self._request = request
        self.scale: str = request["scale"]
        self.sizes = read("scales")[self.scale]
        self.amp: bool = request.get("amp", False)
        self.changes = sorted(request.get("set", ()))
        self.settings = read_settings(self.scale, self.changes)
        self.label = _label(self.scale, self.amp, self.changes)
        self.data = Path(request["data"]) if request.get("data") else None
        self.named: Sequence[str] = request.get("corpora") or ()
        self.seeds: Sequence[int] = request.get("seeds") or self.sizes["seeds"]
        # The models, as `models.yaml` has them, with the flags of their rows.
        self.models: dict[str, Mapping[str, Any]] = {}
        # Models and flags of translations, by name.
        self.translations: dict[str, tuple[list[str], str]] = {}
        tables = find(request["tables"])
        self.tables = {name: table for name, table in tables.items() if table.scales[self.scale]}
        self.left_out = []
        for name, table in tables.items():
            if name not in self.tables:
                reason = table.note.partition(". ")[0]
                self.left_out.append(f"{name} is not shown at scale {self.scale}: {reason}")
        if not self.tables:
            raise GtransError("; ".join(self.left_out))
        labels = request.get("rows") or ()
        if labels:
            self._check_labels(labels)
            chosen = {name: table.with_rows(labels) for name, table in self.tables.items()}
            self.tables = {name: table for name, table in chosen.items() if table.rows}
        else:
            self._plan_all()

    def _plan_all(self) -> list[PlannedRow]:
        """Plan the rows of all tables; their models and translations are known afterwards."""
        rows = []
        for table in self.tables.values():
            rows += self.rows(table)
        return rows

    def _check_labels(self, labels: Sequence[str]) -> None:
        """Raises GtransError for the label of a row that cannot be made here."""
        rows = self._plan_all()
        for label in labels:
            planned = [row for row in rows if row.row.label == label]
            if any(row.runs for row in planned):
                continue
            names = ", ".join(dict.fromkeys(repr(row.row.label) for row in rows))
            why = planned[0].why_not if planned else f"there is no such row, only {names}"
            raise GtransError(f"`--rows`: '{label}': {why}.")

    def with_all_seeds(self) -> ExperimentPlan:
        """The plan of all rows, with all seeds in the current folder."""
        present = {int(path.name.removeprefix("seed-")) for path in Path("runs").glob("*/seed-*")}
        return ExperimentPlan(
            {**self._request, "rows": [], "seeds": sorted({*self.seeds, *present})}
        )

    def corpora(self, table: Table) -> Sequence[str]:
        """Names of the corpora of a table at this scale.

        Raises:
            GtransError: the user has to name one.
        """
        corpora = self.named or table.at.get(self.scale)
        if corpora is None and self.scale == "small":
            raise GtransError(
                "`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({table.name}: {table.scales['small']})."
            )
        return corpora or (["synthetic"] if self.scale == "tiny" else table.corpora)

    @cache  # noqa: B019 # a process has one plan
    def corpus(self, name: str) -> ParallelText:
        """A corpus that is made or given.

        Raises:
            GtransError: it is missing, or its languages are not clear.
        """
        made = ParallelText(name, Path("corpora", name), "valid", *self.sizes["pair"])
        if name in self.sizes.get("synthetic", {}):
            return made
        if self.data is None:
            raise GtransError(f"`--data` is missing: the folder that holds {name}/.")
        folder = self.data / name
        if not folder.is_dir():
            folder = self.data / name_of(name)
        if not folder.is_dir() and name in self.sizes.get("assembled", ()):
            return made
        languages = self.sizes.get("languages", {}).get(name, self.sizes["pair"])
        return replace(find_text(folder, *languages), name=name)

    # -- models

    def _model(self, name: str, train: str = "") -> str:
        """The name of a model with the flags of a row; adds it and its start to the plan."""
        name = self.sizes.get("models", {}).get(name, name)
        entry = read("models")[name]
        full = slug(name, train)
        self.models[full] = {"kind": name, **entry, "train": [entry.get("train", ""), train]}
        if "start" in entry:
            self._model(entry["start"])
        return full

    def finished(self, model: str, folder: str, file: str = "trained") -> str:
        """The file that marks a finished model; ``file``: another file of its training."""
        averaged = "average" in self.models[model] and self.scale == "paper"
        return f"{folder}/{model}/{'average.pt' if averaged else file}"

    def checkpoint(self, model: str, folder: str) -> str:
        """The file of a trained model."""
        return self.finished(model, folder, "checkpoint_best.pt")

    def preparation(self, model: str) -> str:
        """How the corpus of a model is prepared."""
        name: str = self.models[model].get("data", "plain")
        return name if name in self.sizes["prepare"] else "plain"

    # -- rows

    def rows(self, table: Table) -> list[PlannedRow]:
        """The rows of a table on every corpus."""
        corpora = self.corpora(table)
        if table.rows:
            return [self._row(table, *pair) for pair in product(corpora, table.rows.values())]
        # Counts of corpora, which have the paper's labels.
        labels = dict(zip(table.corpora, table.printed.get("rows", ()), strict=False))
        rows = {name: TableRow(labels.get(name, name)) for name in corpora}
        return [PlannedRow(row, name, [PlannedRun(row, name, 0)]) for name, row in rows.items()]

    def _row(self, table: Table, corpus: str, row: TableRow) -> PlannedRow:
        note = f" ({row.note})" if row.note else ""
        seeds = row.seeds.get(self.scale, self.seeds)
        if not row.model and not row.ensemble:
            return PlannedRow(row, corpus, [], row.note)
        if row.at.get(self.scale, "") is None:
            return PlannedRow(row, corpus, [], f"not at this scale{note}")
        if row.corpora and corpus not in row.corpora:
            return PlannedRow(row, corpus, [], f"not on {corpus}{note}")
        if not set(self.seeds) & set(seeds):
            return PlannedRow(row, corpus, [], f"only with the seeds {seeds} at this scale")
        self.corpus(corpus)
        members = [table.rows[label] for label in row.ensemble] or [row]
        models = []
        for member in members:
            flags = member.at.get(self.scale, member.train) or ""
            models.append(self._model(member.model, flags))
        name = slug("+".join(models), row.translate)
        full = f"{name}.{row.control}" if row.control else name
        self.translations |= dict.fromkeys((name, full), (models, row.translate))
        baseline = self._row(table, corpus, table.rows[row.against]).runs if row.against else ()
        others = {run.seed: run for run in baseline}
        runs = []
        for seed in self.seeds:
            if seed in seeds:
                runs.append(PlannedRun(row, corpus, seed, models[0], full, others.get(seed)))
        return PlannedRow(row, corpus, runs)

    def translation(self, run: PlannedRun) -> str:
        """The file with the translation of the test documents."""
        return f"{run.folder}/test.{run.name}.{self.corpus(run.corpus).target}"

    # -- measures

    def files(self, measure: str, run: PlannedRun) -> list[str]:
        """The files of a measure of a run, and of its comparison with its baseline."""
        if run.corpus not in read("columns")["corpora"].get(measure, [run.corpus]):
            return []
        # A control concerns translations; measures of the model are in the model's own row.
        if run.row.control and measure not in OF_TRANSLATIONS:
            return []
        folder = f"{run.folder}/measures/{measure}"
        if measure == "counts":
            return [f"data/{run.corpus}/plain.counts.json"]
        if measure in ("training", "size"):
            return [f"{run.folder}/{model}/trained" for model in self.translations[run.name][0]]
        if measure == "directions":
            files = self._directions(folder, run)
            return files + self._directions(folder, run.against) if run.against else files
        if measure == "speed":
            return [f"{folder}/{run.name}.{ending}" for ending in ("tsv", "txt")]
        if measure in ("score", "parts"):
            baseline = f"~{run.against.name}" if run.against else ""
            return [f"{folder}/{run.name}{baseline}.json"]
        both = [f"{folder}/{run.model}~{run.against.model}.json"] if run.against else []
        if measure == "likelihood":
            return both
        own = [f"{folder}/{run.model}.json"]
        return own + both if measure in TESTED_SETS else own

    def _directions(self, folder: str, run: PlannedRun) -> list[str]:
        """The scores of all language pairs of a run."""
        pairs = self.corpus(run.corpus).directions
        return [f"{folder}/{run.model}/{pair}.json" for pair in pairs]

    def analyses(self, table: Table) -> dict[str, tuple[str, list[PlannedRun]]]:
        """The further commands of a table at this scale and the runs that they read, by name."""
        analyses = {}
        corpora = self.corpora(table)
        for corpus, (key, command) in product(corpora, table.commands.items()):
            if self.scale not in command.get("scales", SCALES):
                continue
            labels = command.get("rows", table.rows)
            runs: list[PlannedRun] = []
            for row in self.rows(table):
                if row.corpus == corpus and row.row.label in labels:
                    runs += row.runs[:1] if command.get("first_seed") else row.runs
            if runs:
                end = f".{corpus}" if len(corpora) > 1 else ""
                analyses[f"{table.name}.{key}{end}"] = command["run"], runs
        return analyses

    def inputs(self, table: Table) -> list[str]:
        """All files from which the results of a table are written."""
        measures = ["training"] if table.rows else []
        measures += [read("columns")["columns"][title]["measure"] for title in table.columns]
        runs: list[PlannedRun] = []
        for row in self.rows(table):
            runs += row.runs
        files: list[str] = []
        for measure, run in product(measures, runs):
            files += self.files(measure, run)
        files += [f"analyses/{name}.done" for name in self.analyses(table)]
        return list(dict.fromkeys(files))


def _label(scale: str, amp: bool, changes: Iterable[str]) -> str:
    """How the plan of a scale is called: the scale and each change."""
    parts = [scale]
    if amp:
        parts.append("amp")
    parts += [change.replace("=", "-") for change in changes]
    return ".".join(parts)


def slug(name: str, flags: str) -> str:
    """A name with flags; it has at most 80 characters, then a digest."""
    words = " ".join([name, *split(flags)]).replace(" --", ".")
    full = re.sub(r"[^A-Za-z0-9.+_-]+", "-", words)
    cut = full[:80] if flags else full
    return full if cut == full else f"{cut}.{sha256(full.encode()).hexdigest()[:8]}"
