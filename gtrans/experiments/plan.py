"""From experiments, a scale and seeds to jobs: :func:`plan`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Experiment, Variant
from gtrans.experiments.commands import Model, job_of
from gtrans.experiments.corpora import Corpora, Corpus
from gtrans.experiments.jobs import Job, Jobs, Plan, in_this_order
from gtrans.experiments.measures import BASELINE, ROW, Measure, of_directions, read_measures
from gtrans.experiments.planned import Cell, Planned, Row, Wish
from gtrans.experiments.refusals import why_not
from gtrans.experiments.runs import Run, Runs
from gtrans.experiments.scales import filled


def plan(experiments: Iterable[Experiment], wish: Wish) -> tuple[Plan, list[Planned]]:
    """The jobs of some experiments, which share what they can, and how to read them.

    They stand in the order in which they should run: all that a row needs before the next row.

    Raises:
        GtransError: an experiment cannot be had at this scale, or something for it is missing.
    """
    jobs = Jobs()
    planner = _Planner(wish, jobs)
    planned = [planner.experiment(experiment) for experiment in experiments]
    names = [name for one in planned for name in one.jobs]
    return in_this_order(jobs.plan(wish.folder), names), planned


def _because(reason: str, variant: Variant) -> str:
    """Why a row is not run, with what is known of it."""
    return f"{reason} ({variant.note})" if variant.note else reason


class _Planner:
    def __init__(self, wish: Wish, jobs: Jobs) -> None:
        self._wish, self._scale, self._jobs = wish, wish.scale, jobs
        self._runs = Runs(wish.folder, wish.scale, jobs, wish.data)
        self._corpus = Corpora(wish.folder, wish.scale, jobs, wish.data).find
        self._measures, self._columns = read_measures()

    def experiment(self, experiment: Experiment) -> Planned:
        """All jobs of an experiment."""
        refusal = why_not(experiment, self._scale, self._wish.data, self._wish.corpora)
        if refusal:
            raise GtransError(refusal)
        several = any(variant.recipe == "multilingual" for variant in experiment.variants)
        corpora = [self._corpus(name, several) for name in self._corpora(experiment)]
        unknown = [title for title in experiment.here.columns if title not in self._columns]
        if unknown:
            raise GtransError(f"{experiment.name}: there is no column '{unknown[0]}'.")
        directions = dict.fromkeys(it for corpus in corpora for it in corpus.directions)
        columns = of_directions(
            {title: self._columns[title] for title in experiment.here.columns}, directions
        )
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
            self._wish.corpora,
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
            if command.rows and not models:
                continue  # of rows that were left out
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
                translated = [self._jobs.add(of).name for it in models for of in it.run.translated]
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
                return next((run for run in other.runs if run.seed == seed), None)
        return None

    def _corpora(self, experiment: Experiment) -> Sequence[str]:
        scale = self._scale.name
        if self._wish.corpora:
            return self._wish.corpora
        if scale in experiment.here.corpora:
            return experiment.here.corpora[scale]
        if self._scale.corpora:
            return ("embedded",)
        if scale == "small":
            raise GtransError(
                f"`--corpus` is missing: the name of a corpus in `--data` for scale small "
                f"({experiment.name}: {experiment.scales[scale]})."
            )
        return experiment.corpora

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
                reasons[variant.label] = _because("not at this scale", variant)
            elif variant.corpora and corpus.name not in variant.corpora:
                reasons[variant.label] = _because(f"not on {corpus.name}", variant)
            elif variant.recipe not in self._scale.recipes:
                reasons[variant.label] = f"recipe {variant.recipe} is not run at this scale"
            else:
                possible = variant.seeds.get(self._scale.name, self._wish.seeds)
                seeds = [seed for seed in self._wish.seeds if seed in possible]
                runs[variant.label] = tuple(
                    self._runs.model(variant, corpus, seed) for seed in seeds
                )
                if not seeds:
                    only = ", ".join(map(str, possible))
                    reasons[variant.label] = f"only with the seeds {only} at this scale"
        for variant in experiment.variants:
            if variant.ensemble:
                parts = zip(*(runs[label] for label in variant.ensemble), strict=True)
                runs[variant.label] = tuple(self._runs.ensemble(part) for part in parts)
        rows = []
        for variant in experiment.variants:
            if variant.label in reasons:
                rows.append(Row(variant, corpus.name, why_not=reasons[variant.label]))
                continue
            own = runs[variant.label]
            others = {run.seed: run for run in runs.get(variant.baseline, ())}
            cells: dict[str, tuple[Cell, ...]] = dict.fromkeys(measures, ())
            jobs: list[tuple[str, ...]] = []
            for run in own:
                before = len(needed)
                needed += [job.name for job in run.trained]
                for name, measure in measures.items():
                    cell = self._measured(name, measure, run, others.get(run.seed), needed)
                    cells[name] = (*cells[name], cell)
                jobs.append(tuple(needed[before:]))
            baseline = variant.baseline if others else ""
            rows.append(Row(variant, corpus.name, own, cells, baseline, jobs=tuple(jobs)))
        return rows

    def _counts(
        self,
        experiment: Experiment,
        corpus: Corpus,
        measures: dict[str, Measure],
        needed: list[str],
    ) -> Row:
        """The row of a corpus, in a table of counts; it has the paper's label if it is there."""
        run, before = self._runs.prepared(corpus), len(needed)
        cells = {
            name: (self._measured(name, measure, run, None, needed),)
            for name, measure in measures.items()
        }
        labels = dict(zip(experiment.corpora, experiment.printed.rows, strict=False))
        label = labels[corpus.name].label if corpus.name in labels else corpus.name
        variant = Variant(label, "none", (), "", "")
        return Row(variant, corpus.name, (run,), cells, jobs=(tuple(needed[before:]),))

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
        if measure.argv and (baseline is None or not (measure.against and measure.instead)):
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
            after = [self._jobs.add(of) for it in translated for of in it.translated]
        names = [job.name for job in after]
        if baseline is not None and any("{baseline-measures}" in word for word in argv):
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
        return {
            **self._scale.settings,
            "checkpoint": run.checkpoint,
            "hypothesis": run.hypothesis,
            "data": run.data,
            "source": run.corpus.test[0],
            "reference": run.reference,
            "directions": ",".join(run.corpus.directions),
            "target-lang": run.corpus.target,
            "measures": str(run.folder / "measures"),
            "model": run.model,
            "run": str(run.folder),
            "corpora": str(self._wish.data),
            "text": str(run.corpus.folder),
        }


_PHENOMENA = ("pronoun", "ellipsis", "formality", "lexical")
