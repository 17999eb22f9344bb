"""Relative paths under ``fairseq-hydra-train``, which changes into a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict

from gtrans.train.folder import LAST

# Options that name a file or folder, by group; save_dir is meant to lie in hydra's folder.
_PATHS = {
    "task": ("data", "bert_cache", "init_from", "init_dict"),
    "model": ("init_xlmr",),
    "checkpoint": ("restore_file", "finetune_from_model"),
}
_SEVERAL = ("data", "init_dict")  # joined by ":"
_RECORD = Path(".hydra", "hydra.yaml")


def started_in(root: Any) -> Path | None:
    """The folder in which the user has started hydra; None if hydra has not.

    Args:
        root: all options of fairseq's command.
    """
    if HydraConfig.initialized():
        return Path(HydraConfig.get().runtime.cwd)
    # fairseq leaves this entry to the processes that it starts.
    if root.get("job_logging_cfg") is None or not _RECORD.is_file():
        return None
    record = yaml.safe_load(_RECORD.read_text(encoding="utf-8"))
    return Path(record["hydra"]["runtime"]["cwd"])


def resolve_paths(task: Any, root: Any) -> None:
    """Let relative paths begin in the folder in which the user has started hydra.

    Addresses such as ``s3://..`` stay as they are.

    Args:
        task: options of the task, which fairseq has copied from those in ``root``.
        root: all options of fairseq's command.
    """
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
