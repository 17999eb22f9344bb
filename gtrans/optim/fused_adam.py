"""Adam by torch's fused kernels."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch import Tensor


def fuse(adam: FairseqAdam) -> None:
    """Let torch's fused AdamW make the steps of ``adam`` if all parameters are fp32 on a GPU.

    Only ``eps`` differs: fairseq adds it before it corrects the bias of the second moment.
    """
    groups: list[dict[str, Any]] = adam.param_groups
    parameters: list[Tensor] = []
    for group in groups:
        parameters += group["params"]
    if all(p.is_cuda and p.dtype == torch.float32 for p in parameters):
        options = dict(adam.optimizer_config)
        adam._optimizer = torch.optim.AdamW(groups, **options, fused=True)


@dataclass
class FusedAdamConfig(FairseqAdamConfig):
    """Adam's options."""


@register_optimizer("fused_adam", dataclass=FusedAdamConfig)
class FusedAdam(FairseqAdam):
    """fairseq's Adam; on a GPU one launch updates all parameters (:func:`fuse`)."""

    def __init__(
        self, cfg: FusedAdamConfig, params: Iterable[Tensor] | Iterable[dict[str, Any]]
    ) -> None:
        super().__init__(cfg, params)
        fuse(self)

    @property
    def supports_flat_params(self) -> bool:
        """Return True."""
        return True

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Resume, also on another device."""
        super().load_state_dict(state_dict, optimizer_overrides)
        is_fused = isinstance(self.optimizer, torch.optim.AdamW)
        for group in self.param_groups:
            group.pop("fused", None)  # fairseq's Adam has no such entry
            if is_fused:
                group["fused"] = True
        for state in self.optimizer.state.values():
            step = float(state["step"])
            # fairseq's Adam counts in an int, torch's fused kernels on the device.
            if is_fused:
                state["step"] = state["exp_avg"].new_tensor(step)
            else:
                state["step"] = int(step)
