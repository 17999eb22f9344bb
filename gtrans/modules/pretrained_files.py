"""Pretrained models as Hugging Face saves them: their weights, and the library that loads them.

No code in a folder is run, and no file outside of it is read.
"""

from __future__ import annotations

import importlib
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.environment import require
from gtrans.errors import GtransError
from gtrans.modules.file_values import check_storage, check_values, reading, reason_of

WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)


def transformers(feature: str) -> Any:
    """The library transformers, silent; GtransError, naming ``feature``, if it is missing."""
    require(["transformers"], feature)
    library: Any = importlib.import_module("transformers")
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


@contextmanager
def loading(name: str, what: str) -> Iterator[None]:
    """Report any error of transformers in loading ``what`` of ``name`` in one line."""
    try:
        yield
    except Exception as error:
        raise GtransError(
            f"{name}: cannot load {what} ({reason_of(error)}); save it with save_pretrained of "
            "transformers, or name a model on the hub."
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a pretrained model; GtransError if it is damaged.

    :mod:`gtrans.files` would reject transformers' numbers of 31 digits, for a length without limit.
    """
    with reading(path, "its JSON"):
        content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise GtransError(f"{path}: not an object of JSON.")
    return content


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of the model in a folder, by name; empty if it has none of :data:`WEIGHTS`.

    Raises:
        GtransError: a file is missing or damaged, or not only tensors of finite numbers.
    """
    path = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if path is None:
        return {}
    files, names = [path], set[str]()
    if path.suffix == ".json":
        with reading(path, "its weight_map"):
            index = dict(read_json(path)["weight_map"])
            # Whatever an index says, its files are beside it.
            files = [folder / Path(name).name for name in sorted(set(index.values()))]
            names = set(index)
    tensors: dict[str, Tensor] = {}
    for file in files:
        if not file.is_file():
            raise GtransError(f"{path}: its file '{file.name}' is missing; download it, too.")
        tensors.update(_read(file))
    missing = sorted(names - set(tensors))
    if missing:
        raise GtransError(f"{path}: its files lack {missing[0]}; download all of them anew.")
    return tensors


def _read(path: Path) -> dict[str, Tensor]:
    require(["safetensors"], f"{path}: reading it")
    from safetensors.torch import load_file

    with reading(path, f"its {path.suffix.removeprefix('.')} content"):
        if path.suffix == ".bin":
            try:
                tensors = torch.load(path, map_location="cpu", weights_only=True)
            except pickle.UnpicklingError as error:  # torch's words say how to switch this off
                raise GtransError(
                    f"{path}: refused or not readable; it may hold more than tensors."
                ) from error
        else:
            tensors = load_file(path)
        check_storage(tensors, path)
        check_values(tensors, path)
    return dict(tensors)
