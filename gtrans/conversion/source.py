"""What a conversion reads, whatever the program that wrote it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gtrans.conversion.model_options import DECODER_TABLE, OUTPUT
from gtrans.models.base.warm_start import rename


@dataclass
class Source:
    """A foreign checkpoint.

    Attributes:
        path: for messages.
        state: its tensors, under their names here.
        args: its options, under the names that fairseq's Transformer has.
        original: the names of all its entries.
        ignored: those of them that have no meaning for the model.
        langs: languages that have a symbol behind the dictionary's own.
        source_lang, target_lang: what it translates, where it says so.
        marks: how its sentences are marked, see :class:`gtrans.data.frame.Frame`.
        unit: what it was trained on.
        doc_mode: whether its tensors have names of grouped attention.
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


def is_parameter(name: str, entry: Any) -> bool:
    """Whether an entry of a state dict is a parameter of the model."""
    return isinstance(entry, Tensor) and bool(rename({name: entry}))


def own_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict of fairseq's under their names here.

    Older fairseq calls an output projection that is not shared ``embed_out``; where it is
    shared, it has no entry at all.
    """
    state = rename(state)
    if "decoder.embed_out" in state:
        state[OUTPUT] = state.pop("decoder.embed_out")
    if OUTPUT not in state and DECODER_TABLE in state:
        state[OUTPUT] = state[DECODER_TABLE]
    return state
