"""Reading checkpoints without running anything that is in them.

torch loads checkpoints with ``weights_only=True``. fairseq's hold a few harmless
classes beside tensors; they are named here, once. Whatever else a file contains
makes torch refuse it.
"""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path
from typing import Any

import torch

from gtrans.errors import GtransError


def register_safe_globals() -> None:
    """Allow the classes that fairseq's own trainer writes into checkpoints."""
    import _codecs
    import collections
    import typing

    import numpy as np
    import omegaconf
    from omegaconf import base, listconfig, nodes

    numeric = [np.float64, np.float32, np.int64, np.bool_]
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            # --eval-bleu and meters keep numpy scalars
            np.dtype,
            (np._core.multiarray.scalar, "numpy.core.multiarray.scalar"),
            np._core.multiarray.scalar,
            _codecs.encode,
            *numeric,
            *(type(np.dtype(kind)) for kind in numeric),
            # multi-process runs keep their options as omegaconf objects
            omegaconf.DictConfig,
            omegaconf.ListConfig,
            base.ContainerMetadata,
            base.Metadata,
            listconfig.ListConfig,
            nodes.AnyNode,
            nodes.BooleanNode,
            nodes.FloatNode,
            nodes.IntegerNode,
            nodes.StringNode,
            collections.defaultdict,
            collections.OrderedDict,
            typing.Any,
            dict,
            list,
            int,
            float,
            str,
            bool,
        ]
    )


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The dictionary in a checkpoint file, on the CPU.

    Raises:
        GtransError: the file is missing, no checkpoint, or holds anything that is
            neither data nor one of the harmless classes.
    """
    register_safe_globals()
    path = Path(path)
    if not path.is_file():
        raise GtransError(f"{path}: there is no such checkpoint.")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        unsafe = _unsafe_globals(path)
        found = f" ({', '.join(unsafe)})" if unsafe else ""
        raise GtransError(
            f"{path}: refused, because it holds more than tensors and options{found} and could "
            "run code when loaded."
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError, OSError) as error:
        raise GtransError(f"{path}: not a readable checkpoint ({_first_line(error)}).") from error
    if not isinstance(state, dict) or not isinstance(state.get("model"), dict):
        raise GtransError(f"{path}: not a fairseq checkpoint, it holds no model.")
    return state


def _unsafe_globals(path: Path) -> list[str]:
    try:
        return sorted(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except (RuntimeError, ValueError, pickle.UnpicklingError):
        return []


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
