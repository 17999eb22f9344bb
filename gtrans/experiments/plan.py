"""From experiments, a scale and seeds to jobs: :func:`plan`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Experiment, Variant
from gtrans.experiments.commands import Model, job_of
from gtrans.experiments.jobs import Job, Jobs, Plan
from gtrans.experiments.measures import BASELINE, ROW, Column, Measure, read_measures
from gtrans.experiments.refusals import why_not
from gtrans.experiments.runs import Corpus, Run, Runs
from gtrans.experiments.scales import ScaleSettings, filled


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
    """

    variant: Variant
    corpus: str
    runs: tuple[Run, ...] = ()
    cells: Mapping[str, tuple[Cell, ...]] | None = None
    baseline: str = ""
    why_not: str = ""


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


@dataclass(frozen=True)
class Wish:
    """What a user asks for.

    Attributes:
        scale: the settings.
        out: ``--out``.
        data: the folder of corpora that are given, or None.
        corpora: names of corpora instead of the experiments' own.
        seeds: of the runs.
    """

    scale: ScaleSettings
    out: Path
    data: Path | None
    corpora: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def folder(self) -> Path:
        """Where all of this scale is written."""
        return self.out.resolve() / self.scale.label


def plan(experiments: Iterable[Experiment], wish: Wish) -> tuple[Plan, list[Planned]]:
    """The jobs of some experiments, which share what they can, and how to read them.

    Raises:
        GtransError: an experiment cannot be had at this scale, or something for it is missing.
    """
    jobs = Jobs()
    planner = _Planner(wish, jobs)
    planned = [planner.experiment(experiment) for experiment in experiments]
    return jobs.plan(wish.folder), planned


