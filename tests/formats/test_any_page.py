"""Pages put together at random of what pages have: any translation keeps their tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrans.formats.catalogue import DocumentReader
from gtrans.formats.markdown_parser import outline, parser
from gtrans.text.document_file import LOST

MARKDOWN = [
    "word", "It costs", "$5 for", "$HOME and", "**bold text**", "*em*", "E = 10*6*", "`code`",
    "[link here](http://x)", "![i](y)", "<!-- c -->", "<br>", "<kbd>K</kbd>", "$x$", "[^1]",
    "text^[note]", "http://a.b/c", "~~gone~~", "&amp;", "&nbsp;", "<b>html b</b>",
    "m<sup>2</sup>", "H<sub>2</sub>O", "the old man.", "Yes!", "(see)", "- x", "1. y",
    "<span title='a'>sp</span>", "\\*", "__dunder__ ok", "***both***", "[ref]", "a_b_c",
    '"quoted"', "it's", "  \n", "\n", "# h", "> q", "<https://x.y>", "foo:", "<div>", "</div>",
    "\t", "{{ var }}", "{% include x %}", "{: .c}", ":::", "!!! note", "???", "\n:::tip\n",
    "\n<img src=x>\n",
]  # fmt: skip
BEGINS = ("# ", "## ", "- ", "1. ", "> ", "", "", "  - ", "    ", "<p>", "- <p>", '!!! note "')
HTML = [
    "word", "It costs", "<b>bold text</b>", "Go<b>ing</b>", "<i>em</i>", "<code>x &lt; y</code>",
    "<a href='z'>link</a>", "<img src=i>", "<!-- c -->", "<br>", "<kbd>K</kbd>", "&amp;", "&lt;",
    "&nbsp;", "a<sup>2</sup>", "H<sub>2</sub>O", "Yes!", "(see)", "<p>", "</p>",
    "<p class=notranslate>", "<div>", "</div>", "<li>", "<li translate=no>", "<ul>", "</ul>",
    "<td>", "<table><tr>", "</table>", "<b>", "</b>", "<code>",
    "<span translate=no>N <i translate=yes>go</i></span>", "\n", "\r\n", "5 < 6",
    "http://a.b/c?x=1&y=2", "<script>if(a<b){}</script>", "<pre>p <b>q</b></pre>", "<", "&",
    "<!", "<?x?>", "</", "<a", "😀", "שלום", "<svg><g/></svg>", "<input value='x'>",
    "<textarea>a<b></textarea>", "<title>t</title>",
]  # fmt: skip
TRANSLATIONS: Sequence[Callable[[str], str]] = (
    str,
    str.upper,
    lambda one: "X",
    lambda one: " ".join(one.split()[::2]) or one,
    lambda one: " ".join(reversed(one.split())),
    lambda one: " ".join(f"{word} und {word}" for word in one.split()),
    lambda one: '<b>& "x" </p> {{ a }} $5$ | # *a* `b`',
)
CHANGES = st.sampled_from(TRANSLATIONS)


def pieces(of: Sequence[str], most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(of), min_size=1, max_size=most)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(BEGINS), pieces(MARKDOWN, 8)), max_size=3), CHANGES)
def test_any_markdown(
    tmp_path_factory: pytest.TempPathFactory,
    paragraphs: list[tuple[str, list[str]]],
    change: Callable[[str], str],
) -> None:
    text = "\n\n".join(begin + " ".join(words) for begin, words in paragraphs)
    text += "\n\n[ref]: http://r\n\n[^1]: The note.\n"
    path = tmp_path_factory.getbasetemp() / "any.md"
    path.write_text(text)
    file = DocumentReader("en", None).read(path, "markdown")
    found = file.translated([[change(one) for one in of] for of in file.sentences], " ").decode()

    assert outline(parser().parse(found)) == outline(parser().parse(text))
    if change is str:
        assert not any(note.kind == LOST for note in file.notes)


@pytest.mark.filterwarnings("ignore::bs4.MarkupResemblesLocatorWarning")
@settings(max_examples=60)
@given(pieces(HTML, 14), st.sampled_from((" ", "")), CHANGES)
def test_any_html(
    tmp_path_factory: pytest.TempPathFactory,
    words: list[str],
    joint: str,
    change: Callable[[str], str],
) -> None:
    text = joint.join(words)
    path = tmp_path_factory.getbasetemp() / "any.html"
    path.write_bytes(text.encode())
    file = DocumentReader("en", None).read(path, "html")
    found = file.translated([[change(one) for one in of] for of in file.sentences], " ").decode()

    def tree(node: Tag) -> list[object]:
        return [
            (child.name, sorted(child.attrs), tree(child))
            for child in node.children
            if isinstance(child, Tag)
        ]

    pages = [BeautifulSoup(page, "html.parser") for page in (text, found)]
    assert tree(pages[0]) == tree(pages[1])
    if change is str:
        was, now = ("".join(page.get_text().split()) for page in pages)
        assert was == now
