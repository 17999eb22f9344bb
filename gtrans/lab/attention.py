"""Entropy of attention and openness of gates, observed while a model reads a corpus.

Bao et al. 2021 (§3.2, figures 4, 5 and 8) show by it where a Transformer fails on long input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor, nn

from gtrans.modules.group_attention import AttentionPlan
from gtrans.modules.transformer import (
    DocumentAttention,
    Gate,
    MultiheadAttention,
    Pairs,
)

T = TypeVar("T")
_NAME = re.compile(r"(?:^|\.)(context_encoder|encoder|decoder)\.layers\.(\d+)\.(.+)$")
_SIDES = ("context_encoder", "encoder", "decoder")
_ORDER = ("self", "context", "update", "memory", "cross")
_KINDS = (
    ("update_attn", "update"),
    ("encoder_attn", "cross"),
    ("context_attn", "context"),
    ("self_attn", "self"),
    ("memory", "memory"),
)


@dataclass(frozen=True)
class Location:
    """Where an attention or a gate is in the model.

    Attributes:
        side: ``encoder``, ``decoder`` or ``context_encoder``.
        kind: ``self``, ``cross``, ``context``, ``memory`` (Output Attention, which reads a memory)
            or ``update`` (Update Attention, which writes to it).
        layer: from 1, the lowest.
        range: ``group`` or ``global`` if the model has both, otherwise empty.
    """

    side: str
    kind: str
    layer: int
    range: str = ""

    @classmethod
    def of_module(cls, name: str, range_: str = "") -> Location | None:
        """Return the location of a module by its name; None if it is in no layer."""
        match = _NAME.search(name)
        if match is None:
            return None
        side, layer, rest = match.groups()
        parts = rest.split(".")
        for part, kind in _KINDS:
            if part in parts:
                return cls(side, kind, int(layer) + 1, range_)
        return None

    @property
    def order(self) -> tuple[int, int, str, int]:
        """The order in which data pass through the model."""
        return _SIDES.index(self.side), _ORDER.index(self.kind), self.range, self.layer


@dataclass
class AttentionEntropy:
    """Entropies of one attention in bits, summed over queries.

    Attributes:
        entropy: of the mean of all heads, as in the authors' code.
        max_entropy: of uniform attention over all visible keys.
    """

    queries: int = 0
    entropy: float = 0.0
    max_entropy: float = 0.0

    def add(self, weights: Tensor, visible: Tensor) -> None:
        """Add weights ``(heads, queries, keys)``; ``visible`` is ``(queries, keys)``."""
        self.queries += weights.size(1)
        mean = weights.mean(0)
        nats = -float(torch.xlogy(mean, mean).sum(dtype=torch.double))
        visible_keys = visible.sum(1).clamp(min=1)  # of each query
        self.entropy += nats / math.log(2)
        self.max_entropy += float(visible_keys.double().log2().sum())


@dataclass
class GateOpening:
    """Sum of the weights that a gate gives to the wider attention, and their number."""

    values: int = 0
    total: float = 0.0

    def add(self, share: Tensor) -> None:
        """Add weights."""
        self.values += share.numel()
        self.total += float(share.sum(dtype=torch.double))

    @property
    def mean(self) -> float:
        """The mean weight, from 0 (closed) to 1."""
        return self.total / max(self.values, 1)


@dataclass
class AttentionMeasurements:
    """Entropies of attention, and openness of gates, by location."""

    entropies: dict[Location, AttentionEntropy] = field(default_factory=dict)
    gates: dict[Location, GateOpening] = field(default_factory=dict)


def in_order(measured: Mapping[Location, T]) -> list[tuple[Location, T]]:
    """Sort by side, kind, range and layer."""
    return sorted(measured.items(), key=lambda item: item[0].order)


# Receives the weights (heads, queries, keys) of an attention, and which query sees which key.
Watcher = Callable[[Location, Tensor, AttentionPlan | Pairs], None]


@contextmanager
def watch_attention(model: nn.Module, watcher: Watcher) -> Iterator[None]:
    """Call ``watcher`` after every attention of a model."""
    observed = []
    for name, module in model.named_modules():
        if isinstance(module, MultiheadAttention):
            location = Location.of_module(name, _range(module, name))
            if location is not None:
                observed.append(module)
                module.observer = partial(watcher, location)
    try:
        yield
    finally:
        for attention in observed:
            attention.observer = None


@contextmanager
def measure_attention(model: nn.Module) -> Iterator[AttentionMeasurements]:
    """Measure every attention and every gate of a model."""
    measured = AttentionMeasurements()
    hooks = []

    def add(location: Location, weights: Tensor, pairs: AttentionPlan | Pairs) -> None:
        entropy = measured.entropies.setdefault(location, AttentionEntropy())
        entropy.add(weights, pairs.visible)

    for name, module in model.named_modules():
        if isinstance(module, Gate):
            location = Location.of_module(name)
            if location is not None:
                # The context's weight is g where the equation has g * context, otherwise 1 - g.
                sign = 1 if module.other_first else -1
                opening = measured.gates.setdefault(location, GateOpening())
                hook = partial(_count_share, opening, sign)
                hooks.append(module.proj.register_forward_hook(hook))
    try:
        with watch_attention(model, add):
            yield measured
    finally:
        for handle in hooks:
            handle.remove()


def _range(attention: MultiheadAttention, name: str) -> str:
    if isinstance(attention, DocumentAttention):
        return "group" if attention.kind == "combined" else attention.kind
    return "global" if name.endswith(".global_attn") else ""


def _count_share(opening: GateOpening, sign: int, _: nn.Module, __: object, output: Tensor) -> None:
    opening.add(torch.sigmoid(sign * output.detach()))
