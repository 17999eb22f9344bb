"""What tags say, in files that call themselves XML or SGML and are neither.

Published test sets have unescaped ``&``, missing end tags, and tags in either case, on which XML
parsers fail or lose text. Python's parser of HTML goes on. It knows neither entities of the file's
own nor other files, so nothing expands and nothing is fetched. Here, ``&amp;``, ``&lt;``, ``&gt;``,
``&quot;``, ``&apos;`` and numbers stand for their characters, any other ``&`` for itself; only the
tags of a format are tags, any other ``<`` is text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Generic, TypeVar

from gtrans.data.documents import iterate_raw_lines
from gtrans.errors import GtransError
from gtrans.lab.corpora.pairs import sentence_of

Item = TypeVar("Item")

_BARE = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});)")
_LONGEST_TAG = 2_000  # characters; an open tag is parsed again with every line that follows


class Markup(HTMLParser, ABC, Generic[Item]):
    """Reads a file and collects what a format wants of it.

    Attributes:
        path: the file.
        found: complete items, which :meth:`items` takes away.
    """

    # The tags of a format, in lower case; all others are text.
    tags: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.path = path
        self.found: list[Item] = []
        self._other = re.compile(rf"<(?!/?(?:{'|'.join(self.tags)})\b)", re.IGNORECASE)
        self._line = 0
        self._begin = 0
        self._text: list[str] | None = None

    def items(self) -> Iterator[Item]:
        """What the file holds, item by item.

        Raises:
            GtransError: the file cannot be read, or a tag has no end.
        """
        for number, line in enumerate(iterate_raw_lines(self.path, strip=False), start=1):
            self._line = number
            self.feed(f"{self._other.sub('&lt;', _BARE.sub('&amp;', line))}\n")
            if len(self.rawdata) > _LONGEST_TAG:
                raise GtransError(f"{self.path}:{number}: a tag before this line has no end")
            yield from self.found
            self.found.clear()
        self.close()
        self.finish()
        yield from self.found

    def set_cdata_mode(self, *_: object, **__: object) -> None:
        """Tags count everywhere: a <title> may have no end."""

    # ---- sentences -------------------------------------------------------------------------------

    def begin_text(self) -> None:
        """What follows is a sentence."""
        self._text, self._begin = [], self._line

    def end_text(self) -> str | None:
        """The sentence that ends here; None if none has begun."""
        if self._text is None:
            return None
        text, self._text = "".join(self._text), None
        return sentence_of(text, self.path, self._begin)

    # ---- what Python's parser calls --------------------------------------------------------------

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag of the format, or a part of a sentence."""
        if tag in self.tags:
            self.open_tag(tag, {name: value or "" for name, value in attrs})
        else:
            self.handle_data(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """A tag without content: ``<seg id="1"/>`` is a sentence without text."""
        self.handle_starttag(tag, attrs)
        if tag in self.tags:
            self.close_tag(tag)

    def handle_endtag(self, tag: str) -> None:
        """The end of a tag of the format, or a part of a sentence."""
        if tag in self.tags:
            self.close_tag(tag)
        else:
            self.handle_data(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        """Text: a part of a sentence, or between sentences, where it counts for nothing."""
        if self._text is not None:
            self._text.append(data)

    # ---- what a format does ----------------------------------------------------------------------

    @abstractmethod
    def open_tag(self, tag: str, attributes: dict[str, str]) -> None:
        """One of :attr:`tags` begins."""

    @abstractmethod
    def close_tag(self, tag: str) -> None:
        """One of :attr:`tags` ends, or seems to."""

    @abstractmethod
    def finish(self) -> None:
        """The file ends; what is open is complete."""
