"""Checks in front of fairseq's functions that load checkpoints, for all commands that use them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from gtrans.checkpoints.identity import ModelIdentity
from gtrans.checkpoints.reading import check_values, read_checkpoint, reading
from gtrans.errors import GtransError
from gtrans.models.base.checkpoint_fit import check_fit


def install() -> None:
    """Let fairseq load only checkpoints that are whole and describe themselves rightly.

    To be called once in a process.
    """
    checkpoint_utils.load_checkpoint_to_cpu = _checked(checkpoint_utils.load_checkpoint_to_cpu)
    checkpoint_utils.load_model_ensemble_and_task = _fitting(
        checkpoint_utils.load_model_ensemble_and_task
    )


def _checked(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def load_checkpoint_to_cpu(path: str, *further: Any, **named: Any) -> Any:
        local = PathManager.get_local_path(path)
        state = read_checkpoint(local, in_memory=False)
        check_values(state["model"], path)
        check_fit(state, path)
        ModelIdentity.of_state(state.get("task_state"), path)
        del state
        with reading(path, "the state of its training"):
            return original(path, *further, **named)

    return load_checkpoint_to_cpu


def _fitting(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def load_model_ensemble_and_task(
        filenames: Sequence[str], *further: Any, **named: Any
    ) -> Any:
        whole = not named.get("suffix") and named.get("num_shards", 1) == 1
        for path in filenames if whole else ():
            if not PathManager.exists(path):
                raise GtransError(f"{path}: there is no such checkpoint.")
            state = read_checkpoint(PathManager.get_local_path(path), in_memory=False)
            if state.get("args") is None and state.get("cfg") is None:
                raise GtransError(f"{path}: it does not say which model it holds.")
        try:
            found = original(filenames, *further, **named)
        except RuntimeError as error:
            if "loading state_dict" not in str(error):
                raise
            raise GtransError(
                f"{' and '.join(filenames)}: does not fit the dictionaries or the task; give the "
                f"data folder it was trained with ({_mismatch(error)})."
            ) from error
        for path, model in zip(filenames, found[0], strict=False):
            model.loaded_from = path  # for messages
        return found

    return load_model_ensemble_and_task


def _mismatch(error: RuntimeError) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if "mismatch" in line), lines[-1]).rstrip(".")
