"""Removal of the subwords that a corpus does not use from a pretrained model.

A corpus of two languages uses about a tenth of mBART's 250,000 subwords. Trimming keeps all special
tokens, the subwords of the binarised corpus, and their characters, with which other text in the
same alphabets can be segmented. Logits of kept subwords stay the same.
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

from gtrans.checkpoints.fingerprint import (
    PUBLISHED,
    STATE,
    ModelFingerprint,
    published,
    report_missing_fingerprint,
)
from gtrans.checkpoints.sources import BIAS, ENCODER_TABLE, TABLES
from gtrans.conversion.checkpoint import Checkpoint
from gtrans.data.binarised import count_entries, load_lines
from gtrans.data.vocabulary import MASK, Vocabulary, language_token, split_languages
from gtrans.errors import GtransError
from gtrans.files import check_output_folder, check_replaceable, copy_file
from gtrans.tasks.data_folders import read_dictionary
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
    """Numbers of subwords and of parameters, each before and after trimming."""

    subwords: tuple[int, int]
    parameters: tuple[int, int]


def is_trimmed(path: Path) -> bool:
    """Return whether a file lies beside a checkpoint of ``gtrans trim-vocab``."""
    checkpoint = path.parent / CHECKPOINT_FILE
    return TRIMMED in Checkpoint.read(checkpoint, in_memory=False).state


def trim(
    checkpoint: Path, data: Path, out: Path, splits: Sequence[str], force: bool = False
) -> Trimmed:
    """Write ``model.pt`` into ``out``, with the files of a joint SentencePiece model.

    Args:
        checkpoint: mBART as fairseq saves it, or a checkpoint of this project.
        data: prepared with the model's own subwords; ``splits`` of it are kept.
        force: replace files in ``out`` that this command did not write.
    """
    check_output_folder("--out", out, [data, checkpoint.parent])
    state = read_state(data)
    languages = str(state["source_lang"]), str(state["target_lang"])
    is_sentencepiece = state.get("subwords") == SentencePiecePipeline.name
    dictionary_files = [DICTIONARY_FILE, *(f"dict.{lang}.txt" for lang in languages)]
    names = [CHECKPOINT_FILE]
    if is_sentencepiece:
        names += [*dictionary_files, SENTENCEPIECE_FILE]
    for name in names:
        check_replaceable("--out", out / name, is_trimmed, force)
    dictionaries = [read_dictionary(str(data), lang) for lang in languages]
    loaded = Checkpoint.read(checkpoint)
    loaded.check_fit()
    fingerprint = _fingerprint(loaded, data, languages, dictionaries)
    langs = split_languages(loaded.options("task").get("langs"))
    kept = _kept_ids(data, languages, splits, dictionaries)
    before = loaded.parameters
    sizes = [len(dictionary) for dictionary in dictionaries]
    _trim_tables(loaded, data, sizes, kept, len(langs))
    added = (*map(language_token, langs), MASK)
    sides = []
    for dictionary, ids in zip(dictionaries, kept, strict=True):
        words = tuple(dictionary.symbols[number] for number in ids)
        sides.append(Vocabulary(words, added))
    trimmed = replace(
        fingerprint,
        source=sides[0],
        target=sides[1],
        preparation=_prepared(fingerprint.preparation, sides),
    )
    out.mkdir(parents=True, exist_ok=True)
    loaded.forget_training()
    loaded.state[TRIMMED] = True
    card = published(loaded.state)
    loaded.state["task_state"] = {STATE: trimmed.state()}
    if card:
        loaded.state["task_state"][PUBLISHED] = card
    loaded.write(out / CHECKPOINT_FILE)
    if is_sentencepiece:
        subwords = list(sides[0].words[dictionaries[0].nspecial :])
        for name in dictionary_files:
            write_subwords(subwords, out / name)
        copy_file(data / SentencePiecePipeline.files[0], out / SENTENCEPIECE_FILE)
    if loaded.fingerprint is None:
        report_missing_fingerprint(checkpoint)
    return Trimmed(
        subwords=(len(dictionaries[1]), len(kept[1])),
        parameters=(before, loaded.parameters),
    )


def _kept_ids(
    data: Path, languages: tuple[str, str], splits: Sequence[str], dictionaries: list[Dictionary]
) -> list[list[int]]:
    """Return for each side the ids to keep, ascending."""
    used = []
    for lang, dictionary in zip(languages, dictionaries, strict=True):
        used.append(_used(data, languages, lang, splits, dictionary))
    if dictionaries[0] == dictionaries[1]:
        used = [used[0] | used[1]] * 2
    return [_kept(dictionary, ids) for dictionary, ids in zip(dictionaries, used, strict=True)]


def _trim_tables(
    loaded: Checkpoint, data: Path, sizes: Sequence[int], kept: Sequence[list[int]], langs: int
) -> None:
    """Keep some rows of all embeddings, in place; shared tables stay shared.

    ``sizes``, ``kept``: the entries and the rows to keep of each side's dictionary. The tokens of
    ``langs`` languages behind it are kept.
    """
    trimmed: dict[int, Tensor] = {}
    for name in (*TABLES, BIAS):
        if name not in loaded.tensors:
            continue
        table = loaded.tensors[name]
        side = 0 if name == ENCODER_TABLE else 1
        size = sizes[side]
        if table.size(0) != size + langs + 1:
            raise GtransError(
                f"{loaded.path}: {name} has {table.size(0)} rows, but '{data}' has {size} "
                f"subwords, {langs} languages and the mask; prepare the corpus with the "
                "model's own dictionary."
            )
        place = table.data_ptr()
        if place not in trimmed:
            rows = kept[side] + list(range(size, table.size(0)))
            trimmed[place] = table[torch.tensor(rows)]
        loaded.tensors[name] = trimmed[place]


def _fingerprint(
    loaded: Checkpoint, data: Path, languages: tuple[str, str], dictionaries: Sequence[Dictionary]
) -> ModelFingerprint:
    """Return the checkpoint's fingerprint, if it fits the data folder.

    fairseq's own mBART has none; then the folder gives it.
    """
    source, target = dictionaries
    expected = ModelFingerprint(
        languages=languages,
        source=Vocabulary.of(source, len(source)),
        target=Vocabulary.of(target, len(target)),
        preparation=Preparation.read(data),
        unit={},
    )
    recorded = loaded.fingerprint
    if recorded is None:
        return expected
    without_added = replace(
        recorded,
        source=Vocabulary(recorded.source.words),
        target=Vocabulary(recorded.target.words),
    )
    differences = without_added.differences(expected)
    if differences:
        raise GtransError(
            f"{loaded.path}: it was not made with '{data}', it has other {'; '.join(differences)}; "
            f"prepare the corpus with the model's own subwords (`--reuse {loaded.path}`)."
        )
    return recorded


def _prepared(prepared: Preparation | None, sides: Sequence[Vocabulary]) -> Preparation | None:
    if prepared is None:
        return None
    lines = ["".join(side.dictionary_lines()).encode() for side in sides]
    state = dict(prepared.state)
    if state.get("subwords") == SentencePiecePipeline.name:
        names = SentencePiecePipeline.files[1:] * 2  # one dictionary of both sides
    elif state.get("subwords") == MarianPipeline.name:
        names = MarianPipeline.files[2:]
    else:
        languages = state["source_lang"], state["target_lang"]
        names = tuple(VOCABULARY_FILE.format(lang) for lang in languages)
        state["bpe"] = {**state["bpe"], "trimmed": True}
    files = {**prepared.files, **dict(zip(names, lines, strict=True))}
    return replace(prepared, state=state, files=files)


def _used(
    data: Path, pair: tuple[str, str], lang: str, splits: Sequence[str], dictionary: Dictionary
) -> set[int]:
    counts = np.zeros(len(dictionary), np.int64)
    for split in splits:
        path = data / f"{split}.{'-'.join(pair)}.{lang}"
        if not Path(f"{path}.idx").is_file():
            raise GtransError(f"{path}.idx: there is no such binarised file (`--splits`).")
        lines = load_lines(str(path), dictionary, len(dictionary))
        counts += count_entries(lines, len(dictionary))
    return set(np.flatnonzero(counts).tolist())


def _kept(dictionary: Dictionary, used: set[int]) -> list[int]:
    """Return the ids of special tokens, used subwords and characters, ascending."""
    specials = set(range(dictionary.nspecial))
    characters = {SPACE}
    for number in used - specials:
        characters.update(dictionary.symbols[number])
    kept = specials | used
    for character in characters:
        for form in (character, character + BPE_SEPARATOR):
            if form in dictionary.indices:
                kept.add(dictionary.indices[form])
    return sorted(kept)
