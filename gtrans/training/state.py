"""What fairseq's checkpoints lack for a resumed run to be exactly the run that was stopped.

* fp32 parameters: under ``--fp16`` and ``--bf16`` a checkpoint has the parameters in half
  precision only, from which fairseq makes the fp32 copies of a resumed run;
* the counters of loss scaling (``--fp16``), and of repeated batches (``--amp``);
* the best validation loss and the number of validations since then (``--patience``), and the
  state of ``--lr-scheduler reduce_lr_on_plateau``, and what the losses are of: when a run goes on
  with another validation metric, set or search, they are not compared with later ones;
* what parts of a task keep from update to update, such as memories, of all processes.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.file_io import PathManager
from torch import Tensor

from gtrans.checkpoints.reading import reading
from gtrans.errors import GtransError
from gtrans.training.settings import compared, has_groups, judged_by, losses_alike

logger = logging.getLogger(__name__)

RunState = dict[str, Any]

_KEY = "run_state"
_STOPPING = ("best", "num_runs")


def state_of(trainer: Any) -> RunState:
    """The state of a run between two updates; all processes of the run must call this."""
    return {
        "workers": trainer.data_parallel_world_size,
        "early_stop": _early_stop(),
        "judged_by": judged_by(trainer.cfg, trainer.task.run.scores),
        "optimizer": _optimizer_state(trainer),
        "parts": {type(part).__name__: _gathered(trainer, part) for part in trainer.task.parts},
    }


@contextmanager
def resuming(trainer: Any, cfg: Any) -> Iterator[None]:
    """While fairseq loads a checkpoint into ``trainer``, put the state of the run back, too.

    Args:
        trainer: fairseq's trainer.
        cfg: options of checkpoints.
    """
    load: Callable[..., Any] = trainer.load_checkpoint

    # Arguments and defaults are those of fairseq's trainer.
    def load_checkpoint(
        path: str,
        reset_optimizer: bool = False,
        reset_lr_scheduler: bool = False,
        overrides: Any = None,
        reset_meters: bool = False,
    ) -> Any:
        if not PathManager.isfile(path):
            return load(path, reset_optimizer, reset_lr_scheduler, overrides, reset_meters)
        _try_to_build(trainer)
        with reading(path, "the state of its training"), _same_criterion(trainer):
            extra = load(path, reset_optimizer, reset_lr_scheduler, overrides, reset_meters)
            if not reset_optimizer:
                _check_means(trainer, path)
            state: RunState | None = (extra or {}).get(_KEY)
            if state is None:
                return extra
            otherwise = judged_otherwise(state, trainer)
            if otherwise:
                # fairseq takes the best one from here.
                extra.pop("best", None)
            if not (cfg.reset_dataloader or cfg.finetune_from_model):
                _count_batches_anew(extra["train_iterator"], state["workers"], trainer)
                for part in trainer.task.parts:
                    part.resume(state["parts"].get(type(part).__name__, {}), trainer.device)
            if not reset_optimizer:
                _restore_optimizer(trainer, state["optimizer"])
                if not reset_lr_scheduler:
                    _restore_schedule(trainer, state["optimizer"], extra, forget=bool(otherwise))
                if not reset_meters:
                    _set_early_stop({} if otherwise else state["early_stop"])
                    if otherwise:
                        logger.info(
                            f"validation is another one: {', '.join(otherwise)}; the best score "
                            "so far and the validations that --patience has counted are forgotten"
                        )
        return extra

    trainer.load_checkpoint = load_checkpoint
    try:
        yield
    finally:
        del trainer.load_checkpoint


def judged_otherwise(state: RunState, trainer: Any) -> list[str]:
    """In what the validations before and after a stop differ, as ``--flag old -> new``.

    Args:
        state: of the run when it was stopped; empty for a checkpoint that fairseq alone wrote.
        trainer: fairseq's trainer, that goes on.
    """
    now = judged_by(trainer.cfg, trainer.task.run.scores)
    return compared(state.get("judged_by", now), now)


def _try_to_build(trainer: Any) -> None:
    """Raise the errors of building model and optimizer, which are not the checkpoint's."""
    for name in ("model", "optimizer"):
        getattr(trainer, name)
    # It has copies of the parameters, and is built anew of those that are loaded.
    trainer._optimizer = trainer._lr_scheduler = None


def forget() -> None:
    """Forget the losses of an earlier run of this process, which fairseq keeps in functions."""
    _set_early_stop({})
    if hasattr(checkpoint_utils.save_checkpoint, "best"):
        del checkpoint_utils.save_checkpoint.best


