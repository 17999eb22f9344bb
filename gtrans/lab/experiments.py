"""The catalogue of the papers' tables and figures, and what each needs at a scale.

``exp_gtransformer/experiments`` has a file for each paper, and the models, scales and columns that
they name. The Snakefile asks a :class:`Plan`.
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
    """How a row of a table, or a point of a figure, is had here.

    Attributes:
        label: its name in the paper.
        model: of ``models.yaml``; empty: there is no way, or ``ensemble``.
        train: flags of ``gtrans train`` besides those of the model.
        at: these flags at a scale if they are others; None: it is left out there.
        translate: flags of ``gtrans translate`` besides those of the model.
        control: the test sentences ``alone``, or ``shuffled`` over all documents.
        ensemble: labels of the rows whose models translate together.
        against: label of the row that it is tested against.
        seed_plus: what is added to the seed.
        seeds: at a scale, those that it is run with; else all.
        corpora: those that its flags are for; on others it is left out; empty: all.
        x: its places on the horizontal axes of a figure, by their titles.
        series: the curve that it belongs to.
        note: what is missing for it, or why there is no way.
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
        name: such as ``gtransformer-T2``.
        paper: name, short, title, authors, year and venue of its paper.
        title: what is in it, in a few words.
        section: where the paper speaks of it.
        shows: what its reader learns.
        corpora: names of the paper's corpora.
        scales: how it is shown at each scale; an empty text: not at all.
        rows: how its rows are had here, by label; none for counts of a corpus.
        columns: of the table here, by the titles of ``columns.yaml``.
        at: at a scale, other corpora than the paper's.
        printed: what the paper prints: ``columns``, ``rows`` by label, ``quoted`` labels, ``note``.
        figure: drawn from the table: ``x``, titles of axes, and ``y``, columns.
        commands: by name, further commands: ``run``, and if needed ``rows`` and ``scales`` that
            they are for, and whether of the ``first_seed`` only.
        contradictions: of the paper with itself.
        not_free: why not all that it needs can be had freely.
        note: what else there is to know.
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
        """The table with these rows, and those that they are tested against or made of."""
        wanted: set[str] = set()
        left = [label for label in labels if label in self.rows]
        while left:
            label = left.pop()
            if label not in wanted:
                wanted.add(label)
                left += [it for it in (self.rows[label].against, *self.rows[label].ensemble) if it]
        return replace(self, rows={it: row for it, row in self.rows.items() if it in wanted})


