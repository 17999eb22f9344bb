"""What can be refused before anything is loaded."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY
from omegaconf import DictConfig

from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.decoding.generator import refuse_unsupported
from gtrans.errors import GtransError, did_you_mean
from gtrans.libraries import require
from gtrans.models.base.fusion import used_groups
from gtrans.models.base.model import DocumentModel
from gtrans.models.base.presets import resolve_sizes
from gtrans.option_types import check_limits
from gtrans.tasks.options import data_folders, mix_weights, model_class
from gtrans.tasks.parts.eval_bleu import SCORES, logged_scores, reference_files
from gtrans.tasks.split_files import split_pair
from gtrans.text.reader import read_documents
from gtrans.train.begin import check_training
from gtrans.train.folder import LAST, RunFolder

_LOSSES = ("loss", "nll_loss", "ppl", "accuracy")


def check_first(task: Any, root: Any) -> None:
    """Refuse what fairseq's command cannot begin with.

    Args:
        task: options of the task.
        root: all options of fairseq's command; None: they are not known.

    Raises:
        GtransError: options of generation that document search does not support; in training,
            an architecture that is not this project's, or a missing file to start from.
    """
    if root is None:
        return
    if root.get("generation") is not None:
        refuse_unsupported(root.generation)
    if not _is_training(root):
        return
    check_limits(root)
    check_training(root)
    if task.get("overlap"):
        raise GtransError(
            f"`--overlap {task.overlap}` is for decoding; in training leave it out (`--recut` lets "
            "a model meet every sentence at every place of an instance)."
        )
    if task.get("mix") is not None:
        mix_weights(task)
    model = root.get("model")
    # fairseq's older models have their options in a namespace.
    hydra = model is None or isinstance(model, DictConfig)
    chosen = model_class(model or {} if hydra else {"_name": model.arch})
    if hydra:
        _check_loss(chosen, model, root.criterion)
    _check_precision(root.common)
    _check_validation(task, root)
    checkpoint = root.checkpoint
    restored = checkpoint.restore_file if checkpoint.restore_file != LAST else None
    _refuse_missing("--restore-file", restored)
    begins = task.get("restart") or restored
    if begins or not RunFolder(Path(checkpoint.save_dir)).checkpoints():
        # A run that goes on does not need them.
        _refuse_missing("--init-from", task.get("init_from"))
        if not restored:
            _refuse_missing("--finetune-from-model", checkpoint.finetune_from_model)


def check_splits(task: Any, root: Any) -> None:
    """Refuse a training whose data folders lack a split, before its model is built.

    Args:
        task: options of the task, with its languages.
        root: all options of fairseq's command; None: they are not known.

    Raises:
        GtransError: there is no such split.
    """
    if not _is_training(root):
        return
    dataset, folders = root.dataset, data_folders(task)
    wanted = [(folder, str(dataset.train_subset)) for folder in folders]
    if not dataset.disable_validation:
        names = "valid" if dataset.combine_valid_subsets else str(dataset.valid_subset)
        wanted += [(folders[0], name) for name in names.split(",")]
    for folder, split in wanted:
        split_pair(folder, split, task.source_lang, task.target_lang)
    if task.eval_bleu:
        for path in reference_files(task, str(dataset.valid_subset).split(",")).values():
            read_documents(path)


def _check_loss(model: type[DocumentModel], cfg: Any, criterion: Any) -> None:
    """Raises GtransError for a criterion that has no loss for a decoder with these options."""
    of_criterion = CRITERION_REGISTRY.get(str(criterion.get("_name")))
    if issubclass(model, DocumentModel) and issubclass(of_criterion or object, ChunkedCrossEntropy):
        sizes = resolve_sizes(cfg, model.options, model.presets)
        first, last = used_groups(sizes, model.groups(sizes))
        of_criterion.check_groups(last - first + 1)


def _check_precision(common: Any) -> None:
    """Raises GtransError for a precision that the options or the machine leave no way to."""
    if common.amp and (common.fp16 or common.bf16):
        raise GtransError("`--amp` is given with `--fp16` or `--bf16`; leave one of them out.")
    if common.fp16 and not torch.cuda.is_available():
        raise GtransError("`--fp16` needs a GPU, and there is none; leave it out.")


def _check_validation(task: Any, root: Any) -> None:
    """Refuse scores of validation that there will not be, or that cannot be written.

    Raises:
        GtransError: naming the option.
    """
    if task.eval_bleu and root.dataset.disable_validation:
        raise GtransError("`--eval-bleu` needs validation; leave out `--disable-validation`.")
    logged = logged_scores(task)
    metric = str(root.checkpoint.best_checkpoint_metric)
    named = f"`--best-checkpoint-metric {metric}`"
    if metric in SCORES and not logged:
        raise GtransError(f"{named} is a score of `--eval-bleu`, which is missing.")
    if metric in logged and not root.checkpoint.maximize_best_checkpoint_metric:
        raise GtransError(
            f"{named} needs `--maximize-best-checkpoint-metric`: the highest score is the best."
        )
    criterion = str(root.criterion.get("_name"))
    ours = issubclass(CRITERION_REGISTRY.get(criterion, object), ChunkedCrossEntropy)
    if ours or criterion in ("cross_entropy", "label_smoothed_cross_entropy"):
        known = (*_LOSSES, *logged)
        if metric not in known and not metric.startswith("loss_group_"):
            hint = did_you_mean(metric, known) or f"; there are {', '.join(known)}"
            raise GtransError(f"{named}: there is no such score{hint}")
    if root.common.tensorboard_logdir and find_spec("tensorboard") is None:
        require(["tensorboardX"], "`--tensorboard-logdir`")


def _is_training(root: Any) -> bool:
    """Whether these are all options of a training; None are not."""
    return root is not None and root.get("checkpoint") is not None and not root.common_eval.path


def _refuse_missing(flag: str, path: Any) -> None:
    """Raises GtransError for a checkpoint that does not exist."""
    if path and not os.path.isfile(path):
        shown = path if "://" in path else os.path.abspath(path)
        raise GtransError(f"{flag} {shown}: there is no such checkpoint.")
