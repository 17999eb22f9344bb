"""What can be refused before anything is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from gtrans.decoding.generator import refuse_unsupported
from gtrans.errors import GtransError
from gtrans.tasks.options import data_folders, model_class
from gtrans.tasks.split_files import split_pair
from gtrans.training.folder import LAST, RunFolder
from gtrans.training.launch import is_training


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
    if not is_training(root):
        return
    if task.get("overlap"):
        raise GtransError(
            f"`--overlap {task.overlap}` is for decoding; in training leave it out (`--recut` lets "
            "a model meet every sentence at every place of an instance)."
        )
    model = root.get("model")
    # fairseq's older models have their options in a namespace.
    hydra = model is None or isinstance(model, DictConfig)
    model_class(model or {} if hydra else {"_name": model.arch})
    checkpoint = root.checkpoint
    restored = checkpoint.restore_file if checkpoint.restore_file != LAST else None
    _refuse_missing("--restore-file", restored)
    begins = task.get("restart") or restored
    if begins or not RunFolder(Path(checkpoint.save_dir), _suffix(checkpoint)).checkpoints():
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
    if not is_training(root):
        return
    dataset, folders = root.dataset, data_folders(task)
    wanted = [(folder, str(dataset.train_subset)) for folder in folders]
    if not dataset.disable_validation:
        names = "valid" if dataset.combine_valid_subsets else str(dataset.valid_subset)
        wanted += [(folders[0], name) for name in names.split(",")]
    for folder, split in wanted:
        split_pair(folder, split, task.source_lang, task.target_lang)


def _suffix(checkpoint: Any) -> str:
    return str(checkpoint.get("checkpoint_suffix") or "")


def _refuse_missing(flag: str, path: Any) -> None:
    """Raises GtransError for a checkpoint that does not exist."""
    if path and not os.path.isfile(path):
        shown = path if "://" in path else os.path.abspath(path)
        raise GtransError(f"{flag} {shown}: there is no such checkpoint.")
