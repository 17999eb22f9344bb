"""What a reader of translated documents found changed: each case came out wrong once."""

from __future__ import annotations

import json
import re
import time
import zipfile
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import pytest
from markdown_it.token import Token

from gtrans.errors import GtransError
from gtrans.formats import markdown_parser
from gtrans.formats.catalogue import DocumentReader, check_format
from gtrans.formats.markdown_parser import Outliner, inline_outline, outline, parser
from gtrans.text.document_file import MOVED, DocumentFile


def read(path: Path, contents: str | bytes, split_sentences: bool | None = None) -> DocumentFile:
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    return DocumentReader("en", split_sentences).read(path, check_format(path, None))


def written(file: DocumentFile, change: Callable[[str], str] = str) -> str:
    found = file.translated([[change(one) for one in of] for of in file.sentences], " ")
    return found.decode()


def told(file: DocumentFile) -> list[str]:
    return list(map(str, file.notes))


def one_word(sentence: str) -> str:
    return "Wort"


HTML_BLOCKS = [
    '<img src="logo.png">\nThe old man sang.\n',
    "<br>\nThe old man sang.\n",
    '<a href="x">\nGo home\n</a>\n',
    "<b>\nBold text\n</b>\n",
    "<span>\nThe text.\n</span>\n",
    '<p align="center">\n  <img src="x">\n  The text.\n</p>\n',
    "> <p>Hello there</p>\n",
    "- item\n  <div>Hello there</div>\n",
    "- <details><summary>More</summary>Body text</details>\n",
]


@pytest.mark.parametrize("text", HTML_BLOCKS)
def test_blocks_of_html_in_markdown_are_translated_in_place(tmp_path: Path, text: str) -> None:
    file = read(tmp_path / "a.md", text)
    assert written(file) == text
    assert written(file, str.upper).count("\n") == text.count("\n")
    assert "Wort" in written(file, one_word) and not file.notes


MARKDOWN = [
    "See the note <!-- TODO: check --> again in the old house.\n",
    "<!-- TODO: check -->\n\nIt sang.\n",
    "It costs 5 users, and `a`, [b](c) or *d* more.\n",
    "Text[^1] here, and more[^1].\n\n[^1]: The note.\n",
    "text^[an inline note] more\n",
    "Area 10 m<sup>2</sup> of H<sub>2</sub>O, 10<sup>6</sup> times.\n",
    "E = 10*6* ok\n",
    "It costs \\$5 for one user, but teams pay \\$50 a month; $x_1$ is math.\n",
    ":::tip\nUse this.\n:::\n",
    '!!! note "The title"\n    Body text here.\n\n??? tip\n    More text.\n',
    "{% include x %}\nText\n{: .wide}\n\n{{ var }} is {{ a_b_c }} here.\n\n## Title {#id}\n",
]


@pytest.mark.parametrize("text", MARKDOWN)
def test_markdown_comes_out_as_it_was(tmp_path: Path, text: str) -> None:
    file = read(tmp_path / "a.md", text)
    assert written(file) == text and not file.notes
    for kept in ("<!-- TODO: check -->", ":::", "!!! note", "{% include x", "{{ a_b_c }}"):
        assert (kept in written(file, one_word)) == (kept in text)


def test_a_block_that_would_change_the_tree_stays_alone(tmp_path: Path) -> None:
    """The others are translated, and a line says which one is not."""
    path = tmp_path / "a.md"
    file = read(path, "The old man.\n\nA\\\nb <!-- x --> c\n\nIt sang.\n\nHello\0world\n")
    sentences = iter(["Eins", "Zwei", "", "Drei"])
    found = file.translated([[next(sentences) for _ in file.sentences[0]]], " ").decode()
    assert found == "Eins\n\nA\\\nb <!-- x --> c\n\nDrei\n\nHello\0world\n"
    kept = "not translated, to keep its markup"
    assert told(file) == [f"{path}:8: {kept}", f"{path}:3: {kept}"]


