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
        self._highest = trainer.cfg.checkpoint.maximize_best_checkpoint_metric

    # ---- scores --------------------------------------------------------------------------------

    def better(self, score: float, than: float | None) -> bool:
        """Whether a score is not worse than another one; None is worse than any."""
        return than is None or (score >= than if self._highest else score <= than)

    def count(self, score: float | None) -> int:
        """Count a validation; returns how many there were since the best one."""
        before = self.early_stop.get("best")
        if score is None:
            return 0
        if before is None or (score != before and self.better(score, before)):
            self.early_stop = {"best": score, "num_runs": 0}
        else:
            self.early_stop["num_runs"] += 1
        return int(self.early_stop["num_runs"])

    # ---- to a checkpoint -----------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint; all processes of the run must call this."""
        trainer = self.trainer
        return {
            "workers": trainer.data_parallel_world_size,
            "early_stop": dict(self.early_stop),
            "optimizer": self._optimizer_state(),
            "parts": {type(part).__name__: self._gathered(part) for part in self._parts()},
        }

    def _parts(self) -> list[Any]:
        return list(getattr(self.trainer.task, "parts", ()))

    def _optimizer_state(self) -> dict[str, Any]:
        trainer, optimizer = self.trainer, self.trainer.optimizer
        state: dict[str, Any] = {}
        if trainer.is_data_parallel_master and not trainer.cfg.checkpoint.no_save_optimizer_state:
            state["fp32"] = [tensor.detach().cpu() for tensor in _fp32_parameters(optimizer)]
        scaler = getattr(optimizer, "scaler", None)
        if isinstance(scaler, torch.amp.GradScaler):
            state["retries"] = trainer._amp_retries
        elif scaler is not None:
            state["scaler"] = {
                name: value
                for name, value in vars(scaler).items()
                if name.startswith("_") or name == "loss_scale"
            }
        plateau = getattr(trainer.lr_scheduler, "lr_scheduler", None)
        if plateau is not None:
            state["plateau"] = plateau.state_dict()
        return state

    def _gathered(self, part: Any) -> dict[Any, Any]:
        """The state of a part of the task, of all processes together."""
        own: dict[Any, Any] = part.before_checkpoint()
        workers = self.trainer.data_parallel_world_size
        if workers == 1:
            return own
        states: list[dict[Any, Any]] = [{} for _ in range(workers)]
        torch.distributed.all_gather_object(states, own, self.trainer.data_parallel_process_group)
        return {key: value for state in states for key, value in state.items()}

    # ---- from a checkpoint ---------------------------------------------------------------------

    def restore(self, extra: dict[str, Any], reset: Collection[str]) -> None:
        """Go on with the state in a checkpoint, after fairseq's own entries have been restored.

        The position in the epoch is counted anew, in batches of this number of processes.

        Args:
            extra: its ``extra_state``.
            reset: what is not taken over: ``optimizer``, ``lr_scheduler``, ``meters``,
                ``dataloader``.
        """
        state = extra.get("run_state") or {}
        trainer = self.trainer
        if state and "dataloader" not in reset:
            position = extra["train_iterator"]
            batches = position["iterations_in_epoch"] * state["workers"]
            position["iterations_in_epoch"] = batches // trainer.data_parallel_world_size
            for part in self._parts():
                part.resume(state["parts"].get(type(part).__name__, {}), trainer.device)
        if "optimizer" in reset:
            return
        self._restore_optimizer(state.get("optimizer", {}))
        if "lr_scheduler" not in reset:
            self._restore_schedule(state.get("optimizer", {}), extra)
        if "meters" not in reset:
            self.best = extra.get("best")
            self.early_stop = dict(state.get("early_stop", {}))

    def _restore_optimizer(self, state: dict[str, Any]) -> None:
        optimizer = self.trainer.optimizer
        copies, saved = _fp32_parameters(optimizer), state.get("fp32", [])
        if [copy.shape for copy in copies] == [tensor.shape for tensor in saved]:
            with torch.no_grad():
                for copy, tensor in zip(copies, saved, strict=True):
                    copy.copy_(tensor)
        elif saved:
            logger.info("the precision has changed: parameters are taken from the model as saved")
        scaler = getattr(optimizer, "scaler", None)
        if isinstance(scaler, torch.amp.GradScaler):
            self.trainer._amp_retries = state.get("retries", 0)
        elif scaler is not None:
            vars(scaler).update(state.get("scaler", {}))

    def _restore_schedule(self, state: dict[str, Any], extra: dict[str, Any]) -> None:
        """Restore what the schedule knows of validations."""
        plateau = getattr(self.trainer.lr_scheduler, "lr_scheduler", None)
        if plateau is not None and "plateau" in state:
            plateau.load_state_dict(state["plateau"])
        position = extra["train_iterator"]
        if position["iterations_in_epoch"] == 0 and position["epoch"] > 1:
            # The checkpoint of an epoch is written before the schedule is told its loss.
            self.trainer.lr_step(position["epoch"] - 1, extra["val_loss"])


def _fp32_parameters(optimizer: Any) -> list[Tensor]:
    """The fp32 copies of parameters in half precision; none if the optimizer has none."""
    copies = getattr(optimizer, "fp32_params", None) or []
    return list(copies.values()) if isinstance(copies, dict) else list(copies)
