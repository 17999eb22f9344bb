"""The jobs of preparations and trained models.

``OUT/SCALE/runs/CORPUS/PREPARATION`` is what is prepared of a corpus, and ``.../RECIPE/seed-N`` in
it the folder that a recipe gets as ``--out``: its variants share the sentence model, and seeds
share the preparation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import split

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Variant
from gtrans.experiments.corpora import Corpus
from gtrans.experiments.jobs import Job, Jobs
from gtrans.experiments.recipes import (
    LANGUAGES,
    PREFIXES,
    Output,
    model_name,
    outputs,
    script,
    search,
    split_options,
)
from gtrans.experiments.scales import RecipeSettings, ScaleSettings, filled


@dataclass(frozen=True)
class Run:
    """A model of a variant and a seed.

    Attributes:
        seed: of its training.
        folder: ``--out`` of the recipe.
        model: its name there.
        checkpoint: the best one.
        hypothesis: the translation of the test documents; of a corpus with several directions,
            what stands before DIRECTION.LANG in the names of the translations.
        data: the prepared corpus.
        corpus: its text.
        trained: the jobs that train it.
        translated: the jobs that translate, one for each direction; they are run only if
            something needs them.
    """

    seed: int
    folder: Path
    model: str
    checkpoint: str
    hypothesis: str
    data: str
    corpus: Corpus
    trained: tuple[Job, ...]
    translated: tuple[Job, ...]

    @property
    def reference(self) -> str:
        """The reference of the test documents; with several directions, the folder of all."""
        return f"{self.data}/references" if self.corpus.langs else self.corpus.test[1]


class Runs:
    """Collects these jobs.

    Args:
        folder: of the scale, in OUT.
        scale: its settings.
        jobs: where they are collected.
        data: the folder of corpora that are given.
    """

    def __init__(self, folder: Path, scale: ScaleSettings, jobs: Jobs, data: Path | None) -> None:
        self.folder, self._scale, self._jobs, self._data = folder, scale, jobs, data
        self._precision = ("--amp",) if scale.amp else ()

    def model(self, variant: Variant, corpus: Corpus, seed: int) -> Run:
        """The model of a variant, which is run at this scale.

        Raises:
            GtransError: the recipe is not run at this scale, or refuses the options.
        """
        options = variant.options_at(self._scale.name)
        settings = self._scale.recipes.get(variant.recipe)
        if options is None or settings is None:
            raise GtransError(f"{variant.label}: not at scale {self._scale.name}.")
        preparation = variant.preparation or settings.preparation
        prepared = self._preparation(corpus, preparation)
        first = prepared.of or prepared
        plus = seed + variant.seed_plus
        out = first.parent / variant.recipe / f"seed-{plus}"
        call = _Call(self, variant.recipe, settings, corpus, prepared.parent, out, seed, plus)
        of_first = replace(call, prepared=first.parent)
        before, after = split_options(options)
        name = model_name(variant.recipe, [*before, *(["--"] if after else []), *after])
        base, own = of_first.arguments([]), call.arguments([*before, "--name", name])
        shared = [it for it in outputs(variant.recipe, tuple(base)) if it.stage == "sentence"]
        of_sentence = base if shared else call.arguments(before)
        made = outputs(variant.recipe, tuple(own))
        waits = first.job if shared else prepared.job
        before_it = [it for it in made if it.stage == "sentence"]
        documents = [it for it in made if it.stage == "document"]
        if documents:
            for sentence in before_it:
                words = filled([*settings.sentence, *self._precision], call.values)
                words = ["--", "sentence:", *words] if words else []
                waits = self._stage(call, "sentence", sentence, of_sentence, words, waits)
            if variant.model == "sentence":
                if not before_it:
                    raise GtransError(f"{variant.label}: {variant.recipe} has no sentence model.")
                return self._run(of_first, sentence, made, of_sentence, [waits], variant)
        words = filled([*settings.training, *after, *self._precision], call.values)
        words = ["--", *words] if words else []
        own_data = [prepared.job] if prepared.of else []
        # A model may start from another one of the same stage, which is named before it; a baseline
        # that is a sentence model itself stands in its stage.
        trained: list[Job] = []
        for model in documents or before_it:
            waits = self._stage(call, model.stage, model, own, words, waits, *own_data)
            trained.append(waits)
        return self._run(call, model, made, own, trained, variant)

    def ensemble(self, runs: Sequence[Run]) -> Run:
        """Models that translate together; nothing is trained."""
        first = runs[0]
        model = "+".join(run.model if run is first else run.folder.name for run in runs)
        trained = tuple(job for run in runs for job in run.trained)
        return self._decoded(
            replace(first, checkpoint=":".join(run.checkpoint for run in runs), trained=trained),
            model,
        )

    def timed(self, run: Run) -> Job:
        """The job that translates once more, without a stop, for its time."""
        argv = list(_one_search(run))
        output = run.folder / "measures" / f"{run.model}.speed.{run.corpus.target}"
        argv[argv.index("--output") + 1] = str(output)
        return Job(
            f"{run.folder.relative_to(self.folder)}/jobs/{run.model}.speed",
            (*argv, "--force"),
            (str(output),),
            tuple(job.name for job in run.trained),
            gpu=self._scale.gpu,
        )

    def prepared(self, corpus: Corpus) -> Run:
        """The corpus itself as the thing that is measured."""
        made = self._preparation(corpus, "plain")
        data = str(made.parent / "data")
        return Run(0, made.parent, "corpus", "", "", data, corpus, (made.job,), ())

    def values(
        self, recipe: str, corpus: Corpus, preparation: Path, seed: int
    ) -> Mapping[str, str]:
        """What may stand in braces in the options of a scale."""
        known = self._scale.recipes[recipe].corpora if recipe in self._scale.recipes else {}
        return {
            **self._scale.settings,
            "seed": str(seed),
            "preparation": str(preparation),
            "recipe-corpus": known.get(corpus.name, known.get("other", corpus.name)),
            "data": str(self._data),
            "text": str(corpus.folder),
        }

    def _preparation(self, corpus: Corpus, name: str) -> _Prepared:
        """What is prepared of a corpus for all seeds."""
        kind = self._scale.preparations.get(name)
        if kind is None:
            raise GtransError(f"there is no preparation '{name}' at scale {self._scale.name}.")
        folder = self.folder / "runs" / corpus.name / name
        options = filled(kind.options, self.values(kind.recipe, corpus, folder, 0))
        words = ["--stage", "prepare", "--out", str(folder)]
        words += [*_text_of(corpus, (0, 1, 2)), *options]
        waits = [corpus.job] if corpus.job else []
        of = self._preparation(corpus, kind.of) if kind.of else None
        if of is not None:
            words += ["--sentence-data", str(of.parent / "data")]
            waits.append(of.job.name)
        if "zh" in (corpus.source, corpus.target):
            # The papers' experiments on Chinese find its words so; run-bert.sh does it by itself.
            words += ["--", "prepare:", "--segmenter", "jieba"]
        made = [it for it in outputs(kind.recipe, tuple(words)) if it.stage == "prepare"]
        job = Job(
            f"runs/{corpus.name}/{name}/jobs/prepare",
            ("bash", script(kind.recipe), *words),
            tuple(it.path for it in made),
            tuple(waits),
            () if corpus.job else corpus.texts,
        )
        return _Prepared(folder, self._jobs.add(job), of)

    def _stage(
        self,
        call: _Call,
        stage: str,
        made: Output,
        words: list[str],
        extra: list[str],
        *after: Job,
    ) -> Job:
        argv = ("bash", script(call.recipe), "--stage", stage, "--only", made.name, *words, *extra)
        return self._jobs.add(
            Job(
                f"{call.name}/jobs/{made.name}.{stage}",
                argv,
                (made.path,),
                tuple(dict.fromkeys(job.name for job in after)),
                gpu=self._scale.gpu,
            )
        )

    def _run(
        self,
        call: _Call,
        of: Output,
        made: Sequence[Output],
        words: list[str],
        trained: Sequence[Job],
        variant: Variant,
    ) -> Run:
        """The run of a trained model, with the jobs that would translate by it.

        ``trained``: those that have trained it, the last one after the others.
        """
        files = [it.path for it in made if it.stage == "translate" and it.name == of.name]
        argv = ["bash", script(call.recipe), "--stage", "translate", "--only", of.name, *words]
        search_words = filled(call.settings.translation, call.values)
        behind = ["--", "translate:", *search_words] if search_words else []
        translated, hypothesis = [], files[0]
        for number, file in enumerate(files):
            # The script names them in this order.
            direction = call.corpus.directions[number] if call.corpus.langs else ""
            chosen = ["--directions", direction] if direction else []
            name = f"{of.name}.{direction}" if direction else of.name
            translated.append(
                Job(
                    f"{call.name}/jobs/{name}.translate",
                    (*argv, *chosen, *behind),
                    (file,),
                    (trained[-1].name,),
                    gpu=self._scale.gpu,
                )
            )
            hypothesis = file.removesuffix(f".{direction}.{direction.partition('-')[2]}")
        data = str(call.prepared / "data")
        run = Run(
            call.seed,
            call.out,
            of.name,
            of.path,
            hypothesis,
            data,
            call.corpus,
            tuple(trained),
            tuple(translated),
        )
        if not (variant.decoding or variant.control):
            return run
        name = model_name(run.model, variant.decoding)
        name += f".{variant.control}" if variant.control else ""
        return self._decoded(run, name, variant.decoding, variant.control)

    def _decoded(
        self, run: Run, model: str, decoding: Sequence[str] = (), control: str = ""
    ) -> Run:
        """The same model with more options, or several models; else the search is the recipe's."""
        hypothesis = str(run.folder / f"test.{model}.{run.corpus.target}")
        argv = list(_one_search(run))
        for flag, value in (("--path", run.checkpoint), ("--output", hypothesis)):
            argv[argv.index(flag) + 1] = value
        argv += [word for option in decoding for word in split(option)]
        if control:
            argv = ["python", "-m", "gtrans.experiments.controls", control, *argv]
        job = Job(
            f"{run.folder.relative_to(self.folder)}/jobs/{model}.translate",
            tuple(argv),
            (hypothesis,),
            tuple(job.name for job in run.trained),
            gpu=self._scale.gpu,
        )
        return replace(run, model=model, hypothesis=hypothesis, translated=(job,))


