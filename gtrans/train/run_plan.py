"""The plan of a run: begin, resume, or nothing because it is finished."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from fairseq.distributed import utils as distributed_utils

from gtrans.checkpoints.fingerprint import STATE, ModelFingerprint, report_missing_fingerprint
from gtrans.checkpoints.reading import read_checkpoint
from gtrans.data.vocabulary import Vocabulary
from gtrans.errors import GtransError
from gtrans.messages import print_message
from gtrans.modules.file_values import check_values, reading
from gtrans.option_types import group_of
from gtrans.text.prepared_folder import Preparation
from gtrans.train.folder import LAST, RunFolder, updates_of, validations_since_best
from gtrans.train.launch import check_launch
from gtrans.train.run_settings import (
    RUN,
    Provenance,
    changed_settings,
    provenance_of,
    recorded_provenance,
    run_of_checkpoint,
    start_options,
)

logger = logging.getLogger(__name__)

RESETS = ("optimizer", "lr_scheduler", "meters", "dataloader")


@dataclass(frozen=True)
class RunPlan:
    """What a training does, the same in all processes.

    Attributes:
        resume: the checkpoint to resume from; None to begin.
        finished: why nothing is left to do, or None.
    """

    resume: str | None = None
    finished: str | None = None
    provenance: Provenance = field(default_factory=dict)


@runtime_checkable
class DescribesTraining(Protocol):
    """A task that names its training files and the fingerprint of its model."""

    @property
    def fingerprint(self) -> ModelFingerprint:
        """The fingerprint of the model."""
        ...

    def training_files(self) -> list[Path]:
        """Return the training files."""
        ...


def plan_run(root: Any, task: Any, model: Any) -> RunPlan:
    """Decide what a training does in its folder, and lock the folder.

    The state of ``task`` gets the provenance.

    Raises:
        GtransError: the folder holds another or an incomplete run, or is in use.
    """
    if (root.get("ema") or {}).get("store_ema"):
        raise GtransError(
            "`--store-ema` keeps an average that no command reads; leave it out and average the "
            "checkpoints (`gtrans average`)."
        )
    plan = RunPlan()
    if distributed_utils.is_master(root.distributed_training):
        plan = _plan(root, task, model)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        # A mistake has ended the first process, and with it the others, which wait here.
        group = distributed_utils.get_data_parallel_group()
        fields = distributed_utils.broadcast_object(asdict(plan), src_rank=0, group=group)
        plan = RunPlan(**fields)
    fingerprint = _fingerprint(root, task)
    task.state.merge_state_dict({STATE: fingerprint.state(), RUN: plan.provenance})
    if plan.finished is not None:
        logger.info(
            f"{root.checkpoint.save_dir}: the run is finished ({plan.finished}); nothing is left "
            "to do"
        )
    return plan


def plan_under_fairseq(root: Any, task: Any, model: Any) -> None:
    """Call :func:`plan_run` for ``fairseq-train``, and print what only ``gtrans train`` does.

    Raises:
        GtransError: fairseq would train wrongly, or begin the run anew.
        SystemExit: the run is finished; fairseq would make one more update.
    """
    if root.common.amp:
        raise GtransError(
            "`--amp`: fairseq's own optimizer for it unscales gradients twice; use `gtrans train`, "
            "with the same options."
        )
    check_launch(root.distributed_training)
    plan = plan_run(root, task, model)
    if plan.finished is not None:
        raise SystemExit(0)
    if plan.resume is not None and Path(plan.resume).name != LAST:
        raise GtransError(
            f"--save-dir {root.checkpoint.save_dir}: fairseq goes on from {LAST} only; use `gtrans "
            f"train`, with the same options, which goes on from {Path(plan.resume).name}."
        )
    print_message(
        "fairseq's own command does not go on exactly after a stop (half precision, --patience, "
        "streams), counts updates otherwise with --update-freq on several devices, and does not "
        "know --patience-unit and --save-without-validation; `gtrans train` does all of it"
    )


def end_of_run(root: Any, updates: int, epochs: int, seconds: float, waited: int) -> str | None:
    """Return why a run has ended, or None.

    ``waited``: validations since the best one.
    """
    options = root.optimization
    patience = root.checkpoint.patience
    hours = seconds / 3600
    if 0 < options.max_update <= updates:
        return f"{updates} updates, --max-update {options.max_update}"
    if 0 < options.max_epoch <= epochs:
        return f"{epochs} epochs, --max-epoch {options.max_epoch}"
    if 0 < options.stop_time_hours < hours:
        return f"{hours:.2f} hours, --stop-time-hours {options.stop_time_hours}"
    if 0 < patience <= waited:
        return f"{waited} validations without a gain, --patience {patience}"
    return None


def _plan(root: Any, task: Any, model: Any) -> RunPlan:
    """Plan the run in the first process; everything is checked before anything is moved."""
    cfg = root.checkpoint
    folder = RunFolder(Path(cfg.save_dir))
    if not cfg.no_save:
        folder.lock()
    restores = bool(cfg.restore_file) and cfg.restore_file != LAST
    restart = bool(group_of(root, "task").get("restart"))
    newest = None if restart or restores else folder.newest()
    if newest is not None:
        state = read_checkpoint(newest, in_memory=False)
        recorded = recorded_provenance(state, newest)
        if recorded is None:
            report_missing_fingerprint(newest)
        now = _provenance(root, task, model, recorded)
        earlier = run_of_checkpoint(state, newest, getattr(model, "presets", {}))
        return _plan_to_resume(root, newest, state, earlier, now)
    now = _provenance(root, task, model, None)
    mistake = getattr(model, "start_mistake", None)
    if mistake is not None and not restores and not cfg.finetune_from_model:
        raise GtransError(mistake)
    _check_start(root, task, folder, now, restart)
    if restart:
        aside = folder.clear()
        if aside is not None:
            logger.info(
                f"{folder.path}: the run starts anew, as --restart says; the checkpoints of the "
                f"earlier one are in {aside}"
            )
    if restores:
        logger.info(f"--restore-file {cfg.restore_file}: settings are not compared")
    return RunPlan(provenance=now)


def _check_start(root: Any, task: Any, folder: RunFolder, now: Provenance, restart: bool) -> None:
    cfg = root.checkpoint
    whole_models: dict[str, str] = {}
    if cfg.restore_file != LAST:
        whole_models["--restore-file"] = str(cfg.restore_file)
    if cfg.finetune_from_model:
        whole_models["--finetune-from-model"] = str(cfg.finetune_from_model)
    if len(whole_models) > 1:
        raise GtransError(f"give either {' or '.join(whole_models)}.")
    starts = {flag: file["path"] for flag, file in now["start"].items()}
    starts |= whole_models
    for flag, path in starts.items():
        is_folder = flag == "--init-xlmr" and os.path.isdir(path)
        if not is_folder and not os.path.isfile(path):
            raise GtransError(f"{flag} {path}: there is no such checkpoint.")
        if restart and Path(path).resolve().parent == folder.path.resolve():
            raise GtransError(
                f"{flag} {path} lies in --save-dir, whose checkpoints are moved away; give another "
                "--save-dir."
            )
    for flag, path in whole_models.items():
        _check_same_model(_fingerprint(root, task), flag, path)


def _plan_to_resume(
    root: Any, path: Path, state: Any, recorded: Provenance, now: Provenance
) -> RunPlan:
    cfg = root.checkpoint
    optimizer = state.get("last_optimizer_state")
    if optimizer is None and not (cfg.reset_optimizer or cfg.no_save_optimizer_state):
        raise GtransError(
            f"{path}: it has no state of the optimizer, so the run cannot go on from it as it "
            "was; an average or a converted model starts another run (--init-from, "
            "--finetune-from-model), and --reset-optimizer goes on without."
        )
    with reading(path, "the record of its run"):
        changes = changed_settings(recorded, now)
        finished = _finished(root, state)
    meant = _flags_of_changes(cfg)
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
    return RunPlan(str(path), finished, now)


def _finished(root: Any, state: Any) -> str | None:
    cfg = root.checkpoint
    extra = state["extra_state"]
    updates = updates_of(state)
    epochs = waited = 0
    if not cfg.reset_dataloader:
        epochs = int(extra["train_iterator"]["epoch"]) - 1
    if not cfg.reset_meters:
        waited = validations_since_best(extra)
    if cfg.reset_optimizer:
        return None
    seconds = extra.get("previous_training_time", 0)
    return end_of_run(root, updates, epochs, seconds, waited)


def _flags_of_changes(cfg: Any) -> list[str]:
    flags = [f"--reset-{name.replace('_', '-')}" for name in RESETS if cfg[f"reset_{name}"]]
    if cfg.optimizer_overrides not in ("", "{}"):
        flags.append("--optimizer-overrides")
    return flags


# ---- provenance ----------------------------------------------------------------------------------


def _provenance(root: Any, task: Any, model: Any, recorded: Provenance | None) -> Provenance:
    if isinstance(task, DescribesTraining):
        files = task.training_files()
    else:
        files = _stock_files(root)
    return provenance_of(
        root,
        presets=getattr(model, "presets", {}),
        entries=[task.source_dictionary.symbols, task.target_dictionary.symbols],
        data=files,
        start=start_options(root),
        recorded=recorded,
    )


def _stock_files(root: Any) -> list[Path]:
    subset = re.escape(str(root.dataset.train_subset))
    name = re.compile(rf"{subset}\..*\.(bin|idx)")
    files: list[Path] = []
    for folder in _folders(root):
        paths = sorted(Path(folder).iterdir())
        files += [path for path in paths if name.fullmatch(path.name)]
    return files


def _folders(root: Any) -> list[str]:
    data = str(group_of(root, "task").get("data") or "")
    return [folder for folder in data.split(os.pathsep) if folder]


def _fingerprint(root: Any, task: Any) -> ModelFingerprint:
    if isinstance(task, DescribesTraining):
        return task.fingerprint
    source = Vocabulary.of(task.source_dictionary, len(task.source_dictionary))
    target = Vocabulary.of(task.target_dictionary, len(task.target_dictionary))
    # The task knows languages that were found in the data folder; a multilingual one has many.
    options = getattr(task, "cfg", None)
    if options is None:
        options = task.args
    languages = str(options.source_lang or ""), str(options.target_lang or "")
    folders = _folders(root)
    prepared = Preparation.read(Path(folders[0])) if folders else None
    return ModelFingerprint(languages, source, target, prepared, {})


def _check_same_model(fingerprint: ModelFingerprint, flag: str, path: str) -> None:
    """Reject a checkpoint of another vocabulary, whose parameters are copied row by row."""
    state = read_checkpoint(path, in_memory=False)
    check_values(state["model"], f"{flag} {path}")
    recorded = ModelFingerprint.of_checkpoint(state, path)
    if recorded is None:
        report_missing_fingerprint(f"{flag} {path}")
        return
    differences = recorded.differences(fingerprint)
    if differences:
        raise GtransError(
            f"{flag} {path}: it was not made with the data folder of this run, it has other "
            f"{'; '.join(differences)}; --init-from maps embeddings to another vocabulary."
        )
