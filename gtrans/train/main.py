"""The training loop of ``gtrans train``."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
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
from gtrans.train.folder import LAST, RunFolder, RunLog
from gtrans.train.run_plan import RESETS, end_of_run, plan_run
from gtrans.train.signals import CTRL_C_CODE, INTERRUPTED, STOPPED, Signals, write_line
from gtrans.train.trainer import RunTrainer

logger = logging.getLogger(__name__)
_details = logging.getLogger("fairseq_cli.train")  # whose lines --verbose shows

_SECONDS_TO_END = 10.0  # seconds in which the thread that loads batches ends
_CHOSEN = ("model", "task", "criterion", "optimizer", "lr_scheduler")
_SIZES = ("max_tokens", "batch_size", "update_freq", "lr", "max_update", "max_epoch", "seed")
_BOARDS = ("tensorboard_logdir", "wandb_project", "aim_repo", "aim_run_hash", "azureml_logging")


def train(cfg: Any, log: RunLog) -> None:
    """Train in this process; the plugin must be imported.

    Raises:
        GtransError: options, data or folder are wrong, or the training diverged or was not saved.
        SystemExit: a signal ended the training, after a checkpoint.
    """
    try:
        training = Training(cfg, log)
        if training.plan.finished is None:
            training.run()
    finally:
        _end_loading()


class Training:
    """The training of one process: task, trainer and batches of the epoch."""

    def __init__(self, cfg: Any, log: RunLog) -> None:
        self.cfg = cfg
        self.folder = RunFolder(Path(cfg.checkpoint.save_dir))
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
        is_master = distributed_utils.is_master(cfg.distributed_training)
        if is_master and not cfg.checkpoint.no_save:
            log.write_to(self.folder.path)
        else:
            log.discard()
        if self.plan.finished is not None:
            return
        criterion = self.task.build_criterion(cfg.criterion)
        _details.info(model)
        self.subsets = self._load_validation()
        self.signals = Signals(speaks=is_master)
        self.trainer = RunTrainer(cfg, self.task, model, criterion, self.signals)
        self.run_state = self.trainer.run
        self.ended = False
        if self.trainer.is_data_parallel_master:
            self._summarise(model)
        self.batches = self._load_batches()
        self.updates_saved = self.trainer.get_num_updates()  # at the latest checkpoint

    def _load_validation(self) -> list[str]:
        dataset = self.cfg.dataset
        if dataset.disable_validation:
            return []
        data_utils.raise_if_valid_subsets_unintentionally_ignored(self.cfg)
        combined = dataset.combine_valid_subsets
        names: list[str] = ["valid"]
        if not combined:
            names = dataset.valid_subset.split(",")
        for name in names:
            self.task.load_dataset(name, combine=combined, epoch=1)
        return names

    def _load_batches(self) -> Any:
        """Restore the run, and return its next batches."""
        trainer = self.trainer
        position = self._restore()
        epoch = 1 if position is None else int(position["epoch"])
        subset = self.cfg.dataset.train_subset
        self.task.load_dataset(subset, epoch=epoch, combine=True)
        sharded = self.task.has_sharded_data("train")
        is_reused = self.task.can_reuse_epoch_itr(self.task.dataset(subset)) and not sharded
        if is_reused and not self.cfg.dataset.update_epoch_batch_itr:
            epoch = 1  # the only one in which batches are formed
        batches = trainer.get_train_iterator(
            epoch, load_dataset=False, disable_iterator_cache=sharded
        )
        if position is not None:
            batches.load_state_dict(position)
        trainer.lr_step(batches.epoch)
        return batches

    def _restore(self) -> dict[str, Any] | None:
        """Restore the checkpoint, if any; return its position in the training data."""
        cfg = self.cfg.checkpoint
        reset = [name for name in RESETS if cfg[f"reset_{name}"]]
        path = self._checkpoint_to_continue()
        if path is None and cfg.finetune_from_model:
            path = cfg.finetune_from_model
            reset = list(RESETS)
        if path is None:
            return None
        extra = self.trainer.restore(str(path), reset)
        if "dataloader" in reset:
            return None
        position: dict[str, Any] = extra["train_iterator"]
        return position

    def _checkpoint_to_continue(self) -> str | None:
        cfg = self.cfg.checkpoint
        if self.plan.resume is not None:
            return self.plan.resume
        if cfg.restore_file and cfg.restore_file != LAST:
            return str(cfg.restore_file)
        # fairseq's `--continue-once` gives way to both.
        once = getattr(cfg, "continue_once", None)
        return str(once) if once else None

    # ---- the log -------------------------------------------------------------------------------

    def _summarise(self, model: Any) -> None:
        cfg = self.cfg
        device = self.trainer.device
        if misses_bf16(cfg.common, device):
            logger.info("this GPU trains faster in bfloat16: `--bf16` is not given")
        classes = [str(group_of(cfg, group).get("_name")) for group in _CHOSEN]
        logger.info(", ".join(classes))
        values = {**cfg.dataset, **cfg.optimization, **cfg.common}
        sizes = [f"{name} {values[name]}" for name in _SIZES if values[name]]
        logger.info(", ".join(sizes))
        logger.info(_count_of_parameters(model))
        devices = self.trainer.data_parallel_world_size
        plural = "s" if devices > 1 else ""
        logger.info(f"training on {devices} device{plural} ({device.type})")
        logger.info(
            f"start: {self._origin()}; checkpoints: {self.folder.path} (--verbose shows all "
            "options)"
        )

    def _origin(self) -> str:
        if self.plan.resume is not None:
            return self.plan.resume
        starts = self.plan.provenance["start"]
        files = [f"{flag} {start['path']}" for flag, start in starts.items()]
        return " ".join(files) or "from scratch"

    def _progress(self, batches: Any) -> Any:
        common = self.cfg.common
        is_master = distributed_utils.is_master(self.cfg.distributed_training)
        boards = {name: common[name] if is_master else None for name in _BOARDS}
        return progress_bar.progress_bar(
            batches,
            log_format=common.log_format,
            log_interval=common.log_interval,
            log_file=common.log_file,
            epoch=self.batches.epoch,
            aim_param_checkpoint_dir=str(self.folder.path),
            default_log_format="simple" if common.no_progress_bar else "tqdm",
            wandb_run_name=os.environ.get("WANDB_NAME", self.folder.path.name),
            **boards,
        )

    # ---- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """Train until an option or a signal ends the training."""
        begin = time.monotonic()
        last = self.cfg.optimization.max_epoch or math.inf
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
        logger.info(f"done training in {time.monotonic() - begin:.1f} seconds")

    def _train_epoch(self) -> float | None:
        cfg = self.cfg
        trainer = self.trainer
        batches = self.batches.next_epoch_itr(
            fix_batches_to_gpus=cfg.distributed_training.fix_batches_to_gpus,
            shuffle=self.batches.next_epoch_idx > cfg.dataset.curriculum,
        )
        epoch = self.batches.epoch
        frequencies = cfg.optimization.update_freq
        frequency = frequencies[min(epoch, len(frequencies)) - 1]
        groups = iterators.GroupedIterator(
            batches,
            frequency,
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
        updates = trainer.get_num_updates()
        progress.print(_averages("train"), tag="train", step=updates)
        metrics.reset_meters("train")
        return loss

    def _next_epoch(self, loss: float | None) -> None:
        self.trainer.lr_step(self.batches.epoch, loss)
        sharded = self.task.has_sharded_data("train")
        self.batches = self.trainer.get_train_iterator(
            self.batches.next_epoch_idx, load_dataset=sharded, disable_iterator_cache=sharded
        )

    def _after_update(self, end_of_epoch: bool) -> float | None:
        """Validate, save and stop where due; return the loss of the first validation set."""
        checkpoint = self.cfg.checkpoint
        reason = self._reason_to_end(waited=0)
        is_last = reason is not None
        saves = self._saves(end_of_epoch, is_last)
        loss: float | None = None
        if self._validates(end_of_epoch, is_last, saves):
            losses = validate(self.cfg, self.trainer, self.task, self.batches, self.subsets)
            loss = losses[0]
        unit = str(group_of(self.cfg, "task").get("patience_unit"))
        counts = end_of_epoch or unit != "epoch"
        if loss is not None and checkpoint.patience > 0 and counts:
            self.run_state.count(loss)
            if reason is None:
                reason = self._reason_to_end(waited=self.run_state.early_stop["num_runs"])
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

    def _reason_to_end(self, waited: int) -> str | None:
        updates = self.trainer.get_num_updates()
        seconds = self.trainer.cumulative_training_time()
        return end_of_run(self.cfg, updates, epochs=0, seconds=seconds, waited=waited)

    def _falls_on(self, interval: int) -> bool:
        updates = self.trainer.get_num_updates()
        return interval > 0 and updates > 0 and updates % interval == 0

    def _may_validate(self) -> bool:
        return bool(self.trainer.get_num_updates() >= self.cfg.dataset.validate_after_updates)

    def _saves(self, end_of_epoch: bool, is_last: bool) -> bool:
        cfg = self.cfg.checkpoint
        if is_last:
            return True
        if end_of_epoch and self.batches.epoch % cfg.save_interval == 0:
            return True
        return self._falls_on(cfg.save_interval_updates) and self._may_validate()

    def _validates(self, end_of_epoch: bool, is_last: bool, saves: bool) -> bool:
        cfg = self.cfg.dataset
        if cfg.disable_validation or not self._may_validate():
            return False
        if is_last or self._falls_on(cfg.validate_interval_updates):
            return True
        if end_of_epoch:
            return bool(self.batches.epoch % cfg.validate_interval == 0)
        without = group_of(self.cfg, "task").get("save_without_validation")
        return saves and not without

    def _stop(self, end_of_epoch: bool) -> None:
        """End after a signal, with a checkpoint.

        Between two epochs, where no checkpoint is due, this waits for the next update: the learning
        rate schedule has not seen the loss of the epoch yet.
        """
        trainer = self.trainer
        updates = trainer.get_num_updates()
        is_saved = self.updates_saved == updates
        if end_of_epoch and not is_saved:
            return
        if not is_saved:
            self._save(None, [LAST])
        if trainer.data_parallel_world_size > 1:
            # A launcher ends all others as soon as one has ended, also the one that still writes.
            torch.distributed.barrier(trainer.data_parallel_process_group)
        status = INTERRUPTED if trainer.signal_code >= CTRL_C_CODE else STOPPED
        # torchrun shows each machine only its own processes
        if trainer.is_data_parallel_master or os.environ.get("LOCAL_RANK") == "0":
            kept = f"the same command goes on with the checkpoint in {self.folder.path}"
            if self.cfg.checkpoint.no_save:
                kept = "nothing is saved (--no-save)"
            name = self.signals.name or ("SIGINT" if status == INTERRUPTED else "SIGTERM")
            write_line(f"{name}: stopped after {updates} updates; {kept}")
        raise SystemExit(status)

    def _check_end(self) -> None:
        """Raise GtransError if the model is not finite or was not saved."""
        self.trainer.check_finite()
        if self.cfg.checkpoint.no_save:
            return
        updates = self.trainer.get_num_updates()
        lost = updates - self.updates_saved
        if lost > 0 or not self.folder.checkpoints():
            what = f"the last {lost} are in no checkpoint" if lost else "made none"
            raise GtransError(
                f"--save-dir {self.folder.path}: the training has ended after {updates} updates, "
                f"but {what}; lower --save-interval, or leave out --no-last-checkpoints and "
                "--no-epoch-checkpoints."
            )

    # ---- checkpoints ---------------------------------------------------------------------------

    def _names(self, loss: float | None, end_of_epoch: bool) -> list[str]:
        cfg = self.cfg.checkpoint
        epoch = self.batches.epoch
        updates = self.trainer.get_num_updates()
        names: list[str] = []
        if end_of_epoch and not cfg.no_epoch_checkpoints and epoch % cfg.save_interval == 0:
            names.append(f"checkpoint{epoch}.pt")
        if not end_of_epoch and self._falls_on(cfg.save_interval_updates):
            names.append(f"checkpoint_{epoch}_{updates}.pt")
        if loss is not None and self.run_state.better(loss, self.run_state.best):
            names.append("checkpoint_best.pt")
        if loss is not None and cfg.keep_best_checkpoints > 0:
            scores = self.folder.best_scores(cfg)
            worst = scores[-1] if scores else None
            if self.run_state.better(loss, worst):
                # The updates are further digits, which tell equal scores apart.
                metric = cfg.best_checkpoint_metric
                names.append(f"checkpoint.best_{metric}_{loss:.3f}{updates}.pt")
        if not cfg.no_last_checkpoints:
            names.append(LAST)
        return names

    def _save(self, loss: float | None, names: list[str]) -> None:
        trainer = self.trainer
        run = self.run_state
        updates = trainer.get_num_updates()
        if loss is not None and run.better(loss, run.best):
            run.best = loss
        if self.cfg.checkpoint.no_save:
            self.updates_saved = updates
            return
        trainer.check_finite(loss)
        extra = {
            "train_iterator": self.batches.state_dict(),
            "val_loss": loss,
            "run_state": run.state_dict(),
        }
        if run.best is not None:
            extra["best"] = run.best
        if not names:
            return
        self.updates_saved = updates
        if not trainer.is_data_parallel_master:
            return
        folder = self.folder.path
        first = folder / names[0]
        trainer.write(first, extra)
        for name in names[1:]:
            copy_file(first, folder / name)
        epoch = self.batches.epoch
        logger.info(f"Saved checkpoint {first} (epoch {epoch} @ {updates} updates, score {loss})")


def misses_bf16(common: Any, device: torch.device) -> bool:
    """Return whether the GPU has bfloat16, but a training has no half precision."""
    if device.type != "cuda" or common.bf16 or common.fp16 or common.amp:
        return False
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _count_of_parameters(model: Any) -> str:
    total = trained = 0
    for parameter in model.parameters():
        total += parameter.numel()
        if parameter.requires_grad:
            trained += parameter.numel()
    return f"num. shared model params: {total:,} (num. trained: {trained:,})"


def _averages(name: str) -> dict[str, Any]:
    averages: dict[str, Any] = get_training_stats(metrics.get_smoothed_values(name))
    return averages


def _end_loading() -> None:
    """Wait for the thread that loads batches, which could end Python by SIGABRT."""
    end = time.monotonic() + _SECONDS_TO_END
    for thread in threading.enumerate():
        if not isinstance(thread, BackgroundConsumer):
            continue
        thread._max_len = 0  # it ends after the batch that it is loading
        while thread.is_alive() and time.monotonic() < end:
            try:
                thread._queue.get_nowait()
            except Empty:
                thread.join(0.01)
