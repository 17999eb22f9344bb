"""Gradients by distance: how much a translation depends on each sentence around it.

Feng et al. 2022 (§5.3, figure 4) take the gradient of each target sentence's loss, at the embedded
words of all sentences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.errors import GtransError
from gtrans.modules.embedding import Embedder

SIDES = ("source", "target")


@dataclass
class GradientsByDistance:
    """Sums of gradient norms, and numbers of words, by side and distance.

    A distance is the number of sentences from the word to the loss; negative for later sentences. A
    bin is named by its smallest distance.
    """

    norms: dict[tuple[str, int], float] = field(default_factory=lambda: defaultdict(float))
    words: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))

    def mean(self, side: str, distance: int) -> float:
        """The mean norm at a word; 0 without words."""
        key = side, distance
        if not self.words.get(key):
            return 0.0
        return self.norms[key] / self.words[key]

    def distances(self) -> list[int]:
        """All distances that occurred, in order."""
        return sorted({distance for _, distance in self.words})

    def add(self, side: str, gradient: Tensor, distance: Tensor) -> None:
        """Add a gradient ``(words, dim)``; ``distance`` is ``(words,)``."""
        norms = gradient.norm(dim=1).double()
        for value in torch.unique(distance).tolist():
            chosen = norms[distance == value]
            self.norms[side, value] += float(chosen.sum())
            self.words[side, value] += chosen.numel()


@dataclass(frozen=True)
class Distances:
    """The words whose gradients are measured.

    Attributes:
        bin: distances in a bin; with 10: 0 to 9, 10 to 19, -10 to -1.
        unique: whether a word that occurs several times in a bin counts once, where it is nearest.
    """

    farthest: int = 5
    bin: int = 1
    unique: bool = False

    def chosen(self, distance: Tensor, words: Tensor, nearest: int) -> tuple[Tensor, Tensor]:
        """Return the numbers of the chosen words and the starts of their bins, both ``(n,)``.

        ``distance`` and ``words`` (ids) are ``(words,)``; ``nearest`` is the smallest distance.
        """
        is_near = (distance >= nearest) & (distance <= self.farthest)
        inside = is_near.nonzero().squeeze(1)
        bins = torch.div(distance[inside], self.bin, rounding_mode="floor")
        bins = bins * self.bin
        if not self.unique or not inside.numel():
            return inside, bins
        order = distance[inside].abs().argsort(stable=True)
        inside = inside[order]
        bins = bins[order]
        keys = torch.stack([bins, words[inside]])
        _, kind = torch.unique(keys, dim=1, return_inverse=True)
        count = kind.numel()
        places = torch.arange(count, device=kind.device)
        unseen = torch.full_like(places, count)
        first = unseen.scatter_reduce(0, kind, places, "amin")
        first = first[first < count]
        return inside[first], bins[first]


def add_gradients(
    gradients: GradientsByDistance,
    model: Any,
    net_input: Mapping[str, Tensor],
    target: Tensor,
    distances: Distances,
) -> None:
    """Add the gradients of the losses of all sentences of one row.

    Args:
        model: in evaluation mode.
        net_input: a batch of one row.
        target: ids, ``(1, length)``.
    """
    source_tokens = net_input["src_tokens"]
    target_tokens = net_input["prev_output_tokens"]
    source_layout, target_layout = model.layouts(source_tokens, target_tokens)
    with torch.enable_grad(), embedded_words(model) as embedded:
        logits = model(**net_input)[0]
    for side, layout in zip(SIDES, (source_layout, target_layout), strict=True):
        if [len(states) for states in embedded[side]] != [layout.tokens]:
            raise GtransError(
                "gradients by distance need a model that embeds context and sentence together; "
                f"{type(model).__name__} encodes its context apart."
            )
    source_states = embedded["source"][0]
    target_states = embedded["target"][0]
    source_words = source_layout.pack(source_tokens)
    target_words = target_layout.pack(target_tokens)
    real = target.ne(model.decoder.dictionary.pad())
    # The decoder reads some sentences without predicting them; these have no loss.
    sentence = target_layout.choose(target_layout.sentence, real)
    real_logits = logits[real].float()
    losses = nn.functional.cross_entropy(real_logits, target[real], reduction="none")
    numbers = torch.unique(sentence).tolist()
    # In a window whose target is the current sentence alone, source sentences before the
    # current one shift its number.
    is_alone = "current_sentence" in net_input and int(target_layout.sentence_counts) == 1
    shift = int(net_input["current_sentence"]) if is_alone else 0
    for number in numbers:
        loss = losses[sentence == number].sum()
        source_gradient, target_gradient = torch.autograd.grad(
            loss,
            (source_states, target_states),
            retain_graph=number != numbers[-1],
        )
        distance = number + shift - source_layout.sentence
        chosen, bins = distances.chosen(distance, source_words, -distances.farthest)
        gradients.add("source", source_gradient[chosen], bins)
        distance = number - target_layout.sentence
        chosen, bins = distances.chosen(distance, target_words, 0)
        gradients.add("target", target_gradient[chosen], bins)


@contextmanager
def embedded_words(model: Any) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the embedded words of both sides as leaves of autograd."""
    embedded: dict[str, list[Tensor]] = {}
    handles = []
    for side, part in zip(SIDES, (model.encoder, model.decoder), strict=True):
        assert isinstance(part.embed, Embedder)
        embedded[side] = []
        hook = partial(_replace_by_leaf, embedded[side])
        handles.append(part.embed.register_forward_hook(hook))
    try:
        yield embedded
    finally:
        for handle in handles:
            handle.remove()


def _replace_by_leaf(leaves: list[Tensor], _: nn.Module, __: object, output: Tensor) -> Tensor:
    leaf = output.detach().requires_grad_()
    leaves.append(leaf)
    return leaf


# -------------------------------------------------------------------------------------------------
#
# Gradients of the training loss by layer (Yang et al. 2022, figure 11).

_LAYER_SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class LayerGradient:
    """The gradient of the training loss (nats per token) at one layer, counted from 1."""

    side: str
    layer: int
    norm: float


def criterion_of(path: str | Path, task: Any) -> Any:
    """Return the criterion that a checkpoint was trained with, in evaluation mode."""
    config = read_checkpoint(path, in_memory=False).get("cfg") or {}
    options = config.get("criterion")
    if not isinstance(options, dict) or "_name" not in options:
        raise GtransError(
            f"{path}: it does not say with which --criterion it was trained, so its gradients by "
            "layer cannot be had; take a checkpoint of a training."
        )
    criterion = task.build_criterion(OmegaConf.create(options))
    criterion.eval()  # dropout, label smoothing and the like as in validation
    return criterion


def layer_gradients(
    model: Any, criterion: Any, samples: Iterable[dict[str, Any]]
) -> list[LayerGradient]:
    """Return every layer's gradient, for one update with all samples as its batch and no dropout.

    The model is in evaluation mode; samples have a complete ``net_input`` on its device.
    """
    model.zero_grad(set_to_none=True)
    size = 0.0
    with torch.enable_grad():
        for sample in samples:
            loss, sample_size, _ = criterion(model, sample)
            loss.backward()
            size += float(sample_size)
    gradients = []
    for side in _LAYER_SIDES:
        for number, layer in enumerate(getattr(model, side).layers, 1):
            squares = 0.0
            for parameter in layer.parameters():
                if parameter.grad is not None:
                    gradient = parameter.grad.double()
                    squares += float(gradient.square().sum())
            norm = squares**0.5 / max(size, 1.0)
            gradients.append(LayerGradient(side, number, norm))
    model.zero_grad(set_to_none=True)
    return gradients