def test_the_block_that_stays_is_found_without_parsing_the_others_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 100
    paragraphs = [f"The **lamp** {number} is new." for number in range(count)]
    file = read(tmp_path / "a.md", "\n\n".join([*paragraphs, "Hello.", *paragraphs]))
    outlined: list[Token] = []

    def counted(token: Token, without: Sequence[str] = ()) -> list[tuple[str, ...]]:
        outlined.append(token)
        return inline_outline(token, without)

    monkeypatch.setattr(markdown_parser, "inline_outline", counted)
    found = written(file, lambda one: "[TOC]" if one == "Hello." else one.upper())
    assert "THE **LAMP** 7 IS NEW." in found and "Hello." in found and len(told(file)) == 1
    assert len(outlined) <= 2 * count + 2


@pytest.mark.parametrize("text", [*MARKDOWN, "[a]\n\nb **c**\n\n[a]: x\n", "^[a] b\n\n- c\n"])
def test_the_outline_is_the_same_in_two_steps(text: str) -> None:
    outliner = Outliner()
    for changed in (text, text.replace("[a]: x", "[a]: y"), text.replace("[a]: x", "d"), text):
        assert outliner.outline(changed) == outline(parser().parse(changed))


@pytest.mark.parametrize(
    ("source", "translation", "expected", "moved"),
    [
        # What stands in both is a fixed point.
        ("See <b>Berlin</b> in May.", "Im Mai sieh Berlin.", "Im Mai sieh <b>Berlin</b>.", False),
        ("A (<i>b</i>) c", "Eins zwei (drei) vier", "Eins zwei (<i>drei</i>) vier", False),
        # Elsewhere a share of the words.
        ("one <b>two</b> three", "eins zwei drei", "eins <b>zwei</b> drei", False),
        ("one <b>two</b>", "eins zwei drei vier", "eins zwei <b>drei vier</b>", False),
        ("<b>one two</b>", "eins", "<b>eins</b>", False),
        ("<b>one</b> <i>two</i>", "eins", "<b></b><i>eins</i>", False),
        # Points stand between words, and keep the white space that they had.
        (
            "Run <code>x</code>, then stop",
            "Lauf, dann halt",
            "Lauf <code>x</code>, dann halt",
            False,
        ),
        ("a (<code>x</code>) b", "eins () zwei", "eins (<code>x</code>) zwei", False),
        ("<code>x</code> runs", "läuft", "<code>x</code> läuft", False),
        ("it is <code>x</code>", "es ist", "es ist <code>x</code>", False),
        ("Call <code>x</code> now", "这是文字", "这是 <code>x</code> 文字", False),
        # A sentence keeps its own marks.
        ("He <b>came</b>. She <i>went</i>.", "Er kam.|Ging.", "Er <b>kam</b>. <i>Ging</i>.", False),
        # Inside and beside words.
        ("Go<b>ing</b> home", "Going heim", "Go<b>ing</b> heim", False),
        ("Go<b>ing</b> home", "Gehend heim", "<b>Gehend</b> heim", True),
        ("<b>Hel</b>l<i>o</i> you", "Hallo du", "<b>Hallo</b><i></i> du", True),
        ("a <b>big wor</b>d", "ein großes Wort", "ein <b>großes Wort</b>", True),
        ("Hi<sup>1</sup> there", "Hallo du", "Hallo<sup>1</sup> du", False),
        ("H<sub>2</sub>O is wet", "HO ist nass", "H<sub>2</sub>O ist nass", False),
        ("10<sup>6</sup> cells", "10 Zellen", "10<sup>6</sup> Zellen", False),
        ("Text<sup>{0}</sup> here", "Der Text", "Der Text<sup>{0}</sup>", False),
        ("Text<a href=x></a> here", "Der Text", "Der Text<a href=x></a>", False),
        ("One<!-- c --> two", "eins zwei", "eins<!-- c --> zwei", False),
        ("Size: 10&nbsp;km now", "Jetzt 10 km lang", "Jetzt 10\xa0km lang", False),
        ("use <code>x</code> now", "jetzt mit.", "jetzt mit <code>x</code>.", False),
        ("这是<code>x</code>文字", "This is text", "This is <code>x</code> text", False),
    ],
)
def test_where_marks_go(
    tmp_path: Path, source: str, translation: str, expected: str, moved: bool
) -> None:
    file = read(tmp_path / "a.html", f"<p>{source}</p>")
    assert file.translated([translation.split("|")], " ").decode() == f"<p>{expected}</p>"
    assert [note.kind for note in file.notes] == [MOVED] * moved
    assert written(file).replace("\xa0", "&nbsp;") == f"<p>{source}</p>"


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("<p class=notranslate>Stay<p>Go on</p><p>More text</p>", ["Go on", "More text"]),
        ("<ul><li translate=no>Stay<li>Go on</ul><p>More</p>", ["Go on", "More"]),
        ("<select><option translate=no>One<option>Two</select>", ["Two"]),
        ("<table><tr><td translate=no>One<td>Two<tr><td>Three</table>", ["Two", "Three"]),
        ("<p translate=no>One <b>two<div>Three</div>", ["Three"]),
        ('<p title="the page with translate=no">Hi</p>', ["the page with translate=no", "Hi"]),
        ("<div data-class='notranslate'>Hi</div>", ["Hi"]),
        ('<p class="card notranslate-icon">Hi</p>', ["Hi"]),
        ('<div translate="no">No<div translate="yes">Yes</div>no</div>', ["Yes"]),
        ("<p>x <span translate=no>N <i translate=yes>go</i> n</span> y</p>", ["x go y"]),
    ],
)
def test_what_html_says_is_not_translated(tmp_path: Path, text: str, sentences: list[str]) -> None:
    file = read(tmp_path / "a.html", text)
    assert file.sentences == [sentences]
    assert written(file) == text and not file.notes


