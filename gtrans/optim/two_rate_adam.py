"""Adam with one learning rate for new parameters and another for loaded ones."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from omegaconf import II
from torch import nn

from gtrans.errors import GtransError

PRETRAINED = "pretrained"


@dataclass
class TwoRateAdamConfig(FairseqAdamConfig):
    """Adam's options, and the learning rate of loaded parameters."""

    lr_scale_pretrained: float = field(
        default=II("task.lr_scale_pretrained"),
        metadata={"help": "learning rate of loaded parameters, as a fraction of --lr"},
    )


def mark_pretrained(model: nn.Module, new: Iterable[str]) -> None:
    """Mark all parameters except those named in ``new`` as loaded.

    The mark is the attribute ``param_group``, the only attribute that fairseq copies to the
    fp32 parameters that it trains under fp16 and bf16.
    """
    names = set(new)
    for name, parameter in model.named_parameters():
        if name not in names:
            parameter.param_group = PRETRAINED  # type: ignore[attr-defined]


@register_optimizer("two_rate_adam", dataclass=TwoRateAdamConfig)
class TwoRateAdam(FairseqAdam):
    """Adam whose marked parameters train at ``lr * lr_scale_pretrained`` (App. C.1).

    Raises:
        GtransError: no parameter is marked, or none would be trained.
    """

    def __init__(self, cfg: TwoRateAdamConfig, params: Sequence[nn.Parameter]) -> None:
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in params:
            loaded = getattr(parameter, "param_group", None) == PRETRAINED
            groups.setdefault(cfg.lr_scale_pretrained if loaded else 1.0, []).append(parameter)
        if set(groups) == {1.0} and cfg.lr_scale_pretrained != 1:
            raise GtransError(
                "the optimizer two_rate_adam finds no loaded parameters; give --init-from "
                "(task.init_from), or choose adam; with --fp16 also give "
                "--fp16-no-flatten-grads."
            )
        if set(groups) == {0.0}:
            raise GtransError(
                "`--lr-scale-pretrained 0` leaves nothing to train, because all parameters of "
                "this model were loaded; give a scale above 0."
            )
        super().__init__(
            cfg,
            [
                {"params": members, "lr_scale": scale}
                for scale, members in sorted(groups.items(), reverse=True)
            ],
        )
        self.set_lr(self.optimizer_config["lr"])

    @property
    def supports_flat_params(self) -> bool:
        """No: one flat parameter cannot have two learning rates."""
        return False

    def get_lr(self) -> float:
        """The rate of new parameters."""
        group = self.param_groups[0]
        return float(group["lr"] / group["lr_scale"])

    def set_lr(self, lr: float) -> None:
        """Set the rate of new parameters; that of loaded ones is scaled accordingly."""
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Resume; the rates come from the options of this run."""
        scales = [group["lr_scale"] for group in self.param_groups]
        super().load_state_dict(state_dict, optimizer_overrides)
        for group, scale in zip(self.param_groups, scales, strict=True):
            group["lr_scale"] = scale
