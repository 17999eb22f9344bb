"""Markdown files.

Only paragraphs, headings and cells are written anew, each on one line. After every block its inline
markup is parsed again: what Markdown cannot express in the translation is given up and reported.
"""

from __future__ import annotations

import html
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from gtrans.data.documents import read_text
from gtrans.formats.anchors import followed
from gtrans.formats.checks import BlockCheck, is_prose
from gtrans.formats.html import LEFT_ALONE, READINGS, HtmlText, mark_of, unended_notes
from gtrans.formats.inline import Block, Content, Item, Mark, joined, with_addresses
from gtrans.formats.markdown_parser import (
    EMPHASES,
    MOST_LEVELS,
    TAG,
    LinkEnd,
    Outline,
    Outliner,
    inline_outline,
    outline,
    parser,
)
from gtrans.text.document_file import KEPT, LOST, DocumentFile, Note, Splitter
from gtrans.text.reader import ALL_TEXT, TextSelection

if TYPE_CHECKING:
    from markdown_it.token import Token


@dataclass(eq=False)
class TextPlace:
    """Where running text or HTML stands, in characters of the file.

    Attributes:
        line: from 1.
        further: the markup before its second line and the others.
        blocks: its translated blocks.
        token: the inline markup, if it is no HTML.
        in_table: it is a cell.
        is_paragraph: a block can begin in its text.
        new_text: written in its place; None: it stays.
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
    new_text: str | None = None

    @property
    def line_begin(self) -> str:
        """The markup before the second line."""
        return self.further[0] if self.further else ""


# ---- reading inline markup ---------------------------------------------------------------------

_TASK = re.compile(r"\[[ xX]\]\s+")
_DEFINITION = re.compile(r":\s+")  # of a term that is no text
_ALERT = re.compile(r"\[!\w+\][+-]?(?=\s|\Z)")
_LINK = "["


class _Emphasis(str):
    """The characters around emphasised text."""


class _InlineTag(NamedTuple):
    kind: str  # begin or end
    name: str


def _content(token: Token, parent: str, line_begin: str) -> Iterator[Item]:
    """Yield text and marks of a token; ``parent``: the type of the token around its block."""
    children = list(token.children or ())
    leading = _leading_mark(children, parent, line_begin)
    if leading is not None:
        yield leading
    left_alone = ""  # name of the tag whose content stays as it is
    following = iter(children)
    for child in following:
        raw = child.meta.get("raw", "")
        tag = _tag(child)
        if left_alone:
            yield Mark("point", raw or child.content, hidden=left_alone in READINGS)
            if tag == ("end", left_alone):
                left_alone = ""
        elif child.type == "link_open" and child.markup == "autolink":
            yield Mark("point", raw)
            next(following)  # its text
            next(following)  # its end
        elif child.type == "text":
            yield from with_addresses(child.content)
        elif child.type == "softbreak":
            yield " "
        elif tag is not None:
            is_whole = raw.endswith("/>")
            stays = tag.kind == "begin" and tag.name in LEFT_ALONE
            if stays and not is_whole:
                left_alone = tag.name
            if stays:
                yield Mark("point", raw, hidden=tag.name in READINGS)
            else:
                yield mark_of("whole" if is_whole else tag.kind, tag.name, raw)
        else:
            mark = _other_mark(child, raw, line_begin)
            if mark is not None:
                yield mark


def _tag(child: Token) -> _InlineTag | None:
    tag = TAG.match(child.content) if child.type == "html_inline" else None
    if tag is None:
        return None
    return _InlineTag("end" if tag[1] else "begin", tag[2].lower())


def _other_mark(child: Token, raw: str, line_begin: str) -> Mark | None:
    """Return the mark of a token that is no text and no tag, if any."""
    if child.type == "link_open":
        return Mark("open", _LINK)
    if child.type == "link_close":
        return Mark("close", raw)
    if child.type == "hardbreak":
        end = "\\\n" if raw.startswith("\\") else "  \n"
        return Mark("point", end + line_begin, breaks=True)
    if child.type.rpartition("_")[0] in EMPHASES:
        return Mark("open" if child.nesting > 0 else "close", _Emphasis(child.markup))
    if not raw:
        return None
    is_comment = raw.startswith("<!--")
    return Mark("point", raw, hidden=is_comment, leads=child.type == "image")


def _leading_mark(children: list[Token], parent: str, line_begin: str) -> Mark | None:
    if not children or children[0].type != "text":
        return None
    begin = children[0].content
    if parent == "blockquote_open":
        return _kind_of_quotation(children, begin, line_begin)
    pattern = _TASK if parent == "list_item_open" else _DEFINITION
    match = pattern.match(begin)
    if match is None:
        return None
    rest = begin[match.end() :]
    children[0] = children[0].copy(content=rest)
    return Mark("point", match[0], leads=True)


def _kind_of_quotation(children: list[Token], begin: str, line_begin: str) -> Mark | None:
    """Take ``[!NOTE]`` out of the children of a quotation."""
    match = _ALERT.match(begin)
    if match is None:
        return None
    title = begin[match.end() :].lstrip()
    stands_alone = not title and len(children) > 1 and children[1].type == "softbreak"
    if stands_alone:
        del children[:2]
        return Mark("point", f"{begin}\n{line_begin}", breaks=True)
    children[0] = children[0].copy(content=title)
    return Mark("point", f"{match[0]} " if title else begin, leads=True)


# ---- writing inline markup ---------------------------------------------------------------------

_SPECIAL = re.compile(
    r"[\\`*\[\]~${]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?%])|&(?=#?\w+;)|#(?=\{)"
    r"|(?<![\w%])%(?=[\w(+#.@-])"
)
_SPECIAL_BUT_BRACKETS = re.compile(_SPECIAL.pattern.replace(r"\[\]", "", 1))
_AT_BEGIN = re.compile(r"[>=:]|#{1,6}(?=\s|\Z)|[+-](?=\s|\Z|-)|!!!|\?\?\?|\d+(?=[.)](?:\s|\Z))")
_HASHES_AT_END = re.compile(r"#+\Z")
_PUNCTUATION = frozenset(string.punctuation)


def _written(items: Content, place: TextPlace, brackets: bool = True) -> str:
    """Return the Markdown of text and marks; ``brackets``: escape brackets of the text."""
    special = _SPECIAL if brackets else _SPECIAL_BUT_BRACKETS
    parts: list[str] = []
    links: list[int] = []  # where the texts of open links begin
    for number, item in enumerate(items):
        if isinstance(item, str):
            begins_line = not parts or parts[-1].endswith("\n" + place.line_begin)
            is_last = number == len(items) - 1
            parts.append(_escaped(item, special, place, begins_line, is_last))
            continue
        if isinstance(item.what, LinkEnd) and links:
            begin = links.pop()
            text = "".join(parts[begin:])
            parts.append(item.what.behind(text))
        else:
            parts.append(str(item.what))
        if item.what == _LINK:
            links.append(len(parts))
    markdown = "".join(parts)
    return markdown.replace("|", "\\|") if place.in_table else markdown


def _escaped(
    text: str, special: re.Pattern[str], place: TextPlace, begins_line: bool, is_last: bool
) -> str:
    text = special.sub(r"\\\g<0>", text)
    if not place.in_table:  # even "\|" above a line of hyphens would make a table
        text = text.replace("|", "&#124;")
    if is_last:
        text = _HASHES_AT_END.sub(r"\\\g<0>", text)
    if not (place.is_paragraph and begins_line):
        return text
    match = _AT_BEGIN.match(text)
    if match is None:
        return text
    if match[0].isdigit():
        return f"{match[0]}\\{text[match.end() :]}"  # 1\. is no list
    return f"\\{text}"


def _without_place(text: str, place: TextPlace) -> str:
    """Return a place's text without the begins of lines, as markdown-it gives it."""
    text = text.replace("\n" + place.line_begin, "\n")
    return text.replace("\\|", "|") if place.in_table else text


