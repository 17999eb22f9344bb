"""Files of data folders: names, languages, dictionaries and the training text."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
from fairseq.data import Dictionary, data_utils

from gtrans.data.binarised import ids_of, load_dictionary, load_lines
from gtrans.data.context_text import DistinctWords, WordBoundaries
from gtrans.errors import GtransError
from gtrans.text.prepared_folder import check_data_folder, check_recorded


def data_folders(cfg: Any) -> list[str]:
    """Return the folders of ``cfg.data``; raise GtransError if one is missing."""
    names = str(cfg.data or "").split(os.pathsep)
    folders = [name for name in names if name]
    if not folders:
        raise GtransError("no data folder is given; name the one that `gtrans prepare` wrote.")
    for folder in folders:
        check_data_folder(Path(folder))
    return folders


def languages_of(cfg: Any, folder: str) -> tuple[str, str]:
    """Return source and target language, from ``cfg`` or the names of files."""
    if cfg.source_lang and cfg.target_lang:
        return str(cfg.source_lang), str(cfg.target_lang)
    source, target = data_utils.infer_language_pair(folder)
    if not (source and target):
        raise GtransError(
            f"{folder}: no binarised corpus to infer the languages from; give --source-lang and "
            "--target-lang, or prepare the corpus there."
        )
    given = {"--source-lang": cfg.source_lang, "--target-lang": cfg.target_lang}
    for flag, lang in given.items():
        if lang and lang not in (source, target):
            raise GtransError(f"`{flag} {lang}`: {folder} has a corpus of {source} and {target}.")
    if target == cfg.source_lang or source == cfg.target_lang:
        source, target = target, source
    return str(source), str(target)


def read_dictionary(folder: str, lang: Optional[str]) -> Dictionary:
    """Return the dictionary of a language."""
    name = f"dict.{lang}.txt"
    check_recorded(Path(folder), [name], whole=True)
    return load_dictionary(Path(folder) / name)


def has_side(folder: str, split: str, pair: str, lang: str | None) -> bool:
    """Return whether a split has a side ``lang``."""
    return (Path(folder) / f"{split}.{pair}.{lang}.idx").is_file()


def split_pair(folder: str, split: str, source_lang: str | None, target_lang: str | None) -> str:
    """Return the language pair in the names of a split's files, in either order."""
    for pair in (f"{source_lang}-{target_lang}", f"{target_lang}-{source_lang}"):
        if has_side(folder, split, pair, source_lang):
            return pair
    splits = set()
    for path in Path(folder).glob(f"*.{source_lang}.idx"):
        name, _, _ = path.name.partition(".")
        splits.add(name)
    way_out = "prepare the corpus there."
    if splits:
        way_out = f"there are {', '.join(sorted(splits))}."
    raise GtransError(
        f"{folder}: there is no split '{split}' for {source_lang}-{target_lang}; {way_out}"
    )


def training_words(
    cfg: Any, entries: Sequence[str], end: int, left_out: Collection[int], kind: str = ""
) -> DistinctWords:
    """Return the words of the training text, for ``--context-kind random``.

    Args:
        end: id that ends a line.
        left_out: ids of entries that are not text.
        kind: ``.bert`` for BERT's subwords, else empty.
    """
    source = str(cfg.source_lang)
    try:
        folder = data_folders(cfg)[0]
        pair = split_pair(folder, cfg.train_subset, source, cfg.target_lang)
    except GtransError:
        raise GtransError(
            "`--context-kind random` draws words of the training text, which a checkpoint does not "
            f"store; give a data folder that has the split '{cfg.train_subset}' (`--data`), or "
            "another `--context-kind`."
        ) from None
    path = Path(folder) / f"{cfg.train_subset}.{pair}.{source}{kind}"
    # Special tokens have the same ids in every dictionary.
    lines = load_lines(str(path), Dictionary(), len(entries))
    ids = ids_of(lines).astype(np.int64)
    return DistinctWords.of(ids, end, WordBoundaries.of(entries), left_out)