def test_an_element_without_end_is_told(tmp_path: Path) -> None:
    file = read(tmp_path / "a.html", "<p>Go</p>\n<div><code>x<p>Some text</p>\n</div><p>More</p>")
    assert file.sentences == [["Go", "More"]]
    assert written(file, one_word).endswith("</div><p>Wort</p>")
    no_end = "not translated: <code> has no end, and what it holds stays as it is"
    assert told(file) == [f"{file.path}:2: {no_end}"]
    file = read(tmp_path / "a.md", "Go\n\n<div>\n<code>x\n</div>\n")
    assert written(file) and told(file) == [f"{file.path}:4: {no_end}"]


def test_brackets_of_an_address_belong_to_it(tmp_path: Path) -> None:
    inside = "https://en.wikipedia.org/wiki/Bark_(sound)"
    for text, kept in (
        (f"See {inside} for it.", inside),
        (f"It (see {inside}) is.", inside),
        ("It (see https://a.org/b) is.", "https://a.org/b"),
        ("It (see https://a.org/b_(c)_d.) is.", "https://a.org/b_(c)_d"),
    ):
        file = read(tmp_path / "a.md", text)
        assert kept not in "".join(file.sentences[0])
        written_text = file.translated([["Ja."]], " ").decode()
        assert kept in written_text and f"{kept})" not in written_text.replace(" )", "")


def test_markdown_has_the_line_ends_of_its_first_line(tmp_path: Path) -> None:
    for text, ends in (
        ("One.\n\n```\na\r\nb\n```\n", b"\n"), ("One.\r\n\nTwo.\n", b"\r\n"),
    ):  # fmt: skip
        file = read(tmp_path / "a.md", text)
        found = file.translated(file.sentences, " ")
        assert found == text.replace("\r\n", "\n").encode().replace(b"\n", ends)


def test_a_row_of_empty_cells_is_no_header(tmp_path: Path) -> None:
    file = read(tmp_path / "a.tsv", "doc_id\tsource\na\tOne.\n\t\nb\tTwo.\n")
    found = file.translated(file.sentences, " ").decode().split("\n")
    assert found[0].endswith("\thypothesis") and found[2] == "\t\t"


def test_lines_keep_their_ends_and_rows_their_ids(tmp_path: Path) -> None:
    text = "One.\r\n\r\nTwo. Three.\r\n"
    assert written(read(tmp_path / "a.txt", text)) == text
    assert written(read(tmp_path / "a.txt", text, split_sentences=True)) == text
    table = "doc_id\tseg_id\tsource\r\na\t7\tOne. It sang.\r\nb\t8\tTwo.\r\n"
    file = read(tmp_path / "a.tsv", table, split_sentences=True)
    assert file.ids == [("a", ["7.1", "7.2"]), ("b", ["8"])]
    assert written(file).split("\r\n")[1] == "a\t7\tOne. It sang.\tOne. It sang."


NAMES = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
)


def run(text: str, look: str = "") -> str:
    return f'<w:r>{look}<w:t xml:space="preserve">{text}</w:t></w:r>'


