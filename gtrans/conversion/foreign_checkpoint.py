"""A checkpoint of another program, in the form that conversion needs."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gtrans.checkpoints.identity import ModelIdentity
from gtrans.conversion.model_options import DECODER_TABLE, ENCODER_TABLE, OUTPUT
from gtrans.errors import GtransError
from gtrans.models.base.warm_start import rename


@dataclass
class ForeignCheckpoint:
    """A checkpoint of another program.

    Attributes:
        path: its path, for messages.
        state: its tensors, under their names in this project.
        args: its options, under the names of fairseq's Transformer.
        original: the names of all its entries.
        ignored: names of the entries that are not parameters of the model.
        langs: languages whose symbols follow the dictionary's own.
        source_lang, target_lang: languages that it translates from and to, if it names them.
        marks: the marks around sentences, see :class:`gtrans.data.frame.Frame`.
        unit: the unit that it was trained on.
        identity: what it was made from, if it says so: a model of fairseq's after
            ``gtrans trim-vocab`` does.
        without_mask: its embeddings may lack the mask.
        doc_mode: ``partial`` if the names of its tensors point to group attention, else ``full``.
    """

    path: Path
    state: dict[str, Tensor]
    args: argparse.Namespace
    original: list[str]
    ignored: list[str] = field(default_factory=list)
    langs: list[str] = field(default_factory=list)
    source_lang: str | None = None
    target_lang: str | None = None
    marks: str = "both"
    unit: str = "document"
    doc_mode: str = "full"
    identity: ModelIdentity | None = None
    without_mask: bool = False

    def add_mask(self, symbols: int) -> bool:
        """Give embeddings that may lack the mask, the last of ``symbols``, a row for it.

        It is the mean of all rows, so that the logit of the mask is the mean of all logits: its
        probability is at most that of a word on average, and the others hardly change.

        Returns:
            whether the mask was missing.
        """
        tables = [name for name in (ENCODER_TABLE, DECODER_TABLE, OUTPUT) if name in self.state]
        rows = {self.state[name].size(0) for name in tables}
        if not self.without_mask or rows != {symbols - 1}:
            return False
        for name in tables:
            table = self.state[name]
            mean = table.float().mean(0, keepdim=True).to(table.dtype)
            self.state[name] = torch.cat([table, mean])
        return True


# Options that conversion reads, by type.
_OPTIONS: dict[type, tuple[str, ...]] = {
    str: ("arch", "activation_fn", "doc_mode", "source_lang", "target_lang"),
    int: ("encoder_attention_heads", "decoder_attention_heads"),
    float: (
        *("dropout", "attention_dropout", "activation_dropout", "relu_dropout"),
        "label_smoothing",
    ),
}


def plain_options(args: argparse.Namespace, path: Path) -> argparse.Namespace:
    """The options ``args`` of another program, whose types are as they should be.

    Raises:
        GtransError: one has another type.
    """
    for kind, names in _OPTIONS.items():
        for name in names:
            value = getattr(args, name, None)
            fits = isinstance(value, int | float if kind is float else kind)
            if value is not None and (not fits or isinstance(value, bool)):
                raise GtransError(
                    f"{path}: its option {name} is a {type(value).__name__}, not a {kind.__name__}."
                )
    langs = getattr(args, "langs", None)
    if not isinstance(langs, str | None) and not (
        isinstance(langs, list | tuple) and all(isinstance(lang, str) for lang in langs)
    ):
        raise GtransError(f"{path}: its option langs is no list of languages.")
    return args


def is_parameter(name: str, entry: Any) -> bool:
    """Whether an entry of a state dict is a parameter of the model."""
    return isinstance(entry, Tensor) and bool(rename({name: entry}))


def own_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of fairseq's state dict under their names in this project.

    In older fairseq, an output projection is called ``embed_out``, and a shared one has no entry.
    """
    state = rename(state)
    if "decoder.embed_out" in state:
        state[OUTPUT] = state.pop("decoder.embed_out")
    if OUTPUT not in state and DECODER_TABLE in state:
        state[OUTPUT] = state[DECODER_TABLE]
    return state
