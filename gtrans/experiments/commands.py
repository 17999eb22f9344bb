"""The commands that an experiment has besides its table, such as those that draw its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Command
from gtrans.experiments.corpora import Corpus
from gtrans.experiments.jobs import Job
from gtrans.experiments.runs import Run
from gtrans.experiments.scales import filled


@dataclass(frozen=True)
class Model:
    """A run, with the label of its row, and the run of its baseline, if there is one."""

    label: str
    run: Run
    baseline: str
    other: Run | None


def job_of(
    command: Command,
    experiment: str,
    folder: Path,
    models: Sequence[Model],
    values: Mapping[str, str],
    corpus: Corpus,
    lists: Mapping[str, list[str]],
    earlier: Sequence[str],
) -> tuple[Job, list[Path]]:
    """The job of a command, and the files that it makes.

    Args:
        command: it.
        experiment: the name of its experiment.
        folder: of the scale.
        models: what it reads.
        values: what may stand in braces, of the first of them.
        corpus: of all of them.
        lists: more words that stand for several.
        earlier: jobs that must have ended well.
    """
    stem = folder / f"{experiment}.{command.name}"
    several = {
        "{checkpoints}": [f"{it.label}={it.run.checkpoint}" for it in models],
        "{hypotheses}": [f"{it.label}={it.run.hypothesis}" for it in models],
        "{models}": [it.run.model for it in models],
        "{folders}": [f"{it.label}={Path(it.run.checkpoint).parent}" for it in models],
        **lists,
    }
    if any("{run}" in word for word in command.argv) and len({it.run.folder for it in models}) > 1:
        raise GtransError(
            f"{experiment}.{command.name}: its models are in several run folders, but `{{run}}` is "
            "that of the first."
        )
    if "{folders}" in command.argv and any(":" in it.run.checkpoint for it in models):
        raise GtransError(
            f"{experiment}.{command.name}: `{{folders}}` cannot stand for models that translate "
            "together; name other `rows`."
        )
    words = [part for word in command.argv for part in several.get(word, [word])]
    after = [job.name for it in models for job in it.run.trained]
    after += [corpus.job] if corpus.job else []
    made = [Path(f"{stem}{ending}") for ending in command.makes]
    printed = Path(f"{stem}.json")
    if not made:
        made = [printed]
    job = Job(
        f"results/{experiment}.{command.name}",
        tuple(filled(words, {**values, "out": str(stem)})),
        tuple(map(str, made)) if command.makes else (),
        tuple(dict.fromkeys([*after, *earlier])),
        stdout="" if command.makes else str(printed),
    )
    return job, made