# Escapes that mean the same in every dialect. Brackets are none before what would make a link,
# parentheses in pairs, which are mathematics for some.
_HARMLESS = re.compile(
    r"\\([^\w\s<>{}\[\]=+:-]|_|(?<=..)[>=+:-]|<(?![A-Za-z/!?%])|\[(?!\\?[\[!^@])|\](?!\\?[(\[{:]))",
    re.DOTALL,
)
_ENTITY = re.compile(r"&#?\w+;")


def _comparable(text: str) -> str:
    """Return Markdown with single spaces and without escapes that mean the same."""
    text = _ENTITY.sub(_without_entity, text)
    last_end = text.rfind("\\)")
    without_escape = partial(_without_escape, last_end)
    text = _HARMLESS.sub(without_escape, text)
    return " ".join(text.split())


def _without_escape(last_end: int, escape: re.Match[str]) -> str:
    """Return the escaped character; ``last_end``: the place of the last ``\\)``."""
    begins_pair = escape[1] == "(" and escape.end() <= last_end
    return escape[0] if begins_pair else escape[1]


def _without_entity(entity: re.Match[str]) -> str:
    character = html.unescape(entity[0])
    return f"\\{character}" if character in _PUNCTUATION else character


def _comparable_items(place: TextPlace, items: Content) -> str:
    written = _written(items, place)
    return _comparable(_without_place(written, place))


