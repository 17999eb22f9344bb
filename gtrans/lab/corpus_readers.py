"""Readers of published corpora: sentence pairs, and the boundaries between documents.

They raise GtransError with the line if the two sides do not belong together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.lab.sgm import TestSet
from gtrans.text.reader import (
    ALL_TEXT,
    DOCUMENT_LINE,
    Role,
    TextSelection,
    is_boundary,
    matched,
    open_text,
    plain_lines,
    sentence_of,
)


class FileLine(NamedTuple):
    """A line of a file, from 1."""

    file: Path
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Pair(NamedTuple):
    """A sentence and its translation, and their places; one text may be empty."""

    source: str
    target: str
    places: tuple[FileLine, ...]


Pairs = Iterator[Pair | None]
"""Sentence pairs in order; ``None``, or several, where a document ends."""


# --- lines ----------------------------------------------------------------------------------------
#
# Two files whose lines belong together, and one file of two columns.
#
# The sets of Maruf et al. (2019) have a line ``<d>`` before each document, News Commentary from v14
# on has an empty line between articles. Europarl, Common Crawl and OPUS-100 mark no documents.

Boundary = Literal["empty", "<d>", "either", "none"]
"""The boundary between two documents: an empty line, a line ``<d>``, either of them, or none."""
BOUNDARIES = get_args(Boundary)


def read_lines(source: Path, target: Path, boundary: Boundary) -> Pairs:
    """Yield the pairs of two files with the same number of lines and the same boundaries.

    If the boundary is no empty line, two empty lines are a pair.
    """
    ends_document: Callable[[str], bool] = {
        "empty": "".__eq__,
        "<d>": DOCUMENT_LINE.__eq__,
        "either": is_boundary,
        "none": lambda _: False,
    }[boundary]
    paths = (source,) if source == target else (source, target)
    lines = zip_longest(plain_lines(source), plain_lines(target))
    for number, (left, right) in enumerate(lines, start=1):
        if left is None or right is None:
            ended, other = (source, target) if left is None else (target, source)
            raise GtransError(
                f"{ended} ends after line {number - 1}, but {other} goes on; the lines of the two "
                "files do not belong together"
            )
        are_boundaries = [bool(line) and ends_document(line) for line in (left, right)]
        if ends_document(left) and ends_document(right):
            yield None
        elif any(are_boundaries):
            line, path, other = left, source, target
            if not are_boundaries[0]:
                line, path, other = right, target, source
            raise GtransError(
                f"{path}:{number} is a line {line} but {other}:{number} is not; "
                "the lines of the two files do not belong together"
            )
        else:
            yield Pair(
                sentence_of(left, source, number),
                sentence_of(right, target, number),
                tuple(FileLine(path, number) for path in paths),
            )


# --- OpenSubtitles2018 of Voita et al. ------------------------------------------------------------
#
# OpenSubtitles2018 as Voita et al. (2019) distribute it: groups of sentences on one line.
#
# A line of ``context_aware`` is four consecutive sentences with ``_eos`` between them, tokenised.
# The groups overlap and are shuffled, so each is a document of its own.

SEPARATOR = "_eos"
_EOS = re.compile(rf"(?<![^ ]){SEPARATOR}(?![^ ])")


def read_groups(source: Path, target: Path) -> Pairs:
    """Yield the pairs of two files of groups; every group is a document."""
    for number, pair in enumerate(read_lines(source, target, "none"), start=1):
        assert pair is not None, "there is no boundary"
        left = [text.strip() for text in _EOS.split(pair.source)]
        right = [text.strip() for text in _EOS.split(pair.target)]
        if len(left) != len(right):
            raise GtransError(
                f"{source}:{number} has {len(left)} sentences between {SEPARATOR}, but "
                f"{target}:{number} has {len(right)}; the two files do not belong together"
            )
        for sentences in zip(left, right, strict=True):
            yield Pair(*sentences, pair.places)
        yield None


# --- talks ----------------------------------------------------------------------------------------
#
# Training text of IWSLT, ``train.tags.SRC-TGT.LANG``: transcripts of TED talks.
#
# Lines with tags describe a talk (``<url>``, ``<talkid>``, ``<title>``, ..; in 2017 also ``<doc>``,
# ``<reviewer>``, ``<translator>``); every other line is a sentence. It is no XML, so nothing is
# unescaped. A talk begins where lines with tags follow a sentence.

_TAG = re.compile(
    r"</?(url|speaker|talkid|title|description|keywords|reviewer|translator|doc|transcript)\b[^<>]*>",
    re.IGNORECASE,
)
# Tags with text in both languages.
_HEADINGS = ("title", "description")


class TalkSentence(NamedTuple):
    """A sentence and its line."""

    text: str
    line: int


class Talk(NamedTuple):
    """A talk on one side, and the line where it begins."""

    name: str
    line: int
    sentences: Sequence[TalkSentence]


def read_talks(source: Path, target: Path, headings: bool) -> Pairs:
    """Yield the pairs of the training text.

    With ``headings``, title and description of a talk are its first two sentences, as in fairseq's
    script for IWSLT14; Maruf et al. (2019) leave them out.
    """
    talks = zip_longest(_talks(source, headings), _talks(target, headings))
    for number, (left, right) in enumerate(talks, start=1):
        if left is None or right is None:
            longer, shorter = (target, source) if left is None else (source, target)
            raise GtransError(f"{shorter} has {number - 1} documents, but {longer} has more")
        here = FileLine(source, left.line)
        there = FileLine(target, right.line)
        if left.name != right.name:
            raise GtransError(
                f"document {number} is '{left.name}' in {here} but '{right.name}' in {there}; the "
                "two files do not belong together"
            )
        if len(left.sentences) != len(right.sentences):
            raise GtransError(
                f"document {number} ({left.name or 'without a name'}) has {len(left.sentences)} "
                f"sentences in {here} but {len(right.sentences)} in {there}; the two files do not "
                "belong together"
            )
        pairs = zip(left.sentences, right.sentences, strict=True)
        for sentence, translation in pairs:
            places = FileLine(source, sentence.line), FileLine(target, translation.line)
            yield Pair(sentence.text, translation.text, places)
        yield None


def _talks(path: Path, headings: bool) -> Iterator[Talk]:
    name, begin = "", 1
    first: list[TalkSentence] = []
    sentences: list[TalkSentence] = []
    for number, line in enumerate(iterate_raw_lines(path), start=1):
        tag = _TAG.match(line)
        if tag is None:
            sentence = sentence_of(line, path, number)
            sentences.append(TalkSentence(sentence, number))
            continue
        if sentences:
            yield Talk(name, begin, [*first, *sentences])
            name, begin, first, sentences = "", number, [], []
        content = _TAG.sub("", line).strip()
        if tag[1].lower() == "talkid":
            name = content
        elif tag[1].lower() in _HEADINGS and headings and content:
            heading = sentence_of(content, path, number)
            first.append(TalkSentence(heading, number))
    if sentences:
        yield Talk(name, begin, [*first, *sentences])


# --- test sets ------------------------------------------------------------------------------------
#
# Test sets of IWSLT (XML), WMT and NIST (SGM): ``<doc>`` with ``<seg id="1">`` inside.
#
# Source and reference are two files, or one. Sentences are matched by document and ``id``, in the
# order of the source, because ids need not be in order; a sentence without a counterpart becomes a
# pair with an empty side.


def read_set(source: Path, target: Path) -> Pairs:
    """Yield the pairs of a test set, with the first of its references."""
    left, right = _open_set(source, "source"), _open_set(target, "reference")
    versions = _open_set(target, "reference").versions()
    # IWSLT's references of tst2016 and tst2017 are the source side of the other direction.
    roles = set()
    for document in versions:
        roles |= {sentence.role for sentence in document.sentences}
    if roles == {"source"}:
        right = _open_set(target, "source")
    else:
        for _ in right:
            pass  # it knows the names of its references at the end
        first = TextSelection(references=(right.references[0],))
        right = _open_set(target, "reference", first)
    for pairs in matched(left, right, strict=False):
        for here, there in pairs:
            places = FileLine(source, here.line), FileLine(target, there.line)
            yield Pair(here.text(), there.text(), places)
        yield None


def _open_set(path: Path, role: Role, selection: TextSelection = ALL_TEXT) -> TestSet:
    text = open_text(path, role, selection)
    if not isinstance(text, TestSet):
        raise GtransError(f"{path}: no <doc> with a <seg>; it is no test set in XML or SGM")
    return text


# --- News Commentary ------------------------------------------------------------------------------
#
# ``aligned.tgz`` of CASMACAT has News Commentary v11 as files of the same name, an article each, in
# two folders of a pair.


def read_articles(source: Path, target: Path) -> Pairs:
    """Yield the pairs of two folders with a file for each article."""
    source_names = {path.name for path in source.iterdir()}
    target_names = {path.name for path in target.iterdir()}
    for name in sorted(source_names ^ target_names):
        here, there = (source, target) if name in source_names else (target, source)
        raise GtransError(f"{here / name} has no counterpart in {there}")
    for name in sorted(source_names):
        yield from filter(None, read_lines(source / name, target / name, "either"))
        yield None


# --- parts of a split -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SplitPart:
    """The files of a part of a split.

    Attributes:
        reader: see :func:`read_part`.
        source, target: alternative names of files; without ``target``, one file has both languages.
        part: replaces ``{part}`` in the names.
        headings: see :func:`read_talks`.
    """

    reader: str
    source: Sequence[str]
    target: Sequence[str] = ()
    part: str = ""
    boundary: Boundary = "none"
    headings: bool = False

    def patterns(self, split: str, source: str, target: str, year: str) -> list[tuple[str, ...]]:
        """Return the alternative names of each file; ``valid`` may be ``dev``."""
        low, high = sorted((source, target))
        published = ("dev", split) if split == "valid" else (split,)
        names = {
            "part": self.part,
            "source": source,
            "target": target,
            "year": year,
            "pair": f"{source}-{target}",
            "joined": source + target,
            "swapped": target + source,
            "low": low,
            "high": high,
        }
        sides = [(self.source, source), (self.target, target)]
        groups = []
        for alternatives, lang in sides:
            formatted: dict[str, None] = {}
            for name in alternatives:
                for label in published:
                    formatted[name.format(**names, lang=lang, split=label)] = None
            if formatted:
                groups.append(tuple(formatted))
        return groups


def read_part(part: SplitPart, source: Path, target: Path) -> Pairs:
    """Yield the pairs of a part of a split."""
    readers: dict[str, Callable[..., Pairs]] = {
        "lines": partial(read_lines, boundary=part.boundary),
        "talks": partial(read_talks, headings=part.headings),
        "sets": read_set,
        "articles": read_articles,
        "groups": read_groups,
    }
    return readers[part.reader](source, target)
