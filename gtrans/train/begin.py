"""What a training does in its folder: begin, go on, reject, or nothing.

Models ask this when they are built (:func:`begin`), under ``gtrans train`` and under fairseq's own
commands. What these cannot do exactly is rejected here, or told in one line.
"""

from __future__ import annotations

import logging
import os
import re
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import DictConfig, OmegaConf

from gtrans.checkpoints.identity import STATE, ModelIdentity, say_unknown
from gtrans.checkpoints.reading import read_checkpoint
from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.modules.file_values import check_values, reading
from gtrans.option_types import group_of
from gtrans.text.prepared_folder import Preparation
from gtrans.train.compare import STARTS, MadeFrom, different, made_from, recorded_in
from gtrans.train.folder import LAST, RunFolder, updates_of, waited_in
from gtrans.train.launch import check_launch

logger = logging.getLogger(__name__)

RESETS = ("optimizer", "lr_scheduler", "meters", "dataloader")
OWN_MAIN: ContextVar[bool] = ContextVar("own_main", default=False)
"""Whether ``gtrans train`` runs, which can do what fairseq's own commands cannot."""


@dataclass(frozen=True)
class Plan:
    """What a training does; the same in all of its processes.

    Attributes:
        resume: the checkpoint with which it goes on; None: it begins.
        finished: why there is nothing left to do; None: there is.
        made_from: what the run is made from.
    """

    resume: str | None = None
    finished: str | None = None
    made_from: MadeFrom = field(default_factory=dict)


def check_training(root: Any) -> None:
    """Reject what this command cannot train.

    Args:
        root: all options of a training.

    Raises:
        GtransError: naming the option and the way out.
    """
    check_launch(root.distributed_training)
    if (root.get("ema") or {}).get("store_ema"):
        raise GtransError(
            "`--store-ema` keeps an average that no command reads; leave it out and average the "
            "checkpoints (`gtrans average`)."
        )
    if OWN_MAIN.get():
        return
    several = root.distributed_training.distributed_world_size > 1
    task = group_of(root, "task")
    for flag, given, why in (
        ("--amp", root.common.amp, "fairseq's own optimizer for it unscales gradients twice"),
        (
            "--update-freq",
            several and max(root.optimization.update_freq) > 1,
            "in several processes fairseq miscounts an update that ends without a batch",
        ),
        (
            "--save-without-validation",
            task.get("save_without_validation"),
            "fairseq validates for every checkpoint",
        ),
        (
            "--patience-unit epoch",
            str(task.get("patience_unit")) == "epoch",
            "fairseq counts every validation",
        ),
    ):
        if given:
            raise GtransError(f"`{flag}`: {why}; use `gtrans train`, with the same options.")


def why_ended(root: Any, updates: int, epochs: int, seconds: float, waited: int) -> str | None:
    """Why a run is at its end; None: it is not.

    Args:
        root: all options of the training.
        updates: that it has made.
        epochs: that it has completed.
        seconds: that it has taken.
        waited: validations since the best one.
    """
    optimization, patience, hours = root.optimization, root.checkpoint.patience, seconds / 3600
    goal, last, limit = (optimization[f] for f in ("max_update", "max_epoch", "stop_time_hours"))
    reasons = {
        f"{updates} updates, --max-update {goal}": 0 < goal <= updates,
        f"{epochs} epochs, --max-epoch {last}": 0 < last <= epochs,
        f"{hours:.2f} hours, --stop-time-hours {limit}": 0 < limit < hours,
        f"{waited} validations without a gain, --patience {patience}": 0 < patience <= waited,
    }
    return next((reason for reason, ended in reasons.items() if ended), None)


def begin(cfg: Any, model: Any, task: Any) -> Plan | None:
    """What the training that builds a model does in its folder; None if it is no training.

    The checkpoints of the run carry what it is made from, as the task's state.

    Args:
        cfg: the options of the model, in those of the training.
        model: its class, with its ``presets``.
        task: the task, one of fairseq's or this project's.

    Raises:
        GtransError: what :func:`check_training` rejects; the folder holds a run with other
            settings, data or vocabulary; none of its checkpoints is whole; another training is
            running there.
        SystemExit: under fairseq's own commands the run in the folder is finished.
    """
    root: Any = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    if root is None or root.get("checkpoint") is None or root.common_eval.path:
        return None
    # The options in a checkpoint are those of its training, which is over; fairseq flags them.
    return None if root._get_flag("allow_objects") else begin_run(root, model, task)


