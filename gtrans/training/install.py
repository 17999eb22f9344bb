"""Puts this package's functions around fairseq's."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from fairseq import checkpoint_utils, optim, tasks
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from gtrans.errors import GtransError
from gtrans.files import unwritable
from gtrans.models.base.model import DocumentModel
from gtrans.optim.amp import AMPOptimizer
from gtrans.training import launch, stopping
from gtrans.training.background import end_loading
from gtrans.training.micro_batches import dummies_first, train_step
from gtrans.training.run import load_checkpoint
from gtrans.training.saving import save_checkpoint
from gtrans.training.stock import concerned


def install() -> None:
    """Let fairseq load and save checkpoints of this project's runs through this package.

    Processes that a launcher has started find each other, and a signal ends a run with a
    checkpoint. fairseq's other functions that are replaced here report a user's mistake in one
    line, or are put right: ``--amp``, and what the batches of an update count. To
    be called once in a process. Otherwise runs of other models are left as they are.
    """
    atexit.register(end_loading)
    checkpoint_utils.load_checkpoint = _around(checkpoint_utils.load_checkpoint, load_checkpoint)
    checkpoint_utils.save_checkpoint = _around(checkpoint_utils.save_checkpoint, save_checkpoint)
    verify = checkpoint_utils.verify_checkpoint_directory
    checkpoint_utils.verify_checkpoint_directory = partial(_verify_folder, verify)
    save, add_up = Trainer.save_checkpoint, Trainer._aggregate_logging_outputs
    # methods, which partials would not be
    Trainer.save_checkpoint = lambda *arguments: _save(save, *arguments)
    Trainer._aggregate_logging_outputs = lambda *arguments, **named: stopping.summed(
        add_up, *arguments, **named
    )
    distributed_utils.call_main = partial(launch.call_main, distributed_utils.call_main)
    tasks.setup_task = partial(launch.setup_task, tasks.setup_task)
    # The name that fairseq's trainer reads.
    optim.AMPOptimizer = AMPOptimizer
    of_task, update = FairseqTask.train_step, Trainer.train_step
    FairseqTask.train_step = lambda *args, **named: train_step(of_task, *args, **named)
    Trainer.train_step = lambda self, samples, *args, **named: update(
        self, dummies_first(samples), *args, **named
    )


def _verify_folder(original: Callable[[str], None], save_dir: str) -> None:
    """fairseq's ``verify_checkpoint_directory``.

    Raises:
        GtransError: checkpoints cannot be written there.
    """
    try:
        original(save_dir)
    except OSError as error:
        raise unwritable(f"--save-dir {save_dir}", error) from error


def _save(original: Callable[..., None], trainer: Trainer, filename: str, state: Any) -> None:
    """fairseq's ``Trainer.save_checkpoint``, which also saves what is left of a broken model.

    It saves it as ``crash.pt`` after a FloatingPointError. Then it looks for the layer where a
    number was not finite first, which fails on the outputs of this project's encoders.

    Raises:
        GtransError: the loss or its gradient is not finite; nothing is saved.
    """
    error = sys.exc_info()[1]
    if not isinstance(error, FloatingPointError) or not isinstance(
        trainer.get_model(), DocumentModel
    ):
        original(trainer, filename, state)
    elif "inconsistent" in str(error):
        raise error
    else:
        raise GtransError(
            "the loss or its gradient is not finite (NaN or infinity) after "
            f"{trainer.get_num_updates()} updates, so training ends and nothing more is saved; "
            "lower --lr, give a longer --warmup-updates or a --clip-norm, or train without half "
            "precision."
        ) from error


def _around(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def function(cfg: Any, trainer: Any, *further: Any, **named: Any) -> Any:
        if concerned(trainer):
            return ours(original, cfg, trainer, *further, **named)
        return original(cfg, trainer, *further, **named)

    return function
