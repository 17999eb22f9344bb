"""Paths under ``fairseq-hydra-train``, where hydra changes into a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict

from gtrans.train.folder import LAST

# Options that name a file or folder, by section.
# checkpoint.save_dir is fairseq's own: it lies in hydra's folder.
_PATHS = {
    "task": ("data", "bert_cache", "init_from", "init_dict"),
    "model": ("init_xlmr",),
    "checkpoint": ("restore_file", "finetune_from_model"),
}
_SEVERAL = ("data", "init_dict")  # joined by ":"


def original_folder(root: Any) -> Path | None:
    """The folder in which the user has started hydra; None if hydra has not.

    Args:
        root: all options of fairseq's command.
    """
    if HydraConfig.initialized():
        return Path(HydraConfig.get().runtime.cwd)
    # fairseq leaves this in the options of the workers that it starts.
    if root is None or root.get("job_logging_cfg") is None:
        return None
    record = Path(".hydra", "hydra.yaml")
    if not record.is_file():
        return None
    return Path(yaml.safe_load(record.read_text(encoding="utf-8"))["hydra"]["runtime"]["cwd"])


def resolve_paths(task: Any, root: Any) -> None:
    """Make paths in options mean what the user meant.

    Under hydra a relative path is one from the folder in which the user has started it. Addresses
    (``s3://..``), which fairseq may be able to read, stay as they are.

    Args:
        task: options of the task; fairseq has made them from a copy of those in ``root``.
        root: all options of fairseq's command; None: they are not known.
    """
    folder = original_folder(root)
    if folder is None:
        return
    for section, names in _PATHS.items():
        found: list[Any] = [root.get(section), *([task] if section == "task" else [])]
        for options in found:
            for name in names:
                value = None if options is None else options.get(name)
                if value and value != LAST and "://" not in str(value):
                    parts = str(value).split(os.pathsep) if name in _SEVERAL else [str(value)]
                    with open_dict(options):
                        options[name] = os.pathsep.join(
                            str(folder / part) for part in parts if part
                        )
