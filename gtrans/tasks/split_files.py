"""The files of a split, and the words of the training text."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary

from gtrans.data.binarised import ids_of, load_lines
from gtrans.data.context_text import Boundaries, Words
from gtrans.errors import GtransError
from gtrans.tasks.options import data_folders


def has_side(folder: str, split: str, pair: str, lang: str | None) -> bool:
    """Whether a split has a side ``lang``."""
    return (Path(folder) / f"{split}.{pair}.{lang}.idx").is_file()


def split_pair(folder: str, split: str, source_lang: str | None, target_lang: str | None) -> str:
    """The language pair in the names of the split's files, which may be in either order.

    Raises:
        GtransError: there is no such split.
    """
    for pair in (f"{source_lang}-{target_lang}", f"{target_lang}-{source_lang}"):
        if has_side(folder, split, pair, source_lang):
            return pair
    known = sorted({p.name.split(".")[0] for p in Path(folder).glob(f"*.{source_lang}.idx")})
    raise GtransError(
        f"{folder}: there is no split '{split}' for {source_lang}-{target_lang}"
        + (f"; there are {', '.join(known)}." if known else "; prepare the corpus there.")
    )


def training_words(
    cfg: Any, symbols: Sequence[str], end: int, left_out: Collection[int], kind: str = ""
) -> Words:
    """The words of the source side of the training text, from which random contexts are drawn.

    Args:
        cfg: options of the task.
        symbols: how its pieces are written.
        end: id of the end of a sentence.
        left_out: ids of symbols that are not text.
        kind: ``.bert`` for the word pieces of a BERT, empty for the corpus's own pieces.

    Raises:
        GtransError: the data folder has no training text, or it is damaged.
    """
    folder = data_folders(cfg)[0]
    source = str(cfg.source_lang)
    try:
        pair = split_pair(folder, cfg.train_subset, source, cfg.target_lang)
    except GtransError:
        raise GtransError(
            "`--context-kind random` draws words of the training text, which a checkpoint does not "
            f"carry; give a data folder that has the split '{cfg.train_subset}' (`--data`), or "
            "another `--context-kind`."
        ) from None
    path = str(Path(folder) / f"{cfg.train_subset}.{pair}.{source}{kind}")
    # The marks of sentences have the same ids in every dictionary.
    lines = load_lines(path, Dictionary(), len(symbols))
    return Words.of(ids_of(lines).astype(np.int64), end, Boundaries.of(symbols), left_out)
