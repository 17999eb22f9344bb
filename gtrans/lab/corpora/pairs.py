"""Sentence pairs and the boundaries between documents, as all readers yield them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from gtrans.data.documents import DOCUMENT_LINE, check_length
from gtrans.errors import GtransError

Place = tuple[Path, int]
"""A file and a line in it, from 1."""


class Pair(NamedTuple):
    """A sentence and its translation.

    Attributes:
        source, target: one of them may be empty.
        places: where the two stand; a single place, if one file has both.
    """

    source: str
    target: str
    places: tuple[Place, ...]


Pairs = Iterator[Pair | None]
"""Sentence pairs in order; ``None`` where a document ends and another begins."""

# Where some program or other ends a line.
_LINE_ENDS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True)
class Block:
    """The sentences of a document on one side.

    Attributes:
        name: the document's, by which the two sides are matched; empty: it has none.
        line: where it begins in its file, from 1.
        sentences: with the lines where they begin; those without text are empty, so that the two
            sides stay aligned.
    """

    name: str
    line: int
    sentences: Sequence[tuple[str, int]]


def sentence_of(text: str, path: Path, line: int) -> str:
    """A sentence on one line, without white space at its ends.

    Raises:
        GtransError: it is a whole text, or would be a boundary between documents.
    """
    sentence = _LINE_ENDS.sub(" ", text).strip()
    check_length(path, line, sentence)
    if sentence == DOCUMENT_LINE:
        raise GtransError(
            f"{path}:{line}: the sentence '{DOCUMENT_LINE}' would be read as a boundary between "
            "documents; take it out"
        )
    return sentence


def match_documents(
    source: tuple[Path, Iterable[Block]], target: tuple[Path, Iterable[Block]]
) -> Pairs:
    """The sentence pairs of two files that have the same documents.

    Args:
        source: a file and its documents.
        target: those of the other side.

    Raises:
        GtransError: a document is missing on one side, or has another name or another number of
            sentences there.
    """
    begun = False
    for number, (left, right) in enumerate(zip_longest(source[1], target[1]), start=1):
        if left is None or right is None:
            longer, shorter = (target, source) if left is None else (source, target)
            raise GtransError(f"{shorter[0]} has {number - 1} documents, but {longer[0]} has more")
        if left.name != right.name:
            raise GtransError(
                f"document {number} is '{left.name}' in {source[0]}:{left.line} but "
                f"'{right.name}' in {target[0]}:{right.line}; the two files do not belong together"
            )
        if len(left.sentences) != len(right.sentences):
            raise GtransError(
                f"document {number} ({left.name or 'without a name'}) has {len(left.sentences)} "
                f"sentences in {source[0]}:{left.line} but {len(right.sentences)} in "
                f"{target[0]}:{right.line}; the two files do not belong together"
            )
        if begun:
            yield None
        begun = True
        for here, there in zip(left.sentences, right.sentences, strict=True):
            yield Pair(here[0], there[0], ((source[0], here[1]), (target[0], there[1])))
