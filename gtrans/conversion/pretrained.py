"""BART and mBART as fairseq saves them (``bart.large/model.pt``, ``mbart.cc25/model.pt``).

The file is ``{'args': argparse.Namespace, 'model': state dict, ..}``. Its vocabulary has the
symbols of ``dict.txt``, then ``[lang]`` for each of ``args.langs``, then ``<mask>``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.checkpoints.identity import ModelIdentity
from gtrans.checkpoints.reading import options_of, read_checkpoint
from gtrans.conversion.foreign_checkpoint import (
    ForeignCheckpoint,
    is_parameter,
    own_names,
    plain_options,
)
from gtrans.data.frame import pretrained_marks
from gtrans.data.symbols import split_languages
from gtrans.errors import GtransError

# Where the user can get the weights; nothing here downloads them.
DOWNLOADS = (
    "download https://dl.fbaipublicfiles.com/fairseq/models/mbart/mbart.cc25.v2.tar.gz (or "
    "https://dl.fbaipublicfiles.com/fairseq/models/bart.large.tar.gz) and unpack it there"
)
# Heads for classification, which BART's checkpoints may have in addition.
_OTHER_HEADS = "classification_heads."


def read_pretrained(path: Path) -> ForeignCheckpoint:
    """The checkpoint at ``path``.

    Raises:
        GtransError: it is missing, unreadable, or has no options.
    """
    if not path.is_file():
        raise GtransError(f"{path}: there is no such checkpoint; {DOWNLOADS}.")
    checkpoint = read_checkpoint(path)
    args = checkpoint.get("args")
    if args is None and isinstance(checkpoint.get("cfg"), dict):
        args = argparse.Namespace(**options_of(checkpoint, "model"))
    if not isinstance(args, argparse.Namespace):
        raise GtransError(f"{path}: not a checkpoint of fairseq's BART, it holds no options.")
    plain_options(args, path)
    original = checkpoint["model"]
    ignored = [
        name
        for name, entry in original.items()
        if not is_parameter(name, entry) or name.startswith(_OTHER_HEADS)
    ]
    langs = split_languages(getattr(args, "langs", None))
    # Fine-tuning as a translation model cuts the mask off, which is the last symbol of BART.
    task = options_of(checkpoint, "task").get("_name")
    fine_tuned = task is not None and "denoising" not in str(task)
    marks = pretrained_marks(vars(args))
    return ForeignCheckpoint(
        path,
        own_names({name: entry for name, entry in original.items() if name not in ignored}),
        args,
        list(original),
        ignored,
        langs,
        getattr(args, "source_lang", None),
        getattr(args, "target_lang", None),
        marks,
        "sentence",
        without_mask=fine_tuned and marks == "bart",
        identity=ModelIdentity.of_checkpoint(checkpoint, path),
    )
