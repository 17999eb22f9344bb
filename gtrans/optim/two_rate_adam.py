"""Adam with one learning rate for new parameters and another for pretrained ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from fairseq.optim import register_optimizer
from fairseq.optim.adam import FairseqAdamConfig
from omegaconf import II
from torch import Tensor, nn

from gtrans.errors import GtransError
from gtrans.optim.fused_adam import FusedAdam

# Whether a parameter is pretrained; a tensor: True on its pretrained rows.
Pretrained = bool | Tensor
DEFAULT_SCALE = 0.2
"""The learning-rate multiplier of pretrained parameters (App. C.1)."""


@dataclass
class TwoRateAdamConfig(FairseqAdamConfig):
    """Options of Adam, and the learning rate of pretrained parameters."""

    lr_scale_pretrained: float | None = field(
        default=II("task.lr_scale_pretrained"),
        metadata={"help": "learning rate of pretrained parameters, as a fraction of --lr"},
    )


def mark_pretrained(model: nn.Module, loaded: Mapping[str, Tensor | None]) -> None:
    """Mark pretrained parameters by the attribute ``param_group``.

    fairseq copies only this attribute to the fp32 parameters of fp16 and bf16. ``loaded``: by name
    ``(rows,)``, True for pretrained rows; None: the whole parameter.
    """
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name not in loaded:
            continue
        rows = loaded[name]
        earlier: Pretrained = getattr(parameter, "param_group", False)
        pretrained: Pretrained = True
        if rows is not None and isinstance(earlier, Tensor):
            pretrained = rows | earlier
        elif rows is not None and earlier is False:
            pretrained = rows
        parameter.param_group = pretrained  # type: ignore[attr-defined]


@register_optimizer("two_rate_adam", dataclass=TwoRateAdamConfig)
class TwoRateAdam(FusedAdam):
    """Adam whose pretrained parameters train at ``lr * lr_scale_pretrained`` (App. C.1).

    In an embedding table whose vocabulary has grown, only the pretrained rows do. Checkpoints
    store which parameters are pretrained.
    """

    def __init__(self, cfg: TwoRateAdamConfig, params: Sequence[nn.Parameter]) -> None:
        self._scale = DEFAULT_SCALE
        if cfg.lr_scale_pretrained is not None:
            self._scale = float(cfg.lr_scale_pretrained)
        param_groups = self._build_param_groups(list(params))
        if all(group["lr_scale"] == 0 for group in param_groups):
            raise GtransError(
                "`--lr-scale-pretrained 0` leaves nothing to train, because all parameters of "
                "this model are pretrained; give a number above 0."
            )
        super().__init__(cfg, param_groups)
        self.set_lr(self.optimizer_config["lr"])
        self._before: list[tuple[Tensor, Tensor, Tensor]] = []
        # Wrappers for half precision step torch's optimizer, not this one.
        self.optimizer.register_step_pre_hook(self._before_step)
        self.optimizer.register_step_post_hook(self._after_step)

    def _build_param_groups(self, params: Sequence[nn.Parameter]) -> list[dict[str, Any]]:
        """Return torch's groups: new parameters, each table pretrained in part, pretrained ones.

        ``numbers`` are the numbers of a group's parameters among ``params``.
        """
        new: list[int] = []
        pretrained_in_part: list[tuple[Tensor, int]] = []
        pretrained: list[int] = []
        for number, parameter in enumerate(params):
            part: Pretrained = getattr(parameter, "param_group", False)
            if isinstance(part, Tensor):
                pretrained_in_part.append((part, number))
            elif part:
                pretrained.append(number)
            else:
                new.append(number)
        members: list[tuple[Pretrained, list[int]]] = []
        if new:
            members.append((False, new))
        for rows, number in pretrained_in_part:
            members.append((rows, [number]))
        if pretrained:
            members.append((True, pretrained))
        param_groups: list[dict[str, Any]] = []
        for part, numbers in members:
            group = {
                "params": [params[number] for number in numbers],
                "numbers": numbers,
                "loaded": part,
                "lr_scale": self._scale_of(part),
            }
            param_groups.append(group)
        return param_groups

    def _scale_of(self, part: Pretrained) -> float:
        return self._scale if part is True else 1.0

    @torch.no_grad()
    def _before_step(self, *_: Any) -> None:
        """Keep the pretrained rows of tables that are pretrained in part."""
        if self._scale == 1:
            return
        if all(group["loaded"] is False for group in self.param_groups):
            raise GtransError(
                "the optimizer two_rate_adam finds no pretrained parameters; give --init-from "
                "(task.init_from), or choose adam; with --fp16 also give "
                "--fp16-no-flatten-grads."
            )
        for group in self.param_groups:
            if isinstance(group["loaded"], Tensor):
                (table,) = group["params"]
                is_pretrained = group["loaded"].to(table.device)
                rows = is_pretrained.nonzero().squeeze(1)
                self._before.append((table, rows, table[rows]))

    @torch.no_grad()
    def _after_step(self, *_: Any) -> None:
        """Shorten the step of these rows: an update of Adam is proportional to its rate."""
        for table, rows, before in self._before:
            after = table[rows]
            table[rows] = before.lerp(after, self._scale)
        self._before.clear()

    @property
    def supports_flat_params(self) -> bool:
        """Return False: one flat parameter cannot have two learning rates."""
        return False

    def get_lr(self) -> float:
        """Return the rate of new parameters."""
        group = self.param_groups[0]
        return float(group["lr"] / group["lr_scale"])

    def set_lr(self, lr: float) -> None:
        """Set the rate of new parameters."""
        for group in self.param_groups:
            group["lr"] = lr * group["lr_scale"]

    def load_state_dict(
        self, state_dict: dict[str, Any], optimizer_overrides: dict[str, Any] | None = None
    ) -> None:
        """Resume with this run's rates and the checkpoint's groups."""
        saved: list[list[int]] = []
        for group in state_dict["param_groups"]:
            saved.append(group.get("numbers", []))
        by_number: dict[int, Any] = {}
        for group in self.param_groups:
            by_number.update(zip(group["numbers"], group["params"], strict=True))
        if sorted(chain.from_iterable(saved)) == sorted(by_number):
            options = self.param_groups[0]
            groups = []
            for numbers in saved:
                params = [by_number[number] for number in numbers]
                groups.append({**options, "params": params, "numbers": numbers})
            self.param_groups[:] = groups
        super().load_state_dict(state_dict, optimizer_overrides)
        for group in self.param_groups:
            group["lr_scale"] = self._scale_of(group["loaded"])
