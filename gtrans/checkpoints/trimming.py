"""Removal of the subword pieces that a corpus does not use from a pretrained model.

A corpus of two languages uses about a tenth of mBART's 250,000 pieces. The others cost memory
for embeddings, gradients, Adam's two moments and logits. Trimming keeps the special symbols, the
language symbols, the mask, all pieces of the binarised corpus, and the single characters of
these pieces, so that other text in the same alphabets can be segmented. Kept rows of the
embeddings are not changed, so the logits of kept pieces are the same; only the softmax is over
fewer pieces.

SentencePiece's model is copied without change. Text that is prepared with the new dictionary is
segmented without the removed pieces, see
:class:`gtrans.text.subwords.SentencePiecePipeline`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtrans.checkpoints.checkpoint import Checkpoint
from gtrans.checkpoints.identity import STATE, ModelIdentity, say_unknown
from gtrans.checkpoints.sources import ENCODER_TABLE, TABLES
from gtrans.data.binarised import count_symbols, load_lines
from gtrans.data.vocabulary import MASK, Vocabulary, language_symbol, split_languages
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, copy_file
from gtrans.tasks.options import read_dictionary
from gtrans.text.prepared_folder import Preparation, read_state
from gtrans.text.subwords import SPACE, SentencePiecePipeline, write_pieces

CHECKPOINT_FILE, DICTIONARY_FILE, SENTENCEPIECE_FILE = (
    "model.pt", "dict.txt", "sentence.bpe.model"
)  # fmt: skip


@dataclass(frozen=True)
class Trimmed:
    """Numbers of pieces and of parameters, each before and after trimming."""

    pieces: tuple[int, int]
    parameters: tuple[int, int]


def trim(checkpoint: Path, data: Path, out: Path, splits: Sequence[str]) -> Trimmed:
    """Write ``model.pt``, ``dict.txt`` and ``sentence.bpe.model`` into ``out``.

    Args:
        checkpoint: BART or mBART as fairseq saves it, or a checkpoint of this project.
        data: folder of ``gtrans prepare --sentencepiece`` with the model's own dictionary.
        out: folder to write; it is created if necessary.
        splits: the splits of ``data`` whose pieces are kept.

    Raises:
        GtransError: ``out`` cannot be written or is the folder of the data or of the checkpoint, a
            file is missing, or the model has another vocabulary than the data, or different
            vocabularies.
    """
    check_output_folder("--out", out, [data, checkpoint.parent])
    state = read_state(data)
    if state.get("pieces") != SentencePiecePipeline.name:
        raise GtransError(f"`--data` '{data}' was not prepared with `--sentencepiece`.")
    languages = str(state["source_lang"]), str(state["target_lang"])
    dictionary = read_dictionary(str(data), languages[0])
    loaded = Checkpoint.read(checkpoint)
    loaded.check_fit()
    identity = _identity(loaded.identity, checkpoint, data, dictionary)
    tensors = loaded.tensors
    rows = tensors[ENCODER_TABLE].size(0) if ENCODER_TABLE in tensors else 0
    langs = split_languages(loaded.options("task").get("langs"))
    if rows != len(dictionary) + len(langs) + 1:
        raise GtransError(
            f"{checkpoint}: it has {rows} symbols, but '{data}' has {len(dictionary)} subwords, "
            f"{len(langs)} languages and the mask; prepare the corpus with the model's own "
            "dictionary."
        )
    used = used_symbols(data, languages, splits, dictionary)
    kept = _kept(dictionary, used)
    index = torch.cat([torch.tensor(kept), torch.arange(len(dictionary), rows)])
    before = loaded.parameters
    shared: dict[int, Tensor] = {}
    for name in TABLES:
        if name in tensors:
            table = tensors[name]
            if table.size(0) != rows:
                raise GtransError(f"{checkpoint}: {name} has another vocabulary.")
            # Shared tables stay shared.
            tensors[name] = shared.setdefault(table.data_ptr(), table[index])
    out.mkdir(parents=True, exist_ok=True)
    loaded.forget_training()
    pieces = [dictionary.symbols[number] for number in kept[dictionary.nspecial :]]
    for name in (DICTIONARY_FILE, *(f"dict.{lang}.txt" for lang in languages)):
        write_pieces(pieces, out / name)
    copy_file(data / SentencePiecePipeline.files[0], out / SENTENCEPIECE_FILE)
    added = (*map(language_symbol, langs), MASK)
    trimmed = Vocabulary((*dictionary.symbols[: dictionary.nspecial], *pieces), added)
    trimmed_identity = _trimmed(identity, trimmed, out / DICTIONARY_FILE)
    loaded.state["task_state"] = {STATE: trimmed_identity.state()}
    loaded.write(out / CHECKPOINT_FILE)
    if loaded.identity is None:
        say_unknown(checkpoint)
    return Trimmed((len(dictionary), len(kept)), (before, loaded.parameters))


def _identity(
    recorded: ModelIdentity | None, path: Path, data: Path, dictionary: Dictionary
) -> ModelIdentity:
    """What a checkpoint was made from, after a comparison with the data folder.

    fairseq's own BART and mBART do not say it (``recorded`` is None); then it is what the folder
    holds.

    Raises:
        GtransError: the checkpoint was made with another vocabulary or preparation.
    """
    state = read_state(data)
    words = Vocabulary.of(dictionary, len(dictionary))
    languages = str(state["source_lang"]), str(state["target_lang"])
    here = ModelIdentity(languages, words, words, Preparation.read(data), {})
    if recorded is None:
        return here
    bare = replace(
        recorded, source=Vocabulary(recorded.source.words), target=Vocabulary(recorded.target.words)
    )
    differences = bare.differences(here)
    if differences:
        raise GtransError(
            f"{path}: it was not made with '{data}', it has other {'; '.join(differences)}; "
            "prepare the corpus with the model's own dictionary."
        )
    return recorded


def _trimmed(identity: ModelIdentity, vocabulary: Vocabulary, dictionary: Path) -> ModelIdentity:
    """The identity with another vocabulary, whose pieces are in a file."""
    prepared = identity.preparation
    if prepared is not None:
        files = {**prepared.files, SentencePiecePipeline.files[-1]: dictionary.read_bytes()}
        prepared = replace(prepared, files=files)
    return replace(identity, source=vocabulary, target=vocabulary, preparation=prepared)


def used_symbols(
    data: Path, languages: tuple[str, str], splits: Sequence[str], dictionary: Dictionary
) -> set[int]:
    """The ids that occur in the binarised ``splits``, on either side.

    Raises:
        GtransError: a split is missing or damaged.
    """
    counts = np.zeros(len(dictionary), np.int64)
    for split in splits:
        for lang in languages:
            path = data / f"{split}.{'-'.join(languages)}.{lang}"
            if not Path(f"{path}.idx").is_file():
                raise GtransError(f"{path}.idx: there is no such binarised file (`--splits`).")
            lines = load_lines(str(path), dictionary, len(dictionary))
            counts += count_symbols(lines, len(dictionary))
    return set(np.flatnonzero(counts).tolist())


def _kept(dictionary: Dictionary, used: set[int]) -> list[int]:
    """The ids to keep, ascending: special symbols, used pieces, and their characters."""
    specials = set(range(dictionary.nspecial))
    characters = {SPACE}.union(*(dictionary.symbols[number] for number in used - specials))
    single = {dictionary.indices[one] for one in characters if one in dictionary.indices}
    return sorted(specials | used | single)
