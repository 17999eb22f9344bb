"""Files that a command writing something else must never replace."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from gtrans.errors import GtransError

CHECKPOINT, DATA, TEXT = "checkpoint", "data", "text"
"""What a command writes: a checkpoint, parts of a data folder, or anything else."""

# What a data folder consists of, by its names; prepare.json is the record of the folder.
_RECORD, _TEXTS = "prepare.json", "text"
_OF_DATA = re.compile(
    r"prepare\.json|dict\..+\.txt|codes\.bpe|truecase\..+|bpe-vocabulary\..+|.+\.(bin|idx)|"
    r"sentencepiece\.(model|dict\.txt)|byte-bpe\.(merges|json|dict\.txt)"
)
# How files of torch begin: an archive, or a pickle of protocol 2.
_ARCHIVE, _PICKLE = b"PK\x03\x04", b"\x80\x02"


def is_checkpoint(path: Path) -> bool:
    """Whether a file begins as the checkpoints of torch do; an archive must also be torch's."""
    with open(path, "rb") as file:
        begin = file.read(4)
    if begin != _ARCHIVE:
        return begin.startswith(_PICKLE)
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # perhaps half a checkpoint
        return True


def refuse_precious(path: Path, what: str, writes: str = TEXT) -> None:
    """Refuse an output that would replace a checkpoint or a part of a data folder.

    Args:
        path: the output, which may not exist.
        what: how it is called in messages.
        writes: ``CHECKPOINT``, ``DATA`` or ``TEXT``.

    Raises:
        GtransError: it is such a file.
    """
    if writes == DATA or not path.is_file():
        return
    of_text = path.parent.name == _TEXTS and (path.parent.parent / _RECORD).is_file()
    in_data = (path.parent / _RECORD).is_file() or path.name.startswith("dict.")
    if of_text or (in_data and _OF_DATA.fullmatch(path.name)):
        raise GtransError(f"{what} is a part of a data folder, which must stay; name another file.")
    if writes != CHECKPOINT and is_checkpoint(path):
        raise GtransError(
            f"{what} is a checkpoint, which must stay; name another file, or remove it first."
        )
