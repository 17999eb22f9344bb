"""A parser of Markdown: markdown-it's CommonMark, and rules for its dialects.

Dialects have tables, strikethrough, footnotes, definition lists, math, front matter, containers,
directives, and template engines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gtrans.formats.checks import is_prose
from gtrans.formats.inline import PLACEHOLDER_OR_MATH

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

EMPHASES = ("em", "strong", "s")
TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)")
MOST_LEVELS = 100
"""Levels of blocks inside each other; a quotation is one, a list two."""


@cache
def parser() -> MarkdownIt:
    """Return the parser of whole files."""
    return _new_parser()


@cache
def _block_parser() -> MarkdownIt:
    """Return the parser without inline markup."""
    markdown = _new_parser()
    markdown.core.ruler.enableOnly(["normalize", "block"])
    return markdown


def _new_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt, helpers
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    markdown = MarkdownIt("commonmark", {"maxNesting": MOST_LEVELS})
    markdown.enable(["table", "strikethrough"])
    for plugin in (front_matter_plugin, footnote_plugin, deflist_plugin):
        markdown.use(plugin)
    # "$5 for one, $50 for all" is no math.
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    _add_block_rules(markdown)
    _add_inline_rules(markdown)
    changed: Any = SimpleNamespace(**vars(helpers))
    changed.parseLinkDestination = _destination
    markdown.helpers = changed
    return markdown


def _add_block_rules(markdown: MarkdownIt) -> None:
    blocks = markdown.block.ruler
    ended: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    blocks.before("fence", "front", _front)
    blocks.before("fence", "container", _container, ended)
    blocks.before("fence", "directive", _directive, ended)
    blocks.before("fence", "structure", _structure, ended)


def _add_inline_rules(markdown: MarkdownIt) -> None:
    inline = markdown.inline.ruler
    inline.after("text", "template", _template)
    inline.after("link", "unknown_link", _unknown_link)
    inline.push("reference", _undefined_reference)
    for rule in inline.__rules__:
        remembering = _RememberingRule(rule.name, rule.fn)
        inline.at(rule.name, remembering, {"alt": rule.alt})


Outline = list[tuple[str, ...]]
"""A tree of blocks and inline markup; an entry begins with a token's type."""


def outline(tokens: Sequence[Token]) -> Outline:
    """Return the tree of a text: blocks and inline markup but emphasis, without words."""
    tree: Outline = []
    for token in tokens:
        if token.type == "inline":
            tree += inline_outline(token, EMPHASES)
        else:
            tree.append(_block_outline(token))
    return tree


def _block_outline(token: Token) -> tuple[str, ...]:
    if token.type == "html_block":
        tags = map(str, TAG.findall(token.content))
        return token.type, *tags
    no_text = ("fence", "code_block", "front_matter", "structure", "math_block")
    code = token.content if token.type in no_text else ""
    return token.type, token.tag, token.markup, token.info, code


class Outliner:
    """Outlines texts that share most paragraphs, and parses the same paragraph once."""

    def __init__(self) -> None:
        self._paragraphs: dict[str, Outline] = {}
        self._targets: dict[str, tuple[str, str]] = {}  # of references, by their labels

    def outline(self, text: str) -> Outline:
        """Return the tree of a text; see :func:`outline`."""
        environment: dict[str, Any] = {}
        tokens = _block_parser().parse(text, environment)
        # Notes are numbered in the order of the file.
        has_notes = "footnotes" in environment or "^[" in text
        if has_notes:
            return outline(parser().parse(text))
        self._read_targets(environment)
        tree: Outline = []
        for token in tokens:
            if token.type == "inline":
                tree += self._inline_outline(token.content, environment)
            else:
                tree.append(_block_outline(token))
        return tree

    def _read_targets(self, environment: dict[str, Any]) -> None:
        targets = {}
        for label, reference in environment.get("references", {}).items():
            targets[label] = reference["href"], reference["title"]
        if targets != self._targets:
            self._paragraphs = {}
            self._targets = targets

    def _inline_outline(self, content: str, environment: Any) -> Outline:
        if content not in self._paragraphs:
            (token,) = parser().parseInline(content, environment)
            self._paragraphs[content] = inline_outline(token, EMPHASES)
        return self._paragraphs[content]


def inline_outline(token: Token, without: Sequence[str] = ()) -> Outline:
    """Return a token's inline markup, ``without`` some kinds."""
    tree: Outline = []
    for child in token.children or ():
        kind = child.type.rpartition("_")[0]
        is_text = child.type in ("text", "softbreak")
        if is_text or kind in without:
            continue
        attributes = sorted(child.attrs.items())
        tree.append((child.type, child.markup, child.content, str(attributes)))
    return tree


# ---- blocks --------------------------------------------------------------------------------------

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
# The first line of front matter of TOML, JSON or another kind, and its last one.
_FRONT_MATTER = {"{": "}", "+++": "+++", ";;;": ";;;"}


