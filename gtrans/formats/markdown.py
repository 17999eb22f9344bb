"""Markdown: CommonMark with tables, strikethrough, footnotes, definition lists, math, front matter.

Only the lines of paragraphs, headings and cells are written anew, each of them on one line; all
others stay byte for byte. After every block its inline markup is parsed again: what Markdown
cannot express in the translation is given up and reported.
"""

from __future__ import annotations

import html
import re
import string
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gtrans.data.documents import read_text
from gtrans.formats.anchors import followed
from gtrans.formats.checks import BlockCheck, is_prose
from gtrans.formats.html import LEFT_ALONE, READINGS, HtmlText, mark_of, notes_of
from gtrans.formats.inline import PLACEHOLDER_OR_MATH, Block, Mark, joined, with_addresses
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
_NESTING = 100
"""Levels of blocks inside each other; a quotation is one, a list two."""

# Braces hold what programs read: expressions, attributes, ids, roles.
_BRACES = re.compile(r"\{(?:[^{}\n]|\{[^{}\n]*\}){1,300}\}")
# A note or a citation whose definition is elsewhere, and $NAME, which is no formula.
_REFERENCE = re.compile(r"\[\^[^\]\s]+\]|\[-?@[^\[\]\n]+\]|\$[A-Za-z_]\w*(?![\w$])")
# ---- lines of extensions ----
# A tag of a template engine, a list of attributes or a comment, which may have several lines.
_TAG_OF_TEMPLATE = re.compile(
    r"(?:(?:\{%.*?%\}|\{\{[<%].*?[%>]\}\}|\{#.*?#\}|\{/\*.*?\*/\}|\{[:#.][^{}]*\})\s*)+", re.DOTALL
)
_MOST_LINES = 30
# A line that begins with signs, as those of containers (:::) and blocks (///) do.
_MARKER = re.compile(r"[:/+=<>%@!?&|;^]{3,}|--+\d*<|\[\[?\w+\]\]?$|%\s|\([^()\s]+\)=$")
_TITLE = re.compile(
    r"(?P<before>:{3,}\s*(?P<kind>\{[^{}]*\}|[\w-]+)(?:\s+\[?|\[)|/{3,}\s*[\w-]+\s*\|\s*)"
    r"(?P<title>[^\]]*?)\]?\s*(?:\{[^{}]*\})?"
)
_DIRECTIVE = re.compile(
    r"(?P<before>(?P<fence>`{3,}|~{3,})\{(?:admonition|attention|caution|danger|dropdown|error|hint"
    r"|important|note|seealso|tip|warning|versionadded|versionchanged|deprecated)\}\s*)(?P<title>.*)"
)
_OPTION = re.compile(r":[\w-]+:")
# What is between such tags is code.
_CODE_BEGIN = re.compile(r"\{[%{]+[<%]?\s*(?P<name>highlight|code|mermaid|math|verbatim|comment)\b")
# A line whose Markdown is indented below it: !!! note "Title", ??? note, === "Tab".
_CONTAINER = re.compile(
    r"(?P<before>(?:!!!|\?\?\?\+?|===[+!]?)(?P<kinds>[^\"]*)\"?)(?P<title>(?<=\").*?)?\"?\s*"
)
_INDENT = 4
_SECOND_LABEL = re.compile(r"\[[^\[\]]*\]|\{[^{}\n]*\}")
_TARGET = re.compile(rf"(?:{PLACEHOLDER_OR_MATH.pattern}|[^\s()<>])+")


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough, footnotes, definition lists, math and the like."""
    from markdown_it import MarkdownIt, helpers
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    markdown = MarkdownIt("commonmark", {"maxNesting": _NESTING}).enable(["table", "strikethrough"])
    for plugin in (front_matter_plugin, footnote_plugin, deflist_plugin):
        markdown.use(plugin)
    # "$5 for one, $50 for all" is no math.
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    ended = ["paragraph", "reference", "blockquote", "list"]
    markdown.block.ruler.before("fence", "front", _front)
    markdown.block.ruler.before("fence", "container", _container, {"alt": ended})
    markdown.block.ruler.before("fence", "directive", _directive, {"alt": ended})
    markdown.block.ruler.before("fence", "structure", _structure, {"alt": ended})
    markdown.inline.ruler.after("text", "template", _template)
    markdown.inline.ruler.after("link", "unknown_link", _unknown_link)
    markdown.inline.ruler.push("reference", _undefined_reference)
    for rule in markdown.inline.ruler.__rules__:
        markdown.inline.ruler.at(rule.name, _remembering(rule.name, rule.fn), {"alt": rule.alt})
    changed: Any = SimpleNamespace(**vars(helpers))
    changed.parseLinkDestination = _destination
    markdown.helpers = changed
    return markdown


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()


def _first(state: StateBlock, number: int) -> str:
    """The first character of a line, by which most lines are told apart at once."""
    begin = state.bMarks[number] + state.tShift[number]
    return state.src[begin : begin + 1]


def _push_lines(state: StateBlock, kind: str, first: int, end: int) -> None:
    """Add lines that stay as they are."""
    token = state.push(kind, "", 0)
    token.content = "\n".join(_line(state, number) for number in range(first, end))
    token.map, token.hidden = [first, end], True
    state.line = end


def _push_title(state: StateBlock, title: str, line: int) -> None:
    """Add running text in a line of an extension."""
    state.push("title_open", "", 1)
    token = state.push("inline", "", 0)
    token.content, token.map, token.children = title.strip(), [line, line + 1], []
    state.push("title_close", "", -1)


def _front(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Front matter of other kinds: between two lines ``+++`` (TOML), or braces (JSON)."""
    if first or state.level or silent:
        return False
    begin = _line(state, 0)
    closing = {"{": "}", "+++": "+++", ";;;": ";;;"}.get(begin)
    if closing is None:
        return False
    for number in range(1, end):
        if _line(state, number) == closing and state.sCount[number] == 0:
            _push_lines(state, "front_matter", 0, number + 1)
            return True
    return False


