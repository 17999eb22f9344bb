"""Training text of IWSLT, ``train.tags.SRC-TGT.LANG``: transcripts of TED talks.

Lines with tags say what a talk is (``<url>``, ``<talkid>``, ``<title>``, ..; in 2017 also
``<doc>``, ``<reviewer>``, ``<translator>``); every other line is a sentence, as it is: it is no
XML, so nothing is unescaped. A talk begins where lines with tags follow a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gtrans.data.documents import iterate_raw_lines
from gtrans.lab.corpora.pairs import Block, Pairs, match_documents, sentence_of

_TAG = re.compile(
    r"</?(url|speaker|talkid|title|description|keywords|reviewer|translator|doc|transcript)\b[^<>]*>",
    re.IGNORECASE,
)
# What a talk says of itself in words, in both languages.
_TEXTS = ("title", "description")


def read_talks(source: Path, target: Path, headings: bool) -> Pairs:
    """The pairs of the training text.

    Args:
        source: the file of the source language.
        target: the file of the target language.
        headings: whether title and description of a talk are its first two sentences, as in the
            IWSLT14 of fairseq's script, or not, as in the sets of Maruf et al. (2019).

    Raises:
        GtransError: the sides differ in a talk, or a file cannot be read.
    """
    yield from match_documents(
        (source, _talks(source, headings)), (target, _talks(target, headings))
    )


def _talks(path: Path, headings: bool) -> Iterator[Block]:
    name, begin = "", 1
    first: list[tuple[str, int]] = []
    sentences: list[tuple[str, int]] = []
    for number, line in enumerate(iterate_raw_lines(path), start=1):
        tag = _TAG.match(line)
        if tag is None:
            sentences.append((sentence_of(line, path, number), number))
            continue
        if sentences:
            yield Block(name, begin, [*first, *sentences])
            name, begin, first, sentences = "", number, [], []
        content = _TAG.sub("", line).strip()
        if tag[1].lower() == "talkid":
            name = content
        elif tag[1].lower() in _TEXTS and headings and content:
            first.append((sentence_of(content, path, number), number))
    if sentences:
        yield Block(name, begin, [*first, *sentences])
