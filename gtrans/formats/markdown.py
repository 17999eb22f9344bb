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
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gtrans.data.documents import read_text
from gtrans.formats.html import LEFT_ALONE, HtmlText, mark_of, notes_of
from gtrans.formats.inline import PLACEHOLDER, Block, Mark, joined, with_addresses
from gtrans.text.document_file import KEPT, LOST, DocumentFile, Note, Splitter
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

    markdown = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable(["table", "strikethrough"])
    for plugin in (front_matter_plugin, footnote_plugin, deflist_plugin, admon_plugin):
        markdown.use(plugin)
    # "$5 for one, $50 for all" is no math.
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    ended = ["paragraph", "reference", "blockquote", "list"]
    markdown.block.ruler.before("fence", "structure", _structure, {"alt": ended})
    markdown.inline.add_terminator_char("#")
    markdown.inline.ruler.after("text", "template", _template)
    for rule in markdown.inline.ruler.__rules__:
        markdown.inline.ruler.at(rule.name, _remembering(rule.name, rule.fn), {"alt": rule.alt})
    return markdown


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
    patterns = (PLACEHOLDER, _ATTRIBUTES)
    matches = (pattern.match(state.src, state.pos, state.posMax) for pattern in patterns)
    match = next(filter(None, matches), None)
    if match and not silent:
        token = state.push("template", "", 0)
        token.content, token.hidden = match[0], True
    state.pos = match.end() if match else state.pos
    return match is not None


def outline(tokens: Sequence[Token]) -> list[tuple[str, ...]]:
    """The tree of a Markdown text: its blocks and inline markup but emphasis, without words."""
    tree: list[tuple[str, ...]] = []
    for token in tokens:
        if token.type == "inline":
            tree += inline_outline(token, EMPHASES)
        elif token.type == "html_block":
            tree.append((token.type, *map(str, TAG.findall(token.content))))
        elif token.type == "admonition_open":
            tree.append((token.type, token.markup, str(token.meta), str(token.attrs)))
        else:
            no_text = ("fence", "code_block", "front_matter", "structure", "math_block")
            code = token.content if token.type in no_text else ""
            tree.append((token.type, token.tag, token.markup, token.info, code))
    return tree


