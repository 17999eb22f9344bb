"""The parser of Markdown, with the extensions that pages are written in, and its trees."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from gtrans.formats.inline_places import remember_places

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

EMPHASES = ("em", "strong", "s")
TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)")
# Containers (:::), tags of templates and lists of attributes that have a line of their own.
_STRUCTURE = re.compile(r":::.*|(?:\{%.*?%\}\s*)+|\{[:#.][^{}]*\}")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{[:#.][^{}\n]*\}", re.DOTALL)
_TOML = "+++"


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables, strikethrough, footnotes, definition lists, math and the like."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.admon import admon_plugin
    from mdit_py_plugins.deflist import deflist_plugin
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    found = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for plugin in (front_matter_plugin, footnote_plugin, deflist_plugin, admon_plugin):
        found.use(plugin)
    # "$5 for one, $50 for all" is no math.
    found.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    found.block.ruler.before("front_matter", "toml", _toml)
    ended = ["paragraph", "reference", "blockquote", "list"]
    found.block.ruler.before("fence", "structure", _structure, {"alt": ended})
    found.inline.ruler.before("escape", "template", _template)
    remember_places(found)
    return found


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()


def _toml(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Front matter between two lines ``+++``, as Hugo and Zola have it."""
    if first or state.level or _line(state, 0) != _TOML:
        return False
    last = next((number for number in range(1, end) if _line(state, number) == _TOML), None)
    if last is None:
        return False
    if not silent:
        token = state.push("front_matter", "", 0)
        token.content = state.src[: state.eMarks[last]]
        token.map, token.markup, token.hidden = [0, last + 1], _TOML, True
        state.line = last + 1
    return True


def _structure(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A line that is no text."""
    line = _line(state, first)
    if state.is_code_block(first) or not _STRUCTURE.fullmatch(line):
        return False
    if not silent:
        token = state.push("structure", "", 0)
        token.content, token.map, token.hidden = line, [first, first + 1], True
        state.line = first + 1
    return True


def _template(state: StateInline, silent: bool) -> bool:
    """``{{ name }}`` and the like, which another program replaces."""
    found = _TEMPLATE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    if not silent:
        token = state.push("template", "", 0)
        token.content, token.hidden = found[0], True
    state.pos = found.end()
    return True


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
