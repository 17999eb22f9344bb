"""``gtrans train``: what each process of a training does, from the first update to the last."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from functools import partial
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import torch
from fairseq import tasks, utils
from fairseq.data import data_utils, iterators
from fairseq.data.iterators import BackgroundConsumer
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import metrics, progress_bar
from fairseq_cli.train import get_training_stats, validate
from omegaconf import OmegaConf

from gtrans.errors import GtransError
from gtrans.files import copy_file
from gtrans.option_types import group_of
from gtrans.train.folder import LAST, RunFolder, open_run_log
from gtrans.train.run_plan import RESETS, end_of_run, plan_run
from gtrans.train.signals import CTRL_C_CODE, INTERRUPTED, STOPPED, Signals, write_line
from gtrans.train.trainer import RunTrainer

logger = logging.getLogger(__name__)
_details = logging.getLogger("fairseq_cli.train")  # whose lines --verbose shows

_LONGEST = 10.0  # seconds in which the thread that loads batches ends
_CHOSEN = ("model", "task", "criterion", "optimizer", "lr_scheduler")
_SIZES = ("max_tokens", "batch_size", "update_freq", "lr", "max_update", "max_epoch", "seed")
_BOARDS = ("tensorboard_logdir", "wandb_project", "aim_repo", "aim_run_hash", "azureml_logging")


def train(cfg: Any) -> None:
    """Train as ``cfg``, all options of ``gtrans train``, says; the models must be registered.

    Raises:
        GtransError: a mistake in the options, the data or the run folder; the training has
            diverged, or has ended without a checkpoint of its last updates.
        SystemExit: a signal has ended the training, with a checkpoint.
    """
    try:
        training = Training(cfg)
        if training.plan.finished is None:
            training.run()
    finally:
        _end_loading()


class Training:
    """A training of one process: the task, the trainer, and the batches of the epoch."""

    def __init__(self, cfg: Any) -> None:
        """Build everything up to the first update; see :func:`train`."""
        self.cfg, self.folder = cfg, RunFolder(Path(cfg.checkpoint.save_dir))
        if cfg.dataset.max_tokens is None and cfg.dataset.batch_size is None:
            raise GtransError("`--max-tokens` is missing, or `--batch-size`: the size of a batch.")
        metrics.reset()
        np.random.seed(cfg.common.seed)
        utils.set_torch_seed(cfg.common.seed)
        _details.info(cfg)
        self.task = tasks.setup_task(cfg.task)
        self.task.plans_runs = False
        model = self.task.build_model(cfg.model)
        self.plan = plan_run(cfg, self.task, model)
        writes_log = distributed_utils.is_master(cfg.distributed_training)
        writes_log = writes_log and not cfg.checkpoint.no_save
        open_run_log(self.folder.path if writes_log else None)
        if self.plan.finished is not None:
            return
        criterion = self.task.build_criterion(cfg.criterion)
        _details.info(model)
        self.subsets = self._load_validation()
        self.signals = Signals(distributed_utils.is_master(cfg.distributed_training))
        self.trainer = RunTrainer(cfg, self.task, model, criterion, self.signals)
        self.run_state = self.trainer.run
        self.saved = -1  # updates at the last checkpoint
        self.ended = False
        if self.trainer.is_data_parallel_master:
            self._summarise(model)
        self.batches = self._load()

    def _load_validation(self) -> list[str]:
        """Load the sets of validation; returns their names."""
        dataset = self.cfg.dataset
        if dataset.disable_validation:
            return []
        data_utils.raise_if_valid_subsets_unintentionally_ignored(self.cfg)
        combined = dataset.combine_valid_subsets
        names: list[str] = ["valid"] if combined else dataset.valid_subset.split(",")
        for name in names:
            self.task.load_dataset(name, combine=combined, epoch=1)
        return names

    def _load(self) -> Any:
        """Restore the checkpoint that the run goes on from; returns the batches of its epoch."""
        cfg, trainer = self.cfg.checkpoint, self.trainer
        restored = cfg.restore_file if cfg.restore_file != LAST else None
        path = self.plan.resume or restored or getattr(cfg, "continue_once", None)
        reset = [name for name in RESETS if cfg[f"reset_{name}"]]
        if path is None and cfg.finetune_from_model:
            path, reset = cfg.finetune_from_model, list(RESETS)
        extra = None if path is None else trainer.restore(str(path), reset)
        position = None if extra is None or "dataloader" in reset else extra["train_iterator"]
        epoch = 1 if position is None else int(position["epoch"])
        subset = self.cfg.dataset.train_subset
        self.task.load_dataset(subset, epoch=epoch, combine=True)
        sharded = self.task.has_sharded_data("train")
        reused = self.task.can_reuse_epoch_itr(self.task.dataset(subset)) and not sharded
        # Batches that are formed once are those of the first epoch.
        formed = 1 if reused and not self.cfg.dataset.update_epoch_batch_itr else epoch
        batches = trainer.get_train_iterator(
            formed, load_dataset=False, disable_iterator_cache=sharded
        )
        if position is not None:
            batches.load_state_dict(position)
        trainer.lr_step(batches.epoch)
        self.saved = trainer.get_num_updates()
        return batches

    def _summarise(self, model: Any) -> None:
        """Say in a few lines of the log what the training is."""
        cfg, sizes = self.cfg, {**self.cfg.dataset, **self.cfg.optimization, **self.cfg.common}
        parameters = list(model.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        trained = sum(parameter.numel() for parameter in parameters if parameter.requires_grad)
        starts = (
            f"{flag} {start['path']}" for flag, start in self.plan.provenance["start"].items()
        )
        start = self.plan.resume or " ".join(starts) or "from scratch"
        devices = self.trainer.data_parallel_world_size
        if misses_bf16(cfg.common, self.trainer.device):
            logger.info("this GPU trains faster in bfloat16: `--bf16` is not given")
        for line in (
            ", ".join(str(group_of(cfg, group).get("_name")) for group in _CHOSEN),
            ", ".join(f"{name} {sizes[name]}" for name in _SIZES if sizes[name]),
            f"num. shared model params: {total:,} (num. trained: {trained:,})",
            f"training on {devices} device{'s' * (devices > 1)} ({self.trainer.device.type})",
            f"start: {start}; checkpoints: {self.folder.path} (--verbose shows all options)",
        ):
            logger.info(line)

    # ---- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Train until an option or a signal ends the training."""
        begun, last = time.monotonic(), self.cfg.optimization.max_epoch or math.inf
        with self.signals:
            while not self.ended and self.batches.next_epoch_idx <= last:
                if self.trainer.get_lr() <= self.cfg.optimization.stop_min_lr:
                    logger.info("Stopping training: the learning rate has reached --stop-min-lr")
                    break
                with metrics.aggregate("train"):
                    loss = self._train_epoch()
                if not self.ended:
                    self._next_epoch(loss)
        if self.trainer.is_data_parallel_master:
            self._check_end()
        logger.info(f"done training in {time.monotonic() - begun:.1f} seconds")

    def _train_epoch(self) -> float | None:
        """Train until the epoch or the training ends; returns the loss of the validation."""
        cfg, trainer = self.cfg, self.trainer
        batches = self.batches.next_epoch_itr(
            fix_batches_to_gpus=cfg.distributed_training.fix_batches_to_gpus,
            shuffle=self.batches.next_epoch_idx > cfg.dataset.curriculum,
        )
        epoch, frequencies = self.batches.epoch, cfg.optimization.update_freq
        groups = iterators.GroupedIterator(
            batches,
            frequencies[min(epoch, len(frequencies)) - 1],
            skip_remainder_batch=cfg.optimization.skip_remainder_batch,
        )
        progress = self._progress(groups)
        progress.update_config(OmegaConf.to_container(cfg))
        trainer.begin_epoch(epoch)
        loss = None
        for samples in progress:
            with metrics.aggregate("train_inner"):
                logged = trainer.train_step(samples)
            updates = trainer.get_num_updates()
            if logged is not None and updates % cfg.common.log_interval == 0:
                progress.log(_averages("train_inner"), tag="train_inner", step=updates)
                metrics.reset_meters("train_inner")
            loss = self._after_update(end_of_epoch=not groups.has_next())
            if self.ended:
                break
        progress.print(_averages("train"), tag="train", step=trainer.get_num_updates())
        metrics.reset_meters("train")
        return loss

    def _next_epoch(self, loss: float | None) -> None:
        self.trainer.lr_step(self.batches.epoch, loss)
        sharded = self.task.has_sharded_data("train")
        self.batches = self.trainer.get_train_iterator(
            self.batches.next_epoch_idx, load_dataset=sharded, disable_iterator_cache=sharded
        )

    def _after_update(self, end_of_epoch: bool) -> float | None:
        """Validate, save and stop as the options and the signals ask; returns the first loss."""
        checkpoint, dataset = self.cfg.checkpoint, self.cfg.dataset
        updates, epoch = self.trainer.get_num_updates(), self.batches.epoch
        task = group_of(self.cfg, "task")

        def falls_on(interval: int) -> bool:
            return interval > 0 and updates > 0 and updates % interval == 0

        ended = partial(end_of_run, self.cfg, updates, 0, self.trainer.cumulative_training_time())
        reason = ended(waited=0)
        old_enough = updates >= dataset.validate_after_updates
        saves = (
            reason is not None
            or (end_of_epoch and epoch % checkpoint.save_interval == 0)
            or (falls_on(checkpoint.save_interval_updates) and old_enough)
        )
        validates = (
            reason is not None
            or (end_of_epoch and epoch % dataset.validate_interval == 0)
            or falls_on(dataset.validate_interval_updates)
            or (saves and not end_of_epoch and not task.get("save_without_validation"))
        )
        loss: float | None = None
        if validates and old_enough and not dataset.disable_validation:
            loss = validate(self.cfg, self.trainer, self.task, self.batches, self.subsets)[0]
        counts = end_of_epoch or str(task.get("patience_unit")) != "epoch"
        if loss is not None and checkpoint.patience > 0 and counts:
            self.run_state.count(loss)
            reason = reason or ended(waited=self.run_state.early_stop["num_runs"])
        if reason is not None:
            logger.info(f"Stopping training: {reason}")
            self.ended = True
        if saves or self.ended:
            self._save(loss, self._names(loss, end_of_epoch))
            if self.trainer.is_data_parallel_master and not checkpoint.no_save:
                self.folder.remove_old(checkpoint)
        if self.trainer.signal_code and not self.ended:
            self._stop(end_of_epoch)
        return loss

    def _stop(self, end_of_epoch: bool) -> None:
        """End with a checkpoint, which all processes have been told at the same update.

        Between two epochs, where no checkpoint is due, the next update is waited for: the schedule
        has not been told the loss of the epoch.

        Raises:
            SystemExit: with the status of :mod:`gtrans.train.signals`.
        """
        trainer, signal_code = self.trainer, self.trainer.signal_code
        complete = self.saved == trainer.get_num_updates()
        if end_of_epoch and not complete:
            return
        if not complete:
            self._save(None, [LAST])
        if trainer.data_parallel_world_size > 1:
            # A launcher ends all others as soon as one has ended, also the one that still writes.
            torch.distributed.barrier(trainer.data_parallel_process_group)
        status = INTERRUPTED if signal_code >= CTRL_C_CODE else STOPPED
        # torchrun shows each machine only its own processes
        if trainer.is_data_parallel_master or os.environ.get("LOCAL_RANK") == "0":
            kept = f"the same command goes on with the checkpoint in {self.folder.path}"
            if self.cfg.checkpoint.no_save:
                kept = "nothing is saved (--no-save)"
            name = self.signals.name or ("SIGINT" if status == INTERRUPTED else "SIGTERM")
            write_line(f"{name}: stopped after {trainer.get_num_updates()} updates; {kept}")
        raise SystemExit(status)

    def _check_end(self) -> None:
        """Raises GtransError for a training that is lost: broken, or in no checkpoint."""
        self.trainer.check_finite()
        updates, folder = self.trainer.get_num_updates(), self.folder
        lost = updates - self.saved
        if not self.cfg.checkpoint.no_save and (lost > 0 or not folder.checkpoints()):
            raise GtransError(
                f"--save-dir {folder.path}: the training has ended after {updates} updates, but "
                f"{f'the last {lost} are in no checkpoint' if lost else 'made none'}; lower "
                "--save-interval, or leave out --no-last-checkpoints and --no-epoch-checkpoints."
            )

    # ---- checkpoints ---------------------------------------------------------------------------

    def _names(self, loss: float | None, end_of_epoch: bool) -> list[str]:
        """The names of the checkpoint that is due now, as fairseq gives them."""
        cfg, epoch = self.cfg.checkpoint, self.batches.epoch
        updates, names = self.trainer.get_num_updates(), []
        if end_of_epoch and not cfg.no_epoch_checkpoints and epoch % cfg.save_interval == 0:
            names.append(f"checkpoint{epoch}.pt")
        interval = cfg.save_interval_updates
        if not end_of_epoch and interval > 0 and updates % interval == 0:
            names.append(f"checkpoint_{epoch}_{updates}.pt")
        if loss is not None and self.run_state.better(loss, self.run_state.best):
            names.append("checkpoint_best.pt")
        if loss is not None and cfg.keep_best_checkpoints > 0:
            kept = self.folder.best_scores(cfg)
            if self.run_state.better(loss, kept[-1][1] if kept else None):
                # The updates are further digits, which tell equal scores apart.
                metric = cfg.best_checkpoint_metric
                names.append(f"checkpoint.best_{metric}_{loss:.3f}{updates}.pt")
        return names if cfg.no_last_checkpoints else [*names, LAST]

    def _save(self, loss: float | None, names: list[str]) -> None:
        """Save under these names; each file gets its name when it is complete.

        Raises:
            GtransError: a file cannot be written, a parameter is not finite, or the loss is NaN.
                Earlier checkpoints stay as they are.
        """
        cfg, trainer, run = self.cfg.checkpoint, self.trainer, self.run_state
        updates, epoch = trainer.get_num_updates(), self.batches.epoch
        if loss is not None and run.better(loss, run.best):
            run.best = loss
        if cfg.no_save:
            self.saved = updates
            return
        trainer.check_finite(loss)
        extra = {
            "train_iterator": self.batches.state_dict(),
            "val_loss": loss,
            "run_state": run.state_dict(),
            **({} if run.best is None else {"best": run.best}),
        }
        if names:
            self.saved = updates
        if not names or not trainer.is_data_parallel_master:
            return
        first, *others = (self.folder.path / name for name in names)
        trainer.write(first, extra)
        for path in others:
            copy_file(first, path)
        logger.info(f"Saved checkpoint {first} (epoch {epoch} @ {updates} updates, score {loss})")

    # ---- the log -------------------------------------------------------------------------------

    def _progress(self, batches: Any) -> Any:
        common = self.cfg.common
        speaks = distributed_utils.is_master(self.cfg.distributed_training)
        return progress_bar.progress_bar(
            batches,
            log_format=common.log_format,
            log_interval=common.log_interval,
            log_file=common.log_file,
            epoch=self.batches.epoch,
            aim_param_checkpoint_dir=str(self.folder.path),
            default_log_format="simple" if common.no_progress_bar else "tqdm",
            wandb_run_name=os.environ.get("WANDB_NAME", self.folder.path.name),
            **{board: common[board] if speaks else None for board in _BOARDS},
        )


def misses_bf16(common: Any, device: torch.device) -> bool:
    """Whether a GPU has bfloat16 and the options of a training leave it unused."""
    if device.type != "cuda" or common.bf16 or common.fp16 or common.amp:
        return False
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _averages(name: str) -> dict[str, Any]:
    """The log's values of the updates since the last time."""
    averages: dict[str, Any] = get_training_stats(metrics.get_smoothed_values(name))
    return averages


def _end_loading() -> None:
    """Let the thread in which fairseq loads the next batches end before Python does.

    A thread that is in the middle of torch's code when Python ends ends the process by SIGABRT,
    whatever its status should have been.
    """
    end = time.monotonic() + _LONGEST
    for thread in threading.enumerate():
        if not isinstance(thread, BackgroundConsumer):
            continue
        thread._max_len = 0  # it ends after the batch that it is loading
        while thread.is_alive() and time.monotonic() < end:
            try:
                thread._queue.get_nowait()
            except Empty:
                thread.join(0.01)
