"""Which checkpoints are validated, and which validations ``--patience`` counts.

fairseq validates for every checkpoint, and counts every validation: checkpoints every N updates
then end a run earlier. ``--save-without-validation`` leaves the validation out, and
``--patience-unit epoch`` does not count it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from gtrans.training.settings import group_of

logger = logging.getLogger(__name__)


@dataclass
class _Update:
    """The update that may be validated now.

    Attributes:
        unasked: nothing asks for a validation but its checkpoint, which is to have none.
        counts: ``--patience`` counts its validation.
    """

    unasked: bool = False
    counts: bool = True


_update = _Update()


def around(name: str, ours: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function of ``fairseq-train``, which may be the program itself, once.

    Args:
        name: name of the function.
        ours: returns the new function for fairseq's.
    """
    for module in (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train")):
        original = getattr(module, name, None)
        known: tuple[Any, ...] = getattr(original, "replaced_by", ())
        if original is not None and ours not in known:
            replaced = ours(original)
            replaced.replaced_by = (*known, ours)  # type: ignore[attr-defined]
            setattr(module, name, replaced)


def follow_options(trainer: Any) -> None:
    """From now on, validate and count as the options of a training say.

    A line of the log says so if ``--patience`` counts validations in the middle of epochs.
    """
    task, cfg = group_of(trainer.cfg, "task"), trainer.cfg
    around("validate_and_save", _noticing)
    around("validate", _if_asked)
    around("should_stop_early", _if_counted)
    often = {"--validate-interval-updates": cfg.dataset.validate_interval_updates}
    if not task.get("save_without_validation"):
        often["--save-interval-updates"] = cfg.checkpoint.save_interval_updates
    flags = [f"{flag} {number}" for flag, number in often.items() if number > 0]
    if cfg.checkpoint.patience > 0 and flags and str(task.get("patience_unit")) == "validation":
        logger.info(
            f"--patience {cfg.checkpoint.patience} counts all validations, also those of "
            f"{' and '.join(flags)}; --patience-unit epoch counts the ends of epochs only"
        )


def _noticing(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def validate_and_save(
        cfg: Any, trainer: Any, task: Any, batches: Any, subsets: Any, end_of_epoch: bool
    ) -> Any:
        options = group_of(cfg, "task")
        _update.counts = end_of_epoch or str(options.get("patience_unit")) != "epoch"
        without = bool(options.get("save_without_validation")) and not end_of_epoch
        _update.unasked = without and not _asked(cfg, trainer)
        return original(cfg, trainer, task, batches, subsets, end_of_epoch)

    return validate_and_save


def _asked(cfg: Any, trainer: Any) -> bool:
    """Whether there is a validation in the middle of an epoch without a checkpoint."""
    updates, often = trainer.get_num_updates(), cfg.dataset.validate_interval_updates
    goal, hours = cfg.optimization.max_update, cfg.optimization.stop_time_hours
    at_its_end = 0 < goal <= updates or 0 < hours < trainer.cumulative_training_time() / 3600
    return bool(at_its_end or (often > 0 and updates % often == 0))


def _if_asked(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def validate(*arguments: Any) -> list[float | None]:
        losses: list[float | None] = [None] if _update.unasked else original(*arguments)
        return losses

    return validate


def _if_counted(original: Callable[..., Any]) -> Callable[..., Any]:
    # fairseq keeps the best loss and the count as attributes of the function of this name.
    @wraps(original)
    def should_stop_early(cfg: Any, valid_loss: float | None) -> bool:
        return _update.counts and bool(original(cfg, valid_loss))

    return should_stop_early
