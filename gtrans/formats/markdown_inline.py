"""Inline markup of Markdown: out of the tokens of markdown-it, and written anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gtrans.formats.blocks import Block, with_addresses_marked
from gtrans.formats.markdown_parser import EMPHASES, TAG, inline_outline, parser
from gtrans.formats.marks import Mark
from gtrans.formats.placing import joined

if TYPE_CHECKING:
    from markdown_it.token import Token

_SPECIAL = re.compile(r"[\\`*_\[\]<~$]|&(?=#?\w+;)|\{(?=[{%:#.])")
_AT_BEGIN = re.compile(r"[#>+=:-]|!!!|\?\?\?|\d+(?=[.)])")
_HASHES_AT_END = re.compile(r"#+\Z")
_TASK = re.compile(r"\[[ xX]\]\s+")
_ALERT = re.compile(r"\[!\w+\]")
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
            yield Mark("point", found[0].rstrip() + " ")
            begin = begin[found.end() :]
            children[0] = children[0].copy(content=begin)
        elif len(children) > 1 and children[1].type == "softbreak" and _ALERT.fullmatch(begin):
            yield Mark("point", f"{begin}\n{further}", breaks=True)
            children = children[2:]
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
            yield Mark(kind, raw, breaks, script=script and kind == "open")  # type: ignore[arg-type]
        elif raw:
            yield Mark("point", raw, hidden=raw.startswith("<!--"))


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
        if not parts or parts[-1].endswith(f"\n{place.further}"):
            found = _AT_BEGIN.match(text)
            if found and found[0].isdigit():
                text = f"{found[0]}\\{text[found.end() :]}"  # 1\. is no list
            elif found:
                text = f"\\{text}"
        parts.append(text)
    whole = "".join(parts)
    return whole.replace("|", "\\|") if place.in_table else whole
