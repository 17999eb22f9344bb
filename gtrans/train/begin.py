"""What a training does in its folder: begin, go on, reject, or nothing.

Models ask this when they are built (:func:`begin`), under ``gtrans train`` and under fairseq's own
commands. What these cannot do exactly is rejected here, or told in one line.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils
from omegaconf import DictConfig, OmegaConf

from gtrans.checkpoints.identity import STATE, ModelIdentity
from gtrans.checkpoints.reading import check_values, read_checkpoint, reading
from gtrans.data.vocabulary import Vocabulary
from gtrans.environment import check_environment
from gtrans.errors import GtransError
from gtrans.messages import say
from gtrans.text.prepared_folder import Preparation
from gtrans.train import compare
from gtrans.train.compare import MadeFrom, group_of
from gtrans.train.folder import LAST, RunCheckpoint, RunFolder
from gtrans.train.launch import check_launch

logger = logging.getLogger(__name__)

_RESETS = ("reset_optimizer", "reset_lr_scheduler", "reset_meters", "reset_dataloader")
_own_main: ContextVar[bool] = ContextVar("own_main", default=False)


@dataclass(frozen=True)
class Plan:
    """What a training does; the same in all of its processes.

    Attributes:
        resume: the checkpoint with which it goes on; None: it begins.
        finished: why there is nothing left to do; None: there is.
        remarks: what the user should know.
        made_from: what the run is made from.
        error: why it is rejected; empty: it is not.
    """

    resume: str | None = None
    finished: str | None = None
    remarks: tuple[str, ...] = ()
    made_from: MadeFrom = field(default_factory=dict)
    error: str = ""


@contextmanager
def own_main() -> Iterator[None]:
    """While ``gtrans train`` runs, which can do what fairseq's own commands cannot."""
    token = _own_main.set(True)
    try:
        yield
    finally:
        _own_main.reset(token)


def training_options(cfg: Any) -> Any:
    """All options of the training that sets up what has the options ``cfg``; None if there is none.

    The options in a checkpoint are those of its training, which is over; fairseq flags them when it
    reads them.
    """
    root: Any = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    known = root is not None and root.get("checkpoint") is not None
    if not known or root._get_flag("allow_objects") or root.common_eval.path:
        return None
    return root


def check_training(root: Any) -> None:
    """Reject what this command cannot train.

    Args:
        root: all options of a training.

    Raises:
        GtransError: naming the option and the way out.
    """
    check_environment()
    check_launch(root.distributed_training)
    if (root.get("ema") or {}).get("store_ema"):
        raise GtransError(
            "`--store-ema` keeps an average that no command reads; leave it out and average the "
            "checkpoints (`gtrans average`)."
        )
    if _own_main.get():
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
    root = training_options(cfg)
    return None if root is None else begin_run(root, model, task)


def begin_run(root: Any, model: Any, task: Any) -> Plan:
    """As :func:`begin`, with all options of a training; ``model`` may be one of fairseq's own."""
    check_training(root)
    run = _Run(root, model, task)
    plan = _agreed(root, run.plan)
    if plan.error:
        raise GtransError(plan.error)
    for remark in plan.remarks:
        logger.info(remark)
    run.record(plan.made_from)
    if plan.finished is not None:
        logger.info(
            f"{root.checkpoint.save_dir}: the run is finished ({plan.finished}); nothing is left "
            "to do"
        )
    if not _own_main.get():
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
    lost = [what for what, of_this_run in inexact.items() if of_this_run]
    if lost:
        say(
            f"a run that is stopped does not go on exactly under fairseq's own command, which does "
            f"not save {', '.join(lost)}; `gtrans train` does"
        )


def _agreed(root: Any, work: Callable[[], Plan]) -> Plan:
    """The plan of the first process, in all processes."""
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    decided: dict[str, Any] | None = None
    if distributed_utils.is_master(root.distributed_training):
        try:
            decided = asdict(work())
        except GtransError as error:
            decided = asdict(Plan(error=str(error)))
        except Exception as error:  # the other processes wait for the plan
            if not several:
                raise
            decided = asdict(Plan(error=f"{type(error).__name__}: {error}"))
    if several:
        group = distributed_utils.get_data_parallel_group()
        decided = distributed_utils.broadcast_object(decided, src_rank=0, group=group)
    assert decided is not None
    return Plan(**decided)


