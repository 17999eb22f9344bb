"""Analysis of a checkpoint while it reads a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gtrans.decoding.batching import make_batches
from gtrans.decoding.loading import load_models, not_finite
from gtrans.errors import GtransError
from gtrans.lab.analysis.attention import Measurements, watched
from gtrans.lab.analysis.layer_gradients import LayerGradient, criterion_of, layer_gradients
from gtrans.lab.analysis.reach import Distances, Reach, add_gradients
from gtrans.lab.analysis.runs import Run, updates_of
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
        fusion: what layer fusion has learned
            (:meth:`gtrans.models.base.contract.DocumentModel.learned_of_groups`).
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
    fusion: dict[str, list[float]]
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
    updates, fusion = updates_of(Path(path)), model.learned_of_groups()
    unit, system = str(task.cfg.unit), type(model).__name__
    return Analysis(path, updates, unit, rows, seen, fusion, reach, layers, system)


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
            "head_entropy": spread.head_entropy / spread.queries,
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
        "fusion": found.fusion,
        "gradients": gradients,
        "layer_gradients": layers,
    }
