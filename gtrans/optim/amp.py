"""Automatic mixed precision: fairseq's optimizer for ``--amp``, corrected, and bf16 on CPUs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from fairseq.optim import FairseqOptimizer
from fairseq.optim.amp_optimizer import AMPOptimizer as FairseqAMPOptimizer
from torch import Tensor, nn

_SCALER = "scaler"


# The name is part of checkpoints.
class AMPOptimizer(FairseqAMPOptimizer):
    """``--amp``: on CUDA fp16 with a scaled loss, on CPUs bf16, which needs no scale.

    The scaler knows an optimizer by its identity. It unscales and steps the same one here, of
    torch. (fairseq lets it step its own wrapper, whose gradients the scaler then unscales once
    more.) The scaler is part of the optimizer's state, so that a resumed run has its scale. It
    begins at ``--amp-init-scale`` and doubles after ``--amp-scale-window`` updates without an
    overflow (torch's default: 2000).
    """

    def __init__(
        self, cfg: Any, params: Sequence[nn.Parameter], fp32_optimizer: Any, **_: Any
    ) -> None:
        """See fairseq's; ``fp32_optimizer`` steps the parameters, ``cfg`` has all options."""
        # Not fairseq's own constructor, which makes a scaler that warns on CPUs.
        FairseqOptimizer.__init__(self, cfg.optimizer)
        self.fp32_optimizer = fp32_optimizer
        self.min_loss_scale = cfg.common.min_loss_scale
        window = cfg.common.amp_scale_window
        self._grad_scaler = torch.amp.GradScaler(
            "cuda",
            init_scale=float(cfg.common.amp_init_scale),
            growth_interval=2000 if window is None else int(window),
            enabled=torch.cuda.is_available() and not cfg.common.cpu,
        )

    def autocast(self) -> AbstractContextManager[Any]:
        """The context of a forward pass that fairseq's own, ``torch.cuda.amp``, does not give."""
        if self.scaler.is_enabled():
            return nullcontext()
        # Several batches of an update are read in this context, each with a graph of its own.
        return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)

    def backward(self, loss: Tensor) -> None:
        """The gradients of the scaled loss; operations have the types of the forward pass."""
        with torch.autocast("cpu", enabled=False):
            super().backward(loss)

    def step(self) -> None:
        """One update, none if a gradient is not finite; then the scale is adjusted."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        """Unscale and clip the gradients; returns their norm.

        Raises:
            FloatingPointError: the norm is not finite, and there is no scale to reduce.
        """
        if self.scaler.is_enabled():
            norm: Tensor = super().clip_grad_norm(max_norm, aggregate_norm_fn)
            return norm
        norm = self.fp32_optimizer.clip_grad_norm(max_norm, aggregate_norm_fn)
        if not torch.isfinite(norm).all():
            raise FloatingPointError("gradients are Nan/Inf")
        return norm

    def state_dict(self) -> dict[str, Any]:
        """The states of the optimizer inside and of the scaler."""
        state = dict(self.fp32_optimizer.state_dict())
        if self.scaler.is_enabled():
            state[_SCALER] = self.scaler.state_dict()
        return state

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Resume; a scaler that was not saved begins anew."""
        inside = {name: value for name, value in state_dict.items() if name != _SCALER}
        self.fp32_optimizer.load_state_dict(inside, optimizer_overrides)
        if _SCALER in state_dict:
            self.scaler.load_state_dict(state_dict[_SCALER])
