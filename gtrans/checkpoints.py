"""Reading checkpoints without running any code that is in them.

Checkpoints are loaded with ``weights_only=True``, which accepts tensors and plain containers.
``fairseq-train`` writes nothing else. Older files, other tasks and fairseq's own exchange
between processes also contain a few harmless classes, which are listed here. torch refuses a
file that contains anything else.
"""

from __future__ import annotations

import argparse
import pickle
import re
import zipfile
from pathlib import Path
from typing import Any

import torch

from gtrans.errors import GtransError
from gtrans.identity.files import binary_writer


def register_safe_globals() -> None:
    """Allow the harmless classes that fairseq saves besides tensors and plain containers."""
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
            # its functions are listed, that of numpy 1 and that of numpy 2.
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
    """The dictionary in a checkpoint file, on the CPU.

    Args:
        path: the file.
        in_memory: False: a tensor is read when it is used, and the file must not change
            meanwhile; for those who only look at options and counters.

    Raises:
        UnreadableCheckpoint: the file is no checkpoint, or not a whole one.
        GtransError: the file is missing, or contains more than data and the harmless classes.
    """
    register_safe_globals()
    path = Path(path)
    if not path.is_file():
        raise GtransError(f"{path}: there is no such checkpoint.")
    # Only torch's format since 1.6 can be mapped into memory.
    mapped = not in_memory and zipfile.is_zipfile(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # bytes that are no checkpoint fail in every possible way
        found = _refused(path, error)
        if found:
            raise GtransError(
                f"{path}: refused, because it holds more than tensors and options "
                f"({', '.join(found)}) and could run code when loaded."
            ) from error
        raise UnreadableCheckpoint(
            f"{path}: not a readable checkpoint ({_first_line(error)})."
        ) from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise UnreadableCheckpoint(f"{path}: not a fairseq checkpoint, it holds no model.")
    return state


def write_checkpoint(state: dict[str, Any], target: Path) -> None:
    """Write a checkpoint as a whole or not at all.

    Raises:
        GtransError: it cannot be written.
    """
    with binary_writer(target) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:
            # torch closes its archive after a full disk, too, and reports only how that failed.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _refused(path: Path, error: Exception) -> list[str]:
    """The classes and functions for which torch refused ``path``; none if it is just broken."""
    if not isinstance(error, pickle.UnpicklingError):
        return []
    try:
        found = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    except Exception:  # only zip files, torch's own format since 1.6, can be searched
        found = []
    return sorted(found) or re.findall(r"GLOBAL (\S+)", str(error))[:1]


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
