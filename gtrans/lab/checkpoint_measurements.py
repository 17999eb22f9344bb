"""Measure attention, gates and gradients of checkpoints on a corpus."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch

from gtrans.errors import GtransError
from gtrans.lab.attention import AttentionMeasurements, in_order, measure_attention
from gtrans.lab.gradients import (
    Distances,
    GradientsByDistance,
    LayerGradient,
    add_gradients,
    criterion_of,
    layer_gradients,
)
from gtrans.lab.plots import Figure, Panel, Point, Series, mean_of_runs, shades
from gtrans.lab.runs import Step, TrainingRun
from gtrans.messages import print_message
from gtrans.search.generator import make_batches, not_finite
from gtrans.translating.loading import load_models


@dataclass
class CheckpointMeasurements:
    """The measurements of one checkpoint.

    Attributes:
        run: its number among all runs.
        system: the class of the model.
        units: number of units of the kind ``unit``.
    """

    label: str
    run: int
    path: str
    updates: int
    system: str
    unit: str
    units: int
    attention: AttentionMeasurements
    gradients: GradientsByDistance | None
    layers: list[LayerGradient] | None


def measure_runs(
    runs: Sequence[TrainingRun], args: argparse.Namespace
) -> list[CheckpointMeasurements]:
    """Measure all checkpoints of runs, with the options of ``gtrans analyse``.

    GtransError: a model does not support gradients, or one label has different models.
    """
    total = sum(len(run.steps) for run in runs)
    checkpoints: list[CheckpointMeasurements] = []
    first_of_label: dict[str, CheckpointMeasurements] = {}
    for number, run in enumerate(runs):
        for step in run.steps:
            if total > 1:
                print_message(f"{step.path}: checkpoint {len(checkpoints) + 1} of {total}")
            checkpoint = _measure_checkpoint(run.label, number, step, args)
            first = first_of_label.setdefault(run.label, checkpoint)
            _check_same_model(checkpoint, first)
            checkpoints.append(checkpoint)
    return checkpoints


def _measure_checkpoint(
    label: str, run: int, step: Step, args: argparse.Namespace
) -> CheckpointMeasurements:
    path = str(step.path)
    # In training the gradient of a memory stops after a few sentences; here it does not.
    overrides = {"memory_bptt": -1}
    models, task = load_models([path], args.data, overrides, cpu=args.cpu, fp16=args.fp16)
    model = models[0]
    device = next(model.parameters()).device
    gradients = layers = None
    if args.gradients:  # first, because it rejects some models
        distances = Distances(args.farthest, args.bin, args.unique)
        gradients = GradientsByDistance()
        for sample in read_units(task, args.split, args.units, 1, device):
            net_input, target = sample["net_input"], sample["target"]
            add_gradients(gradients, model, net_input, target, distances)
    if args.layer_gradients:
        batches = read_units(task, args.split, args.units, args.max_tokens, device)
        layers = layer_gradients(model, criterion_of(path, task), batches)
    units = 0
    with torch.no_grad(), measure_attention(model) as attention:
        for sample in read_units(task, args.split, args.units, args.max_tokens, device):
            units += len(sample["id"])
            logits = model(**sample["net_input"])[0]
            if bool(logits.isnan().any()):
                raise not_finite([model])
    return CheckpointMeasurements(
        label=label,
        run=run,
        path=path,
        updates=step.updates,
        system=type(model).__name__,
        unit=str(task.cfg.unit),
        units=units,
        attention=attention,
        gradients=gradients,
        layers=layers,
    )


def _check_same_model(one: CheckpointMeasurements, other: CheckpointMeasurements) -> None:
    if one.system != other.system or one.unit != other.unit:
        raise GtransError(
            f"{one.path} ({one.system}, unit {one.unit}) and {other.path} "
            f"({other.system}, unit {other.unit}) are both called {one.label}, as seeds of "
            "one model; give each a label of its own, LABEL=PATH."
        )


def read_units(
    task: Any, split: str, units: int, max_tokens: int, device: Any
) -> Iterator[dict[str, Any]]:
    """Yield complete batches of units that are evenly spread over a split."""
    dataset = _dataset(task, split)
    count = min(units, len(dataset))
    chosen = [len(dataset) * number // count for number in range(count)]
    lengths = [int(dataset.sizes[unit]) for unit in chosen]
    for batch in make_batches(lengths, max_tokens):
        rows = [dataset[chosen[index]] for index in batch]
        sample = dataset.collater(rows)
        net_input = _to_device(sample["net_input"], device)
        sample["net_input"] = task.complete_input(net_input)
        sample["target"] = sample["target"].to(device)
        yield sample


def one_unit(
    task: Any, split: str, number: int, device: Any
) -> tuple[dict[str, Any], torch.Tensor]:
    """Return the incomplete input and the target ``(1, length)`` of a unit, counted from 1."""
    dataset = _dataset(task, split)
    if not 1 <= number <= len(dataset):
        raise GtransError(
            f"`--unit` must be 1 to {len(dataset)}, the units of the split {split}, but is "
            f"{number}."
        )
    sample = dataset.collater([dataset[number - 1]])
    return _to_device(sample["net_input"], device), sample["target"]


def _to_device(net_input: dict[str, Any], device: Any) -> dict[str, Any]:
    return {name: tensor.to(device) for name, tensor in net_input.items()}


def _dataset(task: Any, split: str) -> Any:
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    if dataset.target is None:
        raise GtransError(f"`--split` {split} has no target side, which this needs.")
    return dataset


# -------------------------------------------------------------------------------------------------
#
# The figure of several models: entropy, gates and gradients.


class _PanelValue(NamedTuple):
    """``number`` measured values with the sum ``total``; ``x`` is unused over updates."""

    panel: str
    line: str
    x: int
    total: float
    number: float


class _LineName(NamedTuple):
    model: str
    line: str


_Lines = dict[_LineName, tuple[Point, ...]]


def overview_figure(
    checkpoints: Sequence[CheckpointMeasurements], title: str = "", bin_size: int = 1
) -> Figure:
    """Draw every kind of attention, the gates, and gradients by distance and by layer.

    The axis has layers, or updates if a run has several checkpoints; values are then means of all
    layers. Several runs of a model are one line with its range.
    """
    last_of_run = {checkpoint.run: checkpoint for checkpoint in checkpoints}
    last = list(last_of_run.values())
    over_updates = len(last) < len(checkpoints)
    axis = "updates" if over_updates else "layer"
    distance_axis = "sentences back"
    if bin_size > 1:
        distance_axis += f" (n: n to n + {bin_size - 1})"
    panels = []
    limits = _lines(checkpoints, partial(_entropies, limits=True), over_updates)
    for name, lines in _lines(checkpoints, _entropies, over_updates).items():
        # Models that attend equally widely share a limit.
        different: dict[tuple[Point, ...], Series] = {}
        for limit in _series(checkpoints, limits[name], limit="at most"):
            different.setdefault(limit.points, limit)
        series = (*_series(checkpoints, lines), *different.values())
        panels.append(Panel(name, axis, "entropy (bits)", series))
    for name, lines in _lines(checkpoints, _gates, over_updates).items():
        series = _series(checkpoints, lines)
        panels.append(Panel(name, axis, "share of the wider attention", series))
    for name, lines in _lines(last, _gradients_by_distance, over_updates=False).items():
        series = _series(last, lines)
        panels.append(Panel(name, distance_axis, "mean norm at a word", series, logarithmic=True))
    layer_values = _gradients_of_each_layer if over_updates else _gradients_by_layer
    for name, lines in _lines(checkpoints, layer_values, over_updates).items():
        series = _series(checkpoints, lines, shaded=over_updates)
        panels.append(Panel(name, axis, "norm, loss per token", series, logarithmic=True))
    facts = []
    for checkpoint in checkpoints:
        fact = {
            "label": checkpoint.label,
            "path": checkpoint.path,
            "updates": checkpoint.updates,
            "unit": checkpoint.unit,
            "units": checkpoint.units,
        }
        facts.append(fact)
    return Figure(title, tuple(panels), {"checkpoints": facts})


def _entropies(checkpoint: CheckpointMeasurements, limits: bool = False) -> Iterator[_PanelValue]:
    """Yield the entropy of every attention; ``limits``: the largest that it could have."""
    for place, entropy in in_order(checkpoint.attention.entropies):
        side = place.side.replace("_", " ")
        yield _PanelValue(
            panel=f"{side}: {place.kind} attention",
            line=place.range,
            x=place.layer,
            total=entropy.max_entropy if limits else entropy.entropy,
            number=entropy.queries,
        )


def _gates(checkpoint: CheckpointMeasurements) -> Iterator[_PanelValue]:
    for place, gate in in_order(checkpoint.attention.gates):
        yield _PanelValue(
            panel="gates",
            line=f"{place.side} {place.kind}",
            x=place.layer,
            total=gate.total,
            number=gate.values,
        )


def _gradients_by_distance(checkpoint: CheckpointMeasurements) -> Iterator[_PanelValue]:
    gradients = checkpoint.gradients
    if gradients is None:
        return
    for (side, distance), words in sorted(gradients.words.items()):
        yield _PanelValue(
            panel=f"gradients at {side} words",
            line="",
            x=distance,
            total=gradients.norms[side, distance],
            number=words,
        )


def _gradients_by_layer(checkpoint: CheckpointMeasurements) -> Iterator[_PanelValue]:
    for layer in checkpoint.layers or ():
        yield _PanelValue(
            panel=f"gradients of {layer.side} layers",
            line="",
            x=layer.layer,
            total=layer.norm,
            number=1,
        )


def _gradients_of_each_layer(checkpoint: CheckpointMeasurements) -> Iterator[_PanelValue]:
    for value in _gradients_by_layer(checkpoint):
        yield value._replace(line=f"layer {value.x}")


@dataclass
class _Mean:
    total: float = 0.0
    count: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.count


_Runs = dict[int, dict[float, _Mean]]
"""Means by number of the run and place on the axis."""


def _lines(
    checkpoints: Sequence[CheckpointMeasurements],
    values: Callable[[CheckpointMeasurements], Iterable[_PanelValue]],
    over_updates: bool,
) -> dict[str, _Lines]:
    means: dict[str, dict[_LineName, _Runs]] = {}
    for checkpoint in checkpoints:
        for value in values(checkpoint):
            lines = means.setdefault(value.panel, {})
            runs = lines.setdefault(_LineName(checkpoint.label, value.line), {})
            points = runs.setdefault(checkpoint.run, {})
            x = checkpoint.updates if over_updates else value.x
            mean = points.setdefault(x, _Mean())
            mean.total += value.total
            mean.count += value.number
    panels: dict[str, _Lines] = {}
    for panel, lines in means.items():
        panels[panel] = {}
        for name, runs in lines.items():
            curves = []
            for points in runs.values():
                curve = [(x, mean.mean) for x, mean in points.items()]
                curves.append(curve)
            panels[panel][name] = mean_of_runs(curves)
    return panels


def _series(
    checkpoints: Sequence[CheckpointMeasurements],
    lines: _Lines,
    limit: str = "",
    shaded: bool = False,
) -> tuple[Series, ...]:
    """Return the lines of a panel: a colour for each model, or for each line of the only model.

    ``shaded`` lines of a model get lighter in their order.
    """
    labels = list(dict.fromkeys(checkpoint.label for checkpoint in checkpoints))
    names = list(dict.fromkeys(name.line for name in lines))
    has_several = len(labels) > 1
    series = []
    for (label, line), points in lines.items():
        number = names.index(line)
        model = labels.index(label)
        parts = []
        if has_several:
            parts.append(label)
        if line:
            parts.append(line)
        name = f"{limit} {', '.join(parts)}".strip() or label
        if shaded:
            is_dashed = model > 0
        else:
            is_dashed = has_several and number > 0
        one = Series(
            name,
            points,
            colour=model if has_several else number,
            kind="limit" if limit else "line",
            dashed=is_dashed,
            shade=shades(len(names))[number] if shaded else None,
            marker=model if shaded else number,
        )
        series.append(one)
    return tuple(series)
