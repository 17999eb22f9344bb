"""Checkpoints of the authors' G-Transformer.

Their file is ``{'args': argparse.Namespace, 'model': state dict}``. Its vocabulary has the
dictionary's own symbols, then ``[lang]`` for each of ``args.langs``, then ``<mask>``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.conversion.foreign_checkpoint import (
    ForeignCheckpoint,
    is_parameter,
    own_names,
    plain_options,
)
from gtrans.data.symbols import split_languages
from gtrans.errors import GtransError


def read_g_transformer(path: Path) -> ForeignCheckpoint:
    """The checkpoint at ``path``.

    Raises:
        GtransError: it is unreadable, of another program, or does not name its languages.
    """
    checkpoint = read_checkpoint(path)
    args = checkpoint.get("args")
    if not isinstance(args, argparse.Namespace):
        raise GtransError(
            f"{path}: not a checkpoint of the authors' G-Transformer, it holds no options "
            "('args') of fairseq 0.9."
        )
    plain_options(args, path)
    original = checkpoint["model"]
    ignored = [name for name, entry in original.items() if not is_parameter(name, entry)]
    langs = split_languages(getattr(args, "langs", None))
    source, target = (getattr(args, f"{side}_lang", None) for side in ("source", "target"))
    if not (source and target):
        if len(langs) != 2:
            raise GtransError(f"{path}: its options name no source and target language.")
        source, target = langs
    return ForeignCheckpoint(
        path,
        own_names({name: entry for name, entry in original.items() if name not in ignored}),
        args,
        list(original),
        ignored,
        langs or list(dict.fromkeys([source, target])),
        source,
        target,
        doc_mode="partial" if any("_attn_local." in name for name in original) else "full",
    )
