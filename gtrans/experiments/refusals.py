"""What cannot be had, and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtrans.experiments.catalogue import Experiment
from gtrans.experiments.scales import ScaleSettings


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
