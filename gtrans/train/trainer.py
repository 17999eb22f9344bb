"""fairseq's trainer, which goes on exactly from its checkpoints under ``gtrans train``."""

from __future__ import annotations

import ast
import logging
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
    """The trainer of a run that goes on exactly, from a checkpoint that is written whole.

    Attributes:
        run: the state of the run that fairseq's checkpoints lack.
    """

    _optimizer: Any
    _lr_scheduler: Any

    def __init__(self, cfg: Any, task: Any, model: Any, criterion: Any, signals: Signals) -> None:
        """``signals``: told to this process; the others go to fairseq's trainer."""
        super().__init__(cfg, task, model, criterion)
        self.run = RunState(self)
        self._signals = signals
        self._sum: Any = 0

    # ---- an update -----------------------------------------------------------------------------

    def train_step(self, samples: Sequence[Any], raise_oom: bool = False) -> Any:
        """An update by the batches that this process has.

        fairseq reads a dummy in the place of a missing batch. It counts its words, and takes the
        whole update for one if the last batch is missing.

        Raises:
            GtransError: the loss or its gradient is not finite.
        """
        present = [sample for sample in samples if sample]
        precision: AbstractContextManager[Any] = nullcontext()
        if isinstance(self.optimizer, AMPOptimizer):
            precision = self.optimizer.autocast()
        with precision:
            return super().train_step(present or samples[:1], raise_oom)

    @property
    def signal_code(self) -> int:
        """The sum of what all processes had been told at the last update; a GPU is waited for."""
        if self.data_parallel_world_size == 1:
            return self._signals.code
        return int(self._sum)

    def _aggregate_logging_outputs(
        self, logging_outputs: Any, *stats: Any, ignore: bool = False
    ) -> tuple[Any, Sequence[Any]]:
        """As fairseq's, which the processes exchange in any case, with the signals' sum."""
        logged, sums = super()._aggregate_logging_outputs(
            logging_outputs, *stats, self._signals.code, ignore=ignore
        )
        *sums, self._sum = sums
        return logged, sums

    def _build_optimizer(self) -> None:
        """As fairseq's; ``--amp`` has an optimizer that is put right."""
        super()._build_optimizer()
        if self.cfg.common.amp:
            self._optimizer = AMPOptimizer(self.cfg, [], self._optimizer.fp32_optimizer)
            schedule = lr_scheduler.build_lr_scheduler(self.cfg.lr_scheduler, self.optimizer)
            self._lr_scheduler = schedule
            self._lr_scheduler.step_update(0)

    # ---- checkpoints ---------------------------------------------------------------------------

    def save_checkpoint(self, filename: str, extra_state: dict[str, Any]) -> None:
        """Called by fairseq after an error in an update, to save the rest; nothing is saved.

        Raises:
            GtransError: the loss or its gradient is not finite.
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
        """Write a checkpoint as a whole.

        Args:
            path: its name.
            extra: entries of its ``extra_state`` besides fairseq's own.
        """
        self.consolidate_optimizer()
        state = utils.move_to_cpu(self.state_dict())
        state["extra_state"].update(extra)
        write_checkpoint(state, path)

    def check_finite(self, loss: float | None = None) -> None:
        """Raises GtransError for a model that is of no use any more, or a ``loss`` that is NaN."""
        named = self.get_model().named_parameters()
        broken = next(
            (name for name, parameter in named if not torch.isfinite(parameter).all()), None
        )
        if broken is None and loss is not None and loss != loss:
            broken = "the loss of the validation"
        if broken is not None:
            raise GtransError(
                f"{broken} is not finite (NaN or infinity) after {self.get_num_updates()} updates, "
                f"so training ends and nothing more is saved; {_WAY_OUT}."
            )

    def restore(self, path: str, reset: Collection[str]) -> dict[str, Any]:
        """Go on from a checkpoint; returns its ``extra_state``.

        Args:
            path: the file, which the first process reads.
            reset: parts not taken over (:meth:`RunState.restore`).

        Raises:
            GtransError: it is unreadable, damaged, or of another model or optimizer.
        """
        _, own = self.model, type(self.optimizer).__name__  # whose errors are not the checkpoint's
        # It has copies of the parameters, and is built anew of those that are loaded.
        self._optimizer = self._lr_scheduler = None
        if self.is_data_parallel_master:
            state = read_checkpoint(path, in_memory=False)
            check_values(state["model"], path)
            check_shapes(state["model"], self.get_model().state_dict(), path)
            with reading(path, "the state of its training"):
                its = state["optimizer_history"][-1]["optimizer_name"]
            if its != own and "optimizer" not in reset:
                raise GtransError(
                    f"{path}: its optimizer is {its}, but that of this training is {own}; give "
                    "--reset-optimizer if the change is meant."
                )
        with reading(path, "the state of its training"):
            extra: dict[str, Any] = self.load_checkpoint(
                path,
                reset_optimizer="optimizer" in reset,
                reset_lr_scheduler="lr_scheduler" in reset,
                optimizer_overrides=ast.literal_eval(self.cfg.checkpoint.optimizer_overrides),
                reset_meters="meters" in reset,
            )
            self.run.restore(extra, reset)
        return extra


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
