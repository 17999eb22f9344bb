"""Checkpoint files to be written by conversions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from torch import Tensor

from gtrans.files import CHECKPOINT, check_output
from gtrans.text.prepared_folder import prepared_files


def check_target(source: Path, target: Path, data: Path | None = None) -> None:
    """Refuse a checkpoint to write that cannot be written, or is a file that is read.

    Args:
        source: checkpoint, or folder of one.
        target: the file to write.
        data: folder of the dictionaries.

    Raises:
        GtransError: see :func:`gtrans.files.check_output`.
    """
    inputs = list(source.iterdir()) if source.is_dir() else [source]
    inputs += prepared_files(data) if data is not None else []
    check_output("OUT.pt", target, inputs, writes=CHECKPOINT)


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
