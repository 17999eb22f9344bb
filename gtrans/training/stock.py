"""Runs of this project's models under fairseq's own tasks, which get what a run needs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from gtrans.checkpoints.identity import STATE, ModelIdentity
from gtrans.data.vocabulary import Vocabulary
from gtrans.models.base.model import DocumentModel
from gtrans.text.prepared_folder import Preparation
from gtrans.training.batches import as_in_first_epoch
from gtrans.training.run import TrainingRun
from gtrans.training.settings import group_of


def concerned(trainer: Any) -> bool:
    """Whether a run is this project's; a task of fairseq's own is then made ready for it."""
    if isinstance(getattr(trainer.task, "run", None), TrainingRun):
        return True
    if not isinstance(trainer.get_model(), DocumentModel):
        return False
    _make_ready(trainer)
    return True


def _make_ready(trainer: Any) -> None:
    task, options = trainer.task, group_of(trainer.cfg, "task")
    folders = [folder for folder in str(options.get("data") or "").split(os.pathsep) if folder]
    split = str(trainer.cfg.dataset.train_subset)
    scores = ("bleu",) if options.get("eval_bleu") else ()
    task.run = TrainingRun(lambda: _training_files(folders, split), scores)
    task.parts, task.bert = [], None
    dictionaries = task.source_dictionary, task.target_dictionary
    source, target = (Vocabulary.of(one, len(one)) for one in dictionaries)
    # The task knows languages that were found in the data folder; a multilingual one has many.
    known = task.cfg if getattr(task, "cfg", None) is not None else task.args
    languages = str(known.source_lang or ""), str(known.target_lang or "")
    prepared = Preparation.read(Path(folders[0])) if folders else None
    task.identity = ModelIdentity(languages, source, target, prepared, {})
    batches = task.get_batch_iterator

    def get_batch_iterator(dataset: Any, *arguments: Any, **named: Any) -> Any:
        named = as_in_first_epoch(task, dataset, named, int(trainer.cfg.common.seed))
        return batches(dataset, *arguments, **named)

    def get_checkpoint_dict() -> dict[str, Any]:
        # Called when a checkpoint is put together, just before the state of the task is.
        task.state.merge_state_dict({STATE: task.identity.state(), "run": task.run.made_from})
        return {"run_state": task.run.state}

    task.get_batch_iterator = get_batch_iterator
    task.get_checkpoint_dict = get_checkpoint_dict


def _training_files(folders: list[str], split: str) -> list[Path]:
    """The binarised files of a split in all languages, folder by folder."""
    name = re.compile(rf"{re.escape(split)}\..*\.(bin|idx)")
    return [
        path
        for folder in folders
        for path in sorted(Path(folder).iterdir())
        if name.fullmatch(path.name)
    ]
