"""Measure attention, gates and gradients of checkpoints on a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from gtrans.errors import GtransError
from gtrans.lab.attention import Location, Measurements, in_order, measure_attention
from gtrans.lab.gradients import (
    Distances,
    GradientsByDistance,
    LayerGradient,
    add_gradients,
    criterion_of,
    layer_gradients,
)
from gtrans.lab.plots import Figure, Panel, Point, Series, mean_of_runs, shades
from gtrans.lab.runs import TrainingRun, updates_of
from gtrans.messages import print_message
from gtrans.search.generator import make_batches, not_finite
from gtrans.translating.loading import load_models


@dataclass
class Analysis:
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
    measured: Measurements
    gradients: GradientsByDistance | None
    layers: list[LayerGradient] | None


def analyse_runs(
    runs: Sequence[TrainingRun],
    data: str,
    split: str,
    units: int,
    *,
    distances: Distances | None,
    by_layer: bool,
    max_tokens: int,
    cpu: bool,
    fp16: bool,
) -> list[Analysis]:
    """Measure checkpoints on ``units`` evenly spread units of a prepared split.

    ``distances``: None: no gradients by distance. Raises GtransError if a model does not support
    gradients, or checkpoints of one label belong to different models.
    """
    total = sum(len(run.steps) for run in runs)
    analyses: list[Analysis] = []
    first_of_label: dict[str, Analysis] = {}
    for number, run in enumerate(runs):
        for step in run.steps:
            path = str(step.path)
            if total > 1:
                print_message(f"{path}: checkpoint {len(analyses) + 1} of {total}")
            # In training the gradient of a memory stops after a few sentences; here it does not.
            (model,), task = load_models([path], data, {"memory_bptt": -1}, cpu=cpu, fp16=fp16)
            device = next(model.parameters()).device
            gradients = layers = None
            if distances is not None:  # first, because it rejects some models
                gradients = GradientsByDistance()
                for sample in read_units(task, split, units, 1, device):
                    net_input, target = sample["net_input"], sample["target"]
                    add_gradients(gradients, model, net_input, target, distances)
            if by_layer:
                batches = read_units(task, split, units, max_tokens, device)
                layers = layer_gradients(model, criterion_of(path, task), batches)
            rows = 0
            with torch.no_grad(), measure_attention(model) as measured:
                for sample in read_units(task, split, units, max_tokens, device):
                    rows += len(sample["id"])
                    logits = model(**sample["net_input"])[0]
                    if bool(logits.isnan().any()):
                        raise not_finite([model])
            analysis = Analysis(
                label=run.label,
                run=number,
                path=path,
                updates=updates_of(step.path),
                system=type(model).__name__,
                unit=str(task.cfg.unit),
                units=rows,
                measured=measured,
                gradients=gradients,
                layers=layers,
            )
            _check_same_model(analysis, first_of_label.setdefault(run.label, analysis))
            analyses.append(analysis)
    return analyses


def _check_same_model(analysis: Analysis, other: Analysis) -> None:
    if analysis.system != other.system or analysis.unit != other.unit:
        raise GtransError(
            f"{analysis.path} ({analysis.system}, unit {analysis.unit}) and {other.path} "
            f"({other.system}, unit {other.unit}) are both called {analysis.label}, as seeds of "
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
        sample = dataset.collater([dataset[chosen[index]] for index in batch])
        net_input = task.complete_input(_to_device(sample["net_input"], device))
        yield {**sample, "target": sample["target"].to(device), "net_input": net_input}


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
    """A measurement; a point of a figure is the mean of several.

    ``total`` is the sum of ``number`` values; ``x`` is unused on an axis of updates.
    """

    panel: str
    line: str
    x: int
    total: float
    number: float


_Lines = dict[tuple[str, str], tuple[Point, ...]]
"""The points of each line, by model and name."""


def overview(analyses: Sequence[Analysis], title: str = "", bin_size: int = 1) -> Figure:
    """Draw every kind of attention, the gates, and gradients by distance and by layer.

    The axis has layers, or updates if a run has several checkpoints; values are then means of all
    layers. Several runs of a model are one line with its range.
    """
    last = list({analysis.run: analysis for analysis in analyses}.values())
    over_updates = len(last) < len(analyses)
    axis = "updates" if over_updates else "layer"
    distance_axis = "sentences back"
    if bin_size > 1:
        distance_axis += f" (n: n to n + {bin_size - 1})"
    panels = []
    limits = _lines(analyses, _entropy_limits, over_updates)
    for name, lines in _lines(analyses, _entropies, over_updates).items():
        # Models that attend equally widely share a limit.
        different: dict[tuple[Point, ...], Series] = {}
        for limit in _series(analyses, limits[name], limit="at most"):
            different.setdefault(limit.points, limit)
        series = (*_series(analyses, lines), *different.values())
        panels.append(Panel(name, axis, "entropy (bits)", series))
    for name, lines in _lines(analyses, _gates, over_updates).items():
        panels.append(Panel(name, axis, "share of the wider attention", _series(analyses, lines)))
    for name, lines in _lines(last, _gradients_by_distance, over_updates=False).items():
        series = _series(last, lines)
        panels.append(Panel(name, distance_axis, "mean norm at a word", series, logarithmic=True))
    layer_values = _gradients_of_each_layer if over_updates else _gradients_by_layer
    for name, lines in _lines(analyses, layer_values, over_updates).items():
        series = _series(analyses, lines, shaded=over_updates)
        panels.append(Panel(name, axis, "norm, loss per token", series, logarithmic=True))
    facts = []
    for analysis in analyses:
        fact = {
            "label": analysis.label,
            "path": analysis.path,
            "updates": analysis.updates,
            "unit": analysis.unit,
            "units": analysis.units,
        }
        facts.append(fact)
    return Figure(title, tuple(panels), {"checkpoints": facts})


def _entropies(analysis: Analysis) -> Iterator[_PanelValue]:
    for place, entropy in in_order(analysis.measured.attention):
        panel = _attention_panel(place)
        yield _PanelValue(panel, place.range, place.layer, entropy.entropy, entropy.queries)


def _entropy_limits(analysis: Analysis) -> Iterator[_PanelValue]:
    for place, entropy in in_order(analysis.measured.attention):
        panel = _attention_panel(place)
        yield _PanelValue(panel, place.range, place.layer, entropy.max_entropy, entropy.queries)


def _attention_panel(place: Location) -> str:
    return f"{place.side.replace('_', ' ')}: {place.kind} attention"


def _gates(analysis: Analysis) -> Iterator[_PanelValue]:
    for place, gate in in_order(analysis.measured.gates):
        line = f"{place.side} {place.kind}"
        yield _PanelValue("gates", line, place.layer, gate.total, gate.values)


def _gradients_by_distance(analysis: Analysis) -> Iterator[_PanelValue]:
    gradients = analysis.gradients
    if gradients is None:
        return
    for (side, distance), words in sorted(gradients.words.items()):
        panel = f"gradients at {side} words"
        yield _PanelValue(panel, "", distance, gradients.norms[side, distance], words)


def _gradients_by_layer(analysis: Analysis) -> Iterator[_PanelValue]:
    for layer in analysis.layers or ():
        yield _PanelValue(f"gradients of {layer.side} layers", "", layer.layer, layer.norm, 1)


def _gradients_of_each_layer(analysis: Analysis) -> Iterator[_PanelValue]:
    for value in _gradients_by_layer(analysis):
        yield value._replace(line=f"layer {value.x}")


@dataclass
class _Mean:
    total: float = 0.0
    count: float = 0.0


def _lines(
    analyses: Sequence[Analysis],
    values: Callable[[Analysis], Iterable[_PanelValue]],
    over_updates: bool,
) -> dict[str, _Lines]:
    # By panel, by model and line, by run, by place.
    means: dict[str, dict[tuple[str, str], dict[int, dict[float, _Mean]]]] = {}
    for analysis in analyses:
        for value in values(analysis):
            lines = means.setdefault(value.panel, {})
            runs = lines.setdefault((analysis.label, value.line), {})
            points = runs.setdefault(analysis.run, {})
            x = analysis.updates if over_updates else value.x
            mean = points.setdefault(x, _Mean())
            mean.total += value.total
            mean.count += value.number
    panels: dict[str, _Lines] = {}
    for panel, lines in means.items():
        panels[panel] = {}
        for name, runs in lines.items():
            curves = []
            for points in runs.values():
                curves.append([(x, mean.total / mean.count) for x, mean in points.items()])
            panels[panel][name] = mean_of_runs(curves)
    return panels


def _series(
    analyses: Sequence[Analysis], lines: _Lines, limit: str = "", shaded: bool = False
) -> tuple[Series, ...]:
    """Return the lines of a panel: a colour for each model, or for each line of the only model.

    ``shaded`` lines are coloured by their order.
    """
    labels = list(dict.fromkeys(analysis.label for analysis in analyses))
    names = list(dict.fromkeys(name for _, name in lines))
    has_several = len(labels) > 1
    series = []
    for (label, line), points in lines.items():
        number, model = names.index(line), labels.index(label)
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