CONTENT_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
WORD_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def types(**parts: str) -> str:
    """The list of the parts of a document: the kind and the name of each."""
    found = (
        f'<Override PartName="/{name}" ContentType="{WORD_TYPE}.{kind}+xml"/>'
        for kind, name in parts.items()
    )
    return f'<Types xmlns="{CONTENT_TYPES}">{"".join(found)}</Types>'


def word(body: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("[Content_Types].xml", types(main="word/document.xml"))
        archive.writestr("word/document.xml", f"<w:document {NAMES}>{body}</w:document>")
    return packed.getvalue()


def body_of(contents: bytes) -> str:
    found = zipfile.ZipFile(BytesIO(contents)).read("word/document.xml").decode()
    return found[found.index("<w:p") :].removesuffix("</w:document>")


BOLD = "<w:rPr><w:b/></w:rPr>"
RAISED = '<w:rPr><w:vertAlign w:val="superscript"/></w:rPr>'
NOTE = '<w:r><w:footnoteReference w:id="2"/></w:r>'
FIELD = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'
BREAK = '<w:r><w:lastRenderedPageBreak/><w:t xml:space="preserve">three.</w:t></w:r>'
PARAGRAPHS = {
    "math": run("Let ") + "<m:oMath><m:r><m:t>x</m:t></m:r></m:oMath>" + run(" be a number."),
    "comment": run("One two ") + '<w:commentRangeStart w:id="1"/>' + run("three four")
    + '<w:commentRangeEnd w:id="1"/>' + run(" five six."),
    "bookmark": '<w:bookmarkStart w:id="0"/>' + run("Figure one") + '<w:bookmarkEnd w:id="0"/>'
    + run(": the caption."),
    "note": run("Text") + NOTE + run(" here."),
    "field": run("See page ") + FIELD.format("begin") + "<w:r><w:instrText>PAGE</w:instrText></w:r>"
    + FIELD.format("separate") + run("3") + FIELD.format("end") + run(" of it."),
    "deletion": run("Keep ") + '<w:del w:id="3"><w:r><w:delText>no </w:delText></w:r></w:del>'
    + run("this."),
    "page": run("One two ") + BREAK,
    "link": run("Go to ") + '<w:hyperlink w:anchor="a">' + run("my page") + "</w:hyperlink>"
    + run(" now."),
    "inside": run("un") + run("believ", BOLD) + run("able thing."),
    "raised": run("E = mc") + run("2", RAISED) + run(" holds."),
    "tab": run("Name") + "<w:r><w:tab/></w:r>" + run("Value here"),
}  # fmt: skip


@pytest.mark.parametrize("name", PARAGRAPHS)
def test_text_of_word_stays_between_its_neighbours(tmp_path: Path, name: str) -> None:
    """The same sentences give the same paragraph, and another text of as many words its places."""
    contents = word(f"<w:p>{PARAGRAPHS[name]}</w:p>")
    file = read(tmp_path / "a.docx", contents)
    assert body_of(file.translated(file.sentences, " ")) == body_of(contents)
    if name != "inside":
        upper = [[one.upper() for one in of] for of in file.sentences]
        found, was = body_of(file.translated(upper, " ")), body_of(contents)
        assert found.lower() == was.lower() and found != was and not file.notes


def test_word_tells_what_it_cannot_place(tmp_path: Path) -> None:
    file = read(tmp_path / "a.docx", word(f"<w:p>{PARAGRAPHS['inside']}</w:p>"))
    found = body_of(file.translated([["eine unglaubliche Sache."]], " "))
    assert run("", "") in found and "<w:b/>" in found
    assert told(file) == [f"{file.path}: 'unbelievable thing.': {MOVED} to the end of a word"]


def test_a_text_box_of_word_is_read_once_and_written_twice(tmp_path: Path) -> None:
    box = f"<w:txbxContent><w:p>{run('Box text here.')}</w:p></w:txbxContent>"
    both = (
        f'<mc:AlternateContent><mc:Choice Requires="wps">{box}</mc:Choice>'
        f"<mc:Fallback><w:pict>{box}</w:pict></mc:Fallback></mc:AlternateContent>"
    )
    file = read(tmp_path / "a.docx", word(f"<w:p><w:r>{both}</w:r>{run('Outer text.')}</w:p>"))
    assert file.sentences == [["Outer text.", "Box text here."]]
    found = body_of(file.translated([["Außen.", "Kasten."]], " "))
    assert found.count(run("Kasten.")) == 2 and found.count(run("Außen.")) == 1


def backwards(sentence: str) -> str:
    """A translation with other words in another order, so that nothing stays by chance."""
    return " ".join(reversed(sentence.upper().split()))


PLACEHOLDERS = (
    "{{ user.name }}", "{{{ raw }}}", "{% if x < 3 %}", "{# a note #}", "<%= a_b && c %>",
    "${x_y_z}", "#{name}", "{0}", "{name:.2f}", "{}", "%1$s", "%d", "%-5.2f", "%(who)s", "%NAME%",
    "%%", "{n, plural, one {# day} other {# days}}",
)  # fmt: skip


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.txt", "run.txt", "a.jsonl"])
def test_placeholders_stay_as_they_are(tmp_path: Path, name: str) -> None:
    kept = PLACEHOLDERS
    text = " ".join(f"word {one}" for one in kept) + " is 10 % der 50%ige."
    whole = {"a.html": f"<p>{text}</p>", "a.jsonl": json.dumps({"doc_id": "a", "source": text})}
    file = read(tmp_path / name, f"{whole.get(name, text)}\n", name == "run.txt")
    ((sentence,),) = file.sentences
    assert not any(one in sentence for one in kept) and sentence.endswith(" is 10 % der 50%ige.")
    found = written(file, backwards)
    if name == "a.jsonl":
        found = json.loads(found)["hypothesis"]
    # In their order, and not escaped.
    assert re.findall("|".join(map(re.escape, kept)), found) == list(kept)
    assert "DER" in found and not file.notes


def test_placeholders_that_word_cuts_stay_whole(tmp_path: Path) -> None:
    body = f"<w:p>{run('Dear {')}{run('{ user', BOLD)}{run('.name }} of {0}, go home')}</w:p>"
    file = read(tmp_path / "a.docx", word(body))
    assert file.sentences == [["Dear of, go home"]]
    found = text_of(file.translated([["HEIM GEHEN LIEBER"]], " "))
    assert "{{ user.name }}" in found and "{0}" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- [x] Buy new milk\n", "- [x] MILK NEW BUY\n"),
        ("- [ ] one **two** three\n", "- [ ] THREE **TWO** ONE\n"),
        ("> [!NOTE]\n> Take care here.\n", "> [!NOTE]\n> HERE. CARE TAKE\n"),
        ("> [!tip]- The title here\n", "> [!tip]- HERE TITLE THE\n"),
        ("> [!WARNING]\n\nGo home\n", "> [!WARNING]\n\nHOME GO\n"),
        ("<br> Hello there world\n", "<br> WORLD THERE HELLO\n"),
        ("![i](y) Hello there\n", "![i](y) THERE HELLO\n"),
        ("One two<br>![i](y) three four\n", "TWO ONE<br>![i](y) FOUR THREE\n"),
        ("One two\\\nthree four\n", "TWO ONE\\\nFOUR THREE\n"),
        ("**Go home now.** Then stop.\n", "**NOW. HOME GO** STOP. THEN\n"),
        ('<p><input type="checkbox"> Go home</p>\n', '<p><input type="checkbox"> HOME GO</p>\n'),
        ("<p><a><img src=y></a> Go home</p>\n", "<p><a><img src=y></a> HOME GO</p>\n"),
    ],
)
def test_what_begins_a_line_stays_there(tmp_path: Path, text: str, expected: str) -> None:
    file = read(tmp_path / "a.md", text)
    assert written(file) == text
    assert written(file, backwards) == expected


