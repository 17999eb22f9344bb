"""Removal of the subwords that a corpus does not use from a pretrained model.

A corpus of two languages uses about a tenth of mBART's 250,000 subwords. The others cost memory
for embeddings, gradients, Adam's two moments and logits. Trimming keeps the special symbols, the
language symbols, the mask, all subwords of the binarised corpus, and the single characters of
these subwords, so that other text in the same alphabets can be segmented. Kept rows of the
embeddings are not changed, so the logits of kept subwords are the same; only the softmax is over
fewer of them.

The models of the subwords are not changed. Text that is prepared with the new dictionary is
segmented without the removed ones, see :class:`gtrans.text.subwords.SentencePiecePipeline` and
:func:`gtrans.text.subwords.load_bpe`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor

from gtrans.checkpoints.identity import PUBLISHED, STATE, ModelIdentity, published, say_unknown
from gtrans.checkpoints.sources import BIAS, ENCODER_TABLE, TABLES
from gtrans.conversion.checkpoint import Checkpoint
from gtrans.data.binarised import count_symbols, load_lines
from gtrans.data.vocabulary import MASK, Vocabulary, language_symbol, split_languages
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, check_replaceable, copy_file
from gtrans.tasks.options import read_dictionary
from gtrans.text.prepared_folder import VOCABULARY_FILE, Preparation, read_state
from gtrans.text.subwords import (
    BPE_SEPARATOR,
    SPACE,
    MarianPipeline,
    SentencePiecePipeline,
    write_subwords,
)

CHECKPOINT_FILE, DICTIONARY_FILE = "model.pt", "dict.txt"
SENTENCEPIECE_FILE = "sentence.bpe.model"
TRIMMED = "trimmed"
"""The entry of a checkpoint that says that this command wrote it."""


class Trimmed(NamedTuple):
    """Numbers of pieces and of parameters, each before and after trimming."""

    pieces: tuple[int, int]
    parameters: tuple[int, int]


def is_trimmed(path: Path) -> bool:
    """Whether ``gtrans trim-vocab`` wrote a file: it lies beside a trimmed checkpoint."""
    checkpoint = path.parent / CHECKPOINT_FILE
    return TRIMMED in Checkpoint.read(checkpoint, in_memory=False).state


def trim(
    checkpoint: Path, data: Path, out: Path, splits: Sequence[str], force: bool = False
) -> Trimmed:
    """Write ``model.pt`` into ``out``; of a joint SentencePiece model also its dictionary and it.

    Args:
        checkpoint: mBART as fairseq saves it, or a checkpoint of this project.
        data: folder prepared with the model's own subwords.
        out: folder to write; it is created if necessary.
        splits: the splits of ``data`` whose subwords are kept.
        force: replace files in ``out`` that this command did not write.

    Raises:
        GtransError: ``out`` cannot be written or is the folder of the data or of the checkpoint, a
            file is missing or would be replaced, or the model has another vocabulary than the data.
    """
    check_output_folder("--out", out, [data, checkpoint.parent])
    state = read_state(data)
    languages = str(state["source_lang"]), str(state["target_lang"])
    names = [CHECKPOINT_FILE]
    if state.get("pieces") == SentencePiecePipeline.name:
        names += [DICTIONARY_FILE, SENTENCEPIECE_FILE, *(f"dict.{lang}.txt" for lang in languages)]
    for name in names:
        check_replaceable("--out", out / name, is_trimmed, force)
    dictionaries = [read_dictionary(str(data), lang) for lang in languages]
    loaded = Checkpoint.read(checkpoint)
    loaded.check_fit()
    identity = _identity(loaded, data, languages, dictionaries)
    langs = split_languages(loaded.options("task").get("langs"))
    used = [
        _used(data, languages, lang, splits, dictionary)
        for lang, dictionary in zip(languages, dictionaries, strict=True)
    ]
    if dictionaries[0] == dictionaries[1]:
        used = [used[0] | used[1]] * 2
    kept = [_kept(dictionary, ids) for dictionary, ids in zip(dictionaries, used, strict=True)]
    before, tensors = loaded.parameters, loaded.tensors
    shared: dict[int, Tensor] = {}
    for name in {*TABLES, BIAS} & tensors.keys():
        side, table = int(name != ENCODER_TABLE), tensors[name]
        size = len(dictionaries[side])
        if table.size(0) != size + len(langs) + 1:
            raise GtransError(
                f"{checkpoint}: {name} has {table.size(0)} rows, but '{data}' has {size} "
                f"subwords, {len(langs)} languages and the mask; prepare the corpus with the "
                "model's own dictionary."
            )
        index = torch.tensor([*kept[side], *range(size, table.size(0))])
        # Shared tables stay shared.
        tensors[name] = shared.setdefault(table.data_ptr(), table[index])
    added = (*map(language_symbol, langs), MASK)
    sides = [
        Vocabulary(tuple(dictionary.symbols[number] for number in numbers), added)
        for dictionary, numbers in zip(dictionaries, kept, strict=True)
    ]
    trimmed = replace(
        identity,
        source=sides[0],
        target=sides[1],
        preparation=_prepared(identity.preparation, sides),
    )
    out.mkdir(parents=True, exist_ok=True)
    loaded.forget_training()
    loaded.state[TRIMMED] = True
    card = published(loaded.state)
    loaded.state["task_state"] = {STATE: trimmed.state(), **({PUBLISHED: card} if card else {})}
    loaded.write(out / CHECKPOINT_FILE)
    if state.get("pieces") == SentencePiecePipeline.name:
        pieces = list(sides[0].words[dictionaries[0].nspecial :])
        for name in (DICTIONARY_FILE, *(f"dict.{lang}.txt" for lang in languages)):
            write_subwords(pieces, out / name)
        copy_file(data / SentencePiecePipeline.files[0], out / SENTENCEPIECE_FILE)
    if loaded.identity is None:
        say_unknown(checkpoint)
    return Trimmed((len(dictionaries[1]), len(kept[1])), (before, loaded.parameters))


def _identity(
    loaded: Checkpoint, data: Path, languages: tuple[str, str], dictionaries: Sequence[Dictionary]
) -> ModelIdentity:
    """What a checkpoint was made from, after a comparison with the data folder.

    fairseq's own mBART does not say it; then it is what the folder holds.

    Raises:
        GtransError: the checkpoint was made with another vocabulary or preparation.
    """
    source, target = (Vocabulary.of(dictionary, len(dictionary)) for dictionary in dictionaries)
    expected = ModelIdentity(languages, source, target, Preparation.read(data), {})
    recorded = loaded.identity
    if recorded is None:
        return expected
    bare = [Vocabulary(side.words) for side in (recorded.source, recorded.target)]
    differences = replace(recorded, source=bare[0], target=bare[1]).differences(expected)
    if differences:
        raise GtransError(
            f"{loaded.path}: it was not made with '{data}', it has other {'; '.join(differences)}; "
            f"prepare the corpus with the model's own subwords (`--reuse {loaded.path}`)."
        )
    return recorded


def _prepared(prepared: Preparation | None, sides: Sequence[Vocabulary]) -> Preparation | None:
    """The preparation with other vocabularies."""
    if prepared is None:
        return None
    lines = ["".join(side.dictionary_lines()).encode() for side in sides]
    state = dict(prepared.state)
    if state.get("pieces") == SentencePiecePipeline.name:
        names = SentencePiecePipeline.files[1:] * 2  # one dictionary of both sides
    elif state.get("pieces") == MarianPipeline.name:
        names = MarianPipeline.files[2:]
    else:
        names = tuple(
            VOCABULARY_FILE.format(state[f"{side}_lang"]) for side in ("source", "target")
        )
        state["bpe"] = {**state["bpe"], "trimmed": True}
    files = {**prepared.files, **dict(zip(names, lines, strict=True))}
    return replace(prepared, state=state, files=files)


def _used(
    data: Path, pair: tuple[str, str], lang: str, splits: Sequence[str], dictionary: Dictionary
) -> set[int]:
    """The ids that occur in one language of the binarised ``splits``.

    Raises:
        GtransError: a split is missing or damaged.
    """
    counts = np.zeros(len(dictionary), np.int64)
    for split in splits:
        path = data / f"{split}.{'-'.join(pair)}.{lang}"
        if not Path(f"{path}.idx").is_file():
            raise GtransError(f"{path}.idx: there is no such binarised file (`--splits`).")
        lines = load_lines(str(path), dictionary, len(dictionary))
        counts += count_symbols(lines, len(dictionary))
    return set(np.flatnonzero(counts).tolist())


def _kept(dictionary: Dictionary, used: set[int]) -> list[int]:
    """The ids to keep, ascending: special symbols, used subwords, and their characters."""
    specials = set(range(dictionary.nspecial))
    characters = {SPACE}.union(*(dictionary.symbols[number] for number in used - specials))
    single = {form for char in characters for form in (char, char + BPE_SEPARATOR)}
    single_ids = {dictionary.indices[form] for form in single & dictionary.indices.keys()}
    return sorted(specials | used | single_ids)