class _Planner:
    def __init__(self, wish: Wish, jobs: Jobs) -> None:
        self._wish, self._scale, self._jobs = wish, wish.scale, jobs
        self._runs = Runs(wish.folder, wish.scale, jobs, wish.data)
        self._measures, self._columns = read_measures()

    def experiment(self, experiment: Experiment) -> Planned:
        """All jobs of an experiment."""
        refusal = why_not(experiment, self._scale, self._wish.data, self._wish.corpora)
        if refusal:
            raise GtransError(refusal)
        corpora = [self._runs.corpus(name) for name in self._corpora(experiment)]
        unknown = [title for title in experiment.here.columns if title not in self._columns]
        if unknown:
            raise GtransError(f"{experiment.name}: there is no column '{unknown[0]}'.")
        columns = {title: self._columns[title] for title in experiment.here.columns}
        measures = {it.measure: self._measures[it.measure] for it in columns.values()}
        needed: list[str] = [corpus.job for corpus in corpora if corpus.job]
        rows: list[Row] = []
        for corpus in corpora:
            here = {
                name: measure
                for name, measure in measures.items()
                if not measure.corpora or corpus.name in measure.corpora
            }
            rows += self._rows(experiment, corpus, here, needed)
        if experiment.variants and not any(row.runs for row in rows):
            raise GtransError(
                f"{experiment.name}: none of its rows is run at scale {self._scale.name}: "
                f"{rows[0].why_not}"
            )
        made = self._commands(experiment, corpora, rows, needed)
        return Planned(
            experiment,
            self._scale,
            self._wish.folder,
            tuple(corpus.name for corpus in corpora),
            columns,
            measures,
            tuple(rows),
            tuple(made),
            tuple(dict.fromkeys(needed)),
        )

    def _commands(
        self,
        experiment: Experiment,
        corpora: Sequence[Corpus],
        rows: Sequence[Row],
        needed: list[str],
    ) -> list[Path]:
        """The jobs of an experiment's own commands; returns the files that they make.

        Each is run for every corpus: it reads one prepared corpus, and a mean is over seeds only.
        """
        made: list[Path] = []
        for corpus in corpora:
            end = f".{corpus.name}" if len(corpora) > 1 else ""
            of_corpus = [row for row in rows if row.corpus == corpus.name]
            made += self._commands_of(experiment, corpus, end, of_corpus, needed)
        return made

    def _commands_of(
        self,
        experiment: Experiment,
        corpus: Corpus,
        end: str,
        rows: Sequence[Row],
        needed: list[str],
    ) -> list[Path]:
        """These jobs for one corpus; ``end``: of their names."""
        made: list[Path] = []
        earlier: tuple[str, ...] = ()
        for command in experiment.here.commands:
            if self._scale.name not in command.scales:
                continue
            models = [
                Model(row.variant.label, run, row.baseline, self._run_of(row, run.seed, rows))
                for row in rows
                if not command.rows or row.variant.label in command.rows
                for run in row.runs[: 1 if command.first_seed else None]
            ]
            parts: list[str] = []
            before = len(needed)
            if "{parts}" in command.argv:
                for it in models:
                    if it.other is not None:
                        measure = self._measures["parts"]
                        file = self._measure("parts", measure.against, it.run, it.other, needed)
                        parts += [f"{it.baseline}={file}:{BASELINE}", f"{it.label}={file}:{ROW}"]
                earlier = (*earlier, *needed[before:])
            values = self._values(models[0].run) if models else {}
            job, files = job_of(
                replace(command, name=f"{command.name}{end}"), experiment.name,
                self._wish.folder, models, values, corpus,
                {"{parts}": parts, "{device}": list(self._scale.device)}, earlier,
            )  # fmt: skip
            if "{hypotheses}" in command.argv or "{run}" in "".join(command.argv):
                translated = [self._jobs.add(it.run.translated).name for it in models]
                job = replace(job, after=(*job.after, *translated))
            needed.append(self._jobs.add(job).name)
            earlier = (*earlier, job.name)
            made += files
        return made

    @staticmethod
    def _run_of(row: Row, seed: int, rows: Sequence[Row]) -> Run | None:
        """The baseline's run with the same corpus and seed."""
        for other in rows:
            if (other.variant.label, other.corpus) == (row.baseline, row.corpus):
                return next(run for run in other.runs if run.seed == seed)
        return None

    def _corpora(self, experiment: Experiment) -> Sequence[str]:
        scale = self._scale.name
        if self._wish.corpora:
            return self._wish.corpora
        if self._scale.corpora:
            return experiment.here.corpora.get(scale, ("embedded",))
        if scale == "small":
            raise GtransError(
                f"`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({experiment.name}: {experiment.scales[scale]})."
            )
        return experiment.here.corpora.get(scale, experiment.corpora)

    def _rows(
        self,
        experiment: Experiment,
        corpus: Corpus,
        measures: dict[str, Measure],
        needed: list[str],
    ) -> list[Row]:
        if not experiment.variants:
            return [self._counts(experiment, corpus, measures, needed)]
        runs: dict[str, tuple[Run, ...]] = {}
        reasons: dict[str, str] = {}
        for variant in experiment.variants:
            if variant.ensemble:
                continue
            if variant.options_at(self._scale.name) is None:
                reasons[variant.label] = variant.note or "not at this scale"
            elif variant.corpora and corpus.name not in variant.corpora:
                reasons[variant.label] = variant.note or f"not on {corpus.name}"
            elif variant.recipe not in self._scale.recipes:
                reasons[variant.label] = f"recipe {variant.recipe} is not run at this scale"
            else:
                runs[variant.label] = tuple(
                    self._runs.model(variant, corpus, seed) for seed in self._wish.seeds
                )
        for variant in experiment.variants:
            if variant.ensemble:
                parts = zip(*(runs[label] for label in variant.ensemble), strict=True)
                runs[variant.label] = tuple(self._runs.ensemble(part) for part in parts)
        needed += [job.name for of in runs.values() for run in of for job in run.trained]
        rows = []
        for variant in experiment.variants:
            if variant.label in reasons:
                rows.append(Row(variant, corpus.name, why_not=reasons[variant.label]))
                continue
            own, others = runs[variant.label], runs.get(variant.baseline, ())
            cells = {
                name: tuple(
                    self._measured(name, measure, run, others[number] if others else None, needed)
                    for number, run in enumerate(own)
                )
                for name, measure in measures.items()
            }
            baseline = variant.baseline if others else ""
            rows.append(Row(variant, corpus.name, own, cells, baseline))
        return rows

    def _counts(
        self,
        experiment: Experiment,
        corpus: Corpus,
        measures: dict[str, Measure],
        needed: list[str],
    ) -> Row:
        """The row of a corpus, in a table of counts; it has the paper's label if it is there."""
        run = self._runs.prepared(corpus)
        cells = {
            name: (self._measured(name, measure, run, None, needed),)
            for name, measure in measures.items()
        }
        labels = dict(zip(experiment.corpora, experiment.printed.rows, strict=False))
        label = labels[corpus.name].label if corpus.name in labels else corpus.name
        return Row(Variant(label, "none", (), "", ""), corpus.name, (run,), cells)

    def _measured(
        self, name: str, measure: Measure, run: Run, baseline: Run | None, needed: list[str]
    ) -> Cell:
        """The jobs that measure a run."""
        if measure.reads in ("history", "log"):
            first, *others = (Path(it).parent for it in run.checkpoint.split(":"))
            return Cell(first, None, tuple(others))
        if measure.reads == "speed":
            job = self._jobs.add(self._runs.timed(run))
            needed.append(job.name)
            return Cell(Path(job.makes[0]), self._wish.folder / f"{job.name}.json")
        one = against = None
        if baseline is None or not measure.against or not measure.instead:
            one = self._measure(name, measure.argv, run, None, needed)
        if baseline is not None and measure.against:
            if not measure.instead:
                self._measure(name, measure.argv, baseline, None, needed)
            against = self._measure(name, measure.against, run, baseline, needed)
        return Cell(one, against)

    def _measure(
        self,
        name: str,
        argv: tuple[str, ...],
        run: Run,
        baseline: Run | None,
        needed: list[str],
    ) -> Path:
        short = f"{run.model}.{name}"
        values = self._values(run)
        after = [*run.trained]
        if baseline is not None:
            other = f"{baseline.folder.parent.name}.{baseline.model}"
            short += f".against.{other}"
            values |= {f"{BASELINE}-{key}": it for key, it in self._values(baseline).items()}
            after += baseline.trained
        if any("hypothesis}" in word for word in argv):
            translated = [run, *([] if baseline is None else [baseline])]
            after = [self._jobs.add(it.translated) for it in translated]
        names = [job.name for job in after]
        if baseline is not None and not any("hypothesis}" in word for word in argv):
            names = [self._job_name(it, f"{it.model}.{name}") for it in (run, baseline)]
        sets = {
            "{sets}": [str(run.corpus.folder / "contrastive" / f"{p}.jsonl") for p in _PHENOMENA],
            "{device}": list(self._scale.device),
        }
        words = [part for word in argv for part in sets.get(word, [word])]
        path = run.folder / "measures" / f"{short}.json"
        makes = [word for word in filled(words, values) if word.endswith(".jsonl")]
        own = [word for word in makes if word.startswith(f"{path.parent}/") and baseline is None]
        job = Job(
            self._job_name(run, short),
            tuple(filled(words, values)),
            tuple(own),
            tuple(names),
            stdout=str(path),
            gpu=self._scale.gpu and "{device}" in argv,
        )
        needed.append(self._jobs.add(job).name)
        return path

    def _job_name(self, run: Run, short: str) -> str:
        return f"{run.folder.relative_to(self._wish.folder)}/jobs/{short}"

    def _values(self, run: Run) -> dict[str, str]:
        """What may stand in braces in a measure."""
        source, reference = run.corpus.test
        return {
            "checkpoint": run.checkpoint,
            "hypothesis": run.hypothesis,
            "data": run.data,
            "source": source,
            "reference": reference,
            "target-lang": run.corpus.target,
            "measures": str(run.folder / "measures"),
            "model": run.model,
            "run": str(run.folder),
            "text": str(run.corpus.folder),
        }


_PHENOMENA = ("pronoun", "ellipsis", "formality", "lexical")
