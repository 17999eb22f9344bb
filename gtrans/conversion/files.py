"""Checkpoint files to be written by conversions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor

from gtrans.errors import GtransError


def check_target(source: Path, target: Path) -> None:
    """Raises GtransError for a ``target`` that cannot be written."""
    if target.exists() and source.exists() and os.path.samefile(source, target):
        raise GtransError(f"{target}: input and output are the same file; name another output.")
    if not target.parent.is_dir():
        raise GtransError(f"{target}: there is no folder {target.parent}; make it first.")
    if target.is_dir():
        raise GtransError(f"{target}: this is a folder; name a file in it.")


def as_fairseq_checkpoint(
    root: Any, state: dict[str, Tensor], task_state: dict[str, Any]
) -> dict[str, Any]:
    """The checkpoint as fairseq's trainer writes it at update 0.

    Args:
        root: all options.
        state: parameters.
        task_state: what the checkpoint carries of its task.
    """
    return {
        "args": None,
        "cfg": OmegaConf.to_container(root, resolve=True, enum_to_str=True),
        "model": state,
        "criterion": None,
        # fairseq reads the last entry of this history even with --reset-optimizer.
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {},
                "num_updates": 0,
            }
        ],
        "task_state": task_state,
        "extra_state": {
            "train_iterator": {
                "epoch": 1,
                "iterations_in_epoch": 0,
                "shuffle": True,
                "version": 2,
            },
            "previous_training_time": 0.0,
        },
    }