PAGE = """<html lang="en" xml:lang='en'><head><meta name="description" content="A good page">
<meta name="viewport" content="width"><title>The title</title></head><body><p lang="en-GB">Hello
<img src="x" alt="An old man" title=Man> there <q lang="fr">bon</q></p>
<input type="submit" value="Send it"><input name="x" value="keep"><p translate=no title="Stay">x</p>
<a title='it "is" {{ x > '1' }} &amp; so' href="?a=1&b=2">Go home</a></body></html>
"""


def test_texts_of_attributes_are_translated_and_languages_changed(tmp_path: Path) -> None:
    file = read(tmp_path / "a.html", PAGE)
    (sentences,) = file.sentences
    assert sentences == [
        *("A good page", "The title", "An old man", "Man", "Hello there bon", "Send it"),
        *('it "is" & so', "Go home"),
    ]
    assert written(file) == PAGE.replace("Hello\n", "Hello ").replace("title=Man", 'title="Man"')
    file.languages = "en", "de_DE"
    found = written(file, str.upper)
    for part in (
        '<html lang="de-DE" xml:lang=\'de-DE\'>', 'content="A GOOD PAGE"', 'content="width"',
        '<p lang="de-DE">', 'alt="AN OLD MAN" title="MAN"', 'lang="fr"', 'value="SEND IT"',
        'value="keep"', 'title="Stay"',
        "title='IT \"IS\" {{ x > '1' }} &amp; SO' href=\"?a=1&b=2\"",
    ):  # fmt: skip
        assert part in found


