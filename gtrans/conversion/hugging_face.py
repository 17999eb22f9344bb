"""BART, mBART and mBART-50 as Hugging Face saves them: a folder with ``config.json`` and weights.

The rows of the embeddings are in fairseq's order: the symbols of the dictionary, then (mBART)
the languages, then ``<mask>``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from torch import Tensor

from gtrans.conversion.foreign_checkpoint import ForeignCheckpoint, is_parameter, plain_options
from gtrans.conversion.languages import MBART25, MBART50
from gtrans.conversion.model_options import DECODER_TABLE, ENCODER_TABLE, OUTPUT
from gtrans.data.symbols import split_languages
from gtrans.errors import GtransError
from gtrans.modules.pretrained_files import WEIGHTS, read_json, read_weights

_SHARED = "shared.weight"
_HEAD, _BIAS = "lm_head.weight", "final_logits_bias"
_END = 2  # </s>
# Names in config.json -> those of fairseq's options.
_OPTIONS = {
    "encoder_attention_heads": "encoder_attention_heads",
    "decoder_attention_heads": "decoder_attention_heads",
    "activation_function": "activation_fn",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
}


def read_hugging_face(folder: Path) -> ForeignCheckpoint:
    """The model in ``folder``.

    Raises:
        GtransError: the folder or a file is missing, or the model is of another kind.
    """
    config = _config(folder)
    kind = config.get("model_type")
    if kind not in ("bart", "mbart"):
        raise GtransError(
            f"{folder / 'config.json'}: the model is of type '{kind}', not bart or mbart."
        )
    args = argparse.Namespace(
        **{ours: config[theirs] for theirs, ours in _OPTIONS.items() if theirs in config},
        no_scale_embedding=not config.get("scale_embedding", False),
    )
    plain_options(args, folder / "config.json")
    original = _weights(folder)
    state, ignored = _own_names(original, folder)
    marks, langs = "bart", ""
    if kind == "mbart":
        starts_with_end = config.get("decoder_start_token_id") == _END
        is_mbart50 = config.get("tokenizer_class") == "MBart50Tokenizer" or starts_with_end
        marks, langs = ("mbart50", MBART50) if is_mbart50 else ("mbart", MBART25)
    return ForeignCheckpoint(
        folder,
        state,
        args,
        list(original),
        ignored,
        split_languages(langs),
        marks=marks,
        unit="sentence",
    )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        raise GtransError(
            f"{path}: there is no such file; download config.json and model.safetensors of "
            f"facebook/mbart-large-cc25 (or another BART or mBART) from huggingface.co to {folder}."
        )
    return read_json(path)


def _weights(folder: Path) -> dict[str, Tensor]:
    tensors = read_weights(folder)
    if not tensors:
        raise GtransError(
            f"{folder}: there are no weights ({', '.join(WEIGHTS)}); download one of these files "
            "of the model from huggingface.co to it."
        )
    return tensors


def _own_names(
    original: dict[str, Tensor], folder: Path
) -> tuple[dict[str, Tensor], list[str]]:
    """The parameters under their names in this project, and the names of all other entries."""
    state: dict[str, Tensor] = {}
    ignored: list[str] = []
    named = {name.removeprefix("model."): name for name in original}
    for name, full in named.items():
        tensor = original[full]
        if not is_parameter(name, tensor) or (name == _BIAS and not bool(tensor.any())):
            ignored.append(full)
        elif name == _BIAS:
            raise GtransError(
                f"{folder}: it adds a bias to its output ({_BIAS}), which this model does not have."
            )
        elif name == _HEAD:
            state[OUTPUT] = tensor
        elif name != _SHARED:
            state[name] = tensor
    shared = original.get(named.get(_SHARED, ""))
    if shared is not None:
        for name in (ENCODER_TABLE, DECODER_TABLE, OUTPUT):
            state.setdefault(name, shared)
    elif OUTPUT not in state and DECODER_TABLE in state:
        state[OUTPUT] = state[DECODER_TABLE]
    return state, ignored
