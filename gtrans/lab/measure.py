"""Analysis of a checkpoint while it reads a corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from gtrans.decoding.generator import make_batches
from gtrans.decoding.loading import load_models, not_finite
from gtrans.errors import GtransError
from gtrans.lab.attention import Measurements, watched
from gtrans.lab.gradients import (
    Distances,
    LayerGradient,
    Reach,
    add_gradients,
    criterion_of,
    layer_gradients,
)
from gtrans.lab.plots import Figure, Panel, Point, Series, mean_of_runs, shades
from gtrans.lab.runs import Run, updates_of
from gtrans.messages import say


@dataclass
class Analysis:
    """What was measured of one checkpoint.

    Attributes:
        path: the checkpoint.
        updates: number of updates of its training.
        unit: the unit that it reads.
        units: how many of them were read.
        seen: attention and gates.
        reach: gradients by distance, if they were measured.
        layers: gradients by layer, if they were measured.
        system: the class of the model.
        label: the model.
        run: number of the run among those of all models.
    """

    path: str
    updates: int
    unit: str
    units: int
    seen: Measurements
    reach: Reach | None
    layers: list[LayerGradient] | None = None
    system: str = ""
    label: str = ""
    run: int = 0


def analyse_runs(runs: Sequence[Run], data: str, split: str, **options: Any) -> list[Analysis]:
    """Every checkpoint of some runs; the options are those of :func:`analyse`.

    Of several checkpoints, each is named on standard error before it is read.

    Raises:
        GtransError: see :func:`analyse`; or checkpoints of one label are of different models, so
            that a mean of them says nothing.
    """
    steps = [(number, run.label, step) for number, run in enumerate(runs) for step in run.steps]
    found: list[Analysis] = []
    for count, (number, label, step) in enumerate(steps, start=1):
        if len(steps) > 1:
            say(f"{step.path}: checkpoint {count} of {len(steps)}")
        one = replace(analyse(str(step.path), data, split, **options), label=label, run=number)
        other = next((it for it in found if it.label == label), one)
        if (one.system, one.unit) != (other.system, other.unit):
            raise GtransError(
                f"{one.path} ({one.system}, unit {one.unit}) and {other.path} ({other.system}, "
                f"unit {other.unit}) are both called {label}, as seeds of one model; give each a "
                "label of its own, LABEL=PATH."
            )
        found.append(one)
    return found


def analyse(
    path: str,
    data: str,
    split: str,
    units: int,
    *,
    distances: Distances | None = None,
    by_layer: bool = False,
    max_tokens: int = 2000,
    cpu: bool = False,
    fp16: bool = False,
) -> Analysis:
    """Let the model of one checkpoint read a prepared split with its references.

    Args:
        path: the checkpoint.
        data: the data folder.
        split: of ``data``, with a target side.
        units: the most units to read, evenly spread over the split.
        distances: which words are looked at for gradients by distance; None: no such gradients.
        by_layer: measure gradients by layer.
        max_tokens: largest batch in tokens, padding included.
        cpu: run on the CPU.
        fp16: compute in half precision, on a GPU.

    Raises:
        GtransError: the checkpoint or the split is missing or damaged, or the model does not
            support gradients.
    """
    # In training the gradient of a memory stops after a few sentences; here it does not.
    (model,), task = load_models([path], data, {"memory_bptt": -1}, cpu=cpu, fp16=fp16)
    device = next(model.parameters()).device
    batches = list(_batches(task, split, units, max_tokens))
    reach = None if distances is None else Reach()
    # First, because some models are refused here.
    if reach is not None and distances is not None:
        for sample in _batches(task, split, units, 1):
            net_input = task.complete_input(_on(sample["net_input"], device))
            add_gradients(reach, model, net_input, sample["target"].to(device), distances)
    layers = None
    if by_layer:
        on_device = (_whole(task, sample, device) for sample in batches)
        layers = layer_gradients(model, criterion_of(path, task), on_device)
    with torch.no_grad(), watched(model) as seen:
        for sample in batches:
            output = model(**task.complete_input(_on(sample["net_input"], device)))[0]
            if bool(output.isnan().any()):
                raise not_finite([model])
    rows = sum(len(sample["id"]) for sample in batches)
    unit, system = str(task.cfg.unit), type(model).__name__
    return Analysis(path, updates_of(Path(path)), unit, rows, seen, reach, layers, system)


def _on(net_input: dict[str, Any], device: Any) -> dict[str, Any]:
    return {name: tensor.to(device) for name, tensor in net_input.items()}


def _whole(task: Any, sample: dict[str, Any], device: Any) -> dict[str, Any]:
    """A batch as the criterion wants it."""
    net_input = task.complete_input(_on(sample["net_input"], device))
    return {**sample, "target": sample["target"].to(device), "net_input": net_input}


def read_units(
    task: Any, split: str, units: int, max_tokens: int, device: Any
) -> Iterator[dict[str, Any]]:
    """What a model reads of a split: complete inputs of batches, see :func:`analyse`."""
    for sample in _batches(task, split, units, max_tokens):
        yield task.complete_input(_on(sample["net_input"], device))


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


def _dataset(task: Any, split: str) -> Any:
    if split not in task.datasets:
        task.load_dataset(split)
    dataset = task.datasets[split]
    if dataset.target is None:
        raise GtransError(f"`--split` {split} has no target side, which this needs.")
    return dataset


def _batches(task: Any, split: str, units: int, max_tokens: int) -> Iterator[dict[str, Any]]:
    """Batches of units that are evenly spread over the split."""
    dataset = _dataset(task, split)
    count = min(units, len(dataset))
    chosen = [len(dataset) * number // count for number in range(count)]
    lengths = [int(dataset.sizes[unit]) for unit in chosen]
    for batch in make_batches(lengths, max_tokens):
        yield dataset.collater([dataset[chosen[index]] for index in batch])


def as_json(found: Analysis) -> dict[str, Any]:
    """The analysis as an object for JSON; entropies are means over queries, in bits."""
    attention = [
        {
            **asdict(location),
            "queries": spread.queries,
            "entropy": spread.entropy / spread.queries,
            "most": spread.max_entropy / spread.queries,
        }
        for location, spread in found.seen.ordered_attention()
    ]
    gates = [
        {"side": gate.side, "kind": gate.kind, "layer": gate.layer, "open": opening.mean}
        for gate, opening in found.seen.ordered_gates()
    ]
    gradients = None
    if found.reach is not None:
        gradients = [
            {"side": side, "distance": distance, "words": words,
             "norm": found.reach.mean(side, distance)}
            for (side, distance), words in sorted(found.reach.words.items())
        ]  # fmt: skip
    layers = None if found.layers is None else [asdict(layer) for layer in found.layers]
    return {
        "label": found.label,
        "path": found.path,
        "updates": found.updates,
        "unit": found.unit,
        "units": found.units,
        "attention": attention,
        "gates": gates,
        "gradients": gradients,
        "layer_gradients": layers,
    }


# -------------------------------------------------------------------------------------------------
#
# The figure of several models: entropy, gates and gradients.


@dataclass(frozen=True)
class _Value:
    """A measured value: a point of a line in a panel is the mean of some of them.

    Attributes:
        panel: title of the panel.
        line: name of the line, besides the model.
        x: where it belongs unless values are drawn over updates.
        total: sum of what was measured.
        number: how many were measured.
    """

    panel: str
    line: str
    x: int
    total: float
    number: float = 1.0


_Measured = Callable[[Analysis], Iterable[_Value]]
_Lines = dict[tuple[str, str], tuple[Point, ...]]


def overview(found: Sequence[Analysis], title: str = "", bin_size: int = 1) -> Figure:
    """Panels for every kind of attention, the gates, and gradients by distance and by layer.

    Values are drawn by layer; if a run has several checkpoints, over its updates, and then as the
    mean of all layers. Several runs of a model are one line, with the smallest and the largest.
    Gradients by distance are those of the last checkpoint of a run.

    Args:
        found: the analyses of all checkpoints; those of a run by updates.
        title: of the figure.
        bin_size: distances that are taken together.
    """
    training = len({one.run for one in found}) < len(found)
    last = list({one.run: one for one in found}.values())
    x_label = "updates" if training else "layer"
    far = "sentences back" + (f" (n: n to n + {bin_size - 1})" if bin_size > 1 else "")
    panels = []
    limits = _lines(found, lambda one: _entropy(one, most=True), training)
    for name, lines in _lines(found, _entropy, training).items():
        # Models that attend equally widely share a limit.
        different: dict[tuple[Point, ...], Series] = {}
        for one in _series(found, limits[name], "at most"):
            different.setdefault(one.points, one)
        series = (*_series(found, lines), *different.values())
        panels.append(Panel(name, x_label, "entropy (bits)", series))
    for name, lines in _lines(found, _open, training).items():
        panels.append(Panel(name, x_label, "share of the wider attention", _series(found, lines)))
    for name, lines in _lines(last, _reach, False).items():
        panels.append(Panel(name, far, "mean norm at a word", _series(last, lines), True))
    for name, lines in _lines(found, partial(_norms, training), training).items():
        series = _series(found, lines, shaded=training)
        panels.append(Panel(name, x_label, "norm, loss per token", series, True))
    return Figure(title, tuple(panels), {"checkpoints": [as_json(one) for one in found]})


def _entropy(one: Analysis, most: bool = False) -> Iterator[_Value]:
    for place, seen in one.seen.ordered_attention():
        total = seen.max_entropy if most else seen.entropy
        panel = f"{place.side.replace('_', ' ')}: {place.kind} attention"
        yield _Value(panel, place.range, place.layer, total, seen.queries)


def _open(one: Analysis) -> Iterator[_Value]:
    for place, gate in one.seen.ordered_gates():
        yield _Value("gates", f"{place.side} {place.kind}", place.layer, gate.total, gate.values)


def _reach(one: Analysis) -> Iterator[_Value]:
    for (side, distance), words in sorted(one.reach.words.items()) if one.reach else ():
        # A logarithmic axis has no place for zeros, as of group attention.
        if total := one.reach.norms[side, distance] if one.reach else 0:
            yield _Value(f"gradients at {side} words", "", distance, total, words)


def _norms(training: bool, one: Analysis) -> Iterator[_Value]:
    for layer in one.layers or ():
        line = f"layer {layer.layer}" if training else ""
        yield _Value(f"gradients of {layer.side} layers", line, layer.layer, layer.norm)


def _lines(found: Sequence[Analysis], measured: _Measured, training: bool) -> dict[str, _Lines]:
    """The points of every model and line of every panel, over updates or by ``x``."""
    sums: dict[str, dict[tuple[str, str], dict[int, dict[float, list[float]]]]] = {}
    for one in found:
        for value in measured(one):
            line = sums.setdefault(value.panel, {}).setdefault((one.label, value.line), {})
            run = line.setdefault(one.run, defaultdict(lambda: [0.0, 0.0]))
            pair = run[one.updates if training else value.x]
            pair[0] += value.total
            pair[1] += value.number
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
    found: Sequence[Analysis], lines: _Lines, limit: str = "", shaded: bool = False
) -> tuple[Series, ...]:
    """The lines of a panel: a colour for each model, or for each line of the only model.

    Further lines of one of several models are dashed. ``limit``: what begins the names of limits.
    ``shaded`` lines are in an order, which is their colour; those of further models are dashed.
    """
    labels = list(dict.fromkeys(one.label for one in found))
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
                mark=model if shaded else number,
            )
        )
    return tuple(series)