@cache
def read(name: str) -> Any:
    """A file of the folder of experiments."""
    return yaml.safe_load((shipped(_FOLDER) / f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def read_catalogue() -> Mapping[str, Table]:
    """All tables and figures by name, in the order of the papers."""
    found = {}
    for paper in PAPERS:
        content = read(paper)
        for key, entry in content["tables"].items():
            rows = {label: Row(label, **row) for label, row in entry.get("rows", {}).items()}
            name = f"{paper}-{key}"
            found[name] = Table(name, content["paper"], **{**entry, "rows": rows})
    return found


def find(names: Iterable[str]) -> dict[str, Table]:
    """The tables of some names, in either case; the name of a paper is all of it.

    Raises:
        GtransError: there is none of a name.
    """
    every = {it.lower(): table for it, table in read_catalogue().items()}
    of_paper = {it: [name for name in every if name.startswith(f"{it}-")] for it in PAPERS}
    found: dict[str, Table] = {}
    for name in map(str.lower, names):
        if name not in every and name not in of_paper:
            raise GtransError(
                f"there is no table or figure '{name}'{did_you_mean(name, [*of_paper, *every])} "
                "`gtrans reproduce --list` names all of them."
            )
        found |= {every[it].name: every[it] for it in of_paper.get(name, [name])}
    return found


# --- scales -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """How large everything is: ``of``, an entry of ``scales.yaml``, with some settings changed.

    Attributes:
        name: of it.
        label: that, and what a user has changed; the name of its folder.
        changes: the settings that a user has changed, as ``NAME=N``, sorted.
        amp: whether all translation models are trained in mixed precision.
        settings: numbers that stand in braces in flags.
    """

    name: str
    label: str
    changes: Sequence[str]
    amp: bool
    settings: Mapping[str, str]
    of: Mapping[str, Any]


def read_scale(name: str, changes: Iterable[str] = (), amp: bool = False) -> Scale:
    """A scale; a change ``updates=N`` is one of all settings whose names end in it.

    Raises:
        GtransError: there is no such setting, or its value is no whole number.
    """
    entry = read("scales")[name]
    settings = {key: str(value) for key, value in entry["settings"].items()}
    # What names one setting is the last word.
    for change in (every := sorted(changes, key=lambda it: not it.startswith("updates="))):
        key, _, value = change.partition("=")
        # At scale paper most models have the updates of their papers.
        ending = "-updates" if key == "updates" and name != "paper" else f"/{key}"
        names = [it for it in settings if it == key or it.endswith(ending)]
        if not names:
            raise GtransError(
                f"`--set {change}`: scale {name} has no setting '{key}' (it has "
                f"{', '.join(settings)})."
            )
        if not re.fullmatch("[1-9][0-9]{0,8}", value):
            raise GtransError(f"`--set {change}`: give a whole number of at least 1.")
        settings.update(dict.fromkeys(names, value))
    label = ".".join([name, *["amp"] * amp, *(it.replace("=", "-") for it in sorted(every))])
    return Scale(name, label, sorted(every), amp, settings, entry)


def words_of(flags: Any) -> list[str]:
    """Single words of flags, which may be lists of lists."""
    return split(flags) if isinstance(flags, str) else [it for of in flags for it in words_of(of)]


# --- what a table needs -----------------------------------------------------------------


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
        """Where all models of the seed stand, and what is measured of them."""
        return f"runs/{self.corpus}/seed-{self.seed}"


@dataclass(frozen=True)
class PlannedRow:
    """A row on a corpus: its runs, or why there are none."""

    row: Row
    corpus: str
    runs: Sequence[Run]
    why_not: str


class Plan:
    """What is to be made, as the Snakefile asks for it.

    Args:
        request: ``scale``, ``set``, ``amp``, ``data``, ``corpora``, ``tables``, ``rows`` and
            ``seeds``, as a user gives them.

    Raises:
        GtransError: nothing of it can be had, or a corpus is not there.
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
        # By name, models and flags of translations.
        self.translations: dict[str, tuple[list[str], str]] = {}
        every = find(request["tables"])
        refused = {name: why for name, it in every.items() if (why := self._refusal(it))}
        # Of a whole paper, what can be had is made.
        if len(refused) == len(every):
            raise GtransError("; ".join(refused.values()))
        self.left_out = list(refused.values())
        self.whole = {name: it for name, it in every.items() if name not in refused}
        self.tables = self.whole
        if labels := request.get("rows"):
            some = {name: it.with_rows(labels) for name, it in self.whole.items()}
            self.tables = {name: it for name, it in some.items() if it.rows}
        rows = [it for table in self.whole.values() for it in self.rows(table)]
        for label in labels or ():
            found = [it for it in rows if it.row.label == label]
            if not any(it.runs for it in found):
                known = ", ".join(dict.fromkeys(repr(it.row.label) for it in rows))
                why = found[0].why_not if found else f"there is no such row, only {known}"
                raise GtransError(f"`--rows`: '{label}': {why}.")

    def with_all_seeds(self) -> Plan:
        """The same of all rows, with all seeds that there are in the current folder."""
        there = {int(it.name.removeprefix("seed-")) for it in Path("runs").glob("*/seed-*")}
        return Plan({**self._request, "rows": [], "seeds": sorted({*self.seeds, *there})})

    def _refusal(self, table: Table) -> str:
        """Why a table cannot be had at this scale; empty: it can."""
        name = self.scale.name
        if not table.scales[name]:
            return f"{table.name} is not shown at scale {name}: {table.note.partition('. ')[0]}"
        corpora = self.named or table.corpora
        there = self.data is not None and all((self.data / it).is_dir() for it in corpora)
        if table.not_free and name == "paper" and not there:
            return f"{table.name} cannot be had freely: {table.not_free}"
        return ""

    def corpora(self, table: Table) -> Sequence[str]:
        """Names of the corpora of a table at this scale.

        Raises:
            GtransError: the user has to name one.
        """
        found = self.named or table.at.get(self.scale.name)
        if found is None and self.scale.name == "small":
            raise GtransError(
                "`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({table.name}: {table.scales['small']})."
            )
        return found or (["synthetic"] if self.scale.name == "tiny" else table.corpora)

    @cache  # noqa: B019 # a process has one plan
    def corpus(self, name: str) -> Text:
        """A corpus that is made or given.

        Raises:
            GtransError: it is not there, or its languages are not clear.
        """
        made, of = Path("corpora", name), self.scale.of
        if name in of.get("synthetic", {}):
            return Text(name, made, "valid", *of["pair"])
        if self.data is None:
            raise GtransError(f"`--data` is missing: the folder that holds {name}/.")
        folder = self.data / name
        if not folder.is_dir():
            folder = self.data / name_of(name)
        if not folder.is_dir() and name in of.get("assembled", ()):
            return Text(name, made, "valid", *of["pair"])
        text = find_text(folder, *of.get("languages", {}).get(name, of["pair"]))
        return replace(text, name=name)

    # -- models

    def _model(self, name: str, train: str = "", seed_plus: int = 0) -> str:
        """The name of a model with the flags of a row; it is noted, and what it starts from."""
        name = self.scale.of.get("models", {}).get(name, name)
        of = read("models")[name]
        full = slug(name, train) + (f".seed-plus-{seed_plus}" if seed_plus else "")
        self.models[full] = Model(name, of, train, seed_plus)
        if "start" in of:
            self._model(of["start"])
        return full

    def finished(self, model: str, folder: str, file: str = "trained") -> str:
        """The file that says that a model is there; ``file``: another one of its training."""
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
            return [PlannedRow(Row(labels.get(it, it)), it, [Run(it, 0, "", "")], "")
                    for it in self.corpora(table)]  # fmt: skip
        found = []
        for corpus, row in product(self.corpora(table), table.rows.values()):
            why_not = self._left_out(row, corpus)
            runs = [] if why_not else self._runs(table, row, corpus)
            if not why_not and not runs:
                why_not = f"only with the seeds {row.seeds[self.scale.name]} at this scale"
            found.append(PlannedRow(row, corpus, runs, why_not))
        return found

    def rows(self, table: Table) -> list[PlannedRow]:
        """The rows of a table, or of a part of it, on every corpus."""
        rows = self._rows(table.name)
        return [it for it in rows if it.row.label in table.rows or not table.rows]

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
            self._model(it.model, it.at.get(self.scale.name, it.train) or "", it.seed_plus)
            for it in [table.rows[label] for label in row.ensemble] or [row]
        ]
        name = slug("+".join(models), row.translate)
        self.translations[name] = models, row.translate
        if row.control:
            name = f"{name}.{row.control}"
            self.translations[name] = models, row.translate
        possible = row.seeds.get(self.scale.name, self.seeds)
        return [
            Run(corpus, it, models[0], name, row.control) for it in self.seeds if it in possible
        ]

    def translation(self, run: Run) -> str:
        """The file with the translation of the test documents."""
        return f"{run.folder}/test.{run.name}.{self.corpus(run.corpus).target}"

    def other(self, table: Table, row: PlannedRow, run: Run) -> Run | None:
        """The run that one is tested against: of the same corpus and seed."""
        rows = [it for it in self.rows(table) if it.row.label == row.row.against]
        found = [it for of in rows if of.corpus == row.corpus for it in of.runs]
        return next((it for it in found if it.seed == run.seed), None)

    # -- measures

    def columns(self, table: Table) -> dict[str, dict[str, Any]]:
        """The columns of a table by title, one of each direction where it is for all."""
        every = [it for name in self.corpora(table) for it in self.corpus(name).directions]
        found: dict[str, dict[str, Any]] = {}
        for title in table.columns:
            of = read("columns")["columns"][title]
            for it in every if "{direction}" in title else [""]:
                at = [word.replace("{direction}", it) for word in of["at"]]
                found[title.replace("{direction}", it)] = {**of, "at": at}
        return found

    def files(self, measure: str, run: Run, other: Run | None) -> list[str]:
        """The files that a measure is read from: of the run, and of it and the other one."""
        if run.corpus not in read("columns")["corpora"].get(measure, [run.corpus]):
            return []
        # A control concerns translations: what is of the model stands in the model's own row.
        if run.control and measure not in OF_TRANSLATIONS:
            return []
        folder = f"{run.folder}/measures/{measure}"
        if measure == "counts":
            return [f"data/{run.corpus}/plain.counts.json"]
        if measure in ("training", "size"):
            return [f"{run.folder}/{it}/trained" for it in self.translations[run.name][0]]
        if measure == "directions":
            runs, directions = filter(None, (run, other)), self.corpus(run.corpus).directions
            return [f"{folder}/{of.model}/{it}.json" for of in runs for it in directions]
        if measure == "speed":
            return [f"{folder}/{run.name}.{ending}" for ending in ("tsv", "txt")]
        if measure in ("score", "parts"):
            return [f"{folder}/{run.name}{f'~{other.name}' if other else ''}.json"]
        both = [f"{folder}/{run.model}~{other.model}.json"] if other else []
        if measure == "likelihood":
            return both
        return [f"{folder}/{run.model}.json", *(both if measure in TESTED_SETS else [])]

    def analyses(self, table: Table) -> dict[str, tuple[str, list[tuple[PlannedRow, Run]]]]:
        """By name, the further commands of a table at this scale, and what they read."""
        found, corpora = {}, self.corpora(table)
        for corpus, (key, of) in product(corpora, table.commands.items()):
            labels, last = of.get("rows", table.rows), 1 if of.get("first_seed") else None
            rows = [it for it in self.rows(table) if it.corpus == corpus and it.row.label in labels]
            runs = [(row, run) for row in rows for run in row.runs[:last]]
            if runs and self.scale.name in of.get("scales", SCALES):
                end = f".{corpus}" if len(corpora) > 1 else ""
                found[f"{table.name}.{key}{end}"] = of["run"], runs
        return found

    def inputs(self, table: Table) -> list[str]:
        """All files that the results of a table are written from."""
        found = []
        measures = ["training"] if table.rows else []
        measures += [it["measure"] for it in self.columns(table).values()]
        for row, measure in product(self.rows(table), dict.fromkeys(measures)):
            for run in row.runs:
                found += self.files(measure, run, self.other(table, row, run))
        found += [f"analyses/{it}.done" for it in self.analyses(table)]
        return list(dict.fromkeys(found))

    @property
    def words(self) -> list[str]:
        """The words behind the name of a table that make it, without folders, seeds and rows."""
        words = ["--scale", self.scale.name, *["--amp"] * self.scale.amp]
        words += ["--corpus", *self.named] if self.named else []
        return [*words, *(word for it in self.scale.changes for word in ("--set", it))]


def slug(name: str, flags: str) -> str:
    """A name for what is called ``name`` without these flags; long ones end in a digest."""
    if not flags:
        return name
    words = re.sub(r" (?!--)", "-", " ".join(split(flags))).split(" ")
    full = ".".join([name, *(it.removeprefix("--") for it in words)])
    full = re.sub(r"[^A-Za-z0-9.+_-]+", "_", full).rstrip("_")
    cut = full[:_LONGEST_NAME]
    return full if cut == full else f"{cut}.{sha256(full.encode()).hexdigest()[:8]}"
