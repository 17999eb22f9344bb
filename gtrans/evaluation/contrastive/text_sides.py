"""Text of contrastive sets: both sides, sentences joined by a mark, and files of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.evaluation.contrastive.items import Sentences

_SEPARATOR = "<SEP>"
_EOS = "_eos"


def the_only(folder: Path, ending: str) -> Path:
    """The only file of a folder whose name, but for ``.gz``, has this ending.

    Raises:
        GtransError: there is none, or more than one.
    """
    found = sorted(f for f in folder.iterdir() if f.name.removesuffix(".gz").endswith(ending))
    if len(found) != 1:
        raise GtransError(f"{folder}: must hold one file *{ending}, but holds {len(found)}.")
    return found[0]


def two_sides(*files: Path | str) -> list[list[str]]:
    """The lines of files that must have equally many.

    Raises:
        GtransError: a file cannot be read, or their numbers of lines differ.
    """
    sides = [list(iterate_raw_lines(file)) for file in files]
    for file, side in zip(files[1:], sides[1:], strict=True):
        if len(side) != len(sides[0]):
            raise GtransError(
                f"{files[0]} has {len(sides[0])} lines, but {Path(file).name} has {len(side)}."
            )
    return sides


def separated(lines: Sequence[str], file: Path) -> list[Sentences]:
    """The sentences of lines ``context <SEP> sentence``.

    Raises:
        GtransError: a line has no ``<SEP>``; the message names it.
    """
    for number, line in enumerate(lines, start=1):
        if _SEPARATOR not in line:
            raise GtransError(f"{file}:{number}: has no {_SEPARATOR} between context and sentence.")
    return [tuple(part.strip() for part in line.split(_SEPARATOR)) for line in lines]


def joined_by_eos(text: str) -> Sentences:
    """The sentences of ``one _eos two``, spaces or not; none if one of them is empty."""
    sentences = tuple(part.strip() for part in text.split(_EOS))
    return sentences if all(sentences) else ()


def contexts_of(
    prefix: str, sides: tuple[str, str], lines: int, wanted: int
) -> list[list[Sentences]]:
    """The contexts in ``PREFIX.SIDE`` of every line of a set, on both sides.

    Args:
        prefix, sides: names of the files, which hold equally many lines of context for each
            line of the set.
        lines: number of lines of the set.
        wanted: how many of them, the last ones, are read.

    Raises:
        GtransError: a file cannot be read, or has another number of lines, or fewer are there
            than are wanted.
    """
    if not wanted:
        return [[()] * lines for _ in sides]
    files = [resolve(prefix, side) for side in sides]
    found = two_sides(*files)
    size, rest = divmod(len(found[0]), lines) if lines else (0, 1)
    if rest or size < wanted:
        raise GtransError(
            f"{files[0]}: has {len(found[0])} lines for the {lines} of the set; `--context` "
            f"{wanted} needs as many lines for each of them, {wanted} or more."
        )
    return [
        [tuple(side[end - wanted : end]) for end in range(size, len(side) + 1, size)]
        for side in found
    ]
