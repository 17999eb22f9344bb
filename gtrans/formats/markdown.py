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
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from gtrans.data.documents import read_text
from gtrans.formats.document_file import KEPT, LOST, DocumentFile, Note
from gtrans.formats.html import HtmlText
from gtrans.formats.inline import (
    PLACEHOLDER,
    Block,
    Mark,
    Splitter,
    joined,
    with_addresses_marked,
)
from gtrans.text.reader import ANY, Choice

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

# ---- the parser --------------------------------------------------------------------------------


EMPHASES = ("em", "strong", "s")
TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)")
# Containers (:::), tags of templates and lists of attributes that have a line of their own.
_STRUCTURE = re.compile(r":::.*|(?:\{%.*?%\}\s*)+|\{[:#.][^{}]*\}")
_ATTRIBUTES = re.compile(r"\{[:#.][^{}\n]*\}")
_NESTING = 100
"""Levels of blocks inside each other; a quotation is one, a list two."""


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough, footnotes, definition lists, math and the like."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    found = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable(["table", "strikethrough"])
    for plugin in (front_matter_plugin, footnote_plugin, deflist_plugin, admon_plugin):
        found.use(plugin)
    # "$5 for one, $50 for all" is no math.
    found.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    ended = ["paragraph", "reference", "blockquote", "list"]
    found.block.ruler.before("fence", "structure", _structure, {"alt": ended})
    found.inline.add_terminator_char("#")
    found.inline.ruler.after("text", "template", _template)
    remember_places(found)
    return found


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()