def inline_outline(token: Token, without: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """The inline markup of a token, but for some kinds of it."""
    return [
        (child.type, child.markup, child.content, str(sorted(child.attrs.items())))
        for child in token.children or ()
        if child.type not in ("text", "softbreak") and child.type.rpartition("_")[0] not in without
    ]


def _remembering(name: str, rule: Any) -> Any:
    """A rule that gives its inline tokens ``meta["raw"]``, as they are written in the source.

    That of the end of a link is its address or reference, from the bracket on.
    """

    def remembering(state: StateInline, silent: bool) -> bool:
        begin, first = state.pos, len(state.tokens)
        label = -1
        if name == "link" and not silent and state.src[begin] == "[":
            label = state.md.helpers.parseLinkLabel(state, begin, True)
        if not rule(state, silent):
            return False
        if silent:
            return True
        for token in state.tokens[first:]:
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


# ---- inline markup -----------------------------------------------------------------------------


_SPECIAL = re.compile(
    r"[\\`*\[\]~${]|(?<![^\W_])_|_(?![^\W_])|<(?=[\w/!?%])|&(?=#?\w+;)|#(?=\{)"
    r"|(?<![\w%])%(?=[\w(+#.@-])"
)
_AT_BEGIN = re.compile(r"[>=:]|#{1,6}(?=\s|\Z)|[+-](?=\s|\Z|-)|!!!|\?\?\?|\d+(?=[.)](?:\s|\Z))")
_HASHES_AT_END = re.compile(r"#+\Z")
_TASK = re.compile(r"\[[ xX]\]\s+")
_ALERT = re.compile(r"\[!\w+\][+-]?(?=\s|\Z)")


@dataclass(eq=False)
class Place:
    """Where running text or HTML stands, in characters of the file.

    Attributes:
        line: where it begins, from 1.
        begin, end: of the text.
        further: what is before its second line and the others.
        blocks: what of it is translated.
        html: the HTML, or None.
        token: the inline markup, if it is no HTML.
        in_table: it is a cell.
        is_paragraph: a block can begin in its text.
        text: what is written in its place; None: what was there.
    """

    line: int
    begin: int
    end: int
    further: Sequence[str]
    blocks: Sequence[Block] = ()
    html: HtmlText | None = None
    token: Any = None
    in_table: bool = False
    is_paragraph: bool = False
    text: str | None = None


class _Emphasis(str):
    """The characters around emphasised text."""


def _content(token: Token, parent: str, further: str) -> Iterator[str | Mark]:
    """The text and marks of a token of inline markup."""
    children = list(token.children or ())
    begin = children[0].content if children and children[0].type == "text" else ""
    if parent == "list_item_open" and (match := _TASK.match(begin)):
        yield Mark("point", match[0].rstrip() + " ", leads=True)
        children[0] = children[0].copy(content=begin[match.end() :])
    elif parent == "blockquote_open" and (match := _ALERT.match(begin)):
        title = begin[match.end() :].lstrip()
        if not title and len(children) > 1 and children[1].type == "softbreak":
            yield Mark("point", f"{begin}\n{further}", breaks=True)
            del children[:2]
        else:
            yield Mark("point", f"{match[0]} " if title else begin, leads=True)
            children[0] = children[0].copy(content=title)
    code = ""  # the tag of inline HTML that is left alone
    following = iter(children)
    for child in following:
        raw = child.meta.get("raw", "")
        tag = TAG.match(child.content) if child.type == "html_inline" else None
        name, kind = (tag[2].lower(), "end" if tag[1] else "begin") if tag else ("", "")
        if code:
            yield Mark("point", raw or child.content)
            code = "" if (name, kind) == (code, "end") else code
        elif child.type == "link_open" and child.markup == "autolink":
            yield Mark("point", raw)
            next(following), next(following)  # its text and its end
        elif child.type == "link_open":
            yield Mark("open", "[")
        elif child.type == "link_close":
            yield Mark("close", raw)
        elif child.type == "text":
            yield from with_addresses(child.content)
        elif child.type == "softbreak":
            yield " "
        elif child.type == "hardbreak":
            end = "\\\n" if raw.startswith("\\") else "  \n"
            yield Mark("point", end + further, breaks=True)
        elif child.type.rpartition("_")[0] in EMPHASES:
            yield Mark("open" if child.nesting > 0 else "close", _Emphasis(child.markup))
        elif tag and kind == "begin" and name in LEFT_ALONE:
            code = "" if raw.endswith("/>") else name
            yield Mark("point", raw)
        elif tag:
            yield mark_of("whole" if raw.endswith("/>") else kind, name, raw)
        elif raw:
            leads = child.type == "image"
            yield Mark("point", raw, hidden=raw.startswith("<!--"), leads=leads)


def _written(items: Sequence[str | Mark], place: Place) -> str:
    """The Markdown of text and marks."""
    parts: list[str] = []
    for number, item in enumerate(items):
        if isinstance(item, Mark):
            parts.append(str(item.what))
            continue
        text = _SPECIAL.sub(r"\\\g<0>", item)
        if not place.in_table:  # even "\|" above a line of hyphens would make a table
            text = text.replace("|", "&#124;")
        if number == len(items) - 1:
            text = _HASHES_AT_END.sub(r"\\\g<0>", text)
        begins = not parts or parts[-1].endswith("\n" + "".join(place.further[:1]))
        match = _AT_BEGIN.match(text) if place.is_paragraph and begins else None
        if match and match[0].isdigit():
            text = f"{match[0]}\\{text[match.end() :]}"  # 1\. is no list
        elif match:
            text = f"\\{text}"
        parts.append(text)
    markdown = "".join(parts)
    return markdown.replace("|", "\\|") if place.in_table else markdown


# ---- files -------------------------------------------------------------------------------------


_TAG_OF_ADMONITION = re.compile(r"(?:!!!|\?\?\?\+?)\s*\S+\s")
_NO_PARAGRAPH = ("heading_open", "th_open", "td_open")  # no block can begin in their text
_TO_KEEP = ", to keep its markup"
_LABEL = re.compile(r"""\s(?:alt|title)\s*=\s*["']?[^"'>]*[^\W\d_]""", re.IGNORECASE)


class Markdown(DocumentFile):
    """Markdown."""

    libraries = ("markdown_it", "mdit_py_plugins")

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        assert split is not None
        text = read_text(path)
        first = re.search("\r\n|\r|\n", text)
        self.newline = first[0] if first else "\n"
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        self.places: list[Place] = []
        self.unread: list[Note] = []  # about text that stays as it is
        self.references: dict[str, Any] = {}  # what markdown-it knows of the file
        self._find(split)
        self.places.sort(key=lambda place: place.begin)
        self.documents = [[block for place in self.places for block in place.blocks]]

    def _find(self, split: Splitter) -> None:
        """Find the running text and the HTML."""
        tokens = parser().parse(self.text, self.references)
        self.outline = outline(tokens)
        cell, labels = (-1, 0), 0  # the line and the end of the cell before
        starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        for number, token in enumerate(tokens):
            for child in token.children or ():
                label = child.content if child.type == "image" else child.attrs.get("title")
                labels += any(map(str.isalpha, str(label or "")))
                labels += child.type == "html_inline" and bool(_LABEL.search(child.content))
            if not token.map or not token.content.strip():
                continue
            first, is_html = token.map[0], token.type == "html_block"
            if not is_html and token.type != "inline":
                continue
            in_table = tokens[number - 1].type in ("th_open", "td_open")
            lines = token.content.rstrip("\n").split("\n")
            spans = []  # of each line in the file; a begin of -1: the file writes it otherwise
            for line, raw in zip(lines, self.lines[first:], strict=False):
                text = line if is_html else line.strip()
                if in_table:
                    text = text.replace("|", "\\|")
                    begin = raw.find(text, cell[1] if cell[0] == first else 0)
                    cell = first, begin + len(text)
                else:
                    begin = raw.rfind(text)
                spans.append((begin, begin + len(text)))
            before = [self.lines[first + n][:begin] for n, (begin, _) in enumerate(spans)]
            if tokens[number - 1].type == "admonition_title_open" and (
                spans[0][0] < 0 or not _TAG_OF_ADMONITION.search(before[0])
            ):
                continue  # it has no title, and markdown-it makes one of its kind
            last = first + len(lines) - 1
            ends = starts[first] + spans[0][0], starts[last] + spans[-1][1]
            place = Place(first + 1, *ends, before[1:])
            if is_html:
                place.html = HtmlText("\n".join(lines), split, first + 1)
                place.blocks = place.html.blocks
                spans = spans if last < token.map[1] else [(-1, -1)]
            else:
                place.token, place.in_table = token, in_table
                place.is_paragraph = tokens[number - 1].type not in _NO_PARAGRAPH
                content = _content(token, tokens[number - 2].type, "".join(place.further[:1]))
                block = Block(content, split, place.line)
                place.blocks = [block] if block.sentences else []
            if place.blocks and min(spans)[0] < 0:
                self.unread.append(Note(self.place(place.line), KEPT, _TO_KEEP))
                continue
            self.unread += notes_of(place.html, self.path) if place.html else []
            self.places += [place] if place.blocks else []
        if labels:
            detail = f": alternative texts and titles ({labels})"
            self.unread.append(Note(self.path, KEPT, detail, labels))

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = list(self.unread)
        following = (sentences for _, sentences in self.by_block(translations))
        for place in self.places:
            place.text = self._text(place, following, joint)
        changed = [place for place in self.places if place.text is not None]
        offending = self._offending(changed)
        kept = [place for place in changed if place not in offending]
        if offending and self._differs(kept):  # only all of them together change it
            offending, kept = changed, []
        self.notes += [Note(self.place(place.line), KEPT, _TO_KEEP) for place in offending]
        self.note_moved(block for place in kept for block in place.blocks)
        return self._composed(kept).replace("\n", self.newline).encode()

    def _offending(self, places: list[Place]) -> list[Place]:
        """The places whose translation changes the tree of the file."""
        if not places or not self._differs(places):
            return []
        half = len(places) // 2
        return self._offending(places[:half]) + self._offending(places[half:]) if half else places

    def _differs(self, places: Sequence[Place]) -> bool:
        return outline(parser().parse(self._composed(places))) != self.outline

    def _composed(self, places: Sequence[Place]) -> str:
        """The file with the new texts of some places."""
        parts, done = list[str](), 0
        for place in places:
            parts += [self.text[done : place.begin], place.text or ""]
            done = place.end
        return "".join([*parts, self.text[done:]])

    def _text(self, place: Place, translations: Iterator[Sequence[str]], joint: str) -> str | None:
        """The Markdown of a place, with as much of its inline markup as can be kept."""
        if place.html:
            lines = place.html.translated(translations, joint, self.languages).split("\n")
            return "\n".join(map("".join, zip(["", *place.further], lines, strict=False)))
        items = place.blocks[0].translated(next(translations), joint)
        text, original = _written(items, place), inline_outline(place.token)
        if self._reparsed(text, place) == original:
            return text
        items = [item for item in items if not isinstance(getattr(item, "what", ""), _Emphasis)]
        text = _written(joined(items), place)
        if self._reparsed(text, place, EMPHASES) == inline_outline(place.token, EMPHASES):
            marks = Counter(mark for kind, mark, *_ in original if kind.endswith("_open") and mark)
            detail = " and ".join(f"{count} x {mark}" for mark, count in marks.items())
            self.notes.append(Note(self.place(place.line), LOST, f" ({detail})"))
            return text
        self.notes.append(Note(self.place(place.line), KEPT, _TO_KEEP))
        return None

    def _reparsed(
        self, text: str, place: Place, without: Sequence[str] = ()
    ) -> list[tuple[str, ...]]:
        """The inline markup of a text in a place."""
        plain = text.replace("\n" + "".join(place.further[:1]), "\n")
        if place.in_table:
            plain = plain.replace("\\|", "|")
        return inline_outline(parser().parseInline(plain, self.references)[0], without)
