"""``--store-ema``: the exponential moving average of a model's parameters."""

from __future__ import annotations

from typing import Any

import torch
from fairseq.models.ema.ema import EMA
from torch import Tensor, nn


class AveragedModel(EMA):
    """fairseq's average, in which every table decays once an update, whatever names it has.

    fairseq goes through the state dict, where a tied table stands under each of its names, and
    decays it each time. What holds no real numbers, such as a digest, is copied.
    """

    def __init__(self, model: nn.Module, config: Any, device: torch.device | None = None) -> None:
        """See fairseq's."""
        state = model.state_dict()
        self._further_names = _further_names(state)
        whole = {name for name, value in state.items() if not value.is_floating_point()}
        super().__init__(model, config, device, skip_keys=whole)

    def build_fp32_params(self, state_dict: dict[str, Tensor] | None = None) -> None:
        """As in fairseq; what is tied stays tied."""
        super().build_fp32_params(state_dict)
        for name, first in self._further_names.items():
            self.fp32_params[name] = self.fp32_params[first]

    def _step_internal(self, new_model: nn.Module, updates: int | None = None) -> None:
        super()._step_internal(_OneNameEach(new_model, self._further_names), updates)


class _OneNameEach:
    """A model whose state dict has every tensor once."""

    def __init__(self, model: nn.Module, further: dict[str, str]) -> None:
        self._state = {
            name: value
            for name, value in model.state_dict().items()
            if name not in further
        }

    def state_dict(self) -> dict[str, Tensor]:
        return self._state


def _further_names(state: dict[str, Tensor]) -> dict[str, str]:
    """The further names of tensors that have several: each with the first one of its tensor."""
    firsts: dict[tuple[int, torch.Size, tuple[int, ...]], str] = {}
    further: dict[str, str] = {}
    for name, value in state.items():
        place = (value.data_ptr(), value.shape, value.stride())
        first = firsts.setdefault(place, name) if value.numel() else name
        if first != name:
            further[name] = first
    return further


def build_ema(model: nn.Module, config: Any, device: torch.device) -> AveragedModel:
    """fairseq's function of this name."""
    return AveragedModel(model, config, device)
