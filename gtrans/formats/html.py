"""HTML.

The file is taken apart into tags and text, and put together again with other text: comments,
scripts, tags but for their texts (``alt``, ``title``, ..) and ``lang``, and white space between
blocks stay byte for byte.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from gtrans.data.documents import read_text
from gtrans.errors import GtransError
from gtrans.formats.checks import BlockCheck
from gtrans.formats.inline import Block, Mark, with_points
from gtrans.languages import is_right_to_left, language_code
from gtrans.text.document_file import KEPT, DocumentFile, Note, Splitter
from gtrans.text.reader import ANY, Choice

# ---- tags and text -------------------------------------------------------------------------------


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tags that stand in running text; every other one ends a block.
INLINE = _names(
    "a abbr acronym b bdi bdo big br cite code data del dfn em font i img ins kbd label map mark "
    "math meter output progress q ruby rb rt rp rtc s samp small span strike strong sub sup svg "
    "time tt u var wbr"
)
VOID = _names("area base br col embed hr img input link meta param source track wbr")
# How the characters before them are read.
READINGS = _names("rp rt rtc")
# What is inside is not text, or not to be translated.
LEFT_ALONE = READINGS | _names(
    "code kbd samp var tt math svg pre script style textarea template object iframe xmp"
)
# What is inside has no tags (HTML, 13.2.5: "RCDATA", "RAWTEXT", "script data").
_WITHOUT_TAGS = _names("script style textarea title iframe xmp noembed noframes")
_AFTER_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre search section table ul"
)
_ROWS = _names("thead tbody tfoot")
_ROW = _ROWS | {"tr"}
_CELL = _ROW | {"td", "th"}
_TERMS = _names("dt dd")
_RUBY = _names("rb rp rt")
_ENDED_BY: dict[str, frozenset[str]] = {
    "html": frozenset(),
    "head": _names("body"),
    "body": frozenset(),
    "p": _AFTER_P,
    "li": _names("li"),
    "dt": _TERMS,
    "dd": _TERMS,
    "rb": _RUBY,
    "rp": _RUBY,
    "rt": _RUBY,
    "optgroup": _names("optgroup hr"),
    "option": _names("option optgroup hr"),
    "caption": _CELL | {"colgroup"},
    "colgroup": _CELL | {"colgroup"},
    "thead": _ROWS,
    "tbody": _ROWS,
    "tfoot": _ROWS,
    "tr": _ROW,
    "td": _CELL,
    "th": _CELL,
}
"""The elements whose end tag may be left out (HTML, 13.1.2.4), and the tags that end them then."""
_ENDING = frozenset[str]().union(*_ENDED_BY.values())

# A tag or a comment ends where browsers end it (HTML, 13.2.5); what template engines replace is
# never taken apart, wherever it stands. Python's own parser ends a tag in an attribute that has no
# end, so that what is written in it becomes a tag.
_INSIDE = rf"(?:(?!<(?i:!--|{'|'.join(sorted(_WITHOUT_TAGS))})).){{0,400}}?"
_TEMPLATE = (
    rf"\{{\{{\{{{_INSIDE}\}}\}}\}}|\$?\{{\{{{_INSIDE}\}}\}}|\{{%{_INSIDE}%\}}|\{{#{_INSIDE}#\}}"
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

_TEXTS = _names("alt title placeholder aria-label aria-description")
_TEXTS_OF = {"track": "label", "option": "label", "optgroup": "label"}
_DESCRIPTIONS = _names(
    "description og:title og:description og:image:alt twitter:title twitter:description "
    "twitter:image:alt"
)


_HIDING = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)


@dataclass(eq=False)
class HtmlPart:
    """A part of the file.

    Attributes:
        kind: ``begin`` or ``end`` of a tag, ``text``, ``template``, ``other`` (such as a comment),
            ``unclosed``: a tag that does not end, or ``whole``: elements with their contents that
            are left alone.
        name: of the tag, or of the first element of a whole.
        raw: as it is in the file.
        line: where it begins.
        changes: the values of its attributes that change, with their places and quotes: texts that
            are translated, and the names ``lang`` and ``dir`` of what follows the target language.
    """

    kind: str
    name: str
    raw: str
    line: int = 0
    changes: dict[tuple[int, int], Block | str] = field(default_factory=dict)

    @property
    def is_inline(self) -> bool:
        """Whether it stands in running text."""
        return self.kind != "unclosed" and (not self.name or self.name in INLINE)

    def attributes(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """The attributes of a tag: values, and where they are; the first of a name counts."""
        attributes: dict[str, tuple[str, tuple[int, int]]] = {}
        for match in _ATTRIBUTES.finditer(self.raw.removesuffix(">"), len(self.name) + 1):
            value = match["value"] or ""
            value = value[1:-1] if value[:1] in ("'", '"') else value
            attributes.setdefault(match["key"].lower(), (value, match.span("value")))
        return attributes

    def translate(self) -> bool | None:
        """What a begin tag says itself of being translated: ``translate`` or ``notranslate``."""
        if "translate" not in self.raw:
            return None
        values = {key: value for key, (value, _) in self.attributes().items()}
        if "notranslate" in values.get("class", "").split():
            return False
        return {"no": False, "yes": True, "": True}.get(values.get("translate", "not said").lower())

    def is_hidden(self) -> bool:
        """Whether a begin tag in running text hides what is inside from readers."""
        if self.name not in INLINE or not ("hidden" in self.raw or "none" in self.raw):
            return False
        attributes = self.attributes()
        style = attributes["style"][0] if "style" in attributes else ""
        return "hidden" in attributes or _HIDING.search(style) is not None


def _parts(text: str, line: int) -> Iterator[HtmlPart]:
    """The parts, which together are the text."""
    done, place = 0, 0
    while done < len(text):
        match = _PART.search(text, place)
        begin = match.start() if match else len(text)
        if begin > done:
            yield HtmlPart("text", "", text[done:begin], line)
            line += text.count("\n", done, begin)
        if not match:
            break
        done = place = match.end()
        name = (match["name"] or "").lower()
        kind = "end" if match["end"] else "begin"
        if not name:
            kind = "template" if match["template"] else "other"
        elif not match["closed"]:
            kind = "unclosed"
        elif name in _WITHOUT_TAGS and kind == "begin":
            end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, place)
            place = end.start() if end else len(text)
        yield HtmlPart(kind, name, match[0], line)
        line += match[0].count("\n")


def mark_of(kind: str, name: str, what: object) -> Mark:
    """A tag in running text, or what has the place of one there.

    Args:
        kind: see :class:`HtmlPart`.
        name: of the tag.
        what: the text written for it.
    """
    if kind in ("begin", "end") and name not in VOID:
        is_script = kind == "begin" and name in ("sub", "sup")
        return Mark("open" if kind == "begin" else "close", what, script=is_script)
    hidden = kind == "other" or name == "wbr" or name in READINGS
    leads = name in ("img", "input", "svg")
    return Mark("point", what, breaks=name == "br", hidden=hidden, leads=leads)


@dataclass(eq=False)
class _Element:
    """An element that is open; ``alone``: the outermost one because of which it is left alone."""

    name: str
    line: int
    alone: _Element | None


class HtmlText:
    """HTML as what stays and what is translated, in order.

    Args:
        text: the HTML.
        split: turns running text into sentences.
        line: where it begins in its file.
        check: which blocks are sent to the model.

    Attributes:
        blocks: the translated texts, before each its attributes'.
        unended: for each element that is left alone and has no end tag, and for a tag that does
            not end: the line and the name.
    """

    def __init__(self, text: str, split: Splitter, line: int, check: BlockCheck) -> None:
        self._check = check
        self.blocks: list[Block] = []
        self.unended: list[tuple[int, str]] = []
        self._pieces: list[HtmlPart | Block] = []
        self._split = split
        self._open: list[_Element] = []
        self._names = Counter[str]()  # of the open elements
        self._ending: list[int] = []  # those of them that end others, or may have no end tag
        for is_text, group in groupby(self._parts(text, line), key=lambda part: part.is_inline):
            parts = list(group)
            for part in parts:
                self._find_texts(part)
            self._pieces += self._block(parts) if is_text else parts

    def _parts(self, text: str, line: int) -> Iterator[HtmlPart]:
        """The parts; stretches of them that are left alone are one part."""
        marked = [(self._alone(part), part) for part in _parts(text, line)]
        self._close(0, None)
        for alone, group in groupby(marked, key=itemgetter(0)):
            parts = [part for _, part in group]
            raw = "".join(part.raw for part in parts)
            yield from (
                parts if alone is None else [HtmlPart("whole", alone.name, raw, parts[0].line)]
            )

    def _alone(self, part: HtmlPart) -> _Element | None:
        """The element that has a part left alone."""
        if part.kind == "unclosed":
            self.unended.append((part.line, part.name))
        if part.kind == "begin":
            self._end_before(part.name)
        alone = self._open[-1].alone if self._open else None
        if part.kind == "begin":
            element, translate = _Element(part.name, part.line, alone), part.translate()
            if part.name in LEFT_ALONE or translate is False or part.is_hidden():
                element.alone = alone or element
            elif translate and not any(self._names[name] for name in LEFT_ALONE):
                element.alone = None
            if part.name not in VOID:
                if part.name not in INLINE or part.name in _ENDED_BY:
                    self._ending.append(len(self._open))
                self._open.append(element)
                self._names[part.name] += 1
            return element.alone
        if part.kind == "end" and self._names[part.name]:
            index = len(self._open) - 1
            while self._open[index].name != part.name:
                index -= 1
            alone = self._open[index].alone
            self._close(index, part.name)
        return alone

    def _end_before(self, name: str) -> None:
        """Close the element that ends where another begins."""
        if name not in _ENDING:
            return
        for index in reversed(self._ending):
            open_name = self._open[index].name
            if name in _ENDED_BY.get(open_name, ()):
                self._close(index, open_name)
            elif open_name not in _ENDED_BY:
                return

    def _close(self, index: int, name: str | None) -> None:
        """Close the elements from ``index`` on: the first by ``name``, others have no end tag."""
        for number, element in enumerate(self._open[index:]):
            self._names[element.name] -= 1
            ended = number == 0 and element.name == name
            if element.alone is element and not ended and element.name not in _ENDED_BY:
                self.unended.append((element.line, element.name))
        del self._open[index:]
        while self._ending and self._ending[-1] >= index:
            self._ending.pop()

    def _block(self, parts: list[HtmlPart]) -> list[HtmlPart] | list[Block]:
        """The parts between two tags of blocks; white space around them stays."""
        content: list[str | Mark] = []
        for part in parts:
            is_text = part.kind == "text"
            content.append(
                html.unescape(part.raw) if is_text else mark_of(part.kind, part.name, part)
            )
        raw = "".join(part.raw for part in parts)
        before = raw[: len(raw) - len(raw.lstrip())].count("\n")
        block = Block(with_points(content), self._split, parts[0].line + before)
        if not self._check.takes(block, _comparable(raw), lambda items: _comparable(_write(items))):
            return parts
        self.blocks.append(block)
        return [block]

    def _find_texts(self, part: HtmlPart) -> None:
        """Find the attributes of a tag that are text, or say the language of one."""
        if part.kind != "begin" or ("=" not in part.raw and part.name != "html"):
            return
        attributes = part.attributes()
        if part.name == "html" and "dir" not in attributes:
            end = len("<html")
            part.changes[end, end] = "dir"
        values = {key: value.strip().lower() for key, (value, _) in attributes.items()}
        texts = {*_TEXTS, _TEXTS_OF.get(part.name)}
        if part.name == "meta" and values.get("name", values.get("property")) in _DESCRIPTIONS:
            texts.add("content")
        if part.name == "input" and values.get("type") in ("submit", "button", "reset"):
            texts.add("value")
        for key, (value, span) in attributes.items():
            if key in ("lang", "xml:lang", "dir") and value and part.name != "bdo":
                part.changes[span] = key.removeprefix("xml:")
            elif key in texts and value:
                content = (
                    Mark("point", HtmlPart("template", "", piece))
                    if n % 2
                    else html.unescape(piece)
                    for n, piece in enumerate(_TEMPLATES.split(value))
                )
                block = Block(with_points(list(content)), self._split, part.line)
                if self._check.takes(
                    block, _comparable(value), lambda items: _comparable(_write(items))
                ):
                    part.changes[span] = block
                    self.blocks.append(block)

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
        items = {id(block): block.translated(next(translations), joint) for block in self.blocks}

        def write_block(block: Block, quote: str = "<") -> str:
            return _write(items[id(block)], write_part, quote)

        def write_part(part: HtmlPart) -> str:
            text = part.raw
            for (begin, end), change in sorted(part.changes.items(), reverse=True):
                quote = text[begin] if text[begin] in "\"'" else '"'
                value = text[begin:end].strip(quote).strip()
                if isinstance(change, Block):
                    new: str | None = write_block(change, quote)
                elif change == "lang":
                    new = _language(value, part.name == "html", languages)
                else:
                    new = _direction(value, languages)
                if new is not None:
                    name = "" if end > begin else " dir="
                    text = f"{text[:begin]}{name}{quote}{new}{quote}{text[end:]}"
            return text

        return "".join(
            write_block(piece) if isinstance(piece, Block) else write_part(piece)
            for piece in self._pieces
        )


def _raw(part: HtmlPart) -> str:
    return part.raw


def _write(
    items: Sequence[str | Mark], write_part: Callable[[HtmlPart], str] = _raw, quote: str = "<"
) -> str:
    """The HTML of text and marks; ``quote``: what the text may not have as it is."""
    written = []
    for item in items:
        if isinstance(item, Mark):
            written.append(write_part(item.what))
        else:
            written.append(html.escape(item, quote=False).replace(quote, html.escape(quote)))
    return "".join(written)


def _comparable(text: str) -> str:
    """HTML with single spaces and without escapes of characters."""
    return " ".join(html.unescape(text).split())


def _language(value: str, is_page: bool, languages: tuple[str, str] | None) -> str | None:
    """What an attribute ``lang`` becomes: of the page, or of text in the source language."""
    if languages is None:
        return None
    source, target = languages
    language = language_code(value)
    if not is_page and (language is None or language != language_code(source)):
        return None
    return target.replace("_", "-").removesuffix("-XX")


def _direction(value: str, languages: tuple[str, str] | None) -> str | None:
    """What an attribute ``dir`` becomes, or would be if there is none: None if it stays."""
    if languages is None:
        return None
    before, behind = ("rtl" if is_right_to_left(lang) else "ltr" for lang in languages)
    return behind if before != behind and value.lower() in ("", before) else None


def unended_notes(page: HtmlText, path: str) -> list[Note]:
    """What of HTML in the file ``path`` is not translated."""
    detail = ": <{}> has no end, and what it holds stays as it is"
    return [Note(f"{path}:{line}", KEPT, detail.format(name)) for line, name in page.unended]


# ---- files ---------------------------------------------------------------------------------------

_CHARSET = re.compile(
    r"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LOOKED_AT = 1024  # characters in which HTML has its charset


class Html(DocumentFile):
    """HTML in UTF-8."""

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        assert split is not None
        self.check = BlockCheck()
        text = read_text(path)
        declared = _CHARSET.search(text[:_LOOKED_AT])
        charset = (declared[1] or declared[2]).lower() if declared else "utf-8"
        if charset not in ("utf-8", "utf8"):
            raise GtransError(f"'{path}' says that it is in {charset}; convert the file to UTF-8")
        self.html = HtmlText(text, split, 1, self.check)
        self.documents = [self.html.blocks]
        self.check.check_file(path)

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        texts = (sentences for _, sentences in self.by_block(translations))
        page = self.html.translated(texts, joint, self.languages)
        self.notes = [*unended_notes(self.html, self.path), *self.check.notes(self.path)]
        self.note_moved(self.html.blocks)
        return page.encode()
