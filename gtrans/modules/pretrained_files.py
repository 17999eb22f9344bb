"""Folders of pretrained models as Hugging Face saves them: their weights, checked, and their sizes.

No code in a folder is run, and no file outside of it is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints.reading import check_tensors, check_values, reading, told
from gtrans.errors import GtransError
from gtrans.libraries import require

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
           "pytorch_model.bin.index.json")  # fmt: skip
# Sizes in config.json -> the end of a tensor's name and the dimension that has this size.
_SIZES = {
    "vocab_size": ("embeddings.word_embeddings.weight", 0),
    "hidden_size": ("embeddings.word_embeddings.weight", 1),
    "max_position_embeddings": ("embeddings.position_embeddings.weight", 0),
    "type_vocab_size": ("embeddings.token_type_embeddings.weight", 0),
    "intermediate_size": ("encoder.layer.0.intermediate.dense.weight", 0),
}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a pretrained model.

    :mod:`gtrans.files` would refuse its numbers of 31 digits, which transformers
    writes for a length without limit.

    Raises:
        GtransError: it is not readable, or no object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise GtransError(f"{path}: not readable as JSON ({told(error)}).") from error
    if not isinstance(content, dict):
        raise GtransError(f"{path}: not an object of JSON.")
    return content


def refuse_code(folder: str | Path) -> None:
    """Refuse a folder whose configuration names code of its own; a name on the hub passes.

    Raises:
        GtransError: there is an ``auto_map``, or a file of the configuration is not readable.
    """
    for name in ("config.json", "tokenizer_config.json"):
        path = Path(folder, name)
        if path.is_file() and read_json(path).get("auto_map"):
            raise GtransError(
                f"{folder}: refused, because it brings code of its own (auto_map in {name}), which "
                "is never run; take a model that transformers itself knows, or remove auto_map if "
                "this is one."
            )


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors of the model in a folder, by name; empty if it has none of :data:`WEIGHTS`.

    Raises:
        GtransError: a file is missing or damaged, lies elsewhere, or holds something else than
            tensors of finite numbers; the library safetensors is missing.
    """
    path = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if path is None:
        return {}
    tensors: dict[str, Tensor] = {}
    for file in _shards(path) if path.suffix == ".json" else [path]:
        shard = _read_bin(file) if file.suffix == ".bin" else _read_safetensors(file)
        check_tensors(shard, file)
        check_values(shard, file)
        tensors.update(shard)
    return tensors


def check_sizes(config: Any, tensors: Mapping[str, Tensor], folder: str) -> None:
    """Compare the sizes in ``config.json`` of a BERT or XLM-R with its weights.

    Raises:
        GtransError: they differ, or are no sizes.
    """
    layers = {m[1] for name in tensors if (m := re.search(r"encoder\.layer\.(\d+)\.", name))}
    sizes: dict[str, int] = {"num_hidden_layers": len(layers)}
    for name, tensor in tensors.items():
        for option, (end, dimension) in _SIZES.items():
            if name.endswith(end) and tensor.dim() == 2:
                sizes[option] = tensor.size(dimension)
    for option, size in sizes.items():
        said = getattr(config, option, None)
        if said != size:
            raise GtransError(
                f"{folder}: its config.json says {option} {said}, but its weights have {size}."
            )
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int) or heads < 1:
        raise GtransError(f"{folder}: its config.json says num_attention_heads {heads}.")


def _shards(index: Path) -> list[Path]:
    """The files that an index names, all of them in its folder."""
    with reading(index, "its weight_map"):
        names = sorted(set(read_json(index)["weight_map"].values()))
        files = [index.parent / name for name in names]
    for name, file in zip(names, files, strict=True):
        if Path(name).name != name:
            raise GtransError(f"{index}: its file '{name}' is not in the folder of the index.")
        if not file.is_file():
            raise GtransError(f"{index}: its file '{name}' is missing; download it, too.")
    return files


def _read_bin(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no checkpoint fail in every possible way
        raise GtransError(f"{path}: refused or not readable ({told(error)}).") from error
    if not isinstance(state, dict):
        raise GtransError(f"{path}: holds no tensors by name.")
    return state


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    require(["safetensors"], f"{path}: reading it")
    from safetensors.torch import load_file

    try:
        return dict(load_file(path))
    except Exception as error:  # a header of wrong types fails in several ways
        raise GtransError(f"{path}: not readable as safetensors ({told(error)}).") from error
