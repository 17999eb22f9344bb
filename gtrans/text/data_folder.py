"""A data folder, before anything is read from it."""

from __future__ import annotations

from pathlib import Path

from gtrans.errors import GtransError

_PREPARE = (
    "prepare it first: gtrans prepare --source-lang en --target-lang de --train corpus/train "
    "--valid corpus/valid --out data-bin"
)


def check_data_folder(folder: Path) -> None:
    """Refuse what is no folder of binarised data.

    Raises:
        GtransError: there is no such folder, or it is plain text.
    """
    if folder.is_file():
        raise GtransError(f"{folder}: this is a file and no data folder; {_PREPARE}.")
    if not folder.is_dir():
        text = sorted(path.name for path in folder.parent.glob(f"{folder.name}.*"))[:2]
        if text:
            raise GtransError(f"{folder}: this is text ({', '.join(text)}); {_PREPARE}.")
        raise GtransError(f"{folder}: there is no such data folder.")
    if any(folder.glob("dict.*.txt")) or any(folder.glob("*.idx")):
        return
    files = sorted(path.name for path in folder.iterdir() if path.is_file())[:3]
    has = f"it has {', '.join(files)}" if files else "it has no files"
    raise GtransError(f"{folder}: this is no data folder ({has}); {_PREPARE}.")
