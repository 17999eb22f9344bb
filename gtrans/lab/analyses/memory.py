"""Measure the information gain of a trained memory over a random one, by the memory's size.

The model is run on the split --split and its references. Attention decides which words change the
memory (update attention) and which of its vectors a word sees (output attention). The gain is the
entropy of these weights with a memory as it begins training, minus the entropy with the trained
memory, in bits: how much more the trained memory selects. Models of different sizes are points of
one line; models of one size are its seeds.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

from gtrans.cli.shared.options import add_read, add_scoring, add_units, check_scoring
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.lab.attention import Location, watch_attention
from gtrans.lab.checkpoint_measurements import read_units
from gtrans.lab.plots import (
    Figure,
    Panel,
    Series,
    XValue,
    add_plot,
    check_figure,
    mean_of_runs,
    write,
)
from gtrans.lab.runs import TrainingRun, add_checkpoints, checkpoints_of, labelled_paths, runs_of
from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.memory import RecurrentMemory
from gtrans.modules.transformer import Pairs
from gtrans.text.prepared_folder import prepared_files
from gtrans.translating.loading import load_models

EXAMPLE = (
    "gtrans analyse memory --path m8/checkpoint_best.pt m16/checkpoint_best.pt --data data-bin "
    "--plot gain.png"
)
NEEDS = ENGINE
DRAWS = 3
"""Random memories that the trained one is compared with."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    files = parser.add_argument_group("files")
    add_checkpoints(files)
    add_read(files)
    add_plot(files)
    group = parser.add_argument_group("measurements")
    add_units(group)
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, draw and print."""
    check_scoring(args)
    runs = runs_of(labelled_paths(args.path))
    check_figure(args, [*checkpoints_of(runs), *prepared_files(args.data)])
    gains = [memory_gain(run, args) for run in runs]
    write(args, gain_figure(gains))


# -------------------------------------------------------------------------------------------------
#
# The information gain of a trained memory over a random one (Feng et al. 2022, figure 2).
#
# The paper compares "the attention maps in Update Attention and Output Attention" of both,
# without a formula. Here the random memory is the whole memory as it begins training: initial
# vectors and both attentions, in a model that is otherwise trained. The gain is the difference of
# the entropies of their maps.

KINDS = {"update": "Update Attention", "memory": "Output Attention"}


@dataclass
class HeadGain:
    """Entropies of trained and random attention, in bits; means over queries and heads."""

    queries: int = 0
    entropy: float = 0.0
    random_entropy: float = 0.0

    def add(self, trained: Tensor, random: Tensor) -> None:
        """Add the weights ``(heads, queries, keys)`` of one call with both memories."""
        total = self.queries + trained.size(1)
        bits = self.entropy * self.queries + _bits(trained)
        random_bits = self.random_entropy * self.queries + _bits(random)
        self.entropy = bits / total
        self.random_entropy = random_bits / total
        self.queries = total

    @property
    def gain(self) -> float:
        """Information gain of the trained memory, in bits."""
        return self.random_entropy - self.entropy


def _bits(weights: Tensor) -> float:
    """Return the entropy of weights ``(heads, queries, keys)``, summed over queries, in bits."""
    weights = weights.double()
    nats = -float(torch.xlogy(weights, weights).sum())
    return nats / weights.size(0) / math.log(2)


@dataclass(frozen=True)
class MemoryGain:
    """The gains of one checkpoint, whose memory has ``size`` vectors; ``system`` is its class."""

    label: str
    path: str
    size: int
    places: dict[Location, HeadGain] = field(default_factory=dict)
    system: str = ""

    def means(self) -> dict[str, float]:
        """Return the mean gain over layers and sides, by :data:`KINDS`."""
        gains: dict[str, list[float]] = {}
        for place, gain in self.places.items():
            gains.setdefault(place.kind, []).append(gain.gain)
        means = {}
        for kind in KINDS:
            if kind in gains:
                means[kind] = mean(gains[kind])
        return means


def memory_gain(run: TrainingRun, args: argparse.Namespace) -> MemoryGain:
    """Measure the last checkpoint of a run, with the options of the command."""
    path = str(run.steps[-1].path)
    models, task = load_models(
        [path],
        args.data,
        {"memory_bptt": -1},
        cpu=args.cpu,
        fp16=args.fp16,
    )
    model = models[0]
    memories = _memories(model)
    if not memories:
        raise GtransError(f"{path}: its model has no recurrent memory (--memory-size).")
    gains = MemoryGain(
        label=run.label,
        path=path,
        size=memories[0].memory_spec.size,
        system=type(model).__name__,
    )
    drawn = [with_random_memories(model, number + 1) for number in range(DRAWS)]
    device = next(model.parameters()).device
    for sample in read_units(task, args.split, args.units, args.max_tokens, device):
        add_gains(gains.places, model, drawn, sample["net_input"])
    return gains


def _memories(model: nn.Module) -> list[RecurrentMemory]:
    return [module for module in model.modules() if isinstance(module, RecurrentMemory)]


def with_random_memories(model: nn.Module, seed: int) -> nn.Module:
    """Return a copy of a model with memories as before training."""
    clone = copy.deepcopy(model)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for memory in _memories(clone):
            # A memory updates post-norm in pre-norm models, too, and its own spec says so.
            spec = replace(memory.spec, pre_norm=memory.pre_norm)
            fresh = RecurrentMemory(spec, memory.memory_spec, memory.number)
            memory.load_state_dict(fresh.state_dict())
    return clone


def add_gains(
    places: dict[Location, HeadGain],
    model: nn.Module,
    drawn: Sequence[nn.Module],
    net_input: dict[str, Any],
) -> None:
    """Compare a model with models of random memories, on one batch."""
    trained_calls = _calls(model, net_input)
    for other in drawn:
        random_calls = _calls(other, net_input)
        for trained, random in zip(trained_calls, random_calls, strict=True):
            gain = places.setdefault(trained.place, HeadGain())
            gain.add(trained.weights, random.weights)


@dataclass(frozen=True)
class _MemoryCall:
    place: Location
    weights: Tensor  # (heads, queries, keys)


def _calls(model: nn.Module, net_input: dict[str, Any]) -> list[_MemoryCall]:
    calls: list[_MemoryCall] = []

    def keep(place: Location, weights: Tensor, _: AttentionPlan | Pairs) -> None:
        if place.kind in KINDS:
            calls.append(_MemoryCall(place, weights.float().cpu()))

    with torch.no_grad(), watch_attention(model, keep):
        model(**net_input)
    return calls


def gain_figure(models: Sequence[MemoryGain]) -> Figure:
    """Draw the gain by the size of the memory; models of one size are its runs."""
    first = models[0]
    for other in models:
        if other.system != first.system:
            raise GtransError(
                f"{first.path} is a {first.system}, {other.path} a {other.system}; a line is of "
                "one system, so analyse them in two calls."
            )
    runs: dict[str, list[list[tuple[XValue, float]]]] = {kind: [] for kind in KINDS}
    facts = []
    for model in models:
        gains = model.means()
        for kind, gain in gains.items():
            runs[kind].append([(model.size, gain)])
        fact = {
            "label": model.label,
            "path": model.path,
            "size": model.size,
            "gain": mean(gains.values()),
        }
        facts.append(fact)
    series = []
    for number, (kind, label) in enumerate(KINDS.items()):
        if runs[kind]:
            series.append(Series(label, mean_of_runs(runs[kind]), number))
    panel = Panel("information gain", "memory vectors", "bits", tuple(series))
    return Figure("", (panel,), {"models": facts})
