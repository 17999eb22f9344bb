"""Two files whose lines belong together, and one file of two columns.

The sets of Maruf et al. (2019) have a line ``<d>`` before each document, News Commentary from v14
on has an empty line between articles. Europarl, Common Crawl and OPUS-100 tell of no documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Literal, get_args

from gtrans.data.documents import DOCUMENT_LINE, iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.lab.corpora.pairs import Pair, Pairs, sentence_of

Boundary = Literal["empty", "<d>", "either", "none"]
"""What lies between two documents: an empty line, a line ``<d>``, one of the two, or nothing."""
BOUNDARIES = get_args(Boundary)


def read_lines(source: Path, target: Path, boundary: Boundary) -> Pairs:
    """The pairs of two files with the same number of lines.

    A boundary must stand in both files. Where it is no empty line, two empty lines are a pair
    without text.

    Raises:
        GtransError: one file has a boundary where the other has none, or ends before it; or a file
            cannot be read.
    """
    both = zip_longest(iterate_raw_lines(source), iterate_raw_lines(target))
    yield from _pairs(both, source, target, boundary)


def read_columns(path: Path, reverse: bool) -> Pairs:
    """The pairs of a file with lines ``SOURCE<tab>TARGET``; an empty one is a boundary.

    Args:
        path: the file.
        reverse: the columns stand the other way round.

    Raises:
        GtransError: a line has not two columns, or the file cannot be read.
    """
    yield from _pairs(_columns(path, reverse), path, path, "empty")


def _columns(path: Path, reverse: bool) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(iterate_raw_lines(path, strip=False), start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if not any(cells):
            yield "", ""
        elif len(cells) != 2:
            raise GtransError(
                f"{path}:{number}: {len(cells)} columns between tabs; two are needed, source and "
                "target"
            )
        else:
            yield (cells[1], cells[0]) if reverse else (cells[0], cells[1])


def _pairs(
    lines: Iterator[tuple[str | None, str | None]], source: Path, target: Path, boundary: Boundary
) -> Pairs:
    marks = {
        "empty": frozenset({""}),
        "<d>": frozenset({DOCUMENT_LINE}),
        "either": frozenset({"", DOCUMENT_LINE}),
        "none": frozenset[str](),
    }[boundary]
    paths = (source,) if source == target else (source, target)
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            ended, other = (source, target) if left is None else (target, source)
            raise GtransError(
                f"{ended} ends after line {number - 1}, but {other} goes on; the lines of the two "
                "files do not belong together"
            )
        if left in marks and right in marks:
            yield None
        elif DOCUMENT_LINE in marks and DOCUMENT_LINE in (left, right):
            marked, other = (source, target) if left == DOCUMENT_LINE else (target, source)
            raise GtransError(
                f"{marked}:{number} is a line {DOCUMENT_LINE} but {other}:{number} is not; the "
                "lines of the two files do not belong together"
            )
        else:
            yield Pair(
                sentence_of(left, source, number),
                sentence_of(right, target, number),
                tuple((path, number) for path in paths),
            )