@contextmanager
def _same_criterion(trainer: Any) -> Iterator[None]:
    """While a checkpoint is read, a criterion with the same losses counts as the trainer's.

    fairseq compares the names of their classes.
    """
    read = checkpoint_utils.load_checkpoint_to_cpu
    grouped = has_groups(trainer.cfg, type(trainer.get_model()))
    alike = {CRITERION_REGISTRY[name] for name in losses_alike(grouped)}
    own = type(trainer.get_criterion())

    def load_checkpoint_to_cpu(*arguments: Any, **named: Any) -> Any:
        state = read(*arguments, **named)
        entry = (state.get("optimizer_history") or [{}])[-1]
        if own in alike and entry.get("criterion_name") in {kind.__name__ for kind in alike}:
            entry["criterion_name"] = own.__name__
        return state

    checkpoint_utils.load_checkpoint_to_cpu = load_checkpoint_to_cpu
    try:
        yield
    finally:
        checkpoint_utils.load_checkpoint_to_cpu = read


# ---- early stopping ------------------------------------------------------------------------------


def _functions() -> list[Any]:
    """``should_stop_early`` of ``fairseq-train``, which may be the program itself."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    return [found for module in modules if (found := getattr(module, "should_stop_early", None))]


def _early_stop() -> dict[str, Any]:
    for function in _functions():
        if hasattr(function, "best"):
            return {name: getattr(function, name) for name in _STOPPING}
    return {}


def _set_early_stop(values: dict[str, Any]) -> None:
    for function in _functions():
        for name in _STOPPING:
            if name in values:
                setattr(function, name, values[name])
            elif hasattr(function, name):
                delattr(function, name)


# ---- optimizer -----------------------------------------------------------------------------------

_MEANS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")  # of Adam's kind


def _check_means(trainer: Any, path: str) -> None:
    """Raises GtransError for running means of gradients that are not of their parameter's shape."""
    states = getattr(trainer.optimizer.optimizer, "state", None) or {}
    for parameter, kept in states.items():
        for name in _MEANS:
            mean = kept.get(name)
            if isinstance(mean, Tensor) and mean.shape != parameter.shape:
                raise GtransError(
                    f"{path}: {name} of the optimizer has the shape {tuple(mean.shape)}, but its "
                    f"parameter {tuple(parameter.shape)}; --reset-optimizer begins with a new one."
                )


def _optimizer_state(trainer: Any) -> dict[str, Any]:
    state: dict[str, Any] = {}
    optimizer = trainer.optimizer
    without = trainer.cfg.checkpoint.no_save_optimizer_state
    if trainer.should_save_checkpoint_on_current_rank and not without:
        # Not moved to the CPU with the rest of a checkpoint.
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


def _fp32_parameters(optimizer: Any) -> list[Tensor]:
    """The fp32 copies of parameters in half precision; none if the optimizer has none."""
    copies = getattr(optimizer, "fp32_params", None) or []
    return list(copies.values()) if isinstance(copies, dict) else list(copies)


def _restore_optimizer(trainer: Any, state: dict[str, Any]) -> None:
    optimizer = trainer.optimizer
    copies, saved = _fp32_parameters(optimizer), state.get("fp32", [])
    if [copy.shape for copy in copies] == [tensor.shape for tensor in saved]:
        with torch.no_grad():
            for copy, tensor in zip(copies, saved, strict=True):
                copy.copy_(tensor)
    elif saved:
        logger.info("the precision has changed: parameters are taken from the model as saved")
    scaler = getattr(optimizer, "scaler", None)
    if isinstance(scaler, torch.amp.GradScaler):
        trainer._amp_retries = state.get("retries", 0)
    elif scaler is not None:
        vars(scaler).update(state.get("scaler", {}))


def _restore_schedule(
    trainer: Any, state: dict[str, Any], extra: dict[str, Any], forget: bool
) -> None:
    """Restore what the schedule knows of validation losses; ``forget``: it is to know none."""
    plateau = getattr(trainer.lr_scheduler, "lr_scheduler", None)
    if plateau is not None and forget:
        plateau._reset()
    elif plateau is not None and "plateau" in state:
        plateau.load_state_dict(state["plateau"])
    position = extra["train_iterator"]
    if position["iterations_in_epoch"] == 0 and position["epoch"] > 1:
        # fairseq writes the checkpoint of an epoch before it tells the schedule its loss.
        trainer.lr_step(position["epoch"] - 1, None if forget else extra["val_loss"])


# ---- data ----------------------------------------------------------------------------------------


def _count_batches_anew(position: dict[str, Any], workers: int, trainer: Any) -> None:
    """Give the position in the epoch, in batches of a worker, for this number of workers."""
    batches = position["iterations_in_epoch"] * workers
    position["iterations_in_epoch"] = batches // trainer.data_parallel_world_size


def _gathered(trainer: Any, part: Any) -> dict[Any, Any]:
    """The state of a part of the task, of all processes together."""
    own: dict[Any, Any] = part.before_checkpoint()
    workers = trainer.data_parallel_world_size
    if workers == 1:
        return own
    states: list[dict[Any, Any]] = [{} for _ in range(workers)]
    torch.distributed.all_gather_object(states, own, trainer.data_parallel_process_group)
    return {key: value for state in states for key, value in state.items()}
