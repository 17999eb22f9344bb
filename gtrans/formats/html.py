"""HTML: tags and text are taken apart, and put together again with other text.

Comments, scripts, white space between blocks and tags stay byte for byte, except translated
attributes (``alt``, ``title``, ..), ``lang`` and ``dir``.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from gtrans.data.documents import read_text
from gtrans.errors import GtransError
from gtrans.formats.checks import BlockCheck
from gtrans.formats.inline import Block, Content, Item, Mark, with_points
from gtrans.languages import is_right_to_left, language_code
from gtrans.text.document_file import KEPT, DocumentFile, Note, Splitter
from gtrans.text.reader import ALL_TEXT, TextSelection

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
"""Elements whose end tag may be left out (HTML, 13.1.2.4), and the tags that end them then."""
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


class TagSpan(NamedTuple):
    """Characters of a tag."""

    begin: int
    end: int


class HtmlAttribute(NamedTuple):
    """An attribute: its value, and where the value stands in the tag, with its quotes."""

    value: str
    span: TagSpan


@dataclass(eq=False)
class HtmlPart:
    """A part of the file.

    Attributes:
        kind: ``begin`` or ``end`` of a tag, ``text``, ``template``, ``other`` (such as a comment),
            ``unclosed``: a tag that does not end, or ``whole``: elements that are left alone.
        name: of the tag, or of the first element of a whole.
        raw: source text.
        changes: new values of attributes by their spans: blocks, or ``lang`` and ``dir`` for those
            that follow the target language.
    """

    kind: str
    name: str
    raw: str
    line: int = 0
    changes: dict[TagSpan, Block | str] = field(default_factory=dict)

    @property
    def is_inline(self) -> bool:
        """Whether it stands in running text."""
        if self.kind == "unclosed":
            return False
        return not self.name or self.name in INLINE

    def attributes(self) -> dict[str, HtmlAttribute]:
        """Return the attributes of a tag; the first of a name counts."""
        attributes: dict[str, HtmlAttribute] = {}
        for match in _ATTRIBUTES.finditer(self.raw.removesuffix(">"), len(self.name) + 1):
            value = match["value"] or ""
            if value[:1] in ("'", '"'):
                value = value[1:-1]
            attribute = HtmlAttribute(value, TagSpan(*match.span("value")))
            attributes.setdefault(match["key"].lower(), attribute)
        return attributes

    def asks_for_translation(self) -> bool | None:
        """Return whether a begin tag asks for translation or forbids it; None: neither."""
        if "translate" not in self.raw:
            return None
        attributes = self.attributes()
        if "class" in attributes and "notranslate" in attributes["class"].value.split():
            return False
        if "translate" not in attributes:
            return None
        return {"no": False, "yes": True, "": True}.get(attributes["translate"].value.lower())

    def is_hidden(self) -> bool:
        """Return whether a begin tag in running text hides its content."""
        may_hide = "hidden" in self.raw or "none" in self.raw
        if self.name not in INLINE or not may_hide:
            return False
        attributes = self.attributes()
        if "hidden" in attributes:
            return True
        return "style" in attributes and _HIDING.search(attributes["style"].value) is not None


def _parts(text: str, line: int) -> Iterator[HtmlPart]:
    done = 0
    place = 0
    while done < len(text):
        match = _PART.search(text, place)
        begin = match.start() if match else len(text)
        if begin > done:
            yield HtmlPart("text", "", text[done:begin], line)
            line += text.count("\n", done, begin)
        if match is None:
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
    """Return the mark that writes ``what``, for an :class:`HtmlPart` in running text."""
    has_content = name not in VOID
    if kind == "begin" and has_content:
        return Mark("open", what, script=name in ("sub", "sup"))
    if kind == "end" and has_content:
        return Mark("close", what)
    return Mark(
        "point",
        what,
        breaks=name == "br",
        hidden=kind == "other" or name == "wbr" or name in READINGS,
        leads=name in ("img", "input", "svg"),
    )


# ---- elements that are left alone ----------------------------------------------------------------


@dataclass(eq=False)
class _Element:
    name: str
    line: int
    left_by: _Element | None


class _Unended(NamedTuple):
    """A tag without an end, or an element that is left alone without one."""

    line: int
    name: str


class _OpenElements:
    """The open elements at a place of the file."""

    def __init__(self) -> None:
        self.unended: list[_Unended] = []
        self._open: list[_Element] = []
        self._names = Counter[str]()
        # Numbers of the elements that another tag may end, or beyond which it ends none.
        self._may_end: list[int] = []

    def read(self, part: HtmlPart) -> _Element | None:
        """Read the next part; return the element that makes it stay, if any."""
        if part.kind == "unclosed":
            self.unended.append(_Unended(part.line, part.name))
        if part.kind == "begin":
            self._end_before(part.name)
        left_by = self._open[-1].left_by if self._open else None
        if part.kind == "begin":
            return self._begin(part, left_by)
        if part.kind == "end" and self._names[part.name]:
            number = len(self._open) - 1
            while self._open[number].name != part.name:
                number -= 1
            left_by = self._open[number].left_by
            self._close(number, part.name)
        return left_by

    def end(self) -> None:
        self._close(0, None)

    def _begin(self, part: HtmlPart, left_by: _Element | None) -> _Element | None:
        element = _Element(part.name, part.line, left_by)
        translate = part.asks_for_translation()
        if part.name in LEFT_ALONE or translate is False or part.is_hidden():
            element.left_by = left_by or element
        elif translate:
            is_in_code = any(self._names[name] for name in LEFT_ALONE)
            if not is_in_code:
                element.left_by = None
        if part.name not in VOID:
            if part.name not in INLINE or part.name in _ENDED_BY:
                self._may_end.append(len(self._open))
            self._open.append(element)
            self._names[part.name] += 1
        return element.left_by

    def _end_before(self, name: str) -> None:
        if name not in _ENDING:
            return
        for number in reversed(self._may_end):
            open_name = self._open[number].name
            if name in _ENDED_BY.get(open_name, ()):
                self._close(number, open_name)
            elif open_name not in _ENDED_BY:
                return

    def _close(self, first: int, name: str | None) -> None:
        for number, element in enumerate(self._open[first:]):
            self._names[element.name] -= 1
            has_end_tag = number == 0 and element.name == name
            is_left_alone = element.left_by is element
            needs_end_tag = element.name not in _ENDED_BY
            if is_left_alone and needs_end_tag and not has_end_tag:
                self.unended.append(_Unended(element.line, element.name))
        del self._open[first:]
        while self._may_end and self._may_end[-1] >= first:
            self._may_end.pop()


# ---- texts and translations ----------------------------------------------------------------------


class HtmlText:
    """HTML as parts that stay and blocks that are translated, in order.

    Attributes:
        blocks: the translated texts; attributes come before the text around them.
    """

    def __init__(self, text: str, split: Splitter, line: int, check: BlockCheck) -> None:
        self.blocks: list[Block] = []
        self.unended: list[_Unended] = []
        self._split = split
        self._check = check
        self._content: list[HtmlPart | Block] = []
        for is_text, group in groupby(self._parts(text, line), key=attrgetter("is_inline")):
            parts = list(group)
            for part in parts:
                self._find_texts(part)
            block = self._block(parts) if is_text else None
            if block is None:
                self._content += parts
            else:
                self.blocks.append(block)
                self._content.append(block)

    def _parts(self, text: str, line: int) -> Iterator[HtmlPart]:
        """Yield the parts; an element that is left alone is one."""
        elements = _OpenElements()
        parts = list(_parts(text, line))
        left_by = [elements.read(part) for part in parts]
        elements.end()
        self.unended = elements.unended
        begin = 0
        for element, group in groupby(left_by):
            end = begin + len(list(group))
            if element is None:
                yield from parts[begin:end]
            else:
                raw = "".join(part.raw for part in parts[begin:end])
                yield HtmlPart("whole", element.name, raw, parts[begin].line)
            begin = end

    def _block(self, parts: Sequence[HtmlPart]) -> Block | None:
        content: list[Item] = []
        for part in parts:
            if part.kind == "text":
                content.append(html.unescape(part.raw))
            else:
                content.append(mark_of(part.kind, part.name, part))
        raw = "".join(part.raw for part in parts)
        white_space = raw[: len(raw) - len(raw.lstrip())]
        line = parts[0].line + white_space.count("\n")
        return self._checked(content, line, raw)

    def _checked(self, content: Content, line: int, raw: str) -> Block | None:
        block = Block(with_points(content), self._split, line)
        original = _comparable(raw)
        if self._check.takes(block, original, _comparable_items):
            return block
        return None

    def _find_texts(self, part: HtmlPart) -> None:
        if part.kind != "begin" or ("=" not in part.raw and part.name != "html"):
            return
        attributes = part.attributes()
        if part.name == "html" and "dir" not in attributes:
            end = len("<html")
            part.changes[TagSpan(end, end)] = "dir"
        texts = _names_of_texts(part.name, attributes)
        for key, attribute in attributes.items():
            if not attribute.value:
                continue
            if key in ("lang", "xml:lang", "dir") and part.name != "bdo":
                part.changes[attribute.span] = key.removeprefix("xml:")
            elif key in texts:
                content = _content_of_attribute(attribute.value)
                block = self._checked(content, part.line, attribute.value)
                if block is not None:
                    part.changes[attribute.span] = block
                    self.blocks.append(block)

    def translated(
        self,
        translations: Iterator[Sequence[str]],
        joint: str,
        languages: tuple[str, str] | None = None,
    ) -> str:
        """See :meth:`DocumentFile.translated`; ``languages`` are source and target."""
        writer = _Writer(languages)
        for block in self.blocks:
            writer.items[id(block)] = block.translated(next(translations), joint)
        written = []
        for item in self._content:
            if isinstance(item, Block):
                written.append(writer.block(item))
            else:
                written.append(writer.part(item))
        return "".join(written)


def _names_of_texts(tag: str, attributes: Mapping[str, HtmlAttribute]) -> set[str]:
    values: dict[str, str] = {}
    for key, attribute in attributes.items():
        values[key] = attribute.value.strip().lower()
    names = set(_TEXTS)
    if tag in _TEXTS_OF:
        names.add(_TEXTS_OF[tag])
    if tag == "meta" and values.get("name", values.get("property")) in _DESCRIPTIONS:
        names.add("content")
    if tag == "input" and values.get("type") in ("submit", "button", "reset"):
        names.add("value")
    return names


def _content_of_attribute(value: str) -> list[Item]:
    content: list[Item] = []
    for number, part in enumerate(_TEMPLATES.split(value)):
        is_template = number % 2 == 1
        if is_template:
            content.append(Mark("point", HtmlPart("template", "", part)))
        else:
            content.append(html.unescape(part))
    return content


class _Writer:
    def __init__(self, languages: tuple[str, str] | None) -> None:
        self.items: dict[int, list[Item]] = {}
        self._languages = languages

    def block(self, block: Block, quote: str = "<") -> str:
        return _write(self.items[id(block)], self.part, quote)

    def part(self, part: HtmlPart) -> str:
        text = part.raw
        for span in sorted(part.changes, reverse=True):
            change = part.changes[span]
            first = text[span.begin]
            quote = first if first in "\"'" else '"'
            value = text[span.begin : span.end].strip(quote).strip()
            new: str | None
            if isinstance(change, Block):
                new = self.block(change, quote)
            elif change == "lang":
                new = _language(value, part.name == "html", self._languages)
            else:
                new = _direction(value, self._languages)
            if new is not None:
                name = "" if span.end > span.begin else " dir="
                written = f"{name}{quote}{new}{quote}"
                text = text[: span.begin] + written + text[span.end :]
        return text


def _raw(part: HtmlPart) -> str:
    return part.raw


def _write(items: Content, write_part: Callable[[HtmlPart], str] = _raw, quote: str = "<") -> str:
    """Return the HTML of text and marks; ``quote``: a character to escape in the text."""
    written = []
    for item in items:
        if isinstance(item, Mark):
            written.append(write_part(item.what))
        else:
            text = html.escape(item, quote=False)
            written.append(text.replace(quote, html.escape(quote)))
    return "".join(written)


def _comparable(text: str) -> str:
    return " ".join(html.unescape(text).split())


def _comparable_items(items: Content) -> str:
    return _comparable(_write(items))


def _language(value: str, is_page: bool, languages: tuple[str, str] | None) -> str | None:
    if languages is None:
        return None
    source, target = languages
    language = language_code(value)
    is_source = language is not None and language == language_code(source)
    if not is_page and not is_source:
        return None
    return target.replace("_", "-").removesuffix("-XX")


def _direction(value: str, languages: tuple[str, str] | None) -> str | None:
    """Return the new value of ``dir``; None: it stays."""
    if languages is None:
        return None
    source, target = map(_direction_of, languages)
    follows_source = value.lower() in ("", source)
    return target if source != target and follows_source else None


def _direction_of(lang: str) -> str:
    return "rtl" if is_right_to_left(lang) else "ltr"


def unended_notes(page: HtmlText, path: str) -> list[Note]:
    """Return a note for each element without an end."""
    notes = []
    for tag in page.unended:
        detail = f": <{tag.name}> has no end, and what it holds stays as it is"
        notes.append(Note(f"{path}:{tag.line}", KEPT, detail))
    return notes


# ---- files ---------------------------------------------------------------------------------------

_CHARSET = re.compile(
    r"<meta\b[^>]*?\bcharset\s*=\s*[\"']?\s*([\w.:-]+)|<\?xml\b[^>]*?\bencoding\s*=\s*[\"']([\w.:-]+)",
    re.IGNORECASE,
)
_LOOKED_AT = 1024  # characters in which HTML has its charset


class Html(DocumentFile):
    """HTML in UTF-8."""

    def __init__(
        self, path: str, split: Splitter | None, selection: TextSelection = ALL_TEXT
    ) -> None:
        super().__init__(path)
        assert split is not None
        self.check = BlockCheck()
        text = read_text(path)
        declared = _CHARSET.search(text[:_LOOKED_AT])
        charset = "utf-8"
        if declared:
            charset = (declared[1] or declared[2]).lower()
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
