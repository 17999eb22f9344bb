"""HTML.

The file is taken apart into tags and text, and put together again with other text: tags,
attributes, comments, scripts, and white space between blocks stay byte for byte.
"""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import accumulate, groupby, pairwise

from gtrans.data.documents import read_bytes, read_text
from gtrans.errors import GtransError
from gtrans.formats.document_file import DocumentFile
from gtrans.formats.inline import Block, Mark, Splitter, with_addresses_marked

# Tags that stand in running text; every other one ends a block.
INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "data", "del",
    "dfn", "em", "font", "i", "img", "ins", "kbd", "label", "map", "mark", "math", "meter",
    "output", "progress", "q", "ruby", "rb", "rt", "rp", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "svg", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
VOID = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param",
    "source", "track", "wbr",
})  # fmt: skip
# What is inside is not text, or not to be translated.
_LEFT_ALONE = frozenset({
    "code", "kbd", "samp", "var", "tt", "math", "svg", "pre", "script", "style", "textarea",
    "template", "object", "iframe",
})  # fmt: skip
_AFTER_P = frozenset({
    "address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div",
    "dl", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5",
    "h6", "header", "hgroup", "hr", "main", "menu", "nav", "ol", "p", "pre", "search", "section",
    "table", "ul",
})  # fmt: skip
_ROW_GROUPS = frozenset({"thead", "tbody", "tfoot"})
_ENDED_BY = {
    "p": _AFTER_P,
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
    "option": frozenset({"option", "optgroup", "hr"}),
    "optgroup": frozenset({"optgroup", "hr"}),
    **dict.fromkeys(("td", "th"), frozenset({"td", "th", "tr"}) | _ROW_GROUPS),
    "tr": frozenset({"tr"}) | _ROW_GROUPS,
    **dict.fromkeys(_ROW_GROUPS, _ROW_GROUPS),
    **dict.fromkeys(("caption", "colgroup"), frozenset({"colgroup", "tr"}) | _ROW_GROUPS),
    **dict.fromkeys(("rb", "rt", "rp"), frozenset({"rb", "rt", "rp"})),
}
"""Elements whose end tag may be left out (HTML, 13.1.2.4), and the tags whose begin ends them."""
_NEED_NO_END = _ENDED_BY.keys() | {"html", "head", "body"}


@dataclass(frozen=True)
class Part:
    """A part of the file.

    Attributes:
        kind: ``begin``, ``end`` or ``empty`` of tags, ``text``, ``declaration``, ``other`` (such
            as a comment), or ``whole``: elements with their contents that are left alone.
        name: of the tag, or of the first element of a whole.
        raw: as it is in the file.
        translate: of a begin: what it says itself, by ``translate`` or ``notranslate``.
    """

    kind: str
    name: str
    raw: str
    translate: bool | None = None


