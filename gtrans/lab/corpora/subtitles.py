"""OpenSubtitles2018 as Voita et al. (2019) distribute it: groups of sentences on one line.

A line of ``context_aware`` is four consecutive sentences with ``_eos`` between them, tokenised. The
groups overlap and are shuffled, so each is a document of its own.
"""

from __future__ import annotations

from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.corpora.lines import read_lines
from gtrans.lab.corpora.pairs import Pair, Pairs

SEPARATOR = "_eos"


def read_groups(source: Path, target: Path) -> Pairs:
    """The pairs of two files of groups; every group is a document.

    Raises:
        GtransError: a group has more sentences on one side, or as :func:`read_lines`.
    """
    for number, pair in enumerate(read_lines(source, target, "none"), start=1):
        assert pair is not None, "there is no boundary"
        left, right = ([part.strip() for part in _split(side)] for side in pair[:2])
        if len(left) != len(right):
            raise GtransError(
                f"{source}:{number} has {len(left)} sentences between {SEPARATOR}, but "
                f"{target}:{number} has {len(right)}; the two files do not belong together"
            )
        if number > 1:
            yield None
        for sentences in zip(left, right, strict=True):
            yield Pair(*sentences, pair.places)


def _split(group: str) -> list[str]:
    """The sentences of a group; the separator is a word of its own."""
    sentences: list[list[str]] = [[]]
    for word in group.split(" "):
        if word == SEPARATOR:
            sentences.append([])
        else:
            sentences[-1].append(word)
    return [" ".join(words) for words in sentences]