def begin_run(root: Any, model: Any, task: Any) -> Plan:
    """As :func:`begin`, with all options of a training; ``model`` may be one of fairseq's own."""
    check_training(root)
    plan = Plan()
    if distributed_utils.is_master(root.distributed_training):
        plan = _plan(root, model, task)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # A mistake has ended the first process, and with it the others, which wait here.
        group = distributed_utils.get_data_parallel_group()
        plan = Plan(**distributed_utils.broadcast_object(asdict(plan), src_rank=0, group=group))
    if hasattr(task, "training_files"):
        task.made_from = plan.made_from
    else:
        state = {STATE: _identity(root, task).state(), "run": plan.made_from}
        task.state.merge_state_dict(state)
    if plan.finished is not None:
        logger.info(
            f"{root.checkpoint.save_dir}: the run is finished ({plan.finished}); nothing is left "
            "to do"
        )
    if not OWN_MAIN.get():
        _under_fairseq(root, task, plan)
    return plan


def _under_fairseq(root: Any, task: Any, plan: Plan) -> None:
    """End, reject or tell what fairseq's own commands would do otherwise than the plan."""
    if plan.finished is not None:
        raise SystemExit(0)  # fairseq would make one more update
    if plan.resume is not None and Path(plan.resume).name != LAST:
        raise GtransError(
            f"--save-dir {root.checkpoint.save_dir}: fairseq goes on from {LAST} only; use `gtrans "
            f"train`, with the same options, which goes on from {Path(plan.resume).name}."
        )
    halves = [f"--{name}" for name in ("fp16", "bf16") if root.common[name]]
    inexact = {
        "the memories of streams": str(group_of(root, "model").get("unit")) == "stream",
        f"the parameters in fp32 ({' '.join(halves)})": bool(halves),
        "the count of --patience": root.checkpoint.patience > 0,
        "the batches of later epochs": not hasattr(task, "training_files"),
    }
    lost = [what for what, is_used in inexact.items() if is_used]
    if lost:
        say(
            f"a run that is stopped does not go on exactly under fairseq's own command, which does "
            f"not save {', '.join(lost)}; `gtrans train` does"
        )


def _plan(root: Any, model: Any, task: Any) -> Plan:
    """What the training does; moves the checkpoints of another run away if it is to.

    Everything is checked before anything is moved.
    """
    cfg = root.checkpoint
    folder = RunFolder(Path(cfg.save_dir))
    if not cfg.no_save:
        folder.lock()
    restored = cfg.restore_file if cfg.restore_file != LAST else None
    restart = bool(group_of(root, "task").get("restart"))
    newest = None if restart or restored else folder.newest()
    state = {} if newest is None else read_checkpoint(newest, in_memory=False)
    known = recorded_in(state, newest or folder.path)
    now = _made_from(root, task, known)
    if newest is not None:
        if known is None:
            say_unknown(newest)
        return _further(root, getattr(model, "presets", {}), newest, state, known, now)
    given = {"--restore-file": restored, "--finetune-from-model": cfg.finetune_from_model}
    given = {flag: str(path) for flag, path in given.items() if path}
    if len(given) > 1:
        raise GtransError(f"give either {' or '.join(given)}.")
    starts = {flag: file["path"] for flag, file in now["start"].items()}
    for flag, path in (starts | given).items():
        exists = os.path.exists if flag == "--init-xlmr" else os.path.isfile  # fairseq's folder
        if not exists(path):
            raise GtransError(f"{flag} {path}: there is no such checkpoint.")
        if restart and Path(path).resolve().parent == folder.path.resolve():
            raise GtransError(
                f"{flag} {path} lies in --save-dir, whose checkpoints are moved away; give another "
                "--save-dir."
            )
    for flag, path in given.items():
        _check_same_model(_identity(root, task), flag, path)
    if restart and (aside := folder.clear()):
        logger.info(
            f"{folder.path}: the run starts anew, as --restart says; the checkpoints of the "
            f"earlier one are in {aside}"
        )
    if restored:
        logger.info(f"--restore-file {restored}: settings are not compared")
    return Plan(made_from=now)


