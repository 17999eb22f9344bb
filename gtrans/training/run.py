"""What happens when a training run is started in a folder: begin, go on, refuse, or nothing."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from fairseq.distributed import utils as distributed_utils
from omegaconf import OmegaConf, open_dict

from gtrans.checkpoints.identity import ModelIdentity
from gtrans.checkpoints.reading import check_shapes, check_values, read_checkpoint, reading
from gtrans.errors import GtransError
from gtrans.training import made_from, saving, settings, stopping, validating
from gtrans.training.folder import LAST, RunCheckpoint, RunFolder
from gtrans.training.made_from import MadeFrom
from gtrans.training.state import forget, judged_otherwise, resuming

logger = logging.getLogger(__name__)

_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")


@dataclass
class TrainingRun:
    """The run that a task is part of.

    Attributes:
        files: returns the files with the training data.
        scores: the scores of translations that validation logs.
        made_from: see :data:`gtrans.training.made_from.MadeFrom`; a task saves it as ``run`` in
            its state.
        state: what fairseq's checkpoints lack; a task saves it as ``run_state``.
        reported: splits of which the user has been told that units exceed ``--max-tokens``.
    """

    files: Callable[[], list[Path]]
    scores: Collection[str] = ()
    made_from: MadeFrom = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Plan:
    """What a started run does; the same in all of its processes.

    Attributes:
        resume: the checkpoint with which it goes on; None: it begins.
        finished: why there is nothing left to do; None: there is.
        remarks: what the user should know.
        made_from: what the run is made from.
        error: why it is refused; empty: it is not.
    """

    resume: str | None = None
    finished: str | None = None
    remarks: tuple[str, ...] = ()
    made_from: MadeFrom = field(default_factory=dict)
    error: str = ""


class _NothingLeft:
    """Stands for the batches of a finished run."""

    # No comparison holds, so fairseq's loop over epochs ends before the first one.
    next_epoch_idx = math.nan


def load_checkpoint(original: Callable[..., Any], cfg: Any, trainer: Any, **further: Any) -> Any:
    """fairseq's function of this name, for a folder that knows its run.

    Args:
        original: fairseq's own.
        cfg: options of checkpoints.
        trainer: fairseq's trainer.
        further: passed on.

    Raises:
        GtransError: the folder holds a run with other settings, another training is running
            there, or none of its checkpoints is whole.
    """
    plan = _agreed(trainer, lambda: _plan(cfg, trainer))
    if plan.error:
        raise GtransError(plan.error)
    for remark in plan.remarks:
        logger.info(remark)
    trainer.task.run.made_from = plan.made_from
    forget()
    if plan.finished is not None:
        logger.info(f"{cfg.save_dir}: {plan.finished}; nothing is left to do")
        return None, _NothingLeft()
    if plan.resume is not None:
        cfg = copy.deepcopy(cfg)
        with open_dict(cfg):
            # fairseq adds the suffix of this process's checkpoints itself.
            cfg.restore_file = plan.resume.removesuffix(f"{trainer.checkpoint_suffix}.pt") + ".pt"
            cfg.finetune_from_model = None
    if trainer.is_data_parallel_master:
        for line in _summary(cfg, trainer, plan):
            logger.info(line)
    validating.follow_options(trainer)
    stopping.watch(trainer)  # here, as all processes have just waited for each other
    with resuming(trainer, cfg):
        found = original(cfg, trainer, **further)
    saving.begin(trainer)
    return found


def _summary(cfg: Any, trainer: Any, plan: Plan) -> list[str]:
    """What a training is, in a few lines of its log."""
    options, task = trainer.cfg, trainer.task
    sizes = " + ".join(str(len(one)) for one in (task.source_dictionary, task.target_dictionary))
    kinds = {
        name: settings.group_of(options, name).get("_name")
        for name in ("optimizer", "lr_scheduler", "criterion")
    }
    rate = options.optimization.lr[0]
    warmup = settings.group_of(options, "lr_scheduler").get("warmup_updates", 0)
    halves = (options.common.amp and "amp", options.common.bf16 and "bf16",
              options.common.fp16 and "fp16")  # fmt: skip
    tokens, rows = options.dataset.max_tokens, options.dataset.batch_size
    batch = f"{tokens} tokens" if tokens else f"{rows} units"
    unit = getattr(getattr(task, "cfg", None), "unit", None)
    goals = {"--max-update": "max_update", "--max-epoch": "max_epoch"}
    ends = [f"{flag} {options.optimization[name]}" for flag, name in goals.items()
            if options.optimization[name]]  # fmt: skip
    starts = [f"{flag} {file['path']}" for flag, file in plan.made_from.get("start", {}).items()]
    start = f"goes on from {plan.resume}" if plan.resume else " ".join(starts) or "from scratch"
    return [
        f"model: {settings.group_of(options, 'model').get('_name')}, vocabulary {sizes}"
        f"{f', unit {unit}' if unit else ''}",
        f"loss: {kinds['criterion']}; {kinds['optimizer']}, learning rate {rate:g} "
        f"({kinds['lr_scheduler']}, {warmup} warm-up updates)",
        f"batch: {batch} x --update-freq {options.optimization.update_freq[0]} x "
        f"{trainer.data_parallel_world_size} on {trainer.device.type}, "
        f"{next(filter(None, halves), 'fp32')}; seed {options.common.seed}; "
        f"until {' or '.join(ends) or '--patience, or for ever'}",
        f"start: {start}; checkpoints: {cfg.save_dir} (--verbose shows all options)",
    ]


def _agreed(trainer: Any, work: Callable[[], Plan]) -> Plan:
    """The plan of the first process, in all processes."""
    decided: dict[str, Any] | None = None
    if trainer.is_data_parallel_master:
        try:
            decided = asdict(work())
        except GtransError as error:
            decided = asdict(Plan(error=str(error)))
        except Exception as error:  # the other processes wait for the plan
            if trainer.data_parallel_world_size == 1:
                raise
            decided = asdict(Plan(error=f"{type(error).__name__}: {error}"))
    if trainer.data_parallel_world_size > 1:
        decided = distributed_utils.broadcast_object(
            decided,
            src_rank=0,
            group=trainer.data_parallel_process_group,
            dist_device=trainer.device,
        )
    assert decided is not None
    return Plan(**decided)


def _plan(cfg: Any, trainer: Any) -> Plan:
    folder = RunFolder(Path(cfg.save_dir), trainer.checkpoint_suffix)
    if not cfg.no_save:
        folder.lock()
    now = made_from.made_from(trainer)
    restored = cfg.restore_file if cfg.restore_file != LAST else None
    if settings.group_of(trainer.cfg, "task").get("restart"):
        return _begin(cfg, trainer, folder, now, "as --restart says", restored)
    if restored:
        return _begin(cfg, trainer, folder, now, None, restored)
    found, remark = folder.newest()
    if found is None:
        return _begin(cfg, trainer, folder, now, None, None)
    if not _starts_as(found, now, "--finetune-from-model"):
        why = f"to start from --finetune-from-model {cfg.finetune_from_model}"
        return _begin(cfg, trainer, folder, now, why, None)
    remarks = [remark] if remark else []
    recorded = found.made_from
    if recorded is None:
        remarks.append(
            f"{found.path}: identity unknown: it does not say from which data and from which model "
            "it was trained"
        )
    _refuse_without_optimizer(found, cfg)
    meant = _meant(cfg)
    with reading(found.path, "the record of its run"):
        different = _differences(found, trainer, now)
        run_state = found.state["extra_state"].get("run_state") or {}
        judged_anew = bool(judged_otherwise(run_state, trainer))
        ended = why_finished(found, trainer.cfg, judged_anew)
        finished = None if cfg.reset_optimizer else ended
    if different and not meant:
        # fairseq's own tasks have no such option.
        restart = "restart" in settings.group_of(trainer.cfg, "task")
        anew = ", or --restart to start anew (the checkpoints are kept)" if restart else ""
        raise GtransError(
            f"--save-dir {cfg.save_dir} holds a run with other settings: {', '.join(different)}; "
            f"give another --save-dir{anew}, or "
            "--reset-optimizer, --restore-file or --finetune-from-model if the change is meant."
        )
    _check_parameters(found.state, str(found.path), trainer)
    if different:
        remarks.append(
            f"{cfg.save_dir}: goes on with other settings, as {meant} says: {', '.join(different)}"
        )
    return Plan(
        str(found.path),
        finished,
        tuple(remarks),
        made_from.completed(now, recorded or {}),
    )


def _begin(
    cfg: Any,
    trainer: Any,
    folder: RunFolder,
    now: MadeFrom,
    clear: str | None,
    restored: str | None,
) -> Plan:
    """The plan of a run that begins; what can be refused is refused before anything is moved.

    Args:
        cfg: options of checkpoints.
        trainer: fairseq's trainer.
        folder: of the run.
        now: what the run is made from.
        clear: why the checkpoints of an earlier run are moved away; None: they are not.
        restored: ``--restore-file``, if it is given.
    """
    remarks: list[str] = []
    if gone := made_from.missing(now):
        raise GtransError(f"{gone}: there is no such checkpoint.")
    starts = {"--restore-file": restored}
    if restored is None:
        starts["--finetune-from-model"] = cfg.finetune_from_model
    for flag, start in starts.items():
        if start:
            remarks += _same_model(flag, start, trainer)
    if clear is not None:
        for flag, file in (*starts.items(), ("--init-from", _init_from(now))):
            if file:
                _refuse_inside(folder, flag, file)
        remarks += _cleared(folder, clear)
    if restored:
        remarks.append(f"--restore-file {restored}: settings are not compared")
    return Plan(remarks=tuple(remarks), made_from=now)


def _init_from(now: MadeFrom) -> str | None:
    file = now["start"].get("--init-from")
    return None if file is None else str(file["path"])


def _refuse_without_optimizer(found: RunCheckpoint, cfg: Any) -> None:
    """Raises GtransError for a checkpoint from which no run can go on exactly."""
    wanted = not (cfg.reset_optimizer or cfg.no_save_optimizer_state)
    if wanted and found.state.get("last_optimizer_state") is None:
        raise GtransError(
            f"{found.path}: it has no state of the optimizer, so the run cannot go on from it as "
            "it was; an average or a converted model starts another run (--init-from, "
            "--finetune-from-model), and --reset-optimizer goes on without."
        )


def _same_model(flag: str, path: str, trainer: Any) -> list[str]:
    """Remarks on the checkpoint whose parameters are taken as they are, row by row.

    Raises:
        GtransError: there is no such checkpoint, or it has another vocabulary or preparation.
    """
    state = read_checkpoint(path, in_memory=False)
    _check_parameters(state, f"{flag} {path}", trainer)
    recorded = ModelIdentity.of_checkpoint(state, path)
    if recorded is None:
        return [f"{flag} {path}: identity unknown: it does not say which vocabulary it has"]
    differences = recorded.differences(trainer.task.identity)
    if differences:
        raise GtransError(
            f"{flag} {path}: it was not made with the data folder of this run, it has other "
            f"{'; '.join(differences)}; --init-from maps embeddings to other symbols."
        )
    return []


def _check_parameters(state: dict[str, Any], path: str, trainer: Any) -> None:
    """Raises GtransError for parameters that are no numbers, or are not those of this model."""
    check_values(state["model"], path)
    check_shapes(state["model"], trainer.get_model().state_dict(), path)


def _differences(found: RunCheckpoint, trainer: Any, now: MadeFrom) -> list[str]:
    options: Any = OmegaConf.to_container(trainer.cfg, resolve=True, enum_to_str=True)
    data = [str(settings.group_of(side, "task").get("data")) for side in (found.options, options)]
    return [
        *made_from.differences(found.made_from or {}, now, data),
        *settings.differences(found.options, options, type(trainer.get_model())),
    ]


def _cleared(folder: RunFolder, why: str) -> list[str]:
    aside = folder.clear()
    return [f"{folder.path}: the run starts anew, {why}; the checkpoints of the earlier one are in "
            f"{aside}"] if aside else []  # fmt: skip


def _starts_as(found: RunCheckpoint, now: MadeFrom, flag: str) -> bool:
    """Whether the run in the folder started from what ``flag`` names, if it names anything."""
    file = now["start"].get(flag)
    known = (found.made_from or {}).get("start", {}).get(flag)
    # A file that is gone is known by its path.
    key = "path" if file is not None and file["digest"] is None else "digest"
    return file is None or (known is not None and known[key] == file[key])


def _refuse_inside(folder: RunFolder, flag: str, start: str) -> None:
    if any(path.samefile(start) for path in folder.checkpoints() if Path(start).exists()):
        raise GtransError(
            f"{flag} {start} lies in --save-dir, whose checkpoints are moved away; give another "
            "--save-dir."
        )


def _meant(cfg: Any) -> str | None:
    """The flag that says that the settings of a run are changed on purpose."""
    for name in _RESETS:
        if cfg[name]:
            return f"--{name.replace('_', '-')}"
    return "--optimizer-overrides" if cfg.optimizer_overrides not in ("", "{}") else None


def why_finished(found: RunCheckpoint, cfg: Any, judged_anew: bool = False) -> str | None:
    """Why the run is at its end; None if it is not.

    With ``judged_anew`` the validations that ``--patience`` has counted do not end it.
    """
    extra = found.state["extra_state"]
    goal, epochs = cfg.optimization.max_update, cfg.optimization.max_epoch
    if 0 < goal <= found.updates:
        return f"the run is finished ({found.updates} updates, --max-update {goal})"
    epoch = int(extra["train_iterator"]["epoch"])
    if 0 < epochs < epoch and not cfg.checkpoint.reset_dataloader:
        return f"the run is finished ({epoch - 1} epochs, --max-epoch {epochs})"
    hours, limit = extra.get("previous_training_time", 0) / 3600, cfg.optimization.stop_time_hours
    if 0 < limit < hours:
        return f"the run is finished ({hours:.2f} hours, --stop-time-hours {limit})"
    waited = ((extra.get("run_state") or {}).get("early_stop") or {}).get("num_runs", 0)
    patience = cfg.checkpoint.patience
    if 0 < patience <= waited and not judged_anew:
        return f"the run is finished ({waited} validations without a gain, --patience {patience})"
    return None
