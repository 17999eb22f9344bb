"""Markup inside the texts of rows: tags of HTML and fenced blocks."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from gtrans.text.reader.base import ATTRIBUTES

_ELEMENTS = """
a abbr article aside audio b blockquote body br button caption center cite code col dd del div dl dt
em figcaption figure font footer form h[1-6] head header hr html i img input ins kbd label li link
main mark meta nav ol option p pre q s samp section select small span strike strong style sub
summary sup svg table tbody td textarea tfoot th thead title tr tt u ul var video wbr
"""
_TAG = re.compile(
    rf"</?(?:{'|'.join(_ELEMENTS.split())})(?:{ATTRIBUTES})\s*/?>|<!--.*?-->",
    re.IGNORECASE | re.DOTALL,
)
_FENCED = re.compile(r"(```+|~~~+)[ \t]*([^\n`]*)(.*?)(?:\1|\Z)", re.DOTALL)
_CODE = re.compile(r"\s*[{\[<]")
_BEGIN = re.compile(r"\s*(?:<[A-Za-z!/]|```|~~~)")


def have_markup(texts: Sequence[str]) -> bool:
    """Return whether most texts begin with a tag or a fence."""
    count = sum(_BEGIN.match(text) is not None for text in texts)
    return 2 * count > len(texts)


def without_markup(text: str) -> str:
    """Return a text without tags and fenced code; fenced prose stays.

    A translation keeps markup, whose score would say nothing.
    """
    if "```" in text or "~~~" in text:
        text = _FENCED.sub(_prose_of_block, text)
    if "<" in text and _TAG.search(text):
        text = html.unescape(_TAG.sub(" ", text))
    return text


def _prose_of_block(block: re.Match[str]) -> str:
    head = block[2].strip()
    inside = block[3]
    if inside.strip():
        is_code = head != "" or _CODE.match(inside) is not None
        return "" if is_code else inside
    # All of it stands in one line: the name of a language may come first.
    without_name = head.partition(" ")[2] or head
    return "" if _CODE.match(without_name) else block[2]
