"""What cannot be had, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.experiments.catalogue import Experiment
from gtrans.experiments.jobs import Job, Plan, finished
from gtrans.experiments.recipes import LANGUAGES, PREFIXES, text_file
from gtrans.experiments.scales import ScaleSettings

_PAIRS = "--pairs"


def why_not(
    experiment: Experiment,
    scale: ScaleSettings,
    data: Path | None = None,
    corpora: Sequence[str] = (),
) -> str:
    """Why an experiment cannot be had at a scale; empty: it can.

    ``data``, ``corpora``: those of the user, who may have what is not free.
    """
    if not experiment.scales[scale.name]:
        reason = experiment.note or "it needs more than the corpus of this scale"
        return f"{experiment.name} is not shown at scale {scale.name}: {reason}"
    there = data is not None and all(
        (data / name).is_dir() for name in corpora or experiment.corpora
    )
    if not experiment.free and scale.name == "paper" and not there:
        return f"{experiment.name} cannot be had freely: {experiment.not_free}"
    return ""


def check_given(plan: Plan, data: Path | None) -> None:
    """Whether what the jobs that are left read of the user's folder is there, besides corpora.

    Those have been looked at when the plan was made.

    Raises:
        GtransError: something is not there; without this the job would say so after hours.
    """
    if data is None:
        return
    for job in plan.jobs:
        if finished(plan, job) is not None:
            continue
        for path in _given(job, data):
            if plan.folder not in path.parents and not path.exists():
                raise GtransError(
                    f"{path}: there is no such file or folder, which {job.name} needs; "
                    "`gtrans reproduce --list NAME` names all that is needed, and `--rows` makes "
                    "other rows alone."
                )


def _given(job: Job, data: Path) -> list[Path]:
    """What the words of a command name in the user's folder."""
    found: list[Path] = []
    languages = [word for flag, word in pairwise(job.argv) if flag in LANGUAGES]
    for flag, word in pairwise(job.argv):
        if data not in Path(word).parents:
            continue
        if flag == _PAIRS:
            found += [Path(text_file(word, it)) for it in languages]
        elif flag not in PREFIXES:
            found.append(Path(word))
    return found
