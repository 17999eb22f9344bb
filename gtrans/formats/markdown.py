"""Markdown: CommonMark with tables, strikethrough, footnotes, definition lists, math, front matter.

Only the lines of paragraphs, headings and cells are written anew, each of them on one line; all
others stay byte for byte. After every block its inline markup is parsed again: what Markdown
cannot express in the translation is given up and reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from gtrans.data.documents import read_text
from gtrans.errors import GtransError
from gtrans.formats.blocks import Block, Splitter
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.html import HtmlText
from gtrans.formats.markdown_inline import Place, content, reparsed, without_emphasis, written
from gtrans.formats.markdown_parser import EMPHASES, inline_outline, is_emphasis, outline, parser

_TAG_OF_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?)\s*\S+\s")
_NOT_TRANSLATED = "not translated, to keep its markup"


@dataclass
class _HtmlPlace:
    """Where a block of HTML stands, and what is before each of its lines there."""

    first: int
    last: int
    before: list[str]
    html: HtmlText

    def lines(self) -> list[tuple[int, Block]]:
        """Its blocks and their lines, from 0."""
        both = zip(self.html.lines, self.html.blocks, strict=True)
        return [(self.first + line, block) for line, block in both]

    def text(self, translations: Iterator[Sequence[str]], joint: str) -> str:
        """Its lines, of which there may be fewer in a translation."""
        lines = self.html.translated(translations, joint).split("\n")
        return "\n".join(map("".join, zip(self.before, lines, strict=False)))


class Markdown(DocumentFile):
    """Markdown."""

    libraries = ("markdown_it", "mdit_py_plugins")

    @classmethod
    def read(cls, path: str, split: Splitter) -> Markdown:
        """See :meth:`DocumentFile.read`."""
        found = cls(path)
        text = read_text(path)
        first = re.search("\r\n|\r|\n", text)
        found.newline = first[0] if first else "\n"
        found.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        found.outline = outline("\n".join(found.lines))
        found._find(split)
        found.places.sort(key=lambda place: place.first)
        spots: list[Place | _HtmlPlace] = [*found.places, *found.html]
        found.order = sorted(chain(*(spot.lines() for spot in spots)), key=lambda entry: entry[0])
        found.documents = [[block for _, block in found.order]]
        return found

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.newline = "\n"
        self.lines: list[str] = []
        self.outline: list[tuple[str, ...]] = []
        self.places: list[Place] = []
        self.html: list[_HtmlPlace] = []
        self.order: list[tuple[int, Block]] = []
        self.unread: list[str] = []  # messages about text that stays as it is

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        return [line + 1 for line, block in self.order for _ in block.sentences]

    def _find(self, split: Splitter) -> None:
        """Find the blocks of running text and of HTML."""
        tokens = parser().parse("\n".join(self.lines))
        cell, row = 0, -1
        for number, token in enumerate(tokens):
            if token.type == "html_block" and token.map:
                self._read_html(token, split)
            if token.type != "inline" or not token.map or not token.content.strip():
                continue
            first = token.map[0]
            in_table = tokens[number - 1].type in ("th_open", "td_open")
            cell, row = (cell, row) if row == first and in_table else (0, first)
            lines = token.content.split("\n")
            places = []
            for offset, line in enumerate(lines):
                wanted, raw = line.strip(), self.lines[first + offset]
                if in_table:
                    wanted = wanted.replace("|", "\\|")
                    places.append(raw.find(wanted, cell))
                    cell = places[-1] + len(wanted)
                else:
                    places.append(raw.rfind(wanted))
            behind = places[-1] + len(lines[-1].strip())
            if in_table:
                behind = cell
            last = first + len(lines) - 1
            before = self.lines[first][: places[0]]
            if tokens[number - 1].type == "admonition_title_open" and (
                places[0] < 0 or not _TAG_OF_ADMONITION.search(before)
            ):
                continue  # it has no title, and markdown-it makes one of its kind
            further = self.lines[first + 1][: places[1]] if len(places) > 1 else ""
            block = Block(list(content(token, tokens[number - 2].type, further)), split)
            if min(places) < 0 and block.sentences:
                self.unread.append(f"{self.path}:{first + 1}: {_NOT_TRANSLATED}")
            elif block.sentences:
                ending = self.lines[last][behind:]
                self.places.append(
                    Place(first, last, before, ending, further, in_table, token, block)
                )

    def _read_html(self, token: Any, split: Splitter) -> None:
        """A block of HTML; in a list or a quotation something stands before its lines."""
        first, last = token.map
        lines = token.content.rstrip("\n").split("\n")
        raw = self.lines[first : first + len(lines)]
        fits = all(whole.endswith(line) for whole, line in zip(raw, lines, strict=True))
        where = f"{self.path}:{first + 1}"
        try:
            html = HtmlText("\n".join(lines), split)
        except GtransError as error:
            self.unread.append(f"{where}: {error}, so it is not translated")
            return
        if html.blocks and not (fits and first + len(lines) <= last):
            self.unread.append(f"{where}: {_NOT_TRANSLATED}")
            return
        self.unread += [
            f"{self.path}:{first + line + 1}: {message}" for line, message in html.unended
        ]
        if html.blocks:
            both = zip(raw, lines, strict=True)
            before = [whole[: len(whole) - len(line)] for whole, line in both]
            self.html.append(_HtmlPlace(first, first + len(lines) - 1, before, html))

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.lost = list(self.unread)
        of_block = {id(block): found for block, found in self.by_block(translations)}
        texts: list[str | None] = [
            self._text(place, of_block[id(place.block)], joint) for place in self.places
        ]
        texts += [
            place.text((of_block[id(block)] for block in place.html.blocks), joint)
            for place in self.html
        ]
        offending = self._offending(texts, range(len(texts)))
        if offending:
            texts = [None if n in offending else text for n, text in enumerate(texts)]
        if offending and self._differs(texts):  # they change it together only
            offending, texts = set(range(len(texts))), [None] * len(texts)
        spots: list[Place | _HtmlPlace] = [*self.places, *self.html]
        self.lost += [
            f"{self.path}:{spots[number].first + 1}: {_NOT_TRANSLATED}"
            for number in sorted(offending)
        ]
        both = zip(spots, texts, strict=True)
        self.lost += self.moved(chain(*(spot.lines() for spot, text in both if text is not None)))
        return self._composed(texts).replace("\n", self.newline).encode()

    def _offending(self, texts: Sequence[str | None], numbers: Sequence[int]) -> set[int]:
        """The blocks among ``numbers`` of which the translation changes the tree of the file."""
        chosen = [text if n in numbers else None for n, text in enumerate(texts)]
        if not numbers or not self._differs(chosen):
            return set()
        if len(numbers) == 1:
            return set(numbers)
        half = len(numbers) // 2
        return self._offending(texts, numbers[:half]) | self._offending(texts, numbers[half:])

    def _differs(self, texts: Sequence[str | None]) -> bool:
        kept = [entry for entry in self.outline if not is_emphasis(entry)]
        return [one for one in outline(self._composed(texts)) if not is_emphasis(one)] != kept

    def _composed(self, texts: Sequence[str | None]) -> str:
        """The file with the texts of blocks; None: as it was."""
        lines: list[str | None] = list(self.lines)
        places = list(zip(self.places, texts, strict=False))
        for place, text in reversed(places):  # a later cell stands behind the earlier ones
            if text is None:
                continue
            if place.in_table:
                row = lines[place.first] or ""
                end = len(self.lines[place.first]) - len(place.behind)
                lines[place.first] = row[: len(place.before)] + text + row[end:]
                continue
            lines[place.first] = place.before + text + place.behind
            lines[place.first + 1 : place.last + 1] = [None] * (place.last - place.first)
        for html, text in zip(self.html, texts[len(self.places) :], strict=True):
            if text is not None:
                lines[html.first] = text
                lines[html.first + 1 : html.last + 1] = [None] * (html.last - html.first)
        return "\n".join(line for line in lines if line is not None)

    def _text(self, place: Place, translations: Sequence[str], joint: str) -> str | None:
        """The Markdown of a block, with as much of its inline markup as can be kept."""
        items = place.block.translated(translations, joint)
        wanted = inline_outline(place.token)
        text = written(items, place)
        if reparsed(text, place) == wanted:
            return text
        text = written(without_emphasis(items), place)
        if reparsed(text, place, EMPHASES) == inline_outline(place.token, EMPHASES):
            marks = Counter(one[1] for one in wanted if one[0].endswith("_open") and one[1])
            told = " and ".join(f"{count} x {mark}" for mark, count in marks.items())
            self.lost.append(f"{self.path}:{place.first + 1}: emphasis is lost ({told})")
            return text
        self.lost.append(f"{self.path}:{place.first + 1}: {_NOT_TRANSLATED}")
        return None
