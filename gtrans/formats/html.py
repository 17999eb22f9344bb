"""HTML.

The file is taken apart into tags and text, and put together again with other text: comments,
scripts, tags but for their texts (``alt``, ``title``, ..) and ``lang``, and white space between
blocks stay byte for byte.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from gtrans.data.documents import read_text
from gtrans.errors import GtransError
from gtrans.formats.document_file import KEPT, DocumentFile, Note
from gtrans.formats.inline import Block, Mark, Splitter
from gtrans.languages import language_code
from gtrans.text.reader import ANY, Choice

# ---- tags and text -------------------------------------------------------------------------------

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
    "template", "object", "iframe", "xmp",
})  # fmt: skip
# What is inside has no tags (HTML, 13.2.5: "RCDATA", "RAWTEXT", "script data").
_WITHOUT_TAGS = frozenset({
    "script", "style", "textarea", "title", "iframe", "xmp", "noembed", "noframes",
})  # fmt: skip
_AFTER_P = frozenset({
    "address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div",
    "dl", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5",
    "h6", "header", "hgroup", "hr", "main", "menu", "nav", "ol", "p", "pre", "search", "section",
    "table", "ul",
})  # fmt: skip
_CELLS = frozenset({"td", "th", "tr"})
_ENDED_BY = {
    "p": _AFTER_P,
    "li": frozenset({"li"}),
    **dict.fromkeys(("dt", "dd"), frozenset({"dt", "dd"})),
    "option": frozenset({"option", "optgroup"}),
    **dict.fromkeys(("td", "th"), _CELLS),
    "tr": frozenset({"tr"}),
}
"""Elements whose end tag may be left out (HTML, 13.1.2.4), and the tags whose begin ends them."""
_NEED_NO_END = _ENDED_BY.keys() | {"html", "head", "body"}

# A tag or a comment ends where browsers end it (HTML, 13.2.5); what template engines replace is
# never taken apart, wherever it stands. Python's own parser ends a tag in an attribute that has no
# end, so that what is written in it becomes a tag.
_INSIDE = rf"(?:(?!<(?i:!--|{'|'.join(sorted(_WITHOUT_TAGS))})).){{0,400}}?"
_TEMPLATE = (
    rf"\{{\{{\{{{_INSIDE}\}}\}}\}}|\{{\{{{_INSIDE}\}}\}}|\{{%{_INSIDE}%\}}|\{{#{_INSIDE}#\}}"
    rf"|<%{_INSIDE}%>|<\?(?:php|=){_INSIDE}\?>"
)
_VALUE = "|".join(rf"{q}(?:{_TEMPLATE}|[^{q}])*+(?:{q}|\Z)" for q in "\"'")
_ATTRIBUTE = (
    rf"(?P<key>{_TEMPLATE}|[^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?P<value>{_VALUE}|"
    rf"(?:{_TEMPLATE}|[^\s\"'>])(?:{_TEMPLATE}|[^\s>])*+))?+"
)
_ATTRIBUTES = re.compile(_ATTRIBUTE, re.DOTALL)
_WITHOUT_NAMES = re.sub(r"\?P<\w+>", "?:", _ATTRIBUTE)
_PART = re.compile(
    rf"(?P<template>{_TEMPLATE})"
    r"|(?P<other><!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+>?|</(?:>|[^A-Za-z>][^>]*+>?))"
    rf"|<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:[\s/]*+{_WITHOUT_NAMES})*+[\s/]*+(?P<closed>>?)",
    re.DOTALL,
)
_TEMPLATES = re.compile(f"({_TEMPLATE})", re.DOTALL)

_TEXTS = frozenset({"alt", "title", "placeholder", "aria-label", "aria-description"})
_TEXTS_OF = {"track": "label", "option": "label", "optgroup": "label"}
_DESCRIPTIONS = frozenset({
    "description", "og:title", "og:description", "og:image:alt", "twitter:title",
    "twitter:description", "twitter:image:alt",
})  # fmt: skip


@dataclass(eq=False)
class Part:
    """A part of the file.

    Attributes:
        kind: ``begin`` or ``end`` of a tag, ``text``, ``template``, ``other`` (such as a comment),
            or ``whole``: elements with their contents that are left alone.
        name: of the tag, or of the first element of a whole.
        raw: as it is in the file.
        changes: the values of its attributes that change, with their places and quotes: texts that
            are translated, and None for languages.
    """

    kind: str
    name: str
    raw: str
    changes: dict[tuple[int, int], Block | None] = field(default_factory=dict)

    def attributes(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """The attributes of a tag: what is written, and where; the first of a name counts."""
        found: dict[str, tuple[str, tuple[int, int]]] = {}
        for one in _ATTRIBUTES.finditer(self.raw.removesuffix(">"), len(self.name) + 1):
            found.setdefault(one["key"].lower(), (one["value"] or "", one.span("value")))
        return found


def _parts(text: str) -> Iterator[Part]:
    """The parts, which together are the text."""
    done, place = 0, 0
    while found := _PART.search(text, place):
        if found.start() > done:
            yield Part("text", "", text[done : found.start()])
        done = place = found.end()
        if found["name"] is None:
            yield Part("template" if found["template"] else "other", "", found[0])
            continue
        name = found["name"].lower()
        if not found["closed"]:
            yield Part("unclosed", name, found[0])
            continue
        yield Part("end" if found["end"] else "begin", name, found[0])
        if name in _WITHOUT_TAGS and not found["end"]:
            end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, place)
            place = end.start() if end else len(text)
    if done < len(text):
        yield Part("text", "", text[done:])


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
        unended: for each element that is left alone and has no end tag, and for a tag that does
            not end: the line, from 0, and the name.
    """

    def __init__(self, text: str) -> None:
        self._open: list[_Element] = []
        self.unended: list[tuple[int, str]] = []
        self.parts: list[Part] = []
        line = 0
        marked = []
        for part in _parts(text):
            marked.append((self._alone(part, line), part))
            line += part.raw.count("\n")
        self._close(0, None)
        for alone, found in groupby(marked, key=lambda pair: pair[0]):
            parts = [part for _, part in found]
            whole = "".join(part.raw for part in parts)
            self.parts += parts if alone is None else [Part("whole", alone.name, whole)]

    def _alone(self, part: Part, line: int) -> _Element | None:
        """The element because of which a part is left alone."""
        alone = self._open[-1].alone if self._open else None
        if part.kind == "begin":
            self._end_before(part.name)
            alone = self._open[-1].alone if self._open else None
            element, translate = _Element(part.name, line), _translate(part)
            if part.name in _LEFT_ALONE or translate is False:
                alone = alone or element
            elif translate and not any(one.name in _LEFT_ALONE for one in self._open):
                alone = None
            element.alone = alone
            if part.name not in VOID:
                self._open.append(element)
        elif part.kind == "end":
            names = [one.name for one in self._open]
            if part.name in names:
                place = len(names) - 1 - names[::-1].index(part.name)
                alone = self._open[place].alone
                self._close(place, part.name)
        elif part.kind == "unclosed":
            self.unended.append((line, part.name))
        return alone

    def _end_before(self, name: str) -> None:
        """Close the element that ends where another begins."""
        for place in reversed(range(len(self._open))):
            over = self._open[place].name
            if name in _ENDED_BY.get(over, ()):
                self._close(place, over)
            elif over not in _ENDED_BY and over not in INLINE:
                return

    def _close(self, place: int, name: str | None) -> None:
        """Close the elements from one on; it is ended by ``name``, the others have no end tag."""
        for number, element in enumerate(self._open[place:]):
            ended = number == 0 and element.name == name
            if element.alone is element and not ended and element.name not in _NEED_NO_END:
                self.unended.append((element.line, element.name))
        del self._open[place:]


