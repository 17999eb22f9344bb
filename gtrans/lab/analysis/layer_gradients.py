"""Gradients of the training loss by layer (Yang et al. 2022, figure 11)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from gtrans.checkpoints import read_checkpoint
from gtrans.errors import GtransError

SIDES = ("encoder", "decoder")


@dataclass(frozen=True)
class LayerGradient:
    """The gradient at one layer.

    Attributes:
        side: ``encoder`` or ``decoder``.
        layer: from 1, the lowest.
        norm: of the gradient of the loss per token at all parameters of the layer, in nats.
    """

    side: str
    layer: int
    norm: float


def criterion_of(path: str | Path, task: Any) -> Any:
    """The criterion with which a checkpoint was trained.

    Raises:
        GtransError: the checkpoint does not say.
    """
    options = (read_checkpoint(path, in_memory=False).get("cfg") or {}).get("criterion")
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
    """Differentiate the mean loss of some units with respect to the parameters of every layer.

    This is the gradient of an update whose batch are all these units, without dropout.

    Args:
        model: a model of this project, in evaluation mode.
        criterion: gives loss, size and logs for a model and a sample.
        samples: batches of units, whose ``net_input`` is complete and on the model's device.
    """
    model.zero_grad(set_to_none=True)
    size = 0.0
    with torch.enable_grad():
        for sample in samples:
            loss, of_sample, _ = criterion(model, sample)
            loss.backward()
            size += float(of_sample)
    found = []
    for side in SIDES:
        for number, layer in enumerate(getattr(model, side).layers, 1):
            squares = (
                float(parameter.grad.double().square().sum())
                for parameter in layer.parameters()
                if parameter.grad is not None
            )
            found.append(LayerGradient(side, number, sum(squares) ** 0.5 / max(size, 1.0)))
    model.zero_grad(set_to_none=True)
    return found
