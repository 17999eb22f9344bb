"""Checkpoints that hold no code, but what no model and no training has."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch

State = dict[str, Any]
Damage = Callable[[State], object]

TABLE = "encoder.embed_tokens.weight"


def parameter(value: Callable[[torch.Tensor], object], name: str = TABLE) -> Damage:
    """Another value for one parameter, made from the right one."""
    return lambda state: state["model"].update({name: value(state["model"][name])})


def entry(name: str, value: object) -> Damage:
    """Another value for an entry of the file, such as ``cfg`` or ``cfg.model``."""

    def change(state: State) -> None:
        *groups, last = name.split(".")
        for group in groups:
            state = state[group]
        state[last] = value

    return change


def size(name: str, value: object) -> Damage:
    """Another value for an option of the model."""
    return entry(f"cfg.model.{name}", value)


def _filled(value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(right: torch.Tensor) -> torch.Tensor:
        wrong = right.clone()
        wrong[3, 1] = value
        return wrong

    return change


# What every command refuses that reads checkpoints, and a part of its message.
CONTENTS: dict[str, tuple[Damage, str]] = {
    "model a list": (entry("model", [1, 2]), "holds no model"),
    "a number": (parameter(lambda _: 7), "no array of numbers but a int"),
    "nothing": (parameter(lambda _: None), "no array of numbers but a NoneType"),
    "a huge integer": (parameter(lambda _: 10**5000), "not a readable checkpoint"),
    "nested": (parameter(lambda right: {"weight": right}), "no array of numbers but a dict"),
    "sparse": (parameter(lambda right: right.to_sparse()), "no array of numbers but a Tensor"),
    "a giant of one number": (
        parameter(lambda _: torch.zeros(1).expand(2**30, 2**12)), "no array of numbers"
    ),
    "not a number": (parameter(_filled(float("nan"))), f"{TABLE} holds NaN"),
    "infinite": (parameter(_filled(float("-inf"))), f"{TABLE} holds NaN or infinite"),
    "a name that is a number": (
        lambda state: state["model"].update({3: torch.ones(2)}), "its parameter 3"
    ),
    "cfg a list": (entry("cfg", ["model"]), "its options are damaged"),
    "cfg.model a text": (entry("cfg.model", "x"), "its options are damaged"),
    "args a list": (entry("args", ["x"]), "its options are damaged"),
    "an environment variable": (
        entry("cfg.task.data", "${oc.env:HOME}"), "stands for another value"
    ),
    "task_state a list": (entry("task_state", [1]), "its task_state is damaged"),
    "identity a list": (entry("task_state.identity", [1]), "its identity is damaged"),
    "identity without vocabulary": (
        entry("task_state.identity.source", None), "its identity is damaged"
    ),
    "words that are no text": (
        entry("task_state.identity.source.words", [1, 2]), "'words' is not text"
    ),
    "a vocabulary of another size": (
        entry("task_state.identity.source.added", ["x"] * 9), "symbols"
    ),
    "languages that leave a folder": (
        entry("task_state.identity.languages", ["../../x", "de"]), "its identity is damaged"
    ),
}  # fmt: skip

# What a command refuses that builds the model of a checkpoint.
MODELS: dict[str, tuple[Damage, str]] = {
    "no options": (lambda state: state.update(cfg=None, args=None), "which model"),
    "no model": (entry("cfg.model", None), "knows no model"),
    "an unknown model": (size("_name", "transformer_of_mars"), "knows no model"),
    "an unknown unit": (entry("cfg.task.unit", "paragraph"), "paragraph"),
    "an unknown unit of the model": (size("unit", "paragraph"), "paragraph"),
    "an option of another type": (entry("cfg.task.max_doc_tokens", "many"), "many"),
    "width 10^9": (size("encoder_embed_dim", 10**9), "encoder_embed_dim is 1000000000"),
    "feed-forward 10^9": (size("encoder_ffn_embed_dim", 10**9), "encoder_ffn_embed_dim is 10"),
    "layers 10^9": (size("decoder_layers", 10**9), "decoder_layers is 1000000000"),
    "layers in words": (size("decoder_layers", "1000000000"), "decoder_layers is 1000000000"),
    "top layers 10^9": (size("cross_global_layers", 10**9), "cross_global_layers is 10"),
    "heads 10^9": (size("encoder_attention_heads", 10**9), "must divide"),
    "positions 10^9": (
        lambda state: state["cfg"]["model"].update(learned_positions=True, max_positions=10**9),
        "it lacks encoder.embed_positions.weight",
    ),
    "a width in words": (size("encoder_embed_dim", "wide"), "wide"),
    "a width of 0": (size("encoder_embed_dim", 0), "must be at least 1, but is 0"),
    "a width below 0": (size("encoder_ffn_embed_dim", -8), "must be at least 1, but is -8"),
    "another shape": (
        parameter(lambda right: right[:1], "encoder.layers.0.fc1.weight"), "has the shape (1, "
    ),
    "integers": (
        parameter(lambda right: right.long(), "encoder.layers.0.fc1.weight"), "the type torch.int64"
    ),
    "a parameter too few": (
        lambda state: state["model"].pop("decoder.layers.1.fc2.bias"), "it lacks"
    ),
    "a parameter too many": (
        lambda state: state["model"].update({"encoder.x": torch.ones(2)}), "does not have encoder.x"
    ),
}  # fmt: skip


def damaged(state: State, damage: Damage) -> State:
    """``state`` with a damage."""
    damage(state)
    return state


AUTHORS: dict[str, tuple[Callable[[Namespace], object], str]] = {
    "langs a number": (lambda args: setattr(args, "langs", 5), "langs"),
    "a language of a list": (lambda args: setattr(args, "source_lang", ["en"]), "source_lang"),
    "heads a word": (lambda args: setattr(args, "encoder_attention_heads", "x"), "not a int"),
    "heads 10^9": (lambda args: setattr(args, "encoder_attention_heads", 10**9), "must divide"),
    "heads 0": (lambda args: setattr(args, "decoder_attention_heads", 0), "must divide"),
    "dropout a list": (lambda args: setattr(args, "dropout", [0.1]), "dropout is a list"),
    "activation a list": (lambda args: setattr(args, "activation_fn", ["x"]), "activation_fn"),
    "arch a number": (lambda args: setattr(args, "arch", 3), "arch is a int"),
    "smoothing a word": (lambda args: setattr(args, "label_smoothing", "x"), "label_smoothing"),
}
