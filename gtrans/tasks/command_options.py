"""All options of a fairseq command: checks, and absolute paths under hydra."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

from gtrans.environment import require
from gtrans.errors import GtransError, did_you_mean
from gtrans.optim.two_rate_adam import DEFAULT_SCALE
from gtrans.option_types import check_limits, group_of, warn_if_endless
from gtrans.search.generator import refuse_unsupported
from gtrans.tasks.parts.eval_bleu import SCORES
from gtrans.train.folder import LAST

logger = logging.getLogger(__name__)

_LOSSES = ("loss", "nll_loss", "ppl", "accuracy")
_LOGGED_BY = (
    "cross_entropy",
    "label_smoothed_cross_entropy",
    "chunked_cross_entropy",
    "multi_level_cross_entropy",
)
# Options of the task that change how a model starts, and nothing else.
_OF_A_START = ("init_dict", "init_other_vocabulary", "copy_local_to_global")
_TWO_RATES = "two_rate_adam"
# Options that name a file or folder, by group; save_dir is meant to lie in hydra's folder.
_PATHS = {
    "task": ("data", "bert_cache", "init_from", "init_dict"),
    "model": ("init_xlmr",),
    "checkpoint": ("restore_file", "finetune_from_model"),
}
_SEVERAL = ("data", "init_dict")  # joined by ":"
_RECORD = Path(".hydra", "hydra.yaml")


def training_of(cfg: Any) -> Any | None:
    """Return all options of the training that ``cfg`` belongs to, or None."""
    root: Any = cfg._get_parent() if isinstance(cfg, DictConfig) else None
    return root if root is not None and trains(root) else None


def trains(root: Any) -> bool:
    """Return whether these are the options of a training."""
    return root.get("checkpoint") is not None and not root.common_eval.path


def check_command(root: Any) -> None:
    """Raise GtransError for options of a command that contradict each other or the machine."""
    if root.get("generation") is not None:  # under hydra also in a training
        refuse_unsupported(root.generation)
    if not trains(root):
        return
    check_limits(root)
    warn_if_endless(root)
    task = group_of(root, "task")
    optimizer = str(group_of(root, "optimizer").get("_name"))
    if not task.get("init_from"):
        _check_no_start(task)
    if optimizer == _TWO_RATES:
        _check_not_flattened(root.common)
    else:
        _check_one_rate(task, optimizer)
    _check_precision(root.common)
    _check_validation(task, root)
    if task.get("overlap"):
        raise GtransError(
            f"`--overlap {task['overlap']}` is for decoding; in training leave it out."
        )
    if root.common.tensorboard_logdir and find_spec("tensorboard") is None:
        require(["tensorboardX"], "`--tensorboard-logdir`")


def _check_no_start(task: dict[str, Any]) -> None:
    for name in _OF_A_START:
        value = task.get(name)
        if value:
            flag = f"--{name.replace('_', '-')}"
            given = flag if value is True else f"{flag} {value}"
            raise GtransError(
                f"`{given}` needs `--init-from`, the checkpoint that the model starts from."
            )


def _check_one_rate(task: dict[str, Any], optimizer: str) -> None:
    starts = bool(task.get("init_from"))
    scale = task.get("lr_scale_pretrained")
    if scale is None:
        if starts:
            logger.info(
                f"pretrained parameters train at the same rate as new ones ({optimizer}); "
                f"`--optimizer {_TWO_RATES}` trains them at {DEFAULT_SCALE} of it"
            )
    elif not starts:
        raise GtransError(
            f"`--lr-scale-pretrained {scale:g}` needs `--init-from`, the checkpoint that the "
            f"model starts from, and `--optimizer {_TWO_RATES}`."
        )
    elif scale != 1:
        raise GtransError(
            f"`--lr-scale-pretrained {scale:g}` needs the optimizer {_TWO_RATES}, but this is "
            f"{optimizer}; give `--optimizer {_TWO_RATES}`, which has the same options as "
            "adam, or `--lr-scale-pretrained 1`."
        )


def _check_not_flattened(common: Any) -> None:
    if not common.fp16 or common.memory_efficient_fp16 or common.fp16_no_flatten_grads:
        return
    raise GtransError(
        "`--fp16` alone flattens all parameters into one, which cannot have two learning rates; "
        "add --fp16-no-flatten-grads (or use --memory-efficient-fp16, --bf16, --amp)."
    )


def _check_precision(common: Any) -> None:
    if common.amp and (common.fp16 or common.bf16):
        raise GtransError("`--amp` is given with `--fp16` or `--bf16`; leave one of them out.")
    if common.fp16 and not torch.cuda.is_available():
        raise GtransError("`--fp16` needs a GPU, and there is none; leave it out.")


def _check_validation(task: dict[str, Any], root: Any) -> None:
    translates = bool(task.get("eval_bleu"))
    if translates and root.dataset.disable_validation:
        raise GtransError("`--eval-bleu` needs validation; leave out `--disable-validation`.")
    metric = str(root.checkpoint.best_checkpoint_metric)
    flag = f"`--best-checkpoint-metric {metric}`"
    if metric in SCORES:
        if not translates:
            raise GtransError(f"{flag} is a score of `--eval-bleu`, which is missing.")
        if not root.checkpoint.maximize_best_checkpoint_metric:
            raise GtransError(
                f"{flag} needs `--maximize-best-checkpoint-metric`: the highest score is the best."
            )
        return
    metrics = (*_LOSSES, *SCORES) if translates else _LOSSES
    if metric in metrics or metric.startswith("loss_group_"):
        return
    if str(root.criterion.get("_name")) in _LOGGED_BY:
        hint = did_you_mean(metric, metrics) or f"; there are {', '.join(metrics)}"
        raise GtransError(f"{flag}: there is no such score{hint}")


# ---- paths ---------------------------------------------------------------------------------------


def started_in(root: Any) -> Path | None:
    """Return the folder in which hydra was started, or None."""
    if HydraConfig.initialized():
        return Path(HydraConfig.get().runtime.cwd)
    # fairseq leaves this entry to the processes that it starts.
    if root.get("job_logging_cfg") is None or not _RECORD.is_file():
        return None
    record = yaml.safe_load(_RECORD.read_text(encoding="utf-8"))
    return Path(record["hydra"]["runtime"]["cwd"])


def resolve_paths(task: Any, root: Any) -> None:
    """Make relative paths of ``task`` absolute, seen from the folder in which hydra was started."""
    folder = started_in(root)
    if folder is None:
        return
    for group, names in _PATHS.items():
        copies: list[Any] = [root.get(group) or {}]
        if group == "task":
            copies.append(task)
        for options in copies:
            for name in names:
                value = options.get(name)
                if not value or value == LAST or "://" in str(value):
                    continue
                paths = str(value).split(os.pathsep) if name in _SEVERAL else [str(value)]
                with open_dict(options):
                    options[name] = os.pathsep.join(str(folder / path) for path in paths if path)
