"""A pretrained model without the pieces that a corpus does not use.

Of the 250,000 pieces of mBART a corpus of two languages uses a tenth; the others cost
memory for their embeddings, their gradients, Adam's two moments and their logits. Kept are
the special symbols, the language symbols, the mask, every piece that stands in the binarised
corpus, and the single characters those pieces are made of, so that later text in the same
alphabets can always be segmented. All kept rows are those of the model, so logits of kept
pieces are the same; their softmax is over fewer pieces.

SentencePiece's model is copied as it is. Text that is prepared with the new dictionary is
segmented without the pieces that are gone
(:class:`gtrans.text.sentencepiece_pipeline.SentencePiecePipeline`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor

from gtrans.checkpoints import read_checkpoint, write_checkpoint
from gtrans.conversion.files import check_target
from gtrans.conversion.model_options import DECODER_TABLE, ENCODER_TABLE, OUTPUT
from gtrans.data.symbols import split_languages
from gtrans.errors import GtransError
from gtrans.identity.files import copy_file
from gtrans.tasks.options import read_dictionary
from gtrans.text.prepared_folder import read_state
from gtrans.text.sentencepiece_pipeline import MODEL_FILE, SENTENCEPIECE, SPACE
from gtrans.text.subword_model import write_pieces

CHECKPOINT_FILE, DICTIONARY_FILE, SENTENCEPIECE_FILE = (
    "model.pt", "dict.txt", "sentence.bpe.model"
)  # fmt: skip


@dataclass(frozen=True)
class Trimmed:
    """What trimming has kept: pieces before and after, and parameters before and after."""

    pieces: tuple[int, int]
    parameters: tuple[int, int]


def trim(checkpoint: Path, data: Path, out: Path, splits: Sequence[str]) -> Trimmed:
    """Write ``model.pt``, ``dict.txt`` and ``sentence.bpe.model`` into ``out``.

    Args:
        checkpoint: BART or mBART as fairseq saves it, or a checkpoint of this project.
        data: folder of ``gtrans prepare --sentencepiece`` with the model's own dictionary.
        out: folder to write; it is made.
        splits: the splits of ``data`` whose pieces are kept.

    Raises:
        GtransError: files that are missing, a vocabulary that is not the data's, embeddings
            that are not shared.
    """
    state = read_state(data)
    if state.get("pieces") != SENTENCEPIECE.name:
        raise GtransError(f"`--data` '{data}' was not prepared with `--sentencepiece`.")
    languages = str(state["source_lang"]), str(state["target_lang"])
    dictionary = read_dictionary(str(data), languages[0])
    loaded = read_checkpoint(checkpoint)
    tensors: dict[str, Any] = loaded["model"]
    rows = tensors[ENCODER_TABLE].size(0) if ENCODER_TABLE in tensors else 0
    langs = split_languages(_options(loaded).get("langs"))
    if rows != len(dictionary) + len(langs) + 1:
        raise GtransError(
            f"{checkpoint}: it has {rows} symbols, but '{data}' has {len(dictionary)} pieces, to "
            f"which {len(langs)} languages and the mask come; prepare the corpus with the model's "
            "own dictionary."
        )
    used = used_symbols(data, languages, splits, len(dictionary))
    kept = _kept(dictionary, used)
    index = torch.cat([torch.tensor(kept), torch.arange(len(dictionary), rows)])
    before = _parameters(tensors)
    shared: dict[int, Tensor] = {}
    for name in (ENCODER_TABLE, DECODER_TABLE, OUTPUT):
        if name in tensors:
            table = tensors[name]
            if table.size(0) != rows:
                raise GtransError(f"{checkpoint}: {name} has another vocabulary.")
            # Tables that are one stay one.
            tensors[name] = shared.setdefault(table.data_ptr(), table[index])
    if not out.exists():
        check_target(checkpoint, out)
        out.mkdir()
    target = out / CHECKPOINT_FILE
    check_target(checkpoint, target)
    _name_data(loaded, out)
    loaded["last_optimizer_state"] = None
    pieces = [dictionary.symbols[number] for number in kept[dictionary.nspecial :]]
    for name in (DICTIONARY_FILE, *(f"dict.{lang}.txt" for lang in languages)):
        write_pieces(pieces, out / name)
    copy_file(data / MODEL_FILE, out / SENTENCEPIECE_FILE)
    write_checkpoint(loaded, target)
    return Trimmed((len(dictionary), len(kept)), (before, _parameters(tensors)))


def used_symbols(
    data: Path, languages: tuple[str, str], splits: Sequence[str], size: int
) -> set[int]:
    """Ids that stand in the binarised ``splits``, on either side.

    Raises:
        GtransError: a split is not there.
    """
    counts = np.zeros(size, np.int64)
    for split in splits:
        for lang in languages:
            path = data / f"{split}.{'-'.join(languages)}.{lang}"
            lines = data_utils.load_indexed_dataset(str(path))
            if lines is None:
                raise GtransError(f"{path}.idx: there is no such binarised file (`--splits`).")
            for number in range(len(lines)):
                counts += np.bincount(lines[number].numpy(), minlength=size)
    return set(np.flatnonzero(counts).tolist())


def _kept(dictionary: Dictionary, used: set[int]) -> list[int]:
    """Ids to keep, in order: special ones, used ones, the characters of used ones."""
    specials = set(range(dictionary.nspecial))
    characters = {SPACE}.union(*(dictionary.symbols[number] for number in used - specials))
    single = {dictionary.indices[one] for one in characters if one in dictionary.indices}
    return sorted(specials | used | single)


def _options(checkpoint: dict[str, Any]) -> dict[str, Any]:
    """The options that tell the languages, in either form."""
    cfg, args = checkpoint.get("cfg"), checkpoint.get("args")
    if isinstance(cfg, dict) and cfg.get("task"):
        task = cfg["task"]
        return dict(task) if isinstance(task, dict) else dict(vars(task))
    return dict(vars(args)) if isinstance(args, argparse.Namespace) else {}


def _name_data(checkpoint: dict[str, Any], folder: Path) -> None:
    """Let the checkpoint name the folder of its new dictionary."""
    path = str(folder.resolve())
    if isinstance(checkpoint.get("args"), argparse.Namespace):
        checkpoint["args"].data = path
    cfg = checkpoint.get("cfg")
    if isinstance(cfg, dict) and isinstance(cfg.get("task"), dict):
        cfg["task"]["data"] = path


def _parameters(tensors: dict[str, Any]) -> int:
    """Numbers in different tensors, shared ones once."""
    different = {
        entry.data_ptr(): entry.numel() for entry in tensors.values() if isinstance(entry, Tensor)
    }
    return sum(different.values())