def _container(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """``!!! note "Title"``, ``??? note`` or ``=== "Tab"``, and the Markdown indented below it."""
    if _first(state, first) not in "!?=":
        return False
    match = _CONTAINER.fullmatch(_line(state, first))
    if state.is_code_block(first) or not match or not (match["kinds"].strip() or match["title"]):
        return False
    if silent:
        return True
    indent = state.sCount[first] + _INDENT
    last = first + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    token = state.push("container_open", "div", 1)
    token.markup, token.map = match["before"], [first, last]
    if match["title"]:
        _push_title(state, match["title"], first)
    before = state.blkIndent, state.lineMax, state.parentType
    state.blkIndent, state.lineMax, state.parentType = indent, last, "container"
    state.md.block.tokenize(state, first + 1, last)
    state.blkIndent, state.lineMax, state.parentType = before
    state.push("container_close", "div", -1)
    state.line = last
    return True


def _directive(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A fence of MyST that holds Markdown, such as ```{note}, and the Markdown in it."""
    if _first(state, first) not in "`~":
        return False
    opening = _DIRECTIVE.fullmatch(_line(state, first))
    if state.is_code_block(first) or not opening:
        return False
    last = first + 1
    while last < end and _line(state, last) != opening["fence"]:
        last += 1
    if last == end:
        return False
    if silent:
        return True
    begin = first + 1
    while begin < last and _OPTION.match(_line(state, begin)):
        begin += 1
    _push_lines(state, "structure", first, begin)
    if is_prose(opening["title"]):
        state.tokens[-1].content = opening["before"]
        _push_title(state, opening["title"], first)
    before = state.lineMax
    state.lineMax = last
    state.md.block.tokenize(state, begin, last)
    state.lineMax = before
    _push_lines(state, "structure", last, last + 1)
    return True


def _structure(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Lines that are no text: of extensions and template engines."""
    if _first(state, first).isalnum() or state.is_code_block(first):
        return False
    line = _line(state, first)
    last = _end_of_tag(state, first, end)
    if not last and not _MARKER.match(line):
        return False
    if silent:
        return True
    code = _CODE_BEGIN.match(line)
    if code and last:
        closing = re.compile(rf"\{{[%{{]+[<%]?\s*(?:end|/)\s*{code['name']}\b")
        ends = (number for number in range(first, end) if closing.search(_line(state, number)))
        last = next(ends, last - 1) + 1
    title = _TITLE.fullmatch(line)
    if title and title["kind"] and title["kind"].startswith("{"):
        last = first + 1
        while last < end and _OPTION.match(_line(state, last)):
            last += 1
    _push_lines(state, "structure", first, last or first + 1)
    if title and _is_title(title):
        state.tokens[-1].content = title["before"]
        _push_title(state, title["title"], first)
    return True


def _is_title(title: re.Match[str]) -> bool:
    """Whether the words behind a marker are a title, and no argument as in ``:::{code} python``."""
    is_directive = title["kind"] is not None and title["kind"].startswith("{")
    return is_prose(title["title"]) and (not is_directive or " " in title["title"].strip())


def _end_of_tag(state: StateBlock, first: int, end: int) -> int:
    """The line behind tags of a template engine that stand alone; 0: there are none."""
    text = _line(state, first)
    if not text.startswith("{"):
        return 0
    for last in range(first + 1, min(end, first + _MOST_LINES) + 1):
        if _TAG_OF_TEMPLATE.fullmatch(text):
            return last
        if last == end or state.isEmpty(last):
            return 0
        text += f"\n{_line(state, last)}"
    return 0


def _template(state: StateInline, silent: bool) -> bool:
    """``{{ name }}`` and the like, which another program replaces."""
    return _matched(state, silent, PLACEHOLDER_OR_MATH, _BRACES)


def _undefined_reference(state: StateInline, silent: bool) -> bool:
    """What no other rule knows, but is no word."""
    return _matched(state, silent, _REFERENCE)


def _unknown_link(state: StateInline, silent: bool) -> bool:
    """A link ``[text][reference]`` whose address is in another file, or ``[text]{.class}``."""
    begin, end = state.pos, state.posMax
    if state.src[begin] != "[":
        return False
    label = state.md.helpers.parseLinkLabel(state, begin, True)
    match = _SECOND_LABEL.match(state.src, label + 1, end) if label >= 0 else None
    if not match:
        return False
    if not silent:
        state.pos, state.posMax = begin + 1, label
        state.push("link_open", "a", 1)
        state.md.inline.tokenize(state)
        state.push("link_close", "a", -1)
    state.pos, state.posMax = match.end(), end
    return True


def _matched(state: StateInline, silent: bool, *patterns: re.Pattern[str]) -> bool:
    for pattern in patterns:
        match = pattern.match(state.src, state.pos, state.posMax)
        if match:
            if not silent:
                token = state.push("template", "", 0)
                token.content, token.hidden = match[0], True
            state.pos = match.end()
            return True
    return False


def _destination(text: str, position: int, maximum: int) -> Any:
    """The target of a link, in which a placeholder may have spaces: ``({{< ref "a.md" >}})``."""
    from markdown_it.helpers import parseLinkDestination

    match = _TARGET.match(text, position, maximum)
    if not match or not PLACEHOLDER_OR_MATH.search(match[0]):
        return parseLinkDestination(text, position, maximum)
    return SimpleNamespace(ok=True, pos=match.end(), str=match[0])


def outline(tokens: Sequence[Token]) -> list[tuple[str, ...]]:
    """The tree of a Markdown text: its blocks and inline markup but emphasis, without words."""
    tree: list[tuple[str, ...]] = []
    for token in tokens:
        if token.type == "inline":
            tree += inline_outline(token, EMPHASES)
        elif token.type == "html_block":
            tree.append((token.type, *map(str, TAG.findall(token.content))))
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


class _LinkEnd(str):
    """The end of a link, from the bracket on.

    Attributes:
        words: the text between its brackets, which is its reference if it has no other.
    """

    words: str

    def __new__(cls, raw: str, words: str) -> _LinkEnd:
        end = super().__new__(cls, raw)
        end.words = words
        return end

    def behind(self, text: str) -> str:
        """The end of a link, behind its text, which may be a translation."""
        if self in ("]", "][]") and " ".join(text.split()) != self.words:
            return f"][{self.words}]"
        return str(self)


def _remembering(name: str, rule: Any) -> Any:
    """A rule that gives its inline tokens ``meta["raw"]``, as they are written in the source."""

    def remembering(state: StateInline, silent: bool) -> bool:
        begin, first = state.pos, len(state.tokens)
        label = -1
        if name in ("link", "unknown_link") and not silent and state.src[begin] == "[":
            label = state.md.helpers.parseLinkLabel(state, begin, True)
        if not rule(state, silent):
            return False
        if silent:
            return True
        for token in state.tokens[first:]:
            if token.type == "text" or "raw" in token.meta:
                continue
            token.meta["raw"] = state.src[begin : state.pos]
            if token.type == "link_close" and label >= 0:
                words = " ".join(state.src[begin + 1 : label].split())
                token.meta["raw"] = _LinkEnd(state.src[label : state.pos], words)
        return True

    return remembering


# ---- inline markup -----------------------------------------------------------------------------


_SPECIAL = re.compile(
    r"[\\`*\[\]~${]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?%])|&(?=#?\w+;)|#(?=\{)"
    r"|(?<![\w%])%(?=[\w(+#.@-])"
)
_SPECIAL_BUT_BRACKETS = re.compile(_SPECIAL.pattern.replace(r"\[\]", "", 1))
_AT_BEGIN = re.compile(r"[>=:]|#{1,6}(?=\s|\Z)|[+-](?=\s|\Z|-)|!!!|\?\?\?|\d+(?=[.)](?:\s|\Z))")
_PUNCTUATION = frozenset(string.punctuation)
_HASHES_AT_END = re.compile(r"#+\Z")
_TASK = re.compile(r"\[[ xX]\]\s+")
_DEFINITION = re.compile(r":\s+")  # of a term that is no text
_ALERT = re.compile(r"\[!\w+\][+-]?(?=\s|\Z)")


@dataclass(eq=False)
class Place:
    """Where running text or HTML stands, in characters of the file.

    Attributes:
        line: where it begins, from 1.
        begin, end: of the text.
        further: the markup before its second line and the others.
        blocks: what of it is translated.
        html: the HTML, or None.
        token: the inline markup, if it is no HTML.
        in_table: it is a cell.
        is_paragraph: a block can begin in its text.
        text: written in its place; None: it stays.
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


_LINK = "["


class _Emphasis(str):
    """The characters around emphasised text."""


def _content(token: Token, parent: str, further: str) -> Iterator[str | Mark]:
    """The text and marks of a token of inline markup."""
    children = list(token.children or ())
    leading = _leading_mark(children, parent, further)
    if leading is not None:
        yield leading
    code = ""  # the tag of inline HTML that is left alone
    following = iter(children)
    for child in following:
        raw = child.meta.get("raw", "")
        tag = TAG.match(child.content) if child.type == "html_inline" else None
        name, kind = (tag[2].lower(), "end" if tag[1] else "begin") if tag else ("", "")
        if code:
            yield Mark("point", raw or child.content, hidden=code in READINGS)
            code = "" if (name, kind) == (code, "end") else code
        elif child.type == "link_open" and child.markup == "autolink":
            yield Mark("point", raw)
            next(following), next(following)  # its text and its end
        elif child.type == "link_open":
            yield Mark("open", _LINK)
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
            yield Mark("point", raw, hidden=name in READINGS)
        elif tag:
            yield mark_of("whole" if raw.endswith("/>") else kind, name, raw)
        elif raw:
            leads = child.type == "image"
            yield Mark("point", raw, hidden=raw.startswith("<!--"), leads=leads)


def _leading_mark(children: list[Token], parent: str, further: str) -> Mark | None:
    """What begins a text and is none: a box to tick, a colon, the kind of a quotation.

    It is taken out of ``children``.
    """
    if not children or children[0].type != "text":
        return None
    begin = children[0].content
    if parent == "blockquote_open":
        match = _ALERT.match(begin)
    elif parent == "list_item_open":
        match = _TASK.match(begin)
    else:
        match = _DEFINITION.match(begin)
    if not match:
        return None
    rest = begin[match.end() :]
    if parent != "blockquote_open":
        children[0] = children[0].copy(content=rest)
        return Mark("point", match[0], leads=True)
    title = rest.lstrip()
    if not title and len(children) > 1 and children[1].type == "softbreak":
        del children[:2]
        return Mark("point", f"{begin}\n{further}", breaks=True)
    children[0] = children[0].copy(content=title)
    return Mark("point", f"{match[0]} " if title else begin, leads=True)


def _written(items: Sequence[str | Mark], place: Place, brackets: bool = True) -> str:
    """The Markdown of text and marks; ``brackets``: the text's are escaped, too."""
    special = _SPECIAL if brackets else _SPECIAL_BUT_BRACKETS
    parts: list[str] = []
    links: list[int] = []  # where the texts of open links begin
    for number, item in enumerate(items):
        if isinstance(item, Mark):
            end = str(item.what)
            if isinstance(item.what, _LinkEnd) and links:
                end = item.what.behind("".join(parts[links.pop() :]))
            parts.append(end)
            if item.what == _LINK:
                links.append(len(parts))
            continue
        text = special.sub(r"\\\g<0>", item)
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


def _titles_in(tag: str) -> int:
    """How many values of a tag of a template engine are texts of several words."""
    values = re.findall(r"""["']([^"'\n]+)["']""", tag)
    return sum(" " in value and is_prose(value) for value in values)


def _without_place(text: str, place: Place) -> str:
    """The text of a place without what its lines begin with, as markdown-it gives it."""
    text = text.replace("\n" + "".join(place.further[:1]), "\n")
    return text.replace("\\|", "|") if place.in_table else text


# Escapes that mean the same in every dialect. Brackets are none before what would make a link,
# parentheses in pairs, which are mathematics for some.
_ENTITY = re.compile(r"&#?\w+;")
_HARMLESS = re.compile(
    r"\\(?!\(.*?\\\))"
    r"([^\w\s<>{}\[\]=+:-]|_|(?<=..)[>=+:-]|<(?![A-Za-z/!?%])"
    r"|\[(?!\\?[\[!^@])|\](?!\\?[(\[{:]))",
    re.DOTALL,
)


def _comparable(text: str) -> str:
    """Markdown with single spaces and without escapes that mean the same."""

    def escaped(entity: re.Match[str]) -> str:
        character = html.unescape(entity[0])
        return f"\\{character}" if character in _PUNCTUATION else character

    return " ".join(_HARMLESS.sub(r"\1", _ENTITY.sub(escaped, text)).split())


def _as_read(place: Place, items: Sequence[str | Mark]) -> str:
    """The Markdown of text and marks, to compare it with the file."""
    return _comparable(_without_place(_written(items, place), place))


# ---- files -------------------------------------------------------------------------------------


# No block can begin in the text of these.
_NO_PARAGRAPH = ("heading_open", "th_open", "td_open", "title_open")
_TO_KEEP = ", to keep its markup"
_LABEL = re.compile(r"""\s(?:alt|title)\s*=\s*["']?[^"'>]*[^\W\d_]""", re.IGNORECASE)


class Markdown(DocumentFile):
    """Markdown."""

    libraries = ("markdown_it", "mdit_py_plugins")

    def __init__(self, path: str, split: Splitter | None, choice: Choice = ANY) -> None:
        super().__init__(path)
        assert split is not None
        self.check = BlockCheck()
        text = read_text(path)
        first = re.search("\r\n|\r|\n", text)
        self.newline = first[0] if first else "\n"
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        self.places: list[Place] = []
        self.unread: list[Note] = []  # about text that stays as it is
        self.tokens: list[Token] = []
        self.references: dict[str, Any] = {}  # what markdown-it knows of the file
        self._find(split)
        self.places.sort(key=lambda place: place.begin)
        self.documents = [[block for place in self.places for block in place.blocks]]
        self.check.check_file(path)

    def _find(self, split: Splitter) -> None:
        """Find the running text and the HTML."""
        tokens = self.tokens = parser().parse(self.text, self.references)
        self.outline = outline(tokens)
        starts = [0, *accumulate(len(line) + 1 for line in self.lines)]
        cell = 0, 0  # the line and the end of the cell before
        for number, token in enumerate(tokens):
            is_text = token.type in ("inline", "html_block")
            if not is_text or not token.map or not token.content.strip():
                continue
            in_table = tokens[number - 1].type in ("th_open", "td_open")
            spans = self._spans(token, token.map[0], in_table, cell)
            if in_table:
                cell = token.map[0], spans[0][1]
            first, last = token.map[0], token.map[0] + len(spans) - 1
            further = [self.lines[first + n][:begin] for n, (begin, _) in enumerate(spans) if n > 0]
            place = Place(
                first + 1, starts[first] + spans[0][0], starts[last] + spans[-1][1], further
            )
            is_found = all(begin >= 0 for begin, _ in spans)
            if token.type == "html_block":
                is_found = is_found and last < token.map[1]
                self._read_html(place, token, split, is_found)
            else:
                place.token, place.in_table = token, in_table
                place.is_paragraph = tokens[number - 1].type not in _NO_PARAGRAPH
                self._read_text(place, tokens[number - 2].type, split, is_found)
            if place.blocks and is_found:
                self.places.append(place)
            elif place.blocks:
                self.unread.append(Note(self.place(place.line), KEPT, _TO_KEEP))
        self._note_what_stays(tokens)

    def _spans(
        self, token: Token, first: int, in_table: bool, cell: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """Where each line of a token stands in its line of the file; -1: it is written otherwise.

        Args:
            token: text or HTML.
            first: its first line.
            in_table: it is a cell.
            cell: the line and the end of the cell before.
        """
        spans = []
        lines = token.content.rstrip("\n").split("\n")
        for line, raw in zip(lines, self.lines[first:], strict=False):
            text = line if token.type == "html_block" else line.strip()
            if in_table:
                text = text.replace("|", "\\|")
                begin = raw.find(text, cell[1] if cell[0] == first else 0)
            else:
                begin = raw.rfind(text)
            spans.append((begin, begin + len(text)))
        return spans

    def _read_html(self, place: Place, token: Token, split: Splitter, is_found: bool) -> None:
        """Find what of HTML is translated."""
        check = self.check if is_found else BlockCheck()
        place.html = HtmlText(token.content.rstrip("\n"), split, place.line, check)
        place.blocks = place.html.blocks
        if is_found:
            self.unread += notes_of(place.html, self.path)

    def _read_text(self, place: Place, parent: str, split: Splitter, is_found: bool) -> None:
        """Find out whether running text is translated; ``parent``: the element around it."""
        content = _content(place.token, parent, "".join(place.further[:1]))
        block = Block(content, split, place.line)
        if not is_found:
            place.blocks = [block] if block.sentences else []
            return
        original = _comparable(place.token.content)
        if self.check.takes(block, original, partial(_as_read, place)):
            place.blocks = [block]

    def _note_what_stays(self, tokens: Sequence[Token]) -> None:
        """Note texts that are in no block: too deep, or in images, links and tags."""
        for token in tokens:
            if token.nesting > 0 and token.level + 1 >= _NESTING and token.map is not None:
                detail = f": lists and quotations of more than {_NESTING} levels stay as they are"
                self.unread.append(Note(self.place(token.map[0] + 1), KEPT, detail))
                break
        labels = 0
        for token in tokens:
            labels += _titles_in(token.content) if token.type == "structure" else 0
            for child in token.children or ():
                labels += _titles_in(child.content) if child.type == "template" else 0
                label = child.content if child.type == "image" else child.attrs.get("title")
                labels += any(map(str.isalpha, str(label or "")))
                labels += child.type == "html_inline" and bool(_LABEL.search(child.content))
        if labels:
            detail = f": alternative texts and titles ({labels})"
            self.unread.append(Note(self.path, KEPT, detail, labels))

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = [*self.unread, *self.check.notes(self.path)]
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
        text = self._composed(kept)
        text = followed(text, self.tokens, parser().parse(text))
        return text.replace("\n", self.newline).encode()

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
        original = inline_outline(place.token)
        for brackets in (False, True):
            text = _written(items, place, brackets)
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
        plain = _without_place(text, place)
        return inline_outline(parser().parseInline(plain, self.references)[0], without)