def _structure(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A line that is no text."""
    if state.is_code_block(first) or not _STRUCTURE.fullmatch(_line(state, first)):
        return False
    if not silent:
        token = state.push("structure", "", 0)
        token.content = _line(state, first)
        token.map, token.hidden = [first, first + 1], True
        state.line = first + 1
    return True


def _template(state: StateInline, silent: bool) -> bool:
    """``{{ name }}`` and the like, which another program replaces."""
    matches = (one.match(state.src, state.pos, state.posMax) for one in (PLACEHOLDER, _ATTRIBUTES))
    found = next(filter(None, matches), None)
    if found and not silent:
        token = state.push("template", "", 0)
        token.content, token.hidden = found[0], True
    state.pos = found.end() if found else state.pos
    return found is not None


def outline(text: str) -> list[tuple[str, ...]]:
    """The tree of a Markdown text: its blocks and inline markup, in order, without words."""
    found: list[tuple[str, ...]] = []
    for token in parser().parse(text):
        if token.type == "inline":
            found += inline_outline(token)
        elif token.type == "html_block":
            found.append((token.type, *map(str, TAG.findall(token.content))))
        elif token.type == "admonition_open":
            found.append((token.type, token.markup, str(token.meta), str(token.attrs)))
        else:
            no_text = ("fence", "code_block", "front_matter", "structure", "math_block")
            code = token.content if token.type in no_text else ""
            found.append((token.type, token.tag, token.markup, token.info, code))
    return found


def inline_outline(token: Token, without: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The inline markup of a token, but for some kinds of it."""
    return [
        (one.type, one.markup, one.content, str(sorted(one.attrs.items())))
        for one in token.children or ()
        if one.type not in ("text", "softbreak") and one.type.rpartition("_")[0] not in without
    ]


def is_emphasis(entry: tuple[str, ...]) -> bool:
    """Whether an entry of an outline is emphasis."""
    return entry[0].rpartition("_")[0] in EMPHASES


def remember_places(parser: MarkdownIt) -> None:
    """Let every inline token have ``meta["raw"]``, as it is written in the source.

    That of the end of a link is its address or reference, from the bracket on. Every token that
    holds inline markup has ``meta["environment"]``, the definitions of references.
    """
    for rule in parser.inline.ruler.__rules__:
        parser.inline.ruler.at(rule.name, _remembering(rule.name, rule.fn), {"alt": rule.alt})
    parser.core.ruler.after("inline", "environment", _remember_environment)


def _remembering(name: str, rule: Any) -> Any:
    def remembering(state: StateInline, silent: bool) -> bool:
        begin, known = state.pos, len(state.tokens)
        label = -1
        if name == "link" and not silent and state.src[begin] == "[":
            label = state.md.helpers.parseLinkLabel(state, begin, True)
        if not rule(state, silent):
            return False
        if silent:
            return True
        for token in state.tokens[known:]:
            if token.type == "text" or "raw" in token.meta:
                continue
            raw = state.src[begin : state.pos]
            if token.type == "link_close" and label >= 0:
                raw = state.src[label : state.pos]
                if raw in ("]", "][]"):
                    raw = f"][{' '.join(state.src[begin + 1 : label].split())}]"
            token.meta["raw"] = raw
        return True

    return remembering


def _remember_environment(state: Any) -> None:
    for token in state.tokens:
        if token.type == "inline":
            token.meta["environment"] = state.env


# ---- inline markup -----------------------------------------------------------------------------


_SPECIAL = re.compile(
    r"[\\`*\[\]~${]|(?<![^\W_])_|_(?![^\W_])|<(?=[\w/!?%])|&(?=#?\w+;)|#(?=\{)"
    r"|(?<![\w%])%(?=[\w(+#.@-])"
)
_AT_BEGIN = re.compile(r"[>=:]|#{1,6}(?=\s|\Z)|[+-](?=\s|\Z|-)|!!!|\?\?\?|\d+(?=[.)](?:\s|\Z))")
_HASHES_AT_END = re.compile(r"#+\Z")
_TASK = re.compile(r"\[[ xX]\]\s+")
_ALERT = re.compile(r"\[!\w+\][+-]?(?=\s|\Z)")
_CODE_TAGS = ("code", "kbd", "samp", "var", "pre", "tt")


@dataclass
class Place:
    """Where a block stands: its first and last line, and what is before and behind it there."""

    first: int
    last: int
    before: str
    behind: str
    further: str  # what is before a second line
    in_table: bool
    is_paragraph: bool
    token: Token
    block: Block

    def lines(self) -> list[tuple[int, Block]]:
        """Its block and the line of that, from 0."""
        return [(self.first, self.block)]


class _Emphasis(str):
    """The characters around emphasised text."""


def without_emphasis(items: Sequence[str | Mark]) -> list[str | Mark]:
    """Text and marks without those that mark emphasis."""
    return joined(
        [one for one in items if isinstance(one, str) or not isinstance(one.what, _Emphasis)]
    )


def reparsed(text: str, place: Place, without: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The inline markup of a text in the place of a block."""
    plain = text.replace(f"\n{place.further}", "\n")
    if place.in_table:
        plain = plain.replace("\\|", "|")
    environment: dict[str, Any] = place.token.meta["environment"]
    token = parser().parseInline(plain, environment)[0]
    return inline_outline(token, without)


def content(token: Token, parent: str, further: str) -> Iterator[str | Mark]:
    """The text and marks of a token of inline markup."""
    children = list(token.children or ())
    if children and children[0].type == "text":
        begin = children[0].content
        if parent == "list_item_open" and (found := _TASK.match(begin)):
            yield Mark("point", found[0].rstrip() + " ", leads=True)
            begin = begin[found.end() :]
            children[0] = children[0].copy(content=begin)
        elif parent == "blockquote_open" and (found := _ALERT.match(begin)):
            title = begin[found.end() :].lstrip()
            if not title and len(children) > 1 and children[1].type == "softbreak":
                yield Mark("point", f"{begin}\n{further}", breaks=True)
                children = children[2:]
            else:
                yield Mark("point", f"{found[0]} " if title else begin, leads=True)
                children[0] = children[0].copy(content=title)
    code = ""  # the tag of inline HTML that is left alone
    skipped = False
    for child in children:
        raw = child.meta.get("raw", "")
        tag = TAG.match(child.content) if child.type == "html_inline" else None
        if code:
            yield Mark("point", raw or child.content)
            code = "" if tag and tag[1] and tag[2].lower() == code else code
        elif child.type == "link_open":
            skipped = child.markup == "autolink"
            yield Mark("point" if skipped else "open", raw if skipped else "[")
        elif child.type == "link_close":
            if not skipped:
                yield Mark("close", raw)
            skipped = False
        elif skipped:
            continue
        elif child.type == "text":
            yield from with_addresses_marked(child.content)
        elif child.type == "softbreak":
            yield " "
        elif child.type == "hardbreak":
            end = "\\\n" if raw.startswith("\\") else "  \n"
            yield Mark("point", end + further, breaks=True)
        elif child.type.rpartition("_")[0] in EMPHASES:
            kind = "open" if child.nesting > 0 else "close"
            yield Mark(kind, _Emphasis(child.markup))  # type: ignore[arg-type]
        elif tag:
            kind = "close" if tag[1] else "open"
            if not tag[1] and tag[2].lower() in _CODE_TAGS:
                code, kind = tag[2].lower(), "point"
            if raw.endswith("/>") or tag[2].lower() in ("br", "img", "input", "wbr", "hr"):
                kind = "point"
            breaks, script = tag[2].lower() == "br", tag[2].lower() in ("sub", "sup")
            leads = tag[2].lower() in ("img", "input")
            opens = kind == "open"
            yield Mark(kind, raw, breaks, False, script and opens, leads)  # type: ignore[arg-type]
        elif raw:
            leads = child.type == "image"
            yield Mark("point", raw, hidden=raw.startswith("<!--"), leads=leads)


def written(items: Sequence[str | Mark], place: Place) -> str:
    """The Markdown of text and marks."""
    parts = []
    for number, item in enumerate(items):
        if isinstance(item, Mark):
            parts.append(str(item.what))
            continue
        text = _SPECIAL.sub(r"\\\g<0>", item)
        if not place.in_table:  # even "\|" above a line of hyphens would make a table
            text = text.replace("|", "&#124;")
        if number == len(items) - 1:
            text = _HASHES_AT_END.sub(r"\\\g<0>", text)
        if place.is_paragraph and (not parts or parts[-1].endswith(f"\n{place.further}")):
            found = _AT_BEGIN.match(text)
            if found and found[0].isdigit():
                text = f"{found[0]}\\{text[found.end() :]}"  # 1\. is no list
            elif found:
                text = f"\\{text}"
        parts.append(text)
    whole = "".join(parts)
    return whole.replace("|", "\\|") if place.in_table else whole


# ---- files -------------------------------------------------------------------------------------


_TAG_OF_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?)\s*\S+\s")
_NO_PARAGRAPH = ("heading_open", "th_open", "td_open")  # no block can begin in their text
_TO_KEEP = ", to keep its markup"
_LABEL = re.compile(r"""\s(?:alt|title)\s*=\s*["']?[^"'>]*[^\W\d_]""", re.IGNORECASE)


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

    def text(
        self,
        translations: Iterator[Sequence[str]],
        joint: str,
        languages: tuple[str, str] | None,
    ) -> str:
        """Its lines, of which there may be fewer in a translation."""
        lines = self.html.translated(translations, joint, languages).split("\n")
        return "\n".join(map("".join, zip(self.before, lines, strict=False)))


class Markdown(DocumentFile):
    """Markdown."""

    libraries = ("markdown_it", "mdit_py_plugins")

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        assert split is not None
        text = read_text(path)
        first = re.search("\r\n|\r|\n", text)
        self.newline = first[0] if first else "\n"
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self.outline = outline("\n".join(self.lines))
        self.places: list[Place] = []
        self.html: list[_HtmlPlace] = []
        self.unread: list[Note] = []  # about text that stays as it is
        self._find(split)
        self.places.sort(key=lambda place: place.first)
        spots: list[Place | _HtmlPlace] = [*self.places, *self.html]
        self.order = sorted(chain(*(spot.lines() for spot in spots)), key=lambda entry: entry[0])
        self.documents = [[block for _, block in self.order]]

    def lines_of_sentences(self) -> list[int]:
        """See :meth:`DocumentFile.lines_of_sentences`."""
        return [line + 1 for line, block in self.order for _ in block.sentences]

    def _find(self, split: Splitter) -> None:
        """Find the blocks of running text and of HTML."""
        tokens = parser().parse("\n".join(self.lines))
        cell, row = 0, -1
        labels = 0
        for number, token in enumerate(tokens):
            deep = token.nesting == 1 and token.level + 1 >= _NESTING
            if deep and tokens[number + 1].nesting == -1:
                where = f"{self.path}:{token.map[0] + 1}" if token.map else self.path
                self.unread.append(Note(where, KEPT, ": it is nested too deep"))
            for child in token.children or ():
                label = child.content if child.type == "image" else child.attrs.get("title")
                labels += any(map(str.isalpha, str(label or "")))
                labels += child.type == "html_inline" and bool(_LABEL.search(child.content))
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
            items = list(content(token, tokens[number - 2].type, further))
            block = Block(items, split, addresses=False, placeholders=False)
            if min(places) < 0 and block.sentences:
                self.unread.append(Note(f"{self.path}:{first + 1}", KEPT, _TO_KEEP))
            elif block.sentences:
                ending = self.lines[last][behind:]
                self.places.append(
                    Place(
                        first=first,
                        last=last,
                        before=before,
                        behind=ending,
                        further=further,
                        in_table=in_table,
                        is_paragraph=tokens[number - 1].type not in _NO_PARAGRAPH,
                        token=token,
                        block=block,
                    )
                )
        if labels:
            told = f": alternative texts and titles ({labels})"
            self.unread.append(Note(self.path, KEPT, told, labels))

    def _read_html(self, token: Any, split: Splitter) -> None:
        """A block of HTML; in a list or a quotation something stands before its lines."""
        first, last = token.map
        lines = token.content.rstrip("\n").split("\n")
        raw = self.lines[first : first + len(lines)]
        fits = all(whole.endswith(line) for whole, line in zip(raw, lines, strict=True))
        html = HtmlText("\n".join(lines), split)
        if html.blocks and not (fits and first + len(lines) <= last):
            self.unread.append(Note(f"{self.path}:{first + 1}", KEPT, _TO_KEEP))
            return
        self.unread += [
            Note(f"{self.path}:{first + line + 1}", KEPT, told) for line, told in html.unended
        ]
        if html.blocks:
            both = zip(raw, lines, strict=True)
            before = [whole[: len(whole) - len(line)] for whole, line in both]
            self.html.append(_HtmlPlace(first, first + len(lines) - 1, before, html))

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = list(self.unread)
        of_block = {id(block): found for block, found in self.by_block(translations)}
        texts: list[str | None] = [
            self._text(place, of_block[id(place.block)], joint) for place in self.places
        ]
        texts += [
            place.text((of_block[id(block)] for block in place.html.blocks), joint, self.languages)
            for place in self.html
        ]
        offending = self._offending(texts, range(len(texts)))
        if offending:
            texts = [None if n in offending else text for n, text in enumerate(texts)]
        if offending and self._differs(texts):  # they change it together only
            offending, texts = set(range(len(texts))), [None] * len(texts)
        spots: list[Place | _HtmlPlace] = [*self.places, *self.html]
        self.notes += [
            Note(f"{self.path}:{spots[number].first + 1}", KEPT, _TO_KEEP)
            for number in sorted(offending)
        ]
        both = zip(spots, texts, strict=True)
        self.note_moved(chain(*(spot.lines() for spot, text in both if text is not None)))
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
        found = outline(self._composed(texts))
        return [entry for entry in found if not is_emphasis(entry)] != kept

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
            self.notes.append(Note(f"{self.path}:{place.first + 1}", LOST, f" ({told})"))
            return text
        self.notes.append(Note(f"{self.path}:{place.first + 1}", KEPT, _TO_KEEP))
        return None
