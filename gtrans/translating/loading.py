"""Trained models from checkpoints."""

from __future__ import annotations

import platform
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import merge_with_parent
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from gtrans.checkpoints.fingerprint import ModelFingerprint
from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.environment import import_plugin
from gtrans.errors import GtransError
from gtrans.messages import print_message
from gtrans.modules.file_values import reading
from gtrans.modules.precision import to_int8
from gtrans.text.prepared_folder import check_data_folder

TASK = "document_translation"
# Options that say which model a checkpoint holds; none can be changed.
_MODEL_CHOICES = {"_name", "arch", "task", "criterion", "optimizer", "lr_scheduler"}


def decoding_device(cpu: bool = False, fp16: bool = False) -> torch.device:
    """Return CUDA if there is one, unless ``cpu``; raise GtransError for fp16 on a CPU."""
    device = torch.device("cuda" if torch.cuda.is_available() and not cpu else "cpu")
    if fp16 and device.type == "cpu":
        raise GtransError("`--fp16` needs a CUDA device; leave it out.")
    return device


def load_models(
    paths: Sequence[str],
    data: str | None,
    overrides: Mapping[str, Any] | None = None,
    cpu: bool = False,
    fp16: bool = False,
    bf16: bool = False,
    int8: bool = False,
) -> tuple[list[Any], Any]:
    """Return models in evaluation mode on their device, and their task.

    Args:
        paths: checkpoints; several are an ensemble.
        data: the folder of their training; None: the first checkpoint describes it.
        overrides: new values of options in the checkpoints.
        int8: 8-bit weights, on a CPU.

    Raises:
        GtransError: a checkpoint is missing, unsafe, or of another task, data or model.
    """
    refuse_folders(paths)
    device = decoding_device(cpu, fp16)
    _check_precision(device, fp16, bf16, int8)
    import_plugin()
    if data is not None:
        check_data_folder(Path(data))
    states = {path: read_checkpoint(path, in_memory=False) for path in paths}
    options = dict(overrides or {})
    stored = None
    if data is None:
        stored = stored_fingerprint(states[paths[0]], paths[0])
    else:
        options["data"] = data
    task: Any = None
    models: list[Any] = []
    for path in paths:
        if stored is None or path != paths[0]:
            ModelFingerprint.of_state(states[path].get("task_state"), path)  # raises if damaged
        _check_task(states[path], path, data)
        with _misfits(path, overrides):
            if stored is not None and task is None:
                task = _task_of(states[path], stored, options)
            (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
                [path], arg_overrides=options, task=task
            )
        model.loaded_from = path  # for messages
        models.append(model)
    kind = str(task.cfg.context_kind)
    if "context_sentence" in options and kind != "fixed":
        raise GtransError(
            f"`--context-sentence` is for `--context-kind fixed`, but the context kind is {kind}; "
            "give that, too, or leave it out."
        )
    for model in models:
        model.eval()
        if fp16:
            model.half()
        elif bf16:
            model.bfloat16()
        elif int8:
            to_int8(model)
        model.to(device)
    return models, task


def _check_precision(device: torch.device, fp16: bool, bf16: bool, int8: bool) -> None:
    if [fp16, bf16, int8].count(True) > 1:
        raise GtransError("give only one of `--fp16`, `--bf16` and `--int8`.")
    if int8 and device.type != "cpu":
        raise GtransError("`--int8` is for CPUs; give `--cpu`, too, or `--bf16` instead.")
    if bf16 and device.type == "cpu" and not _has_bf16_products():
        print_message("`--bf16` does not help here: this processor has no products in bfloat16")


@contextmanager
def _misfits(path: str, overrides: Mapping[str, Any] | None) -> Iterator[None]:
    try:
        with reading(path, "the model that its options describe"):
            yield
    except GtransError as error:
        if overrides and isinstance(error.__cause__, OmegaConfBaseException):
            reason = str(error.__cause__).splitlines()[0]
            raise GtransError(f"`--model-overrides`: {reason}") from None
        raise


def _task_of(
    state: Mapping[str, Any], stored: ModelFingerprint, overrides: Mapping[str, Any]
) -> Any:
    options = options_of(state, "task")
    for name, value in overrides.items():
        if name in options:
            options[name] = value
    typed = TASK_DATACLASS_REGISTRY[TASK]()
    cfg = merge_with_parent(typed, OmegaConf.create(options), remove_missing=True)
    return TASK_REGISTRY[TASK].of_checkpoint(cfg, stored)


