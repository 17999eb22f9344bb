"""Links to headings of the same Markdown file, which follow the heading's translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from markdown_it.token import Token

# [text](#slug), [reference]: #slug, <a href="#slug">
_LINK = re.compile(r"(\]\(|\]:\s+|\bhref=[\"']?)#([^\s)\"'>]+)")
_OWN_ID = re.compile(r"\{(?:/\*)?\s*#")
_CODE = ("fence", "code_block", "math_block", "front_matter", "structure")


def followed(text: str, before: Sequence[Token], after: Sequence[Token]) -> str:
    """Return ``text`` with links that follow the headings.

    ``before`` and ``after`` are the tokens of source and translation.
    """
    new_slugs: dict[str, str] = {}
    for old, new in zip(_slugs(before), _slugs(after), strict=True):
        if old and new and old != new:
            new_slugs[old] = new
    if not new_slugs:
        return text
    code: set[int] = set()  # numbers of lines
    for token in after:
        if token.type in _CODE and token.map:
            code.update(range(*token.map))

    def follow(link: re.Match[str]) -> str:
        slug = new_slugs.get(unquote(link[2]))
        if slug is None:
            return link[0]
        return f"{link[1]}#{slug}"

    lines = text.split("\n")
    for number, line in enumerate(lines):
        if "#" in line and number not in code:
            lines[number] = _LINK.sub(follow, line)
    return "\n".join(lines)


def _slugs(tokens: Sequence[Token]) -> list[str]:
    """Return the anchors of headings on GitHub; empty for one with an id of its own."""
    slugs: list[str] = []
    count = Counter[str]()
    for number, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        words = ""
        has_id = False
        for child in tokens[number + 1].children or ():
            if child.type in ("text", "code_inline", "softbreak"):
                words += child.content
            elif child.type == "template" and _OWN_ID.match(child.content):
                has_id = True
        slug = re.sub(r"[^\w\- ]", "", words.strip().lower())
        slug = slug.replace(" ", "-")
        repeated = count[slug]
        count[slug] += 1
        if repeated:
            slug = f"{slug}-{repeated}"
        slugs.append("" if has_id else slug)
    return slugs