def _further(
    root: Any, presets: Any, path: Path, state: Any, known: MadeFrom | None, now: MadeFrom
) -> Plan:
    """The plan of a run that goes on from the checkpoint ``path``, which holds ``state``."""
    cfg = root.checkpoint
    options: Any = OmegaConf.to_container(root, resolve=True, enum_to_str=True)
    optimizer = state.get("last_optimizer_state")
    if optimizer is None and not (cfg.reset_optimizer or cfg.no_save_optimizer_state):
        raise GtransError(
            f"{path}: it has no state of the optimizer, so the run cannot go on from it as it "
            "was; an average or a converted model starts another run (--init-from, "
            "--finetune-from-model), and --reset-optimizer goes on without."
        )
    with reading(path, "the record of its run"):
        changes = different(state["cfg"], known, options, now, presets)
        extra = state["extra_state"]
        finished = why_ended(
            root,
            updates_of(state),
            0 if cfg.reset_dataloader else int(extra["train_iterator"]["epoch"]) - 1,
            extra.get("previous_training_time", 0),
            0 if cfg.reset_meters else waited_in(extra),
        )
    meant = [f"--reset-{name.replace('_', '-')}" for name in RESETS if cfg[f"reset_{name}"]]
    meant += ["--optimizer-overrides"] if cfg.optimizer_overrides not in ("", "{}") else []
    if changes and not meant:
        # fairseq's own tasks have no such option.
        restart = "restart" in group_of(root, "task")
        way_out = ", or --restart to start anew (the checkpoints are kept)" if restart else ""
        raise GtransError(
            f"--save-dir {cfg.save_dir} holds a run with other settings: {', '.join(changes)}; "
            f"give another --save-dir{way_out}, or --reset-meters, --reset-optimizer or "
            "--restore-file if the change is meant."
        )
    if changes:
        logger.info(
            f"{cfg.save_dir}: goes on with other settings, as {meant[0]} says: {', '.join(changes)}"
        )
    return Plan(str(path), None if cfg.reset_optimizer else finished, now)


# ---- what the run is made from -------------------------------------------------------------------


def _made_from(root: Any, task: Any, known: MadeFrom | None) -> MadeFrom:
    """See :func:`gtrans.train.compare.made_from`."""
    if hasattr(task, "training_files"):
        files: list[Path] = task.training_files()
    else:  # of fairseq's own tasks, in all languages
        subset = re.escape(str(root.dataset.train_subset))
        parts = (part for folder in _folders(root) for part in sorted(Path(folder).iterdir()))
        files = [part for part in parts if re.fullmatch(rf"{subset}\..*\.(bin|idx)", part.name)]
    starts = (
        group_of(root, "task").get("init_from"), group_of(root, "model").get("init_xlmr"),
        root.checkpoint.finetune_from_model,
    )  # fmt: skip
    given = {flag: str(path) for flag, path in zip(STARTS, starts, strict=True) if path}
    dictionaries = task.source_dictionary, task.target_dictionary
    return made_from([dictionary.symbols for dictionary in dictionaries], files, given, known)


def _folders(root: Any) -> list[str]:
    """The data folders."""
    data = str(group_of(root, "task").get("data") or "")
    return [folder for folder in data.split(os.pathsep) if folder]


def _identity(root: Any, task: Any) -> ModelIdentity:
    """That of the model that is trained."""
    if hasattr(task, "training_files"):
        identity: ModelIdentity = task.identity
        return identity
    dictionaries = task.source_dictionary, task.target_dictionary
    source, target = (Vocabulary.of(dictionary, len(dictionary)) for dictionary in dictionaries)
    # The task knows languages that were found in the data folder; a multilingual one has many.
    known = task.cfg if getattr(task, "cfg", None) is not None else task.args
    languages = str(known.source_lang or ""), str(known.target_lang or "")
    folders = _folders(root)
    prepared = Preparation.read(Path(folders[0])) if folders else None
    return ModelIdentity(languages, source, target, prepared, {})


def _check_same_model(identity: ModelIdentity, flag: str, path: str) -> None:
    """Check a checkpoint whose parameters are taken as they are, row by row.

    Raises:
        GtransError: it is unreadable, or has another vocabulary or preparation.
    """
    state = read_checkpoint(path, in_memory=False)
    check_values(state["model"], f"{flag} {path}")
    recorded = ModelIdentity.of_checkpoint(state, path)
    if recorded is None:
        say_unknown(f"{flag} {path}")
    elif differences := recorded.differences(identity):
        raise GtransError(
            f"{flag} {path}: it was not made with the data folder of this run, it has other "
            f"{'; '.join(differences)}; --init-from maps embeddings to another vocabulary."
        )
