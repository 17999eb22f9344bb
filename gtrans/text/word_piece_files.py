"""The files of BERT's word pieces that belong to a binarised corpus.

``gtrans prepare --bert`` writes ``SPLIT.SRC-TGT.SRC.bert.{bin,idx}`` from the *plain* source
sentences. It is an indexed dataset with one line for each line of the binarised source: the ids
of :class:`gtrans.modules.bert.WordPieces` and ``[SEP]``. A line of ``[SEP]`` alone is a document
boundary. ``prepare.json`` names the BERT.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtrans.errors import GtransError
from gtrans.identity.files import replacing
from gtrans.text.prepared_folder import read_state

if TYPE_CHECKING:
    from gtrans.modules.bert import WordPieces

_LINES_AT_ONCE = 1000


def file_names(split: str, pair: str, lang: str) -> list[str]:
    """The names of the two files of a split."""
    return [f"{split}.{pair}.{lang}.bert.{kind}" for kind in ("bin", "idx")]


def record(pieces: WordPieces) -> dict[str, str]:
    """The entry of the BERT in ``prepare.json``; a local folder has its absolute path."""
    name = os.path.abspath(pieces.name) if os.path.isdir(pieces.name) else pieces.name
    return {"name": name, "tokenizer": pieces.fingerprint}


def recorded_word_pieces(data_dir: str | Path) -> WordPieces:
    """The word pieces that a data folder was prepared with.

    Raises:
        GtransError: it was prepared without BERT, or the BERT has changed since.
    """
    from gtrans.modules.bert import WordPieces

    folder = Path(data_dir)
    state = read_state(folder).get("bert")
    if state is None:
        raise GtransError(
            f"'{folder}' holds no word pieces of a BERT; run its 'gtrans prepare' again with "
            "--bert."
        )
    pieces = WordPieces(state["name"])
    if pieces.fingerprint != state["tokenizer"]:
        raise GtransError(
            f"{state['name']}: the word pieces of this BERT have changed since '{folder}' was "
            "prepared; run 'gtrans prepare' again with --bert."
        )
    return pieces


def write_word_pieces(lines: Iterable[str], files: list[Path], pieces: WordPieces) -> None:
    """Write the word pieces of ``lines`` (plain sentences, empty ones at boundaries)."""
    import torch
    from fairseq.data import indexed_dataset

    from gtrans.modules.bert import SEP

    boundary = torch.tensor([SEP])
    with replacing(*files) as (data, index):
        builder: Any = indexed_dataset.make_builder(
            str(data), impl="mmap", vocab_size=len(pieces.symbols)
        )
        for chunk in _chunks(iter(lines)):
            encoded = iter(pieces.encode([line for line in chunk if line]))
            for line in chunk:
                builder.add_item(next(encoded) if line else boundary)
        builder.finalize(str(index))


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    while chunk := list(islice(lines, _LINES_AT_ONCE)):
        yield chunk