class _Parts(HTMLParser):
    """Finds where the parts of a file begin."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        lengths = (len(line) + 1 for line in text.split("\n"))
        self._lines = [0, *accumulate(lengths)]
        self._begins: list[tuple[int, Part]] = []
        self._text = text
        self.feed(text)
        self.close()

    def parts(self) -> list[Part]:
        """The parts, which together are the file."""
        begins = [*self._begins, (len(self._text), Part("", "", ""))]
        if begins[0][0]:
            begins.insert(0, (0, Part("other", "", "")))
        found: list[Part] = []
        for (begin, part), (end, _) in pairwise(begins):
            raw = self._text[begin:end]
            if part.kind == "text" and found and found[-1].kind == "text":
                raw = found.pop().raw + raw
            found.append(replace(part, raw=raw))
        return found

    def _add(self, kind: str, name: str = "", translate: bool | None = None) -> None:
        line, column = self.getpos()
        self._begins.append((self._lines[line - 1] + column, Part(kind, name, "", translate)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(reversed(attrs))  # the first of two counts
        value = (said["translate"] or "").lower() if "translate" in said else "not said"
        translate = {"no": False, "yes": True, "": True}.get(value)
        if "notranslate" in (said.get("class") or "").split():
            translate = False
        self._add("begin", tag, translate)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)
        else:
            self._add("empty", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("declaration")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


@dataclass(eq=False)
class _Element:
    """An element that is open; ``alone``: the outermost one because of which it is left alone."""

    name: str
    line: int
    alone: _Element | None = None


class Parts:
    """The parts of HTML.

    Attributes:
        parts: together they are the file; stretches of it that are left alone are one part.
        unended: elements that are left alone and have no end tag: the line, from 0, and the name.

    Raises:
        AssertionError: it is no HTML.
    """

    def __init__(self, text: str) -> None:
        self._open: list[_Element] = []
        self.unended: list[tuple[int, str]] = []
        self._line = 0
        self.parts = list(self._together(_Parts(text).parts()))
        self._close(0, None)

    def _together(self, parts: Sequence[Part]) -> Iterator[Part]:
        """The parts, with what is left alone as one."""
        for alone, found in groupby(map(self._with_alone, parts), key=lambda pair: pair[0]):
            if alone is None:
                yield from (part for _, part in found)
            else:
                yield Part("whole", alone.name, "".join(part.raw for _, part in found))

    def _with_alone(self, part: Part) -> tuple[_Element | None, Part]:
        """A part, and the element because of which it is left alone."""
        alone = self._open[-1].alone if self._open else None
        if part.kind == "begin":
            self._end_before(part.name)
            element = _Element(part.name, self._line)
            element.alone = self._alone(element, part.translate)
            alone = element.alone
            if part.name not in VOID:
                self._open.append(element)
        elif part.kind == "end":
            names = [element.name for element in self._open]
            if part.name in names:
                place = len(names) - 1 - names[::-1].index(part.name)
                alone = self._open[place].alone
                self._close(place, part.name)
        self._line += part.raw.count("\n")
        return alone, part

    def _alone(self, element: _Element, translate: bool | None) -> _Element | None:
        within = self._open[-1].alone if self._open else None
        if element.name in _LEFT_ALONE or translate is False:
            return within or element
        return None if translate and not self._in_code() else within

    def _in_code(self) -> bool:
        return any(element.name in _LEFT_ALONE for element in self._open)

    def _end_before(self, name: str) -> None:
        """Close the element that ends where another begins."""
        for place in reversed(range(len(self._open))):
            over = self._open[place].name
            if name in _ENDED_BY.get(over, ()):
                self._close(place, over)
            elif over not in INLINE and over not in _ENDED_BY:
                return

    def _close(self, place: int, name: str | None) -> None:
        """Close the elements from one on; it is ended by ``name``, the others have no end tag."""
        for element in self._open[place:]:
            ended = element is self._open[place] and element.name == name
            if element.alone is element and not ended and element.name not in _NEED_NO_END:
                self.unended.append((element.line, element.name))
        del self._open[place:]


_CHARSET = re.compile(
    rb"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LOOKED_AT = 1024  # bytes in which HTML has its charset
# The charsets of the web (Encoding Standard, "Names and labels"), and what browsers read some as.
_CHARSETS = {
    *("utf-8", "cp866", "koi8-r", "koi8-u", "mac-roman", "mac-cyrillic", "cp874", "gbk", "gb18030"),
    *("big5", "big5hkscs", "euc_jp", "iso2022_jp", "shift_jis", "euc_kr"),
    *(f"iso8859-{number}" for number in (2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 15, 16)),
    *(f"cp{number}" for number in range(1250, 1259)),
}
_READ_AS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874",
    "tis-620": "cp874", "gb2312": "gbk",
}  # fmt: skip
# The codec of what follows each.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip


class HtmlText:
    """HTML as what stays and what is translated, in order.

    Args:
        text: the HTML.
        split: turns running text into sentences.

    Attributes:
        pieces: together they are the HTML.
        lines: the line of each block among them, from 0.
        unended: a message for each element that is left alone and has no end, with its line.

    Raises:
        GtransError: it is none.
    """

    def __init__(self, text: str, split: Splitter) -> None:
        try:
            parts = Parts(text)
        except AssertionError as error:  # so the parser tells of a declaration it cannot read
            raise GtransError(f"it is no HTML ({error})") from None
        self.pieces: list[str | Block] = []
        self.lines: list[int] = []
        self.unended = [
            (line, f"<{name}> has no end, so what it holds is not translated")
            for line, name in parts.unended
        ]
        self._split = split
        self._line = 0
        run: list[Part] = []
        for part in parts.parts:
            if part.kind in ("text", "other") or part.name in INLINE:
                run.append(part)
                continue
            self._add(run)
            run = []
            self._keep(part.raw)
        self._add(run)

    @property
    def blocks(self) -> list[Block]:
        """What is translated."""
        return [piece for piece in self.pieces if isinstance(piece, Block)]

    def translated(self, translations: Iterator[Sequence[str]], joint: str) -> str:
        """The HTML with other sentences; ``translations`` has those of each block."""
        return "".join(
            _written(piece, next(translations), joint) if isinstance(piece, Block) else piece
            for piece in self.pieces
        )

    def _keep(self, raw: str) -> None:
        if raw:
            self.pieces.append(raw)
            self._line += raw.count("\n")

    def _add(self, run: Sequence[Part]) -> None:
        """The parts between two tags of blocks; white space around them stays."""
        raw = "".join(part.raw for part in run)
        block = Block([item for part in run for item in _content(part)], self._split)
        if not block.sentences:
            self._keep(raw)
            return
        words = raw.strip()
        before, _, behind = raw.partition(words)
        self._keep(before)
        self.lines.append(self._line)
        self.pieces.append(block)
        self._line += words.count("\n")
        self._keep(behind)


def _content(part: Part) -> Iterator[str | Mark]:
    if part.kind == "text":
        for item in with_addresses_marked(html.unescape(part.raw)):
            # One that is escaped is a point as well, so it is written as it was.
            if isinstance(item, Mark):
                item = Mark("point", html.escape(item.what, quote=False))
            yield item
    elif part.kind in ("begin", "end") and part.name not in VOID:
        kind = "open" if part.kind == "begin" else "close"
        script = kind == "open" and part.name in ("sub", "sup")
        yield Mark(kind, part.raw, script=script)  # type: ignore[arg-type]
    else:
        hidden = part.kind == "other" or part.name == "wbr"
        yield Mark("point", part.raw, part.name == "br", hidden)


def _written(block: Block, translations: Sequence[str], joint: str) -> str:
    return "".join(
        html.escape(item, quote=False) if isinstance(item, str) else item.what
        for item in block.translated(translations, joint)
    )


class Html(DocumentFile):
    """HTML, in the charset that it declares."""

    @classmethod
    def read(cls, path: str, split: Splitter) -> Html:
        """See :meth:`DocumentFile.read`."""
        contents = read_bytes(path)
        mark, charset = _charset(contents)
        if charset == "utf-8" and not mark:
            text = read_text(path)
        else:
            try:
                text = contents[len(mark) :].decode(charset)
            except UnicodeDecodeError as error:
                line = contents.count(10, 0, len(mark) + error.start) + 1
                raise GtransError(
                    f"{path}:{line}: not {charset}, as which its charset is read; mend the "
                    "declaration, or convert the file"
                ) from None
        try:
            found = cls(path, HtmlText(text, split), charset, mark)
        except GtransError as error:
            raise GtransError(f"'{path}': {error}; mend it, or translate its text") from None
        found.documents = [found.html.blocks]
        return found

    def __init__(self, path: str, text: HtmlText, charset: str, mark: bytes) -> None:
        super().__init__(path)
        self.html = text
        self.charset, self.mark = charset, mark

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        both = zip(self.html.lines, self.html.blocks, strict=True)
        return [line + 1 for line, block in both for _ in block.sentences]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        found = self.html.translated((one for _, one in self.by_block(translations)), joint)
        self.lost = [f"{self.path}:{line + 1}: {told}" for line, told in self.html.unended]
        self.lost += self.moved(zip(self.html.lines, self.html.blocks, strict=True))
        return self.mark + found.encode(self.charset, "xmlcharrefreplace")


def _charset(contents: bytes) -> tuple[bytes, str]:
    """The byte order mark of HTML, and the codec that this or a declaration says, else ``utf-8``.

    What is declared as UTF-16 without a mark was read as text here, so it is UTF-8.
    """
    for mark, codec in _BYTE_ORDER_MARKS.items():
        if contents.startswith(mark):
            return mark, codec
    declared = _CHARSET.search(contents[:_LOOKED_AT])
    if declared:
        with suppress(LookupError):  # a name that nobody knows says nothing
            name = codecs.lookup((declared[1] or declared[2]).decode("ascii")).name
            name = _READ_AS.get(name, name)
            if name in _CHARSETS:
                return b"", name
    return b"", "utf-8"