def text_of(contents: bytes) -> str:
    return re.sub(r"<[^>]+>", "", body_of(contents))


SYMBOL = '<w:sym w:font="Wingdings" w:char="F0E0"/>'
HYPHEN = "<w:noBreakHyphen/>"


@pytest.mark.parametrize(
    ("body", "sentences", "expected"),
    [
        (f"<w:t>1</w:t>{HYPHEN}<w:t>24 e</w:t>{HYPHEN}<w:t>mails</w:t>",
         ["1-24 e-mails"], "<w:t>E-MAILS 1\u201124<"),
        (f"<w:t>Go</w:t>{SYMBOL}<w:t>home</w:t>", ["Go home"], f"HOME</w:t>{SYMBOL}<w:t>GO<"),
        ("<w:tab/><w:t> Go home</w:t>", ["Go home"], "<w:tab/><w:t> HOME GO</w:t>"),
        ("<w:t>Go</w:t><w:br/><w:t> it is</w:t>", ["Go", "it is"], "<w:br/><w:t> IS IT</w:t>"),
        ("<w:t>Go <!-- c -->home <?p i?>now</w:t>", ["Go home now"], "<w:t>NOW HOME GO</w:t>"),
    ],
)  # fmt: skip
def test_what_word_puts_between_texts(
    tmp_path: Path, body: str, sentences: list[str], expected: str
) -> None:
    file = read(tmp_path / "a.docx", word(f"<w:p><w:r>{body}</w:r></w:p>"))
    assert file.sentences == [sentences]
    assert expected in body_of(file.translated([[*map(backwards, sentences)]], " ")).replace(
        ' xml:space="preserve"', ""
    )


def test_parts_of_word_are_found_by_their_types(tmp_path: Path) -> None:
    part = f"<w:hdr {NAMES}><w:p>{run('Head text')}</w:p></w:hdr>"
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, contents in {
            "[Content_Types].xml": types(
                header="word/x/h.xml", main="word/document22.xml", chart="word/charts/c.xml"
            ),
            "word/document22.xml": f"<w:document {NAMES}><w:p>{run('Body')}</w:p></w:document>",
            "word/x/h.xml": part,
            "word/header1.xml": part,  # no part of this document
            "word/charts/c.xml": "<c:v>Sales</c:v>",
            "word/comments.xml": "<w:t>Look</w:t>",
            "word/diagrams/data1.xml": "<a:t>Box</a:t>",
            "word/charts/style1.xml": "<a:t/>",
        }.items():
            archive.writestr(name, contents)
    file = read(tmp_path / "a.docx", packed.getvalue())
    assert file.sentences == [["Body", "Head text"]]
    found = zipfile.ZipFile(BytesIO(file.translated([["Text", "Kopf"]], " ")))
    assert b"Text" in found.read("word/document22.xml") and b"Kopf" in found.read("word/x/h.xml")
    stays = "word/charts/c.xml, word/comments.xml, word/diagrams/data1.xml, word/header1.xml"
    assert told(file) == [f"{file.path}: not translated: {stays}"]


