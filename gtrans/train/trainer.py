"""fairseq's trainer under ``gtrans train``."""

from __future__ import annotations

import ast
import logging
import math
import sys
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.optim import lr_scheduler
from fairseq.trainer import Trainer
from torch import Tensor

from gtrans.checkpoints.reading import check_shapes, read_checkpoint, write_checkpoint
from gtrans.errors import GtransError
from gtrans.modules.file_values import check_values, reading
from gtrans.optim.amp import AMPOptimizer
from gtrans.train.signals import Signals

logger = logging.getLogger(__name__)

_WAY_OUT = "lower --lr, or give a longer --warmup-updates or a --clip-norm"


class RunTrainer(Trainer):
    """fairseq's trainer, with checkpoints from which runs resume exactly."""

    _optimizer: Any
    _lr_scheduler: Any

    def __init__(self, cfg: Any, task: Any, model: Any, criterion: Any, signals: Signals) -> None:
        super().__init__(cfg, task, model, criterion)
        self.run = RunState(self)
        self._signals = signals
        self._sum_of_codes: Any = 0

    # ---- an update -----------------------------------------------------------------------------

    def train_step(self, samples: Sequence[Any], raise_oom: bool = False) -> Any:
        """Update the parameters, without dummies for missing batches."""
        present = [sample for sample in samples if sample]
        precision: AbstractContextManager[Any] = nullcontext()
        if isinstance(self.optimizer, AMPOptimizer):
            precision = self.optimizer.autocast()
        with precision:
            return super().train_step(present or samples[:1], raise_oom)

    @property
    def signal_code(self) -> int:
        """The sum of all processes' codes at the last update; waits for the GPU."""
        if self.data_parallel_world_size == 1:
            return self._signals.code
        return int(self._sum_of_codes)

    def _aggregate_logging_outputs(
        self, logging_outputs: Any, *stats: Any, ignore: bool = False
    ) -> tuple[Any, Sequence[Any]]:
        """As in fairseq; the signal codes travel with the statistics."""
        logged, sums = super()._aggregate_logging_outputs(
            logging_outputs, *stats, self._signals.code, ignore=ignore
        )
        self._sum_of_codes = sums[-1]
        return logged, sums[:-1]

    def _build_optimizer(self) -> None:
        super()._build_optimizer()
        if self.cfg.common.amp:
            self._optimizer = AMPOptimizer(self.cfg, [], self._optimizer.fp32_optimizer)
            options = self.cfg.lr_scheduler
            self._lr_scheduler = lr_scheduler.build_lr_scheduler(options, self.optimizer)
            self._lr_scheduler.step_update(0)

    # ---- checkpoints ---------------------------------------------------------------------------

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Save nothing; fairseq calls this after an error in an update.

        Raises:
            GtransError: the error is a loss or gradient that is not finite.
        """
        error = sys.exc_info()[1]
        if not isinstance(error, FloatingPointError):
            return
        if "inconsistent" in str(error):
            raise error
        raise GtransError(
            "the loss or its gradient is not finite (NaN or infinity) after "
            f"{self.get_num_updates()} updates, so training ends and nothing more is saved; "
            f"{_WAY_OUT}, or train without half precision."
        ) from error

    def write(self, path: Path, extra: dict[str, Any]) -> None:
        """Write a checkpoint, with ``extra`` in its ``extra_state``."""
        self.consolidate_optimizer()
        state = utils.move_to_cpu(self.state_dict())
        state["extra_state"].update(extra)
        write_checkpoint(state, path)

    def check_finite(self, loss: float | None = None) -> None:
        """Raise GtransError if a parameter is not finite or ``loss`` is NaN."""
        for name, parameter in self.get_model().named_parameters():
            if not torch.isfinite(parameter).all():
                raise self._not_finite(name)
        if loss is not None and math.isnan(loss):
            raise self._not_finite("the loss of the validation")

    def _not_finite(self, name: str) -> GtransError:
        return GtransError(
            f"{name} is not finite (NaN or infinity) after {self.get_num_updates()} updates, so "
            f"training ends and nothing more is saved; {_WAY_OUT}."
        )

    def restore(self, path: str, reset: Collection[str]) -> dict[str, Any]:
        """Resume from a checkpoint without the parts in ``reset``; return its ``extra_state``."""
        # Model and optimizer are built here, so that their errors are not taken for the
        # checkpoint's.
        _ = self.model
        optimizer_name = type(self.optimizer).__name__
        # The optimizer has copies of the parameters; it is built anew from the restored ones.
        self._optimizer = self._lr_scheduler = None
        if self.is_data_parallel_master:
            self._check_restorable(path, reset, optimizer_name)
        with reading(path, "the state of its training"):
            overrides = ast.literal_eval(self.cfg.checkpoint.optimizer_overrides)
            extra: dict[str, Any] = self.load_checkpoint(
                path,
                reset_optimizer="optimizer" in reset,
                reset_lr_scheduler="lr_scheduler" in reset,
                optimizer_overrides=overrides,
                reset_meters="meters" in reset,
            )
            self.run.restore(extra, reset)
        return extra

    def _check_restorable(self, path: str, reset: Collection[str], optimizer_name: str) -> None:
        state = read_checkpoint(path, in_memory=False)
        check_values(state["model"], path)
        check_shapes(state["model"], self.get_model().state_dict(), path)
        with reading(path, "the state of its training"):
            recorded_name = state["optimizer_history"][-1]["optimizer_name"]
        if recorded_name != optimizer_name and "optimizer" not in reset:
            raise GtransError(
                f"{path}: its optimizer is {recorded_name}, but that of this training is "
                f"{optimizer_name}; give --reset-optimizer if the change is meant."
            )


class RunState:
    """State of a run between two updates that fairseq's checkpoints lack.

    * fp32 parameters: under ``--fp16`` and ``--bf16`` fairseq stores half precision only.
    * Counters of loss scaling (``--fp16``) and repeated batches (``--amp``).
    * The best scores, ``--patience``, and the state of ``reduce_lr_on_plateau``.
    * The states of task parts, such as memories, from all processes.

    Random numbers need no state: every update seeds them by its own number.

    ``early_stop``: the ``best`` validation, and ``num_runs``, the validations since then.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.best: float | None = None
        self.early_stop: dict[str, Any] = {}

    def better(self, score: float, than: float | None) -> bool:
        """Return whether ``score`` is at least as good as ``than``; None is worse than any."""
        if than is None:
            return True
        if self.trainer.cfg.checkpoint.maximize_best_checkpoint_metric:
            return score >= than
        return score <= than

    def count(self, score: float) -> None:
        """Count a validation for ``--patience``."""
        before = self.early_stop.get("best")
        if before is None or (score != before and self.better(score, before)):
            self.early_stop = {"best": score, "num_runs": 0}
        else:
            self.early_stop["num_runs"] += 1

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint; all processes must call this."""
        parts = {}
        for part in self._parts():
            parts[type(part).__name__] = self._gathered(part)
        return {
            "workers": self.trainer.data_parallel_world_size,
            "early_stop": dict(self.early_stop),
            "optimizer": self._optimizer_state(),
            "parts": parts,
        }

    def _optimizer_state(self) -> dict[str, Any]:
        trainer = self.trainer
        optimizer = trainer.optimizer
        saved: dict[str, Any] = {}
        saves_optimizer = not trainer.cfg.checkpoint.no_save_optimizer_state
        if trainer.is_data_parallel_master and saves_optimizer:
            parameters = _fp32_parameters(optimizer)
            saved["fp32"] = [tensor.detach().cpu() for tensor in parameters]
        scaler = getattr(optimizer, "scaler", None)
        if isinstance(scaler, torch.amp.GradScaler):
            saved["retries"] = trainer._amp_retries
        elif scaler is not None:
            saved["scaler"] = _counters_of(scaler)
        plateau = getattr(trainer.lr_scheduler, "lr_scheduler", None)
        if plateau is not None:
            saved["plateau"] = plateau.state_dict()
        return saved

    def _parts(self) -> list[Any]:
        return list(getattr(self.trainer.task, "parts", ()))

    def _gathered(self, part: Any) -> dict[Any, Any]:
        trainer = self.trainer
        own = part.before_checkpoint()
        states: list[dict[Any, Any]] = [own] * trainer.data_parallel_world_size
        if len(states) > 1:
            torch.distributed.all_gather_object(states, own, trainer.data_parallel_process_group)
        gathered: dict[Any, Any] = {}
        for state in states:
            gathered.update(state)
        return gathered

    def restore(self, extra: dict[str, Any], reset: Collection[str]) -> None:
        """Resume from ``extra_state``, after fairseq has restored its own entries.

        Args:
            extra: its position becomes one in batches of these processes.
            reset: parts left out: ``optimizer``, ``lr_scheduler``, ``meters``, ``dataloader``.
        """
        state = extra.get("run_state") or {}
        if state and "dataloader" not in reset:
            self._restore_position(extra["train_iterator"], state)
        if "optimizer" in reset:
            return
        optimizer_state = state.get("optimizer", {})
        self._restore_optimizer(optimizer_state)
        if "lr_scheduler" not in reset:
            self._restore_schedule(extra, optimizer_state)
        if "meters" not in reset:
            self.best = extra.get("best")
            self.early_stop = dict(state.get("early_stop", {}))

    def _restore_position(self, position: dict[str, Any], state: dict[str, Any]) -> None:
        trainer = self.trainer
        batches = position["iterations_in_epoch"] * state["workers"]
        position["iterations_in_epoch"] = batches // trainer.data_parallel_world_size
        for part in self._parts():
            part_state = state["parts"].get(type(part).__name__, {})
            part.resume(part_state, trainer.device)

    def _restore_schedule(self, extra: dict[str, Any], optimizer_state: dict[str, Any]) -> None:
        schedule = self.trainer.lr_scheduler
        plateau = getattr(schedule, "lr_scheduler", None)
        if plateau is not None and "plateau" in optimizer_state:
            plateau.load_state_dict(optimizer_state["plateau"])
        position = extra["train_iterator"]
        if position["iterations_in_epoch"] == 0 and position["epoch"] > 1:
            # The checkpoint of an epoch is written before the schedule is told its loss.
            self.trainer.lr_step(position["epoch"] - 1, extra["val_loss"])

    def _restore_optimizer(self, saved: dict[str, Any]) -> None:
        optimizer = self.trainer.optimizer
        copies = _fp32_parameters(optimizer)
        tensors = saved.get("fp32", [])
        shapes = [copy.shape for copy in copies]
        if shapes == [tensor.shape for tensor in tensors]:
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


def _counters_of(scaler: Any) -> dict[str, Any]:
    """Return the state of fairseq's loss scaler without its options."""
    counters = {}
    for name, value in vars(scaler).items():
        if name.startswith("_") or name == "loss_scale":
            counters[name] = value
    return counters


def _fp32_parameters(optimizer: Any) -> list[Tensor]:
    copies = getattr(optimizer, "fp32_params", None) or []
    if isinstance(copies, dict):
        copies = copies.values()
    return list(copies)
