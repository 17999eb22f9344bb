"""Readers of published corpora: sentence pairs, and the boundaries between documents.

A reader yields a :class:`Pair` for each sentence and its translation, in order, and None where a
document ends and another begins. All raise GtransError if a file cannot be read or the two sides do
not belong together; the message names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from gtrans.data.documents import DOCUMENT_LINE, check_length, iterate_raw_lines
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


# --- lines ----------------------------------------------------------------------------------------
#
# Two files whose lines belong together, and one file of two columns.
#
# The sets of Maruf et al. (2019) have a line ``<d>`` before each document, News Commentary from v14
# on has an empty line between articles. Europarl, Common Crawl and OPUS-100 tell of no documents.

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
    yield from _pairs_of_lines(both, source, target, boundary)


def _pairs_of_lines(
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


# --- OpenSubtitles2018 of Voita et al. ------------------------------------------------------------
#
# OpenSubtitles2018 as Voita et al. (2019) distribute it: groups of sentences on one line.
#
# A line of ``context_aware`` is four consecutive sentences with ``_eos`` between them, tokenised.
# The groups overlap and are shuffled, so each is a document of its own.

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


# --- talks ----------------------------------------------------------------------------------------
#
# Training text of IWSLT, ``train.tags.SRC-TGT.LANG``: transcripts of TED talks.
#
# Lines with tags say what a talk is (``<url>``, ``<talkid>``, ``<title>``, ..; in 2017 also
# ``<doc>``, ``<reviewer>``, ``<translator>``); every other line is a sentence, as it is: it is no
# XML, so nothing is unescaped. A talk begins where lines with tags follow a sentence.

_TAG = re.compile(
    r"</?(url|speaker|talkid|title|description|keywords|reviewer|translator|doc|transcript)\b[^<>]*>",
    re.IGNORECASE,
)
# What a talk says of itself in words, in both languages.
_HEADINGS = ("title", "description")


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
        elif tag[1].lower() in _HEADINGS and headings and content:
            first.append((sentence_of(content, path, number), number))
    if sentences:
        yield Block(name, begin, [*first, *sentences])


# --- test sets ------------------------------------------------------------------------------------
#
# What tags say, in files that call themselves XML or SGML and are neither.
#
# Published test sets have unescaped ``&``, missing end tags, and tags in either case, on which XML
# parsers fail or lose text. Python's parser of HTML goes on; it knows no entities of a file's own.
# Here, ``&amp;``, ``&lt;``, ``&gt;``, ``&quot;``, ``&apos;`` and numbers stand for characters, any
# other ``&`` for itself; only the tags of a format are tags, any other ``<`` is text.
#
# Test sets of IWSLT (XML), WMT and NIST (SGM): ``<doc>`` with ``<seg id="1">`` inside.
#
# Source and reference are two files. Sentences are matched by document and by ``id``, in the order
# of the source, because ids need not be in order; a sentence that only one side has is a pair that
# is empty on the other.

_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});)")
_LONGEST_TAG = 2_000  # characters; an open tag is parsed again with every line that follows
_OUTER = ("srcset", "refset", "tstset", "mteval")
_TAGS = frozenset({*_OUTER, "doc", "seg", "p", "hl"})  # in lower case; all others are text
_OTHER = re.compile(rf"<(?!/?(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)


@dataclass
class Document:
    """One document on one side.

    Attributes:
        name: its ``docid``, by which the sides are matched.
        system: whose it is; NIST's files have several references in turn.
        line: where it begins in its file, from 1.
        sentences: with the lines where they begin, by ``id``; without ids, by their place from 1.
    """

    name: str
    system: str
    line: int
    sentences: dict[str, tuple[str, int]] = field(default_factory=dict)


class _Sets(HTMLParser):
    """The documents of a file; ``<hl>`` and ``<p>`` are parts of a text, not text."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self._found: list[Document] = []
        self._line = self._begin = 0
        self._text: list[str] | None = None
        self._document: Document | None = None
        self._id = self._system = ""

    def items(self) -> Iterator[Document]:
        """What the file holds.

        Raises:
            GtransError: the file cannot be read, or a tag has no end.
        """
        for number, line in enumerate(iterate_raw_lines(self.path, strip=False), start=1):
            self._line = number
            self.feed(f"{_OTHER.sub('&lt;', _BARE.sub('&amp;', line))}\n")
            if len(self.rawdata) > _LONGEST_TAG:
                raise GtransError(f"{self.path}:{number}: a tag before this line has no end")
            yield from self._found
            self._found.clear()
        self.close()
        self._end_sentence()  # the last document may have no end tag
        self._end_document()
        yield from self._found

    def set_cdata_mode(self, *_: object, **__: object) -> None:
        """Tags count everywhere: a <title> may have no end."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A set, a document or a sentence begins, and what is open ends."""
        attributes = {name: value or "" for name, value in attrs}
        if tag not in _TAGS:
            self.handle_data(self.get_starttag_text() or "")
            return
        self._end_sentence()
        if tag in _OUTER:
            self._end_document()
            self._system = attributes.get("refid") or attributes.get("sysid") or ""
        elif tag == "doc":
            self._end_document()
            system = attributes.get("sysid") or self._system
            name = (attributes.get("docid") or attributes.get("id") or "").strip()
            self._document = Document(name, system, self._line)
        elif tag == "seg":
            if self._document is None:
                raise GtransError(f"{self.path}:{self._line}: a <seg> outside of a <doc>")
            self._id = attributes.get("id", "").strip() or str(len(self._document.sentences) + 1)
            self._text, self._begin = [], self._line

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without content: ``<seg id="1"/>`` is a sentence without text."""
        self.handle_starttag(tag, attrs)
        if tag in _TAGS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        """The same, at an end tag."""
        if tag not in _TAGS:
            self.handle_data(f"</{tag}>")
        elif tag not in ("p", "hl") or self._text is None:
            self._end_sentence()
            if tag == "doc" or tag in _OUTER:
                self._end_document()

    def handle_data(self, data: str) -> None:
        """Text: a part of a sentence, or between sentences, where it counts for nothing."""
        if self._text is not None:
            self._text.append(data)

    def _end_sentence(self) -> None:
        if self._text is None or self._document is None:
            return
        text = sentence_of("".join(self._text), self.path, self._begin)
        self._text = None
        if self._id in self._document.sentences:
            raise GtransError(
                f"{self.path}:{self._begin}: the id {self._id} occurs twice in the document "
                f"'{self._document.name}'"
            )
        self._document.sentences[self._id] = (text, self._begin)

    def _end_document(self) -> None:
        if self._document is not None:
            self._found.append(self._document)
        self._document = None


def read_set(source: Path, target: Path, reference: int = 0) -> Pairs:
    """The pairs of a test set.

    Args:
        source: the file of the source language.
        target: the file of the references.
        reference: which of several references, from 0.

    Raises:
        GtransError: the files do not have the same documents, there is no such reference, or a
            file cannot be read.
    """
    systems = references_of(target)
    if reference >= len(systems):
        raise GtransError(f"{target} has {len(systems)} references, and no number {reference + 1}")
    wanted = systems[reference]
    right = iter([found for found in _Sets(target).items() if found.system == wanted])
    count = 0
    for count, left in enumerate(_Sets(source).items(), start=1):
        other = next(right, None)
        if other is None or other.name != left.name:
            found = "has no more" if other is None else f"has '{other.name}' in line {other.line}"
            raise GtransError(
                f"document {count} is '{left.name}' in {source}:{left.line}, but {target} {found}; "
                "the two files do not belong together"
            )
        if count > 1:
            yield None
        yield from _match((source, left), (target, other))
    if not count:
        raise GtransError(f"{source}: no <doc> with a <seg>; it is no test set in XML or SGM")
    if (rest := next(right, None)) is not None:
        raise GtransError(
            f"{source} has {count} documents, but {target} has more ('{rest.name}', line "
            f"{rest.line}); the two files do not belong together"
        )


def references_of(path: Path) -> list[str]:
    """The systems of a file of references, in its order."""
    return list(dict.fromkeys(document.system for document in _Sets(path).items())) or [""]


def _match(source: tuple[Path, Document], target: tuple[Path, Document]) -> Iterator[Pair]:
    """The pairs of a document: those of the source in its order, then what only the target has.

    A sentence that a side lacks has the place of its document there.
    """
    for name in dict.fromkeys([*source[1].sentences, *target[1].sentences]):
        (left, here), (right, there) = (
            document.sentences.get(name, ("", document.line)) for _, document in (source, target)
        )
        yield Pair(left, right, ((source[0], here), (target[0], there)))


# --- News Commentary ------------------------------------------------------------------------------
#
# ``aligned.tgz`` of CASMACAT has News Commentary v11 as files of the same name, an article each, in
# two folders of a pair.

def read_articles(source: Path, target: Path) -> Pairs:
    """The pairs of two folders with a file for each article, in the order of their names.

    Raises:
        GtransError: an article is missing on one side, or as :func:`read_lines`.
    """
    names = [sorted(path.name for path in side.iterdir()) for side in (source, target)]
    for name in sorted({*names[0]} ^ {*names[1]}):
        here, there = (source, target) if name in names[0] else (target, source)
        raise GtransError(f"{here / name} has no counterpart in {there}")
    for number, name in enumerate(names[0]):
        if number:
            yield None
        for pair in read_lines(source / name, target / name, "either"):
            if pair is not None:
                yield pair