@dataclass(frozen=True)
class _Prepared:
    """A prepared corpus, ``parent/data``; ``of``: the one that it shares its vocabulary with."""

    parent: Path
    job: Job
    of: _Prepared | None


@dataclass(frozen=True)
class _Call:
    """How a recipe is called for a corpus and a seed; ``training_seed`` is the one it is given."""

    runs: Runs
    recipe: str
    settings: RecipeSettings
    corpus: Corpus
    prepared: Path
    out: Path
    seed: int
    training_seed: int

    @property
    def name(self) -> str:
        """Of its jobs, before that of the model."""
        return str(self.out.relative_to(self.runs.folder))

    @property
    def values(self) -> Mapping[str, str]:
        """What may stand in braces in options."""
        return self.runs.values(self.recipe, self.corpus, self.prepared, self.training_seed)

    def arguments(self, options: Sequence[str]) -> list[str]:
        """The words of the script, before what follows ``--``."""
        words = ["--out", str(self.out), "--prepared", str(self.prepared / "data")]
        words += [*_text_of(self.corpus, (2,)), "--seed", self.values["seed"]]
        return [*words, *filled([*self.settings.options, *options], self.values)]


def _one_search(run: Run) -> tuple[str, ...]:
    """The ``gtrans translate`` of a run.

    Raises:
        GtransError: it translates in another way, as with several directions.
    """
    argv = run.translated[0].argv
    return argv if argv[0] == "gtrans" else search(argv)


def _text_of(corpus: Corpus, splits: Sequence[int]) -> list[str]:
    if corpus.langs:
        words = ["--langs", ",".join(corpus.langs)]
    else:
        source, target = LANGUAGES
        words = [source, corpus.source, target, corpus.target]
    for number in splits:
        words += [PREFIXES[number], corpus.prefixes[number]]
    return words