def _line(state: StateBlock, number: int) -> str:
    begin = state.bMarks[number] + state.tShift[number]
    return state.src[begin : state.eMarks[number]].strip()


def _first_character(state: StateBlock, number: int) -> str:
    begin = state.bMarks[number] + state.tShift[number]
    return state.src[begin : begin + 1]


def _behind_options(state: StateBlock, first: int, end: int) -> int:
    number = first
    while number < end and _OPTION.match(_line(state, number)):
        number += 1
    return number


def _push_lines(state: StateBlock, kind: str, first: int, end: int) -> None:
    token = state.push(kind, "", 0)
    token.content = "\n".join(_line(state, number) for number in range(first, end))
    token.map = [first, end]
    token.hidden = True
    state.line = end


def _parse_lines(state: StateBlock, first: int, end: int) -> None:
    outer_end = state.lineMax
    state.lineMax = end
    state.md.block.tokenize(state, first, end)
    state.lineMax = outer_end


def _push_title(state: StateBlock, title: str, line: int) -> None:
    state.push("title_open", "", 1)
    token = state.push("inline", "", 0)
    token.content = title.strip()
    token.map = [line, line + 1]
    token.children = []
    state.push("title_close", "", -1)


def _front(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Front matter of other kinds: between two lines ``+++`` (TOML), or braces (JSON)."""
    if first or state.level or silent:
        return False
    closing = _FRONT_MATTER.get(_line(state, 0))
    if closing is None:
        return False
    for number in range(1, end):
        is_indented = state.sCount[number] > 0
        if _line(state, number) == closing and not is_indented:
            _push_lines(state, "front_matter", 0, number + 1)
            return True
    return False


def _container(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """``!!! note "Title"``, ``??? note`` or ``=== "Tab"``, and the Markdown indented below it."""
    if _first_character(state, first) not in "!?=" or state.is_code_block(first):
        return False
    match = _CONTAINER.fullmatch(_line(state, first))
    if match is None:
        return False
    is_named = match["kinds"].strip() or match["title"]
    if not is_named:
        return False
    if silent:
        return True
    indent = state.sCount[first] + _INDENT
    last = first + 1
    while last < end and (state.isEmpty(last) or state.sCount[last] >= indent):
        last += 1
    token = state.push("container_open", "div", 1)
    token.markup = match["before"]
    token.map = [first, last]
    if match["title"]:
        _push_title(state, match["title"], first)
    outer_indent = state.blkIndent
    outer_parent = state.parentType
    state.blkIndent = indent
    state.parentType = "container"
    _parse_lines(state, first + 1, last)
    state.blkIndent = outer_indent
    state.parentType = outer_parent
    state.push("container_close", "div", -1)
    state.line = last
    return True


def _directive(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A fence of MyST that holds Markdown, such as ```{note}."""
    if _first_character(state, first) not in "`~" or state.is_code_block(first):
        return False
    opening = _DIRECTIVE.fullmatch(_line(state, first))
    if opening is None:
        return False
    last = first + 1
    while last < end and _line(state, last) != opening["fence"]:
        last += 1
    if last == end:
        return False
    if silent:
        return True
    begin = _behind_options(state, first + 1, last)
    _push_lines(state, "structure", first, begin)
    if is_prose(opening["title"]):
        state.tokens[-1].content = opening["before"]
        _push_title(state, opening["title"], first)
    _parse_lines(state, begin, last)
    _push_lines(state, "structure", last, last + 1)
    return True


def _structure(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Lines of extensions and template engines that are no text."""
    if _first_character(state, first).isalnum() or state.is_code_block(first):
        return False
    line = _line(state, first)
    behind_tag = _behind_tags(state, first, end)
    if not behind_tag and not _MARKER.match(line):
        return False
    if silent:
        return True
    behind = behind_tag or first + 1
    code = _CODE_BEGIN.match(line)
    if code and behind_tag:
        behind = _behind_code(state, first, end, code["name"]) or behind
    title = _TITLE.fullmatch(line)
    if title and _is_directive(title):
        behind = _behind_options(state, first + 1, end)
    _push_lines(state, "structure", first, behind)
    if title and _is_title(title):
        state.tokens[-1].content = title["before"]
        _push_title(state, title["title"], first)
    return True


def _is_directive(title: re.Match[str]) -> bool:
    kind = title["kind"] or ""
    return kind.startswith("{")


def _is_title(title: re.Match[str]) -> bool:
    """Return whether a marker's words are a title, not an argument: ``:::{code} python``."""
    words = title["title"]
    is_one_word = " " not in words.strip()
    if _is_directive(title) and is_one_word:
        return False
    return is_prose(words)


def _behind_tags(state: StateBlock, first: int, end: int) -> int:
    """Return the line behind template tags that stand alone, or 0."""
    text = _line(state, first)
    if not text.startswith("{"):
        return 0
    last = min(end, first + _MOST_LINES)
    for behind in range(first + 1, last + 1):
        if _TAG_OF_TEMPLATE.fullmatch(text):
            return behind
        if behind == end or state.isEmpty(behind):
            return 0
        text += f"\n{_line(state, behind)}"
    return 0


def _behind_code(state: StateBlock, first: int, end: int, name: str) -> int:
    """Return the line behind the tag that ends the code of a tag ``name``, or 0."""
    closing = re.compile(rf"\{{[%{{]+[<%]?\s*(?:end|/)\s*{name}\b")
    for number in range(first, end):
        if closing.search(_line(state, number)):
            return number + 1
    return 0


# ---- inline markup -------------------------------------------------------------------------------

# Braces hold what programs read: expressions, attributes, ids, roles.
_BRACES = re.compile(r"\{(?:[^{}\n]|\{[^{}\n]*\}){1,300}\}")
# A note or a citation whose definition is elsewhere, and $NAME, which is no formula.
_REFERENCE = re.compile(r"\[\^[^\]\s]+\]|\[-?@[^\[\]\n]+\]|\$[A-Za-z_]\w*(?![\w$])")
_SECOND_LABEL = re.compile(r"\[[^\[\]]*\]|\{[^{}\n]*\}")
_TARGET = re.compile(rf"(?:{PLACEHOLDER_OR_MATH.pattern}|[^\s()<>])+")


def _template(state: StateInline, silent: bool) -> bool:
    return _matched(state, silent, PLACEHOLDER_OR_MATH, _BRACES)


def _undefined_reference(state: StateInline, silent: bool) -> bool:
    return _matched(state, silent, _REFERENCE)


def _matched(state: StateInline, silent: bool, *patterns: re.Pattern[str]) -> bool:
    for pattern in patterns:
        match = pattern.match(state.src, state.pos, state.posMax)
        if match is None:
            continue
        if not silent:
            token = state.push("template", "", 0)
            token.content = match[0]
            token.hidden = True
        state.pos = match.end()
        return True
    return False


def _unknown_link(state: StateInline, silent: bool) -> bool:
    """A link ``[text][reference]`` whose address is in another file, or ``[text]{.class}``."""
    begin, end = state.pos, state.posMax
    if state.src[begin] != "[":
        return False
    label = state.md.helpers.parseLinkLabel(state, begin, True)
    if label < 0:
        return False
    match = _SECOND_LABEL.match(state.src, label + 1, end)
    if match is None:
        return False
    if not silent:
        state.pos, state.posMax = begin + 1, label
        state.push("link_open", "a", 1)
        state.md.inline.tokenize(state)
        state.push("link_close", "a", -1)
    state.pos, state.posMax = match.end(), end
    return True


def _destination(text: str, position: int, maximum: int) -> Any:
    """Read the target of a link, maybe a placeholder with spaces: ``({{< ref "a" >}})``."""
    from markdown_it.helpers import parseLinkDestination

    match = _TARGET.match(text, position, maximum)
    has_placeholder = match is not None and PLACEHOLDER_OR_MATH.search(match[0])
    if match is None or not has_placeholder:
        return parseLinkDestination(text, position, maximum)
    return SimpleNamespace(ok=True, pos=match.end(), str=match[0])


class LinkEnd(str):
    """The end of a link, from the bracket on.

    Attributes:
        words: the link's text, which is its reference if it has no other.
    """

    words: str

    def __new__(cls, raw: str, words: str) -> LinkEnd:
        """Make it of its source ``raw``."""
        end = super().__new__(cls, raw)
        end.words = words
        return end

    def behind(self, text: str) -> str:
        """Return the end of the link behind ``text``, which may be a translation."""
        names_its_text = self in ("]", "][]")
        if names_its_text and " ".join(text.split()) != self.words:
            return f"][{self.words}]"
        return str(self)


class _RememberingRule:
    """Stores the source of a rule's inline tokens in ``meta["raw"]``."""

    def __init__(self, name: str, rule: Any) -> None:
        self._rule = rule
        self._makes_links = name in ("link", "unknown_link")

    def __call__(self, state: StateInline, silent: bool) -> bool:
        if silent:
            return bool(self._rule(state, silent))
        begin = state.pos
        first = len(state.tokens)
        label = -1
        if self._makes_links and state.src[begin] == "[":
            label = state.md.helpers.parseLinkLabel(state, begin, True)
        if not self._rule(state, silent):
            return False
        for token in state.tokens[first:]:
            if token.type == "text" or "raw" in token.meta:
                continue
            token.meta["raw"] = state.src[begin : state.pos]
            if token.type == "link_close" and label >= 0:
                text = state.src[begin + 1 : label]
                words = " ".join(text.split())
                token.meta["raw"] = LinkEnd(state.src[label : state.pos], words)
        return True
