"""fairseq's trainer with what ``gtrans train`` needs besides."""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import utils
from fairseq.optim import lr_scheduler
from fairseq.trainer import Trainer

from gtrans.checkpoints.reading import check_shapes, read_checkpoint, write_checkpoint
from gtrans.errors import GtransError
from gtrans.modules.file_values import check_values, reading
from gtrans.optim.amp import AMPOptimizer, autocast
from gtrans.train.signals import Signals
from gtrans.train.state import RunState

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
        with autocast(self.optimizer):
            return super().train_step(present or samples[:1], raise_oom)

    @property
    def told(self) -> int:
        """The sum of what all processes had been told at the last update; a GPU is waited for."""
        alone = self.data_parallel_world_size == 1
        return self._signals.told if alone else int(self._sum)

    def _aggregate_logging_outputs(
        self, logging_outputs: Any, *stats: Any, ignore: bool = False
    ) -> tuple[Any, Sequence[Any]]:
        """As fairseq's, which the processes exchange in any case, with the signals' sum."""
        logged, sums = super()._aggregate_logging_outputs(
            logging_outputs, *stats, self._signals.told, ignore=ignore
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
            reset: parts not taken over (:meth:`gtrans.train.state.RunState.restore`).

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