def test_a_word_file_whose_types_go_by_the_ends_of_names(tmp_path: Path) -> None:
    """As Open XML's own library writes them; parts without text of ours stay as they are."""
    kinds = (("xml", f"{WORD_TYPE}.main+xml"), ("rels", "application/x.relationships+xml"))
    defaults = (f'<Default Extension="{end}" ContentType="{kind}"/>' for end, kind in kinds)
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, contents in {
            "[Content_Types].xml": f'<Types xmlns="{CONTENT_TYPES}">{"".join(defaults)}</Types>',
            "customXml/item1.xml": "<x/>",
            "word/document.xml": f"<w:document {NAMES}><w:p>{run('Body')}</w:p></w:document>",
        }.items():
            archive.writestr(name, contents)
    assert read(tmp_path / "a.docx", packed.getvalue()).sentences == [["Body"]]


def test_html_in_another_charset_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GtransError, match="says that it is in iso-8859-1; convert"):
        read(tmp_path / "a.html", '<meta charset="ISO-8859-1"><p>It is late.</p>')


@pytest.mark.parametrize(
    "contents",
    [
        lambda: b"",
        lambda: b"no archive",
        lambda: word("<w:p/>\uffff"),
        lambda: word("<w:p/>", zipfile.ZIP_STORED).replace(b"<w:p/>", b"<w:q/>"),
    ],
)
def test_a_damaged_file_of_word_is_one_line(tmp_path: Path, contents: Callable[[], bytes]) -> None:
    with pytest.raises(GtransError, match="is no DOCX file, or damaged"):
        read(tmp_path / "a.docx", contents())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.md", "The $$E=mc^2$$ is known.\n", "KNOWN $$E=mc^2$$. IS THE\n"),
        ("a.html", "<table><caption translate=no>It<tbody><tr><td>Go home<tbody translate=no>Go",
         "<table><caption translate=no>It<tbody><tr><td>HOME GO<tbody translate=no>Go"),
        ("a.html", "<p>Go</p></><script>go(1)</script></ home>",
         "<p>GO</p></><script>go(1)</script></ home>"),
        ("a.html", "<p>Go</p>\n<p title='Go <script>alert(1)</script> <b>home</b>\n",
         "<p>GO</p>\n<p title='Go <script>alert(1)</script> <b>home</b>\n"),
    ],
)  # fmt: skip
def test_what_is_no_text_stays(tmp_path: Path, name: str, text: str, expected: str) -> None:
    assert written(read(tmp_path / name, text), backwards) == expected


HIDDEN = "<w:rPr><w:vanish/></w:rPr>"
RUBY = (
    "<w:r><w:ruby><w:rubyPr/><w:rt><w:r><w:t>kan</w:t></w:r></w:rt>"
    "<w:rubyBase><w:r><w:t>漢字</w:t></w:r></w:rubyBase></w:ruby></w:r>"
)
STYLED = '<w:p><w:pPr><w:pStyle w:val="{}"/></w:pPr>' + run("Go home") + "</w:p>"


@pytest.mark.parametrize(
    ("body", "sentences", "expected"),
    [
        # What is hidden is no word, and no word moves into it.
        (run("Go ") + run("secret", HIDDEN) + run("home"), ["Go home"], ["HOME ", "secret", "GO"]),
        (run("Go ") + RUBY + run(" home"), ["Go 漢字 home"], ["HOME ", "kan", "漢字", " GO"]),
    ],
)
def test_what_is_no_word_in_word(
    tmp_path: Path, body: str, sentences: list[str], expected: list[str]
) -> None:
    file = read(tmp_path / "a.docx", word(f"<w:p>{body}</w:p>"))
    assert file.sentences == [sentences]
    found = body_of(file.translated([[*map(backwards, sentences)]], " "))
    assert re.findall("<w:t[^>]*>([^<]*)<", found) == expected


@pytest.mark.parametrize(
    ("tag", "sentences"),
    [
        ("span hidden", ["Go home"]),
        ('span style="color: red; display:none"', ["Go home"]),
        ('b style="visibility: hidden"', ["Go home"]),
        ('span style="display: inline"', ["Go secret home"]),
        ('span class="hidden-none"', ["Go secret home"]),
        ("div hidden", ["Go", "secret", "home"]),  # a tab, or what a script shows
    ],
)
def test_hidden_words_of_html(tmp_path: Path, tag: str, sentences: list[str]) -> None:
    text = f"<p>Go <{tag}>secret</{tag.split()[0]}> home</p>"
    file = read(tmp_path / "a.html", text)
    assert file.sentences == [sentences]
    if sentences == ["Go home"]:
        assert f"<{tag}>secret</" in written(file, backwards)


