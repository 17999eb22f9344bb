"""fairseq's optimizer for ``--amp``, corrected, and bf16 on CPUs."""

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
    """``--amp``: fp16 with a scaled loss on CUDA, bf16 without a scale on CPUs.

    The scaler knows an optimizer by the object, so it must unscale and step the same one; fairseq's
    unscales gradients twice. The scale begins at ``--amp-init-scale`` and doubles after
    ``--amp-scale-window`` updates (default: 2000).
    """

    def __init__(
        self,
        cfg: Any,
        params: Sequence[nn.Parameter],
        fp32_optimizer: Any,
        **_: Any,
    ) -> None:
        # Not fairseq's own constructor, which makes a scaler that warns on CPUs.
        FairseqOptimizer.__init__(self, cfg.optimizer)
        self.fp32_optimizer = fp32_optimizer
        common = cfg.common
        self.min_loss_scale = common.min_loss_scale
        window = 2000
        if common.amp_scale_window is not None:
            window = int(common.amp_scale_window)
        self._grad_scaler = torch.amp.GradScaler(
            "cuda",
            init_scale=float(common.amp_init_scale),
            growth_interval=window,
            enabled=torch.cuda.is_available() and not common.cpu,
        )

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context of a forward pass on CPUs; fairseq enters CUDA's."""
        if self.scaler.is_enabled():
            return nullcontext()
        # Several batches of an update are read in this context, each with a graph of its own.
        return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients of the scaled loss."""
        with torch.autocast("cpu", enabled=False):
            super().backward(loss)

    def step(self) -> None:
        """Update the parameters if all gradients are finite, then adjust the scale."""
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def clip_grad_norm(self, max_norm: float, aggregate_norm_fn: Any = None) -> Tensor:
        """Unscale and clip the gradients; return their norm.

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
        """Return the states of optimizer and scaler."""
        state = dict(self.fp32_optimizer.state_dict())
        if self.scaler.is_enabled():
            state[_SCALER] = self.scaler.state_dict()
        return state

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Resume; a scaler that was not saved begins anew."""
        of_optimizer = dict(state_dict)
        of_optimizer.pop(_SCALER, None)
        self.fp32_optimizer.load_state_dict(of_optimizer, optimizer_overrides)
        if _SCALER in state_dict:
            self.scaler.load_state_dict(state_dict[_SCALER])
