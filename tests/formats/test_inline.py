"""White space beside markup: an example for each rule of ``gtrans/formats/inline.py``."""

from __future__ import annotations

import re

import pytest

from gtrans.formats.inline import Block, Mark
from gtrans.formats.sentences import whole


def block(text: str) -> Block:
    """A text in which ``<b>`` and ``</b>`` mark text and ``{a}`` is a point."""
    content: list[str | Mark] = []
    for piece in re.split(r"(</?\w>|\{\w\})", text):
        kinds = {"<": "open", "</": "close", "{": "point"}
        begin = re.match(r"</|<|\{", piece)
        content.append(Mark(kinds[begin[0]], piece) if begin else piece)  # type: ignore[arg-type]
    return Block(content, whole)


@pytest.mark.parametrize(
    ("text", "sentence", "translation", "expected"),
    [
        # At the begin and the end of a line.
        ("<b> The lamp </b>", "The lamp", "Die Lampe", "<b> Die Lampe </b>"),
        # Begins and ends of marked text.
        ("Go<b>ing</b> home", "Going home", "Going heim", "Go<b>ing</b> heim"),
        ("the <b>lamp</b>", "the lamp", "die Lampe", "die <b>Lampe</b>"),
        ("the<b> lamp</b>", "the lamp", "die Lampe", "die<b> Lampe</b>"),
        ("<b>one</b> two <i>three</i>", "one two three", "eins drei", "<b>eins</b> <i>drei</i>"),
        # Points.
        ("see {a} and {b} now", "see and now", "siehe", "siehe {a} {b}"),
        ("see {a} here", "see here", "siehe hier", "siehe {a} hier"),
        ("go ({a}, home)", "go (, home)", "geh (, heim)", "geh ({a}, heim)"),
        ("x{a} is", "x is", "y ist", "y{a} ist"),
        ("Use {a}.", "Use.", "Nimm.", "Nimm {a}."),
        ("Go {a}more now", "Go more now", "Geh mehr jetzt", "Geh {a}mehr jetzt"),
        ("The {a}s are", "The s are", "Die sind", "Die {a} sind"),
    ],
)
def test_spaces_beside_marks(text: str, sentence: str, translation: str, expected: str) -> None:
    read = block(text)
    assert read.sentences == [sentence]
    unchanged = [item if isinstance(item, str) else item.what for item in read.unchanged()]
    assert "".join(unchanged) == text
    items = read.translated([translation], " ")
    assert "".join(item if isinstance(item, str) else item.what for item in items) == expected
