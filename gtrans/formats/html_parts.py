"""HTML taken apart into tags and text, and which of it is left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import accumulate, groupby, pairwise

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