@pytest.mark.parametrize(
    ("style", "is_code"),
    [
        ("CodeofConduct", False), ("Barcodes", False), ("SourceCode", True), ("HTMLCode", True),
        ("VerbatimChar", True), ("CodeBlock", True), ("HTMLPreformatted", True), ("Code2", True),
    ],
)  # fmt: skip
def test_styles_of_code(tmp_path: Path, style: str, is_code: bool) -> None:
    file = read(tmp_path / "a.docx", word(STYLED.format(style)))
    assert file.sentences == [[] if is_code else ["Go home"]]


def test_readings_are_no_words(tmp_path: Path) -> None:
    text = "<p>Go <ruby>漢<rp>(</rp><rt>kan</rt><rp>)</rp>字<rt>ji</rt></ruby> home</p>"
    for name in ("a.html", "a.md"):
        file = read(tmp_path / name, text)
        assert file.sentences == [["Go 漢字 home"]] and written(file) == text


@pytest.mark.parametrize(
    ("languages", "text", "expected"),
    [
        (("en", "ar"), '<html lang="en"><p>Go', '<html dir="rtl" lang="ar"><p>Go'),
        (("en", "fa"), "<p dir=ltr>Go</p><pre dir=ltr>x", '<p dir="rtl">Go</p><pre dir=ltr>x'),
        (("he", "en"), "<html dir=rtl><p dir=auto>Go", '<html dir="ltr"><p dir=auto>Go'),
        (("en", "de"), "<html><p dir=ltr>Go", "<html><p dir=ltr>Go"),
        (("en", "ur"), "<p><bdo dir=ltr>Go</bdo> home", "<p><bdo dir=ltr>Go</bdo> home"),
    ],
)
def test_html_follows_the_direction_of_the_target(
    tmp_path: Path, languages: tuple[str, str], text: str, expected: str
) -> None:
    file = read(tmp_path / "a.html", text)
    file.languages = languages
    assert written(file) == expected


def test_word_follows_the_direction_of_the_target(tmp_path: Path) -> None:
    body = '<w:p><w:pPr><w:jc w:val="left"/></w:pPr>' + run("Go home") + "</w:p>"
    file = read(tmp_path / "a.docx", word(body))
    file.languages = "en", "he_IL"
    turned = body_of(file.translated(file.sentences, " "))
    assert '<w:bidi/><w:jc w:val="left"/>' in turned and "<w:rPr><w:rtl/></w:rPr>" in turned
    file = read(tmp_path / "a.docx", word(turned))
    file.languages = "he", "en"
    back = body_of(file.translated(file.sentences, " "))
    assert '<w:bidi w:val="0"/>' in back and '<w:rtl w:val="0"/>' in back


def test_deep_html_needs_no_square_of_time(tmp_path: Path) -> None:
    """10,000 open elements took 9 seconds; a quarter of them must not take a quarter of that."""
    seconds = []
    for count in (2_500, 10_000):
        begin = time.process_time()
        read(tmp_path / "a.html", "<b>" * count + "Go home")
        seconds.append(time.process_time() - begin)
    assert seconds[1] < 9 * seconds[0] + 0.5


def test_what_is_deeper_than_the_parser_reads_is_told(tmp_path: Path) -> None:
    text = "> " * 120 + "Go home\n"
    file = read(tmp_path / "a.md", text)
    assert written(file) == text and "more than 100 levels stay" in told(file)[0]


def test_word_files_are_unpacked_within_limits(tmp_path: Path) -> None:
    large = word("<w:p/>" + " " * (101 << 20))
    with pytest.raises(GtransError, match="document.xml unpacks to 101 MiB, more than 100; cut"):
        read(tmp_path / "a.docx", large)
    whole = word(f"<w:p>{run('Go home ' * 200)}</w:p>")
    # It says that it has 10 bytes, in both of its headers.
    size = len(zipfile.ZipFile(BytesIO(whole)).read("word/document.xml"))
    lying = whole.replace(size.to_bytes(4, "little"), (10).to_bytes(4, "little"))
    with pytest.raises(GtransError, match="is no DOCX file, or damaged"):
        read(tmp_path / "a.docx", lying)