def _translate(part: Part) -> bool | None:
    """What a begin tag says itself of being translated: ``translate`` or ``notranslate``."""
    if "translate" not in part.raw:
        return None
    said = part.attributes()
    if "notranslate" in said.get("class", ("", 0))[0].strip("\"'").split():
        return False
    value = said.get("translate", ("not said", 0))[0].strip("\"'").lower()
    return {"no": False, "yes": True, "": True}.get(value)


# ---- texts ---------------------------------------------------------------------------------------


class HtmlText:
    """HTML as what stays and what is translated, in order.

    Args:
        text: the HTML.
        split: turns running text into sentences.

    Attributes:
        blocks: what is translated: texts, and before each those of its attributes.
        lines: the line of each of them, from 0.
        unended: what is wrong with tags that do not end, with their lines.
    """

    def __init__(self, text: str, split: Splitter) -> None:
        parts = Parts(text)
        self.blocks: list[Block] = []
        self.lines: list[int] = []
        self.unended = [
            (line, f": <{name}> has no end, and what it holds stays as it is")
            for line, name in parts.unended
        ]
        self._pieces: list[Part | Block] = []
        self._split = split
        self._line = 0
        run: list[Part] = []
        for part in parts.parts:
            if part.kind in ("text", "other", "template") or (
                part.name in INLINE and part.kind != "unclosed"
            ):
                run.append(part)
                continue
            self._add(run)
            run = []
            self._find_texts(part, self._line)
            self._pieces.append(part)
            self._line += part.raw.count("\n")
        self._add(run)

    def translated(
        self,
        translations: Iterator[Sequence[str]],
        joint: str,
        languages: tuple[str, str] | None = None,
    ) -> str:
        """The HTML with other sentences.

        Args:
            translations: of the sentences of each block.
            joint: what stands between two sentences of a block.
            languages: of the source and the target, for attributes ``lang``.
        """
        items = {id(one): one.translated(next(translations), joint) for one in self.blocks}

        def of_block(block: Block, quote: str = "<") -> str:
            return "".join(
                html.escape(item, quote=False).replace(quote, html.escape(quote))
                if isinstance(item, str)
                else of_part(item.what)
                for item in items[id(block)]
            )

        def of_part(part: Part) -> str:
            text = part.raw
            for (begin, end), block in reversed(part.changes.items()):
                quote = text[begin] if text[begin] in "\"'" else '"'
                new = _language(text[begin:end], part.name == "html", languages)
                if block is not None:
                    new = of_block(block, quote)
                if new is not None:
                    text = f"{text[:begin]}{quote}{new}{quote}{text[end:]}"
            return text

        return "".join(
            of_block(piece) if isinstance(piece, Block) else of_part(piece)
            for piece in self._pieces
        )

    def _add(self, run: Sequence[Part]) -> None:
        """The parts between two tags of blocks; white space around them stays."""
        line = self._line
        for part in run:
            self._find_texts(part, line)
            line += part.raw.count("\n")
        block = Block([item for part in run for item in _content(part)], self._split)
        if block.sentences:
            raw = "".join(part.raw for part in run)
            words = raw.strip()
            before, _, behind = raw.partition(words)
            self.lines.append(self._line + before.count("\n"))
            self.blocks.append(block)
            self._pieces += [Part("text", "", before), block, Part("text", "", behind)]
        else:
            self._pieces += run
        self._line = line

    def _find_texts(self, part: Part, line: int) -> None:
        """Find the attributes of a tag that are text, or say the language of one."""
        if part.kind != "begin" or "=" not in part.raw:
            return
        said = part.attributes()
        texts = {*_TEXTS, _TEXTS_OF.get(part.name)}
        if part.name == "meta" and _of(said, "name", _of(said, "property")) in _DESCRIPTIONS:
            texts.add("content")
        if part.name == "input" and _of(said, "type") in ("submit", "button", "reset"):
            texts.add("value")
        for key, (value, place) in said.items():
            if key in ("lang", "xml:lang") and value:
                part.changes[place] = None
            elif key in texts and value:
                block = Block(list(_text(_unquoted(value))), self._split)
                if block.sentences:
                    part.changes[place] = block
                    self.blocks.append(block)
                    self.lines.append(line)


