"""Analysis of a checkpoint while it reads a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gtrans.errors import GtransError
from gtrans.lab.attention import Measurements, in_order, measure_attention
from gtrans.lab.gradients import (
    Distances,
    LayerGradient,
    Reach,
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
        label: the model.
        run: number of the run among all runs.
        path: the checkpoint.
        updates: number of updates of its training.
        system: the class of the model.
        unit: the unit that it reads.
        units: number of units that it has read.
        seen: attention and gates.
        reach: gradients by distance, if they were measured.
        layers: gradients by layer, if they were measured.
    """

    label: str
    run: int
    path: str
    updates: int
    system: str
    unit: str
    units: int
    seen: Measurements
    reach: Reach | None
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
    """Let the model of every checkpoint of some runs read a prepared split with its references.

    Each of several checkpoints is named on standard error before it is read.

    Args:
        runs: runs of one or several models.
        data: the data folder.
        split: a split of ``data`` with a target side.
        units: largest number of units to read, evenly spread over the split.
        distances: the words for gradients by distance; None: no such gradients.
        by_layer: measure gradients by layer.
        max_tokens: largest batch in tokens, padding included.
        cpu: run on the CPU.
        fp16: compute in half precision, on a GPU.

    Raises:
        GtransError: a checkpoint or the split is missing or damaged, or a model does not support
            gradients; or checkpoints of one label belong to different models, so that their mean
            has no meaning.
    """
    steps = []
    for number, run in enumerate(runs):
        steps += [(number, run.label, step) for step in run.steps]
    analyses: list[Analysis] = []
    for count, (number, label, step) in enumerate(steps, start=1):
        path = str(step.path)
        if len(steps) > 1:
            print_message(f"{path}: checkpoint {count} of {len(steps)}")
        # In training the gradient of a memory stops after a few sentences; here it does not.
        (model,), task = load_models([path], data, {"memory_bptt": -1}, cpu=cpu, fp16=fp16)
        device = next(model.parameters()).device
        reach = layers = None
        if distances is not None:  # first, because it rejects some models
            reach = Reach()
            for sample in read_units(task, split, units, 1, device):
                add_gradients(reach, model, sample["net_input"], sample["target"], distances)
        if by_layer:
            batches = read_units(task, split, units, max_tokens, device)
            layers = layer_gradients(model, criterion_of(path, task), batches)
        rows = 0
        with torch.no_grad(), measure_attention(model) as seen:
            for sample in read_units(task, split, units, max_tokens, device):
                rows += len(sample["id"])
                if bool(model(**sample["net_input"])[0].isnan().any()):
                    raise not_finite([model])
        new = Analysis(
            label,
            number,
            path,
            updates_of(Path(path)),
            type(model).__name__,
            str(task.cfg.unit),
            rows,
            seen,
            reach,
            layers,
        )
        other = next((earlier for earlier in analyses if earlier.label == label), new)
        if (new.system, new.unit) != (other.system, other.unit):
            raise GtransError(
                f"{new.path} ({new.system}, unit {new.unit}) and {other.path} ({other.system}, "
                f"unit {other.unit}) are both called {label}, as seeds of one model; give each a "
                "label of its own, LABEL=PATH."
            )
        analyses.append(new)
    return analyses


