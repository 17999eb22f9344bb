"""``--path [LABEL[@X]=]FILE.json[:SYSTEM] ..``: files with scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtrans.errors import GtransError

if TYPE_CHECKING:
    from gtrans.lab.analysis.scores import ScoreFile


def score_files(arguments: Sequence[str], x_wanted: bool = False) -> list[ScoreFile]:
    """The files with their labels.

    Without a label a system is called by its name, or a file by its own.

    Args:
        arguments: the words behind ``--path``.
        x_wanted: whether every file must have an ``X``.

    Raises:
        GtransError: an argument has another form, or a file is missing.
    """
    from gtrans.lab.analysis.scores import ScoreFile

    files = []
    for argument in arguments:
        label, equals, rest = argument.partition("=")
        if not equals or Path(argument).exists():
            label, rest = "", argument
        path, colon, system = rest.rpartition(":")
        if not colon or Path(rest).exists():
            path, system = rest, ""
        name, at, text = label.rpartition("@")
        name, x = (name, text) if at else (label, "")
        name = name or system or Path(path).name.removesuffix(".json")
        if (at and not x) or (x_wanted and not x):
            raise GtransError(
                f"--path '{argument}' must be LABEL@X=FILE.json, where X is what it is the score "
                "for."
            )
        if not Path(path).is_file():
            raise GtransError(f"--path {path}: there is no such file.")
        files.append(ScoreFile(name, _number(x) if x else None, Path(path), system or None))
    return files


def _number(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
