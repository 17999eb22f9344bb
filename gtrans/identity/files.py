"""Atomic writing of files: a file gets its name only when it is complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(*paths: Path) -> Iterator[list[Path]]:
    """Temporary names for files that are written together.

    At the end each temporary file is renamed to its path in ``paths`` and replaces an older
    file of that name. After an exception the old files are unchanged and the temporary ones are
    deleted.
    """
    temporary = [path.with_name(f".{path.name}.tmp") for path in paths]
    try:
        yield temporary
        for written, path in zip(temporary, paths, strict=True):
            os.replace(written, path)
    except BaseException:
        for written in temporary:
            written.unlink(missing_ok=True)
        raise


@contextmanager
def atomic_writer(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A UTF-8 text file that appears under its name only when it is complete."""
    with (
        replacing(Path(path)) as (temporary,),
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        yield file


def copy_file(source: Path, target: Path) -> None:
    """Copy the contents of a file."""
    with replacing(target) as (temporary,):
        shutil.copyfile(source, temporary)