def read_units(
    task: Any, split: str, units: int, max_tokens: int, device: Any
) -> Iterator[dict[str, Any]]:
    """Batches of units that are evenly spread over a split, complete and on the device.

    Raises:
        GtransError: the split is missing or has no target side.
    """
    dataset = _dataset(task, split)
    count = min(units, len(dataset))
    chosen = [len(dataset) * number // count for number in range(count)]
    lengths = [int(dataset.sizes[unit]) for unit in chosen]
    for batch in make_batches(lengths, max_tokens):
        sample = dataset.collater([dataset[chosen[index]] for index in batch])
        net_input = task.complete_input(_on(sample["net_input"], device))
        yield {**sample, "target": sample["target"].to(device), "net_input": net_input}


def one_unit(
    task: Any, split: str, number: int, device: Any
) -> tuple[dict[str, Any], torch.Tensor]:
    """The input, not yet complete, and the target ``(1, length)`` of a unit, counted from 1.

    Raises:
        GtransError: there is no such unit, or the split has no target.
    """
    dataset = _dataset(task, split)
    if not 1 <= number <= len(dataset):
        raise GtransError(
            f"`--unit` must be 1 to {len(dataset)}, the units of the split {split}, but is "
            f"{number}."
        )
    sample = dataset.collater([dataset[number - 1]])
    return _on(sample["net_input"], device), sample["target"]


def _on(net_input: dict[str, Any], device: Any) -> dict[str, Any]:
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

# A measurement: the title of its panel; the name of its line, besides the model; its x unless the
# axis has updates; the sum of its values, and their number. A point is the mean of several of them.
_Value = tuple[str, str, int, float, float]
_Lines = dict[tuple[str, str], tuple[Point, ...]]


def overview(analyses: Sequence[Analysis], title: str = "", bin_size: int = 1) -> Figure:
    """Panels for every kind of attention, the gates, and gradients by distance and by layer.

    Values are drawn by layer; if a run has several checkpoints, over its updates, and then as the
    mean of all layers. Several runs of a model are one line, with the smallest and the largest.
    Gradients by distance come from the last checkpoint of a run.

    Args:
        analyses: the analyses of all checkpoints; a run's by updates.
        title: title of the figure.
        bin_size: number of distances in a bin.
    """
    last = list({analysis.run: analysis for analysis in analyses}.values())
    training = len(last) < len(analyses)
    axis = "updates" if training else "layer"
    far = "sentences back" + (f" (n: n to n + {bin_size - 1})" if bin_size > 1 else "")
    panels = []
    limits = _lines(analyses, partial(_entropy, most=True), training)
    for name, lines in _lines(analyses, _entropy, training).items():
        # Models that attend equally widely share a limit.
        different: dict[tuple[Point, ...], Series] = {}
        for limit in _series(analyses, limits[name], "at most"):
            different.setdefault(limit.points, limit)
        series = (*_series(analyses, lines), *different.values())
        panels.append(Panel(name, axis, "entropy (bits)", series))
    for name, lines in _lines(analyses, _open, training).items():
        panels.append(Panel(name, axis, "share of the wider attention", _series(analyses, lines)))
    for name, lines in _lines(last, _reach, False).items():
        panels.append(Panel(name, far, "mean norm at a word", _series(last, lines), True))
    for name, lines in _lines(analyses, partial(_norms, training), training).items():
        series = _series(analyses, lines, shaded=training)
        panels.append(Panel(name, axis, "norm, loss per token", series, True))
    facts = [
        {
            "label": it.label,
            "path": it.path,
            "updates": it.updates,
            "unit": it.unit,
            "units": it.units,
        }
        for it in analyses
    ]
    return Figure(title, tuple(panels), {"checkpoints": facts})


def _entropy(analysis: Analysis, most: bool = False) -> Iterator[_Value]:
    for place, seen in in_order(analysis.seen.attention):
        total = seen.max_entropy if most else seen.entropy
        panel = f"{place.side.replace('_', ' ')}: {place.kind} attention"
        yield panel, place.range, place.layer, total, seen.queries


def _open(analysis: Analysis) -> Iterator[_Value]:
    for place, gate in in_order(analysis.seen.gates):
        yield "gates", f"{place.side} {place.kind}", place.layer, gate.total, gate.values


def _reach(analysis: Analysis) -> Iterator[_Value]:
    for (side, distance), words in sorted(analysis.reach.words.items()) if analysis.reach else ():
        total = analysis.reach.norms[side, distance] if analysis.reach else 0.0
        yield f"gradients at {side} words", "", distance, total, words


def _norms(training: bool, analysis: Analysis) -> Iterator[_Value]:
    for layer in analysis.layers or ():
        line = f"layer {layer.layer}" if training else ""
        yield f"gradients of {layer.side} layers", line, layer.layer, layer.norm, 1


def _lines(
    analyses: Sequence[Analysis], values: Callable[[Analysis], Iterable[_Value]], training: bool
) -> dict[str, _Lines]:
    """The points of every model and line of every panel, over updates or layers (distances)."""
    sums: dict[str, dict[tuple[str, str], dict[int, dict[float, list[float]]]]] = {}
    for analysis in analyses:
        for panel, line, x, total, number in values(analysis):
            runs = sums.setdefault(panel, {}).setdefault((analysis.label, line), {})
            run = runs.setdefault(analysis.run, defaultdict(lambda: [0.0, 0.0]))
            pair = run[analysis.updates if training else x]
            pair[0] += total
            pair[1] += number
    return {
        panel: {
            name: mean_of_runs(
                [(x, total / number) for x, (total, number) in run.items()] for run in runs.values()
            )
            for name, runs in lines.items()
        }
        for panel, lines in sums.items()
    }


def _series(
    analyses: Sequence[Analysis], lines: _Lines, limit: str = "", shaded: bool = False
) -> tuple[Series, ...]:
    """The lines of a panel: a colour for each model, or for each line of the only model.

    Further lines of one of several models are dashed. ``limit``: begins the names of limits.
    The order of ``shaded`` lines is their colour; lines of further models are dashed.
    """
    labels = list(dict.fromkeys(analysis.label for analysis in analyses))
    others = list(dict.fromkeys(line for _, line in lines))
    several, series = len(labels) > 1, []
    for (label, line), points in lines.items():
        name = ", ".join(filter(None, (label if several else "", line)))
        number, model = others.index(line), labels.index(label)
        series.append(
            Series(
                " ".join(filter(None, (limit, name))) or label,
                points,
                model if several else number,
                "limit" if limit else "line",
                dashed=(model if shaded else several and number) > 0,
                shade=shades(len(others))[number] if shaded else None,
                marker=model if shaded else number,
            )
        )
    return tuple(series)
