"""Reading checkpoints without running any code in them (``weights_only=True``)."""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.errors import GtransError
from gtrans.files import binary_writer
from gtrans.modules.file_values import check_storage, check_values, reading, reason_of


def register_safe_globals() -> None:
    """Allow the harmless classes that fairseq saves in checkpoints."""
    import collections

    import numpy as np
    from fairseq.distributed.utils import _TensorPlaceholder
    from numpy._core import multiarray
    from omegaconf import AnyNode, DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata

    numbers = (np.bool_, np.int32, np.int64, np.float32, np.float64)
    torch.serialization.add_safe_globals(
        [
            # The options in checkpoints of fairseq before 0.10.
            argparse.Namespace,
            # Meters of validation with BLEU hold numbers and arrays of numpy. Both names of
            # its functions are listed, for numpy 1 and for numpy 2.
            np.dtype,
            np.ndarray,
            *(type(np.dtype(number)) for number in numbers),
            *(
                (function, f"{module}.multiarray.{function.__name__}")
                for function in (multiarray.scalar, multiarray._reconstruct)
                for module in ("numpy.core", "numpy._core")
            ),
            # When a run of several processes is resumed, the first one reads the checkpoint
            # and hands it to the others as a pickle, its options as omegaconf objects.
            _TensorPlaceholder,
            DictConfig,
            ListConfig,
            AnyNode,
            ContainerMetadata,
            Metadata,
            collections.defaultdict,
            Any,
            dict,
            list,
            int,
        ]
    )


class UnreadableCheckpoint(GtransError):
    """A file that is no checkpoint, or only the beginning of one."""


def read_checkpoint(path: str | Path, in_memory: bool = True) -> dict[str, Any]:
    """Return the dictionary in a checkpoint file, on the CPU.

    ``in_memory=False``: tensors are read when they are used and not checked to be finite.

    Raises:
        UnreadableCheckpoint: the file is no checkpoint, or not a whole one.
        GtransError: it is missing, unsafe or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise GtransError(f"{path}: there is no such checkpoint.")
    state = _checked(load_tensors(path, in_memory), path)
    if in_memory:
        check_values(state["model"], path)
    return state


_intact: set[tuple[int, int, int, int]] = set()


def load_tensors(path: Path, in_memory: bool = True) -> Any:
    """Return what ``torch.save`` wrote; raise as :func:`read_checkpoint`."""
    register_safe_globals()
    # Only torch's format since 1.6 can be mapped into memory.
    zipped = zipfile.is_zipfile(path)
    try:
        if zipped:
            _check_archive(path)
        with warnings.catch_warnings(), open(path, "rb") as file:
            warnings.simplefilter("ignore")  # about kinds of tensors that are refused below
            if zipped and not in_memory and _is_utf8(path):
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            return torch.load(file, map_location="cpu", weights_only=True)
    except GtransError:
        raise
    except Exception as error:  # bytes that are no checkpoint fail in every possible way
        names = _refused(path, error)
        if names:
            raise GtransError(
                f"{path}: refused, because it holds more than tensors and options "
                f"({', '.join(names)}) and could run code when loaded."
            ) from error
        # torch's own message advises to switch its check off.
        reason = re.search(r"WeightsUnpickler error: (.*)", str(error))
        why = reason[1].strip().rstrip(".") if reason else reason_of(error)
        why = why or "torch.save has not written it"
        raise UnreadableCheckpoint(f"{path}: not a readable checkpoint ({why}).") from error


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_archive(path: Path) -> None:
    """Compare the parts of a checkpoint with their checksums, which torch does not."""
    status = path.stat()
    version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    if version in _intact:
        return
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise UnreadableCheckpoint(
            f"{path}: damaged, the checksum of its part {damaged!r} is wrong; copy it anew from "
            "where it was made."
        )
    _intact.add(version)


def _checked(state: Any, path: Path) -> dict[str, Any]:
    from omegaconf import DictConfig, OmegaConf

    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UnreadableCheckpoint(f"{path}: not a fairseq checkpoint, it holds no model.")
    if isinstance(state.get("cfg"), DictConfig):  # of fairseq before its release 0.10
        with reading(path, "cfg"):
            state["cfg"] = OmegaConf.to_container(state["cfg"], resolve=True, enum_to_str=True)
    if not _has_expected_types(state):
        raise GtransError(f"{path}: its contents are damaged; take another checkpoint.")
    check_storage(state["model"], path)
    return state


def _has_expected_types(state: Mapping[str, Any]) -> bool:
    cfg = state.get("cfg")
    if not isinstance(cfg, Mapping | None):
        return False
    if not isinstance(state.get("task_state"), Mapping | None):
        return False
    if not isinstance(state.get("args"), argparse.Namespace | None):
        return False
    for name, group in (cfg or {}).items():
        if name != "_name" and not isinstance(group, Mapping | argparse.Namespace | None):
            return False
    return all(isinstance(tensor, Tensor) for tensor in state["model"].values())


def write_checkpoint(state: dict[str, Any], target: Path) -> None:
    """Write a checkpoint as a whole or not at all."""
    with binary_writer(target) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            # torch closes its archive after a full disk, too, and reports only how that failed.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _refused(path: Path, error: Exception) -> list[str]:
    """Return the classes and functions for which torch refused a file."""
    if not isinstance(error, pickle.UnpicklingError):
        return []
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # only zip files, torch's own format since 1.6, can be searched
        names = []
    return sorted(names) or re.findall(r"GLOBAL (\S+)", str(error))[:1]


def check_shapes(
    state: Mapping[str, Tensor], own: Mapping[str, Tensor], path: str | Path = "it"
) -> None:
    """Raise GtransError unless ``state`` has the names and shapes of ``own``, and its floats."""
    unknown = [name for name in state if name not in own]
    if unknown:
        raise GtransError(f"{path}: this model does not have {_first_names(unknown)}.")
    missing = [name for name in own if name not in state]
    if missing:
        raise GtransError(f"{path}: it lacks {_first_names(missing)}.")
    for name, tensor in own.items():
        stored = state[name]
        if stored.shape != tensor.shape:
            raise GtransError(
                f"{path}: {name} has the shape {tuple(stored.shape)}, but the model "
                f"needs {tuple(tensor.shape)}."
            )
        if stored.is_floating_point() != tensor.is_floating_point():
            raise GtransError(
                f"{path}: {name} has the type {stored.dtype}, but should have {tensor.dtype}."
            )


def _first_names(names: Sequence[str]) -> str:
    rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{rest}"


def options_of(state: Mapping[str, Any], group: str) -> dict[str, Any]:
    """Return a group of options, such as ``task`` or ``model``; empty if there is none.

    Older fairseq had all options in one namespace; ``_name`` is added to it.
    """
    cfg, args = state.get("cfg"), state.get("args")
    options = (cfg or {}).get(group)
    if options is not None:
        return dict(options) if isinstance(options, Mapping) else dict(vars(options))
    if args is None:
        return {}
    name = "arch" if group == "model" else group
    return {**vars(args), "_name": getattr(args, name, None)}