def set_chunks(task: Any, max_doc_tokens: int | None, overlap: int) -> None:
    """Let a task cut documents otherwise than in training.

    ``max_doc_tokens``: None: as in training; ``overlap``: sentences shared with the chunk before.
    """
    with open_dict(task.cfg):
        task.cfg.overlap = overlap
        if max_doc_tokens is not None:
            task.cfg.max_doc_tokens = max_doc_tokens
            unit = task.examples.unit
            if "max_doc_tokens" not in unit.as_dict():
                print_message(
                    f"`--max-doc-tokens` has no effect: the model sees the unit {unit.name}"
                )


def _has_bf16_products() -> bool:
    """Return False for an x86 processor that torch knows to lack products in bfloat16."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    supports = getattr(torch.cpu, "_is_avx512_bf16_supported", None)  # not in every version
    return supports is None or bool(supports())


def refuse_folders(paths: Iterable[str]) -> None:
    """Raise GtransError for a folder in the place of a checkpoint."""
    for path in map(Path, paths):
        if path.is_dir():
            best = path / "checkpoint_best.pt"
            files = [best] if best.is_file() else sorted(path.glob("*.pt"))
            way_out = f"give '{files[-1]}'" if files else "it holds none (*.pt); give a file"
            raise GtransError(f"`--path` '{path}' is a folder, not a checkpoint; {way_out}.")


def stored_fingerprint(state: Mapping[str, Any], path: str) -> ModelFingerprint:
    """Return a checkpoint's fingerprint; raise GtransError without it or its preparation."""
    fingerprint = ModelFingerprint.of_checkpoint(state, path)
    if fingerprint is None:
        raise GtransError(
            f"{path}: no fingerprint: it does not store its vocabulary and preparation; give the "
            "folder it was trained with (`--data`)."
        )
    if fingerprint.preparation is None:
        raise GtransError(
            f"{path}: it stores no preparation, because `gtrans prepare` did not make its data "
            "folder; make one with its `--bpe-codes` and `--dictionary`, and give it (`--data`)."
        )
    return fingerprint


def check_described(state: Mapping[str, Any], path: str | Path) -> None:
    """Raise GtransError for a checkpoint without options, or of this task with wrong ones.

    Call :func:`import_plugin` before.
    """
    if state.get("args") is None and not state.get("cfg"):
        raise GtransError(f"{path}: it does not say which model it holds (no cfg, no args).")
    task, model = (options_of(state, group) for group in ("task", "model"))
    if task.get("_name") != TASK:
        return
    if str(model.get("_name")) not in {*ARCH_MODEL_REGISTRY, *MODEL_REGISTRY}:
        raise GtransError(f"{path}: this version knows no model '{model.get('_name')}'.")
    with reading(path, "the options of its task"):
        typed = OmegaConf.structured(TASK_DATACLASS_REGISTRY[TASK])
        known = {name: value for name, value in task.items() if name in typed}
        OmegaConf.merge(typed, known)


def check_overrides(path: str, overrides: Mapping[str, Any]) -> None:
    """Raise GtransError for overrides of unknown options, or of ``arch`` and the like."""
    if not overrides:
        return
    refuse_folders([path])
    import_plugin()
    state = read_checkpoint(path, in_memory=False)
    names = set(vars(state.get("args") or Namespace()))
    for group in (state.get("cfg") or {}).values():
        if isinstance(group, (Mapping, DictConfig)):
            names.update(map(str, group))
    # Options may be younger than the checkpoint.
    model = str(options_of(state, "model").get("_name"))
    for typed in (TASK_DATACLASS_REGISTRY[TASK], MODEL_DATACLASS_REGISTRY.get(model)):
        if typed is not None:
            names.update(field.name for field in fields(typed))
    for name in overrides:
        if name not in names or name in _MODEL_CHOICES:
            raise GtransError(
                f"`--model-overrides`: {path} has no option '{name}' that can be changed; names "
                "are those of its options with underscores, such as max_doc_tokens."
            )


def _check_task(state: Mapping[str, Any], path: str, folder: str | None) -> None:
    check_described(state, path)
    task = options_of(state, "task")
    if task.get("_name") != TASK:
        name = task.get("_name")
        raise GtransError(
            f"{path}: {f'its task is {name!r}' if name else 'it names no task'}, not {TASK}; a "
            "document model can be started from it (`gtrans train --init-from`)."
        )
    if folder is None:
        return
    pair = [task.get("source_lang"), task.get("target_lang")]
    for lang in pair:
        if lang and not (Path(folder) / f"dict.{lang}.txt").is_file():
            raise GtransError(
                f"{path}: translates {pair[0]}-{pair[1]}, but '{folder}' has no dict.{lang}.txt; "
                "give the folder it was trained with."
            )