def _unquoted(value: str) -> str:
    return value[1:-1] if value[0] in "\"'" else value


def _of(said: Mapping[str, tuple[str, tuple[int, int]]], key: str, default: str = "") -> str:
    """The value of an attribute in lower case."""
    value = said[key][0] if key in said else ""
    return _unquoted(value).strip().lower() if value else default


def _language(value: str, is_page: bool, languages: tuple[str, str] | None) -> str | None:
    """What an attribute ``lang`` becomes: of the page, or of text in the source language."""
    if languages is None:
        return None
    source, target = languages
    here = language_code(_unquoted(value).strip())
    if not is_page and (here is None or here != language_code(source)):
        return None
    return target.replace("_", "-").removesuffix("-XX")


def _text(raw: str) -> Iterator[str | Mark]:
    """A text without the escapes of HTML, but for what template engines replace."""
    for number, piece in enumerate(_TEMPLATES.split(raw)):
        yield Mark("point", Part("template", "", piece)) if number % 2 else html.unescape(piece)


def _content(part: Part) -> Iterator[str | Mark]:
    if part.kind == "text":
        yield html.unescape(part.raw)
    elif part.kind in ("begin", "end") and part.name not in VOID:
        kind: Literal["open", "close"] = "open" if part.kind == "begin" else "close"
        yield Mark(kind, part, script=kind == "open" and part.name in ("sub", "sup"))
    else:
        hidden = part.kind == "other" or part.name == "wbr"
        leads = part.name in ("img", "input", "svg")
        yield Mark("point", part, part.name == "br", hidden, leads=leads)


# ---- files ---------------------------------------------------------------------------------------

_CHARSET = re.compile(
    r"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LOOKED_AT = 1024  # characters in which HTML has its charset
_UTF_8 = ("utf-8", "utf8")


class Html(DocumentFile):
    """HTML in UTF-8."""

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        assert split is not None
        text = read_text(path)
        declared = _CHARSET.search(text[:_LOOKED_AT])
        charset = (declared[1] or declared[2]).lower() if declared else _UTF_8[0]
        if charset not in _UTF_8:
            raise GtransError(f"'{path}' says that it is in {charset}; convert the file to UTF-8")
        self.html = HtmlText(text, split)
        self.documents = [self.html.blocks]

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        both = zip(self.html.lines, self.html.blocks, strict=True)
        return [line + 1 for line, block in both for _ in block.sentences]

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        by_block = (one for _, one in self.by_block(translations))
        found = self.html.translated(by_block, joint, self.languages)
        self.notes = [
            Note(f"{self.path}:{line + 1}", KEPT, told) for line, told in self.html.unended
        ]
        self.note_moved(zip(self.html.lines, self.html.blocks, strict=True))
        return found.encode()
