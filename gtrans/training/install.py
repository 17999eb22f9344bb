"""Puts this package's functions around fairseq's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fairseq import checkpoint_utils

from gtrans.training.run import load_checkpoint
from gtrans.training.saving import save_checkpoint
from gtrans.training.stock import concerned


def install() -> None:
    """Let fairseq load and save checkpoints of this project's runs through this package.

    To be called once in a process. Runs of other models are left as they are.
    """
    checkpoint_utils.load_checkpoint = _around(checkpoint_utils.load_checkpoint, load_checkpoint)
    checkpoint_utils.save_checkpoint = _around(checkpoint_utils.save_checkpoint, save_checkpoint)


def _around(original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def function(cfg: Any, trainer: Any, *further: Any, **named: Any) -> Any:
        if concerned(trainer):
            return ours(original, cfg, trainer, *further, **named)
        return original(cfg, trainer, *further, **named)

    return function
