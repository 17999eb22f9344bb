"""Checkpoints in the format of the authors' program, made from models of this one."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtrans.cli import main
from gtrans.data.vocabulary import add_language_tokens
from gtrans.models.gtransformer import GTransformer
from support import reference
from support.untrained import pair, untrained

# What the authors' program keeps in the options of a checkpoint besides the sizes.
ARGS: dict[str, Any] = {
    "langs": "en,de",
    "source_lang": "en",
    "target_lang": "de",
    "doc_mode": "partial",
    "arch": "gtransformer_base",
    "dropout": 0.3,
    "label_smoothing": 0.1,
}


SMALL: dict[str, Any] = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 24,
    "encoder_ffn_embed_dim": 40,
    "decoder_ffn_embed_dim": 56,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "share_all_embeddings": True,
}


def save_fixture(path: Path) -> Path:
    """The fixture's model as the authors' program would have saved it."""
    args = argparse.Namespace(
        **{**ARGS, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    )
    torch.save({"args": args, "model": reference.authors_weights()}, path)
    return path


def convert(data: Path, source: Path, target: Path, *more: str) -> int:
    files = (str(source), str(target))
    return main(["convert", "--from", "g-transformer", "--data", str(data), *more, *files])


def random_model(shape: dict[str, Any], source: Dictionary, target: Dictionary) -> GTransformer:
    """A model all of whose parameters, biases and norms included, are away from their start."""
    tops = dict.fromkeys((f"{side}_global_layers" for side in ("encoder", "decoder", "cross")), 2)
    model: GTransformer = untrained(pair(source, target), **{**SMALL, **tops, **shape}).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def authors_name(name: str) -> str:
    name = name.replace("_attn.global_attn.", "_attn_global.")
    name = name.replace("_attn.gate.proj.", "_attn_gate.0.")
    return re.sub(r"(self|encoder)_attn\.", r"\1_attn_local.", name)


def as_authors(model: GTransformer, shape: dict[str, Any], **args: Any) -> dict[str, Any]:
    """The checkpoint that the authors' program would have written of ``model``."""
    state: dict[str, Tensor] = {authors_name(n): p for n, p in model.state_dict().items()}
    for side in ("encoder", "decoder"):
        state[f"{side}.version"] = torch.tensor([3.0])
        state[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    told = ("heads", "activation_fn", "no_scale_embedding", "doc_mode")
    options = {n: v for n, v in {**SMALL, **shape}.items() if n.endswith(told)}
    return {"args": argparse.Namespace(**{**ARGS, **options, **args}), "model": state}


def dictionaries(corpus: Path) -> tuple[Dictionary, Dictionary]:
    found = [Dictionary.load(str(corpus / f"dict.{lang}.txt")) for lang in reference.LANGS]
    for dictionary in found:
        add_language_tokens(dictionary, len(dictionary), reference.LANGS)
    return found[0], found[1]


def checkpoint(corpus: Path, shape: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    shape = shape or {}
    return as_authors(random_model(shape, *dictionaries(corpus)), shape, **args)


def without(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda state: delattr(state["args"], name)


def with_(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda state: setattr(state["args"], name, value)