# ---- files -------------------------------------------------------------------------------------

# No block can begin in the text of these.
_NO_PARAGRAPH = ("heading_open", "th_open", "td_open", "title_open")
_TO_KEEP = ", to keep its markup"
_LABEL = re.compile(r"""\s(?:alt|title)\s*=\s*["']?[^"'>]*[^\W\d_]""", re.IGNORECASE)
_VALUE = re.compile(r"""["']([^"'\n]+)["']""")
# Before the value of a line of front matter: title: A text; title = "A text"; "title": "A text",
_FRONT_KEY = re.compile(r"""[ \t]*(?:["']?[\w-]+["']?[ \t]*[:=]|-)""")


class _LineSpan(NamedTuple):
    """Where a token's line stands in a line of the file; -1: written otherwise."""

    begin: int
    end: int


class _Cell(NamedTuple):
    line: int
    end: int  # in the line


class Markdown(DocumentFile):
    """Markdown."""

    libraries = ("markdown_it", "mdit_py_plugins")

    def __init__(
        self, path: str, split: Splitter | None, selection: TextSelection = ALL_TEXT
    ) -> None:
        super().__init__(path)
        assert split is not None
        self._split = split
        self.check = BlockCheck()
        text = read_text(path)
        first = re.search("\r\n|\r|\n", text)
        self.newline = first[0] if first else "\n"
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        self.places: list[TextPlace] = []
        self.unread: list[Note] = []  # about text that stays as it is
        self.references: dict[str, Any] = {}  # which markdown-it finds in the file
        self.tokens = parser().parse(self.text, self.references)
        self.outline = outline(self.tokens)
        self._outliner = Outliner()
        self._find_places()
        self._note_levels()
        self._note_labels()
        self.places.sort(key=lambda place: place.begin)
        self.documents = [_blocks_of(self.places)]
        self.check.check_file(path)

    # ---- reading ----

    def _find_places(self) -> None:
        line_begins = [0, *accumulate(len(line) + 1 for line in self.lines)]
        last_cell = _Cell(0, 0)
        for number, token in enumerate(self.tokens):
            is_text = token.type in ("inline", "html_block")
            if not is_text or not token.map or not token.content.strip():
                continue
            first = token.map[0]
            in_table = self.tokens[number - 1].type in ("th_open", "td_open")
            behind = last_cell.end if last_cell.line == first else 0
            spans = self._spans(token, first, in_table, behind)
            if in_table:
                last_cell = _Cell(first, spans[0].end)
            last = first + len(spans) - 1
            further = []
            for line, span in enumerate(spans[1:], start=first + 1):
                further.append(self.lines[line][: span.begin])
            place = TextPlace(
                line=first + 1,
                begin=line_begins[first] + spans[0].begin,
                end=line_begins[last] + spans[-1].end,
                further=further,
            )
            is_found = all(span.begin >= 0 for span in spans)
            if token.type == "html_block":
                is_found = is_found and last < token.map[1]
                self._read_html(place, token, is_found)
            else:
                place.token = token
                place.in_table = in_table
                place.is_paragraph = self.tokens[number - 1].type not in _NO_PARAGRAPH
                parent = self.tokens[number - 2].type
                self._read_text(place, parent, is_found)
            if place.blocks and is_found:
                self.places.append(place)
            elif place.blocks:
                self.unread.append(self._kept_note(place))

    def _spans(self, token: Token, first: int, in_table: bool, behind: int) -> list[_LineSpan]:
        """Return where the lines of a token stand; ``behind``: the cell before it."""
        spans = []
        lines = token.content.rstrip("\n").split("\n")
        in_file = self.lines[first : first + len(lines)]
        for line, raw in zip(lines, in_file, strict=False):
            text = line if token.type == "html_block" else line.strip()
            if in_table:
                text = text.replace("|", "\\|")
                begin = raw.find(text, behind)
            else:
                begin = raw.rfind(text)
            spans.append(_LineSpan(begin, begin + len(text)))
        return spans

    def _read_html(self, place: TextPlace, token: Token, is_found: bool) -> None:
        check = self.check if is_found else BlockCheck()
        content = token.content.rstrip("\n")
        place.html = HtmlText(content, self._split, place.line, check)
        place.blocks = place.html.blocks
        if is_found:
            self.unread += unended_notes(place.html, self.path)

    def _read_text(self, place: TextPlace, parent: str, is_found: bool) -> None:
        content = _content(place.token, parent, place.line_begin)
        block = Block(content, self._split, place.line)
        if not is_found:
            place.blocks = [block] if block.sentences else []
            return
        original = _comparable(place.token.content)
        written = partial(_comparable_items, place)
        if self.check.takes(block, original, written):
            place.blocks = [block]

    def _kept_note(self, place: TextPlace) -> Note:
        return Note(self.place(place.line), KEPT, _TO_KEEP)

    def _note_levels(self) -> None:
        for token in self.tokens:
            is_too_deep = token.nesting > 0 and token.level + 1 >= MOST_LEVELS
            if is_too_deep and token.map is not None:
                what = f"lists and quotations of more than {MOST_LEVELS} levels"
                where = self.place(token.map[0] + 1)
                self.unread.append(Note(where, KEPT, f": {what} stay as they are"))
                return

    def _note_labels(self) -> None:
        count = 0
        for token in self.tokens:
            if token.type == "front_matter":
                self._note_front_matter(token)
            if token.type == "structure":
                count += _titles_in(token.content)
            for child in token.children or ():
                count += _labels_of(child)
        if count:
            detail = f": alternative texts and titles ({count})"
            self.unread.append(Note(self.path, KEPT, detail, count))

    def _note_front_matter(self, token: Token) -> None:
        texts = 0
        for line in token.content.split("\n"):
            key = _FRONT_KEY.match(line)
            value = line[key.end() :].strip(" \t,\"'") if key else ""
            if " " in value and is_prose(value):
                texts += 1
        if texts:
            detail = f": texts in the front matter ({texts})"
            self.unread.append(Note(self.path, KEPT, detail, texts))

    # ---- writing ----

    def translated(self, translations: Sequence[Sequence[str]], joint: str) -> bytes:
        """See :meth:`DocumentFile.translated`."""
        self.notes = [*self.unread, *self.check.notes(self.path)]
        following = (sentences for _, sentences in self.by_block(translations))
        for place in self.places:
            place.new_text = self._new_text(place, following, joint)
        changed = [place for place in self.places if place.new_text is not None]
        offending = self._offending(changed)
        kept = [place for place in changed if place not in offending]
        if offending and self._differs(kept):  # only all of them together change it
            offending = changed
            kept = []
        for place in offending:
            self.notes.append(self._kept_note(place))
        self.note_moved(_blocks_of(kept))
        text = self._composed(kept)
        text = followed(text, self.tokens, parser().parse(text))
        return text.replace("\n", self.newline).encode()

    def _offending(self, places: list[TextPlace]) -> list[TextPlace]:
        """Return the places whose translation changes the tree of the file."""
        if not places or not self._differs(places):
            return []
        if len(places) == 1:
            return places
        half = len(places) // 2
        return self._offending(places[:half]) + self._offending(places[half:])

    def _differs(self, places: Sequence[TextPlace]) -> bool:
        text = self._composed(places)
        return self._outliner.outline(text) != self.outline

    def _composed(self, places: Sequence[TextPlace]) -> str:
        parts: list[str] = []
        done = 0
        for place in places:
            parts.append(self.text[done : place.begin])
            parts.append(place.new_text or "")
            done = place.end
        parts.append(self.text[done:])
        return "".join(parts)

    def _new_text(
        self, place: TextPlace, translations: Iterator[Sequence[str]], joint: str
    ) -> str | None:
        """Return the Markdown of a place; None: its markup cannot be kept."""
        if place.html:
            html_lines = place.html.translated(translations, joint, self.languages).split("\n")
            line_begins = ["", *place.further]
            lines = [begin + line for begin, line in zip(line_begins, html_lines, strict=False)]
            return "\n".join(lines)
        items = place.blocks[0].translated(next(translations), joint)
        original = inline_outline(place.token)
        for brackets in (False, True):
            text = _written(items, place, brackets)
            if self._reparsed(text, place) == original:
                return text
        return self._without_emphasis(place, items)

    def _without_emphasis(self, place: TextPlace, items: Content) -> str | None:
        """Return the Markdown without emphasis; None: this is not enough."""
        others = [item for item in items if not _is_emphasis(item)]
        text = _written(joined(others), place)
        if self._reparsed(text, place, EMPHASES) != inline_outline(place.token, EMPHASES):
            self.notes.append(self._kept_note(place))
            return None
        lost = Counter[str]()
        for child in place.token.children or ():
            if child.type.endswith("_open") and child.markup:
                lost[child.markup] += 1
        detail = " and ".join(f"{count} x {markup}" for markup, count in lost.items())
        self.notes.append(Note(self.place(place.line), LOST, f" ({detail})"))
        return text

    def _reparsed(self, text: str, place: TextPlace, without: Sequence[str] = ()) -> Outline:
        plain = _without_place(text, place)
        tokens = parser().parseInline(plain, self.references)
        return inline_outline(tokens[0], without)


def _blocks_of(places: Iterable[TextPlace]) -> list[Block]:
    blocks: list[Block] = []
    for place in places:
        blocks += place.blocks
    return blocks


def _is_emphasis(item: Item) -> bool:
    if isinstance(item, str):
        return False
    return isinstance(item.what, _Emphasis)


def _labels_of(child: Token) -> int:
    count = 0
    if child.type == "template":
        count += _titles_in(child.content)
    label = child.content if child.type == "image" else child.attrs.get("title")
    if any(character.isalpha() for character in str(label or "")):
        count += 1
    if child.type == "html_inline" and _LABEL.search(child.content):
        count += 1
    return count


def _titles_in(tag: str) -> int:
    """Count the values of a template tag that are texts of several words."""
    count = 0
    for value in _VALUE.findall(tag):
        if " " in value and is_prose(value):
            count += 1
    return count
