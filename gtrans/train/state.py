"""What fairseq's checkpoints lack for a resumed run to be exactly the run that was stopped."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger(__name__)


class RunState:
    """The state of a run between two updates, besides fairseq's own entries of a checkpoint.

    * The fp32 parameters: under ``--fp16`` and ``--bf16`` a checkpoint has the parameters in half
      precision only, from which fairseq makes the fp32 copies of a resumed run.
    * The counters of loss scaling (``--fp16``), and of repeated batches (``--amp``).
    * The best validation scores and the validations since then (``--patience``), and the state of
      ``--lr-scheduler reduce_lr_on_plateau``.
    * What the parts of a task keep from update to update, such as memories, of all processes.

    Random numbers need no state: every update seeds them anew, by its own number.

    Attributes:
        best: the best score of a checkpoint; None: there was none.
        early_stop: the best score of all validations that count (``best``), and how many there
            were since (``num_runs``).
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.best: float | None = None
        self.early_stop: dict[str, Any] = {}

    def better(self, score: float, than: float | None) -> bool:
        """Whether a score is not worse than another one; None is worse than any."""
        highest = self.trainer.cfg.checkpoint.maximize_best_checkpoint_metric
        return than is None or (score >= than if highest else score <= than)

    def count(self, score: float) -> None:
        """Count a validation for ``--patience``."""
        before = self.early_stop.get("best")
        if before is None or (score != before and self.better(score, before)):
            self.early_stop = {"best": score, "num_runs": 0}
        else:
            self.early_stop["num_runs"] += 1

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; all processes of the run must call this."""
        trainer, optimizer = self.trainer, self.trainer.optimizer
        saved: dict[str, Any] = {}
        if trainer.is_data_parallel_master and not trainer.cfg.checkpoint.no_save_optimizer_state:
            saved["fp32"] = [tensor.detach().cpu() for tensor in _fp32_parameters(optimizer)]
        scaler = getattr(optimizer, "scaler", None)
        if isinstance(scaler, torch.amp.GradScaler):
            saved["retries"] = trainer._amp_retries
        elif scaler is not None:
            # Its limits are options, which may be changed.
            saved["scaler"] = {
                name: value
                for name, value in vars(scaler).items()
                if name.startswith("_") or name == "loss_scale"
            }
        plateau = getattr(trainer.lr_scheduler, "lr_scheduler", None)
        if plateau is not None:
            saved["plateau"] = plateau.state_dict()
        return {
            "workers": trainer.data_parallel_world_size,
            "early_stop": dict(self.early_stop),
            "optimizer": saved,
            "parts": {type(part).__name__: self._gathered(part) for part in self._parts()},
        }

    def _parts(self) -> list[Any]:
        return list(getattr(self.trainer.task, "parts", ()))

    def _gathered(self, part: Any) -> dict[Any, Any]:
        """The state of a part of the task, of all processes together."""
        trainer, own = self.trainer, part.before_checkpoint()
        states: list[dict[Any, Any]] = [own] * trainer.data_parallel_world_size
        if len(states) > 1:
            torch.distributed.all_gather_object(states, own, trainer.data_parallel_process_group)
        return {key: value for state in states for key, value in state.items()}

    def restore(self, extra: dict[str, Any], reset: Collection[str]) -> None:
        """Go on with the state in a checkpoint, after fairseq's own entries have been restored.

        The position in the epoch is counted anew, in batches of this number of processes.

        Args:
            extra: its ``extra_state``.
            reset: parts not taken over: ``optimizer``, ``lr_scheduler``, ``meters``,
                ``dataloader``.
        """
        state, trainer, position = extra.get("run_state"), self.trainer, extra["train_iterator"]
        if state and "dataloader" not in reset:
            batches = position["iterations_in_epoch"] * state["workers"]
            position["iterations_in_epoch"] = batches // trainer.data_parallel_world_size
            for part in self._parts():
                part.resume(state["parts"].get(type(part).__name__, {}), trainer.device)
        if "optimizer" in reset:
            return
        saved = (state or {}).get("optimizer", {})
        self._restore_optimizer(saved)
        if "lr_scheduler" not in reset:
            plateau = getattr(trainer.lr_scheduler, "lr_scheduler", None)
            if plateau is not None and "plateau" in saved:
                plateau.load_state_dict(saved["plateau"])
            if position["iterations_in_epoch"] == 0 and position["epoch"] > 1:
                # The checkpoint of an epoch is written before the schedule is told its loss.
                trainer.lr_step(position["epoch"] - 1, extra["val_loss"])
        if "meters" not in reset:
            self.best = extra.get("best")
            self.early_stop = dict((state or {}).get("early_stop", {}))

    def _restore_optimizer(self, saved: dict[str, Any]) -> None:
        """Restore the parameters in fp32, and the scale of the loss."""
        optimizer = self.trainer.optimizer
        copies, tensors = _fp32_parameters(optimizer), saved.get("fp32", [])
        if [copy.shape for copy in copies] == [tensor.shape for tensor in tensors]:
            with torch.no_grad():
                for copy, tensor in zip(copies, tensors, strict=True):
                    copy.copy_(tensor)
        elif tensors:
            logger.info("the precision has changed: parameters are taken from the model as saved")
        scaler = getattr(optimizer, "scaler", None)
        if isinstance(scaler, torch.amp.GradScaler):
            self.trainer._amp_retries = saved.get("retries", 0)
        elif scaler is not None:
            vars(scaler).update(saved.get("scaler", {}))


def _fp32_parameters(optimizer: Any) -> list[Tensor]:
    """The fp32 copies of parameters in half precision; none if the optimizer has none."""
    copies = getattr(optimizer, "fp32_params", None) or []
    return list(copies.values()) if isinstance(copies, dict) else list(copies)
