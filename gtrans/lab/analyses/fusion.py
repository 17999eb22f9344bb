"""Show the gates and weights by which a GTRANS fuses its layers, over training.

They are read from checkpoints: gates of the encoder's groups (Eq 2 of Yang et al. 2022), gates of
the decoder's layers (Eq 4; with --decoder-group-fusion sum or mean), and weights of the decoder's
groups (Eq 6). All checkpoints of a run folder are read: train with --save-interval-updates N
--keep-interval-updates -1.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.lab.plots import (
    Figure,
    Panel,
    Series,
    add_figure,
    check_figure,
    mean_of_runs,
    shades,
    title_of,
    write,
)
from gtrans.lab.runs import TrainingRun, add_checkpoints, checkpoints_of, labelled_paths, runs_of

EXAMPLE = "gtrans analyse fusion --path checkpoints --plot weights.png"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_checkpoints(parser)
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read, draw and print."""
    labelled = labelled_paths(args.path)
    runs = runs_of(labelled)
    check_figure(args, checkpoints_of(runs))
    write(args, fusion_figure(runs, title_of(list(labelled))))


# -------------------------------------------------------------------------------------------------
#
# Gates and weights of fused layers, from checkpoints (GTRANS: Yang et al. 2022, figures 8 and 9).
#
# Nothing is computed with the model: these are its parameters.


@dataclass(frozen=True)
class FusionWeights:
    """The scalars by which a model fuses its layers (Yang et al. 2022).

    Attributes:
        encoder: gate of each group, ``sigmoid(w_i)`` (Eq 2).
        decoder: gate of each layer, ``sigmoid(w_j)`` (Eq 4), if it has gates.
        groups: weight psi of each group of the decoder; they add up to 1 (Eq 6).
    """

    encoder: tuple[float, ...]
    decoder: tuple[float, ...]
    groups: tuple[float, ...]


def fusion_weights(path: Path) -> FusionWeights:
    """Read the weights of one checkpoint."""
    model = read_checkpoint(path)["model"]
    encoder = _gates(model, "encoder")
    decoder = _gates(model, "decoder")
    psi: tuple[float, ...] = ()
    raw = model.get("decoder.probabilities.weights")
    if raw is not None and len(raw) > 1:
        width = model["decoder.embed_tokens.weight"].size(1)
        probabilities = torch.softmax(raw.float() / math.sqrt(width), 0)
        psi = tuple(probabilities.tolist())
    if not (encoder or decoder or psi):
        raise GtransError(
            f"{path}: its model fuses no groups of layers; train one of the gtrans_fusion "
            "architectures (--system gtrans), or leave it out."
        )
    return FusionWeights(encoder, decoder, psi)


def _gates(model: Mapping[str, Tensor], side: str) -> tuple[float, ...]:
    # The weights of DLCL are a matrix, and no gates.
    raw = model.get(f"{side}.fusion.weights")
    if raw is None or raw.dim() != 1:
        return ()
    return tuple(torch.sigmoid(raw.float()).tolist())


@dataclass(frozen=True)
class _FusionPanel:
    weights: str  # an attribute of FusionWeights
    title: str
    part: str
    y_label: str


_PANELS = (
    _FusionPanel("encoder", "gates of the encoder's groups (Eq 2)", "group", "sigmoid of the gate"),
    _FusionPanel("decoder", "gates of the decoder's layers (Eq 4)", "layer", "sigmoid of the gate"),
    _FusionPanel("groups", "weights of the decoder's groups (Eq 6)", "group", "weight"),
)


@dataclass(frozen=True)
class _FusionStep:
    updates: int
    fusion: FusionWeights

    def weights(self, name: str) -> tuple[float, ...]:
        values: tuple[float, ...] = getattr(self.fusion, name)
        return values


def fusion_figure(runs: Sequence[TrainingRun], title: str = "") -> Figure:
    """Draw the weights over updates, or of one checkpoint by layer and group."""
    runs_by_label: dict[str, list[list[_FusionStep]]] = {}
    paths: dict[str, list[str]] = {}
    for run in runs:
        steps = [_FusionStep(step.updates, fusion_weights(step.path)) for step in run.steps]
        runs_by_label.setdefault(run.label, []).append(steps)
        own_paths = paths.setdefault(run.label, [])
        own_paths += [str(step.path) for step in run.steps]
    over_updates = any(len(run.steps) > 1 for run in runs)
    panels = []
    for panel in _PANELS:
        series: list[Series] = []
        for model, label in enumerate(runs_by_label):
            own_runs = runs_by_label[label]
            if over_updates:
                name = panel.part if len(runs_by_label) == 1 else f"{label}, {panel.part}"
                series += _lines_over_updates(own_runs, panel.weights, name, model)
            else:
                series += _line_over_layers(own_runs, panel.weights, label, model)
        if series:
            x_label = "updates" if over_updates else panel.part
            panels.append(Panel(panel.title, x_label, panel.y_label, tuple(series)))
    return Figure(title, tuple(panels), {"checkpoints": paths})


def _lines_over_updates(
    runs: Sequence[Sequence[_FusionStep]], weights: str, name: str, model: int
) -> list[Series]:
    count = 0
    for steps in runs:
        for step in steps:
            count = max(count, len(step.weights(weights)))
    lines = []
    for number, shade in enumerate(shades(count)):
        curves = []
        for steps in runs:
            curve = [(step.updates, step.weights(weights)[number]) for step in steps]
            curves.append(curve)
        line = Series(
            f"{name} {number + 1}",
            mean_of_runs(curves),
            dashed=model > 0,
            shade=shade,
            marker=model,
        )
        lines.append(line)
    return lines


def _line_over_layers(
    runs: Sequence[Sequence[_FusionStep]], weights: str, label: str, model: int
) -> list[Series]:
    curves = []
    for steps in runs:
        for step in steps:
            layers = enumerate(step.weights(weights), start=1)
            curves.append(list(layers))
    if not any(curves):
        return []
    return [Series(label, mean_of_runs(curves), model)]