class _Run:
    """The run that a training is, and that of its folder."""

    def __init__(self, root: Any, model: Any, task: Any) -> None:
        self.root, self.cfg, self.model, self.task = root, root.checkpoint, model, task
        self.folder = RunFolder(Path(self.cfg.save_dir))
        self.ours = hasattr(task, "training_files")

    @property
    def data(self) -> list[str]:
        """The data folders."""
        data = str(group_of(self.root, "task").get("data") or "")
        return [folder for folder in data.split(os.pathsep) if folder]

    def identity(self) -> ModelIdentity:
        """That of the model that is trained."""
        if self.ours:
            found: ModelIdentity = self.task.identity
            return found
        dictionaries = self.task.source_dictionary, self.task.target_dictionary
        source, target = (Vocabulary.of(one, len(one)) for one in dictionaries)
        # The task knows languages that were found in the data folder; a multilingual one has many.
        known = self.task.cfg if getattr(self.task, "cfg", None) is not None else self.task.args
        languages = str(known.source_lang or ""), str(known.target_lang or "")
        prepared = Preparation.read(Path(self.data[0])) if self.data else None
        return ModelIdentity(languages, source, target, prepared, {})

    def made_from(self) -> MadeFrom:
        """See :func:`gtrans.train.compare.made_from`."""
        dictionaries = self.task.source_dictionary, self.task.target_dictionary
        start = {
            "--init-from": group_of(self.root, "task").get("init_from"),
            "--init-xlmr": group_of(self.root, "model").get("init_xlmr"),
            "--finetune-from-model": self.cfg.finetune_from_model,
            "the BERT": getattr(self.task, "encoder_bert", None),
        }
        return compare.made_from(
            [dictionary.symbols for dictionary in dictionaries],
            self.task.training_files() if self.ours else self._training_files(),
            {flag: str(path) for flag, path in start.items() if path},
        )

    def _training_files(self) -> list[Path]:
        """The binarised training data of a task of fairseq's own, in all languages."""
        name = re.compile(rf"{re.escape(str(self.root.dataset.train_subset))}\..*\.(bin|idx)")
        files = (path for folder in self.data for path in sorted(Path(folder).iterdir()))
        return [path for path in files if name.fullmatch(path.name)]

    def record(self, made_from: MadeFrom) -> None:
        """Let checkpoints carry what the run is made from."""
        if self.ours:
            self.task.made_from = made_from
        else:
            identity = self.identity().state()
            self.task.state.merge_state_dict({STATE: identity, "run": made_from})

    def plan(self) -> Plan:
        """What the training does; moves the checkpoints of another run away if it is to."""
        if not self.cfg.no_save:
            self.folder.lock()
        now = self.made_from()
        restored = self.cfg.restore_file if self.cfg.restore_file != LAST else None
        if group_of(self.root, "task").get("restart"):
            return self._anew(now, True, restored)
        if restored:
            return self._anew(now, False, restored)
        found, remark = self.folder.newest()
        if found is None:
            return self._anew(now, False, None)
        return self._further(found, now, [remark] if remark else [])

    def _further(self, found: RunCheckpoint, now: MadeFrom, remarks: list[str]) -> Plan:
        """The plan of a run that goes on."""
        if found.made_from is None:
            remarks.append(
                f"{found.path}: identity unknown: it does not say from which data and from which "
                "model it was trained"
            )
        self._check_optimizer(found)
        meant = self._meant()
        with reading(found.path, "the record of its run"):
            different = self._differences(found, now)
            finished = found.why_finished(self.root)
        if different and not meant:
            # fairseq's own tasks have no such option.
            restart = "restart" in group_of(self.root, "task")
            way_out = ", or --restart to start anew (the checkpoints are kept)" if restart else ""
            raise GtransError(
                f"--save-dir {self.cfg.save_dir} holds a run with other settings: "
                f"{', '.join(different)}; give another --save-dir{way_out}, or --reset-meters, "
                "--reset-optimizer or --restore-file if the change is meant."
            )
        if different:
            remarks.append(
                f"{self.cfg.save_dir}: goes on with other settings, as {meant} says: "
                f"{', '.join(different)}"
            )
        return Plan(
            str(found.path),
            None if self.cfg.reset_optimizer else finished,
            tuple(remarks),
            compare.completed(now, found.made_from or {}),
        )

    def _differences(self, found: RunCheckpoint, now: MadeFrom) -> list[str]:
        options: Any = OmegaConf.to_container(self.root, resolve=True, enum_to_str=True)
        old, new = (str(group_of(side, "task").get("data")) for side in (found.options, options))
        presets = getattr(self.model, "presets", {})
        return [
            *compare.different_start(found.made_from or {}, now, (old, new)),
            *compare.different_options(found.options, options, presets),
        ]

    def _check_optimizer(self, found: RunCheckpoint) -> None:
        """Raises GtransError for a checkpoint from which no run can go on exactly."""
        wanted = not (self.cfg.reset_optimizer or self.cfg.no_save_optimizer_state)
        if wanted and found.state.get("last_optimizer_state") is None:
            raise GtransError(
                f"{found.path}: it has no state of the optimizer, so the run cannot go on from it "
                "as it was; an average or a converted model starts another run (--init-from, "
                "--finetune-from-model), and --reset-optimizer goes on without."
            )

    def _meant(self) -> str | None:
        """The flag that says that the settings of a run are changed on purpose."""
        for name in _RESETS:
            if self.cfg[name]:
                return f"--{name.replace('_', '-')}"
        return "--optimizer-overrides" if self.cfg.optimizer_overrides not in ("", "{}") else None

    def _anew(self, now: MadeFrom, clear: bool, restored: str | None) -> Plan:
        """The plan of a run that begins; everything is checked before anything is moved.

        Args:
            now: what the run is made from.
            clear: the checkpoints of an earlier run are moved away.
            restored: ``--restore-file``, if it is given.
        """
        remarks: list[str] = []
        for flag in ("--init-from", "--init-xlmr"):
            file = now["start"].get(flag)
            if file is not None and file["digest"] is None:
                raise GtransError(f"{flag} {file['path']}: there is no such checkpoint.")
        given = {"--restore-file": restored, "--finetune-from-model": self.cfg.finetune_from_model}
        given = {flag: str(path) for flag, path in given.items() if path}
        if len(given) > 1:
            raise GtransError(f"give either {' or '.join(given)}.")
        for flag, path in given.items():
            remarks += self._same_model(flag, path)
        if clear:
            if "--init-from" in now["start"]:
                given["--init-from"] = now["start"]["--init-from"]["path"]
            self._check_outside(given)
            if aside := self.folder.clear():
                remarks.append(
                    f"{self.folder.path}: the run starts anew, as --restart says; the checkpoints "
                    f"of the earlier one are in {aside}"
                )
        if restored:
            remarks.append(f"--restore-file {restored}: settings are not compared")
        return Plan(remarks=tuple(remarks), made_from=now)

    def _same_model(self, flag: str, path: str) -> list[str]:
        """Remarks on the checkpoint whose parameters are taken as they are, row by row.

        Raises:
            GtransError: there is no such checkpoint, or it has another vocabulary or preparation.
        """
        state = read_checkpoint(path, in_memory=False)
        check_values(state["model"], f"{flag} {path}")
        recorded = ModelIdentity.of_checkpoint(state, path)
        if recorded is None:
            return [f"{flag} {path}: identity unknown: it does not say which vocabulary it has"]
        differences = recorded.differences(self.identity())
        if differences:
            raise GtransError(
                f"{flag} {path}: it was not made with the data folder of this run, it has other "
                f"{'; '.join(differences)}; --init-from maps embeddings to other symbols."
            )
        return []

    def _check_outside(self, starts: Mapping[str, str]) -> None:
        """Raises GtransError for a start among the checkpoints that are moved away."""
        for flag, start in starts.items():
            inside = Path(start).exists() and any(
                path.samefile(start) for path in self.folder.checkpoints()
            )
            if inside:
                raise GtransError(
                    f"{flag} {start} lies in --save-dir, whose checkpoints are moved away; give "
                    "another --save-dir."
                )
