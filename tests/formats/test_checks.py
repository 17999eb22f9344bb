"""What is sent to a model: prose whose markup was understood. The rest is left and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.formats.catalogue import DocumentReader, check_format
from gtrans.formats.checks import is_prose
from gtrans.text.document_file import DocumentFile


def read(path: Path, contents: str) -> DocumentFile:
    path.write_text(contents)
    return DocumentReader("en", None).read(path, check_format(path, None))


def unchanged(file: DocumentFile) -> str:
    return file.translated(file.sentences, " ").decode()


PROSE = (
    "The lamp is new.", "Welcome", "Buy milk", "API", "JavaScript", "the lamp is new;",
    "C++ and C# are languages", "It costs $5; see (a).", "e.g. lamps, i.e. lights",
    "import the lamps from France", "Press 'Enter'", "Node.js is a runtime", "file(s) found",
    "[citation needed] is told", "— he said", "50% of all", "It's 5 o'clock", "A/B test",
    "2020. május 5-én", "东京很大。", "私は「なぜ？」と聞いた。", "हिन्दी में लिखा", "שלום עולם",
    'a URL like "work:repo.git" or like "host.xz:/path/to/repo.git" is one',
)  # fmt: skip
CODE = (
    "import Tabs from '@theme/Tabs';", "import React from 'react'", "export const x = 5;",
    "export default function Foo() {", "const x = require('x')", "if (x == null) return;",
    "foo(bar);", "x => y", "x_1 = y_2 + 3", "body { color: red; }", 'title = "The lamp is new."',
    "(lamp-section)=", '--8<-- "lamp.md"', "[TOC]", "[[toc]]", '=== "The lamp"',
    "/// tab | The lamp", "::: tip", "<<< @/lamp.js", "*[HTML]: Hyper Text", "% a comment here",
    "// a comment", "$ npm install lamp", "maxLength", "lamp.png", "foo_bar", "--flag",
    "src/main.py", "a::b", "100 %", "",
)  # fmt: skip


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_sent(text: str) -> None:
    assert is_prose(text)


@pytest.mark.parametrize("text", CODE)
def test_code_is_not_sent(text: str) -> None:
    assert not is_prose(text)


LAMP = "The lamp is new."
DIALECTS = {
    "TOML front matter": (f'+++\ntitle = "{LAMP}"\n\ndraft = true\n+++\n\n{LAMP}\n', [LAMP]),
    "JSON front matter": ('{\n  "title": "The lamp."\n}\n\nIt is small.\n', ["It is small."]),
    "shortcodes": (
        f'{{{{< notice warning >}}}}\n{LAMP}\n{{{{< /notice >}}}}\n{{% include x.md a="b" %}}\n',
        [LAMP],
    ),
    "a shortcode of several lines": (f'{{{{< img\n  src="a.png"\n>}}}}\n{LAMP}\n', [LAMP]),
    "code between tags": (
        f"{{% highlight sh %}}\nbundle exec lamp\n{{% endhighlight %}}\n\n{LAMP}\n",
        [LAMP],
    ),
    "templates as targets": (
        'The [book]({{< ref "book.md" >}}) and ![it]({{ site.url }}/lamp.png) is heavy.\n',
        ["The book and is heavy."],
    ),
    "references of other files": (
        "The [book][cfg.x], the [lamp][] and [it].\n",
        ["The book, the lamp and [it]."],
    ),
    "attributes": (
        f"# {LAMP} {{#new .wide}}\n\nA [lamp]{{.x}} is new.\n",
        [LAMP, "A lamp is new."],
    ),
    "comments of MDX": (f"# {LAMP} {{/* #new-lamp */}}\n\n{{/* a note */}}\n", [LAMP]),
    "MDX": (
        f"import Tabs from '@theme';\n\nexport const a = (\n  <b>x</b>\n);\n\n<Tabs>\n\n{LAMP}\n",
        [LAMP],
    ),
    "JSX": (f"<Tabs values={{[{{label: 'a'}}, 'b']}}>\n\n{LAMP}\n\n</Tabs>\n", [LAMP]),
    "directives": (f":::{{figure}} a.png\n:alt: the lamp\n:width: 5\n\n{LAMP}\n:::\n", [LAMP]),
    "fences of Markdown": (
        f"```{{note}} A title\n:class: x\n\n{LAMP}\n\n- It is small.\n```\n\n"
        "```{code} py\nx = 1\n```\n",
        ["A title", LAMP, "It is small."],
    ),
    "titles": (
        f":::tip The title\n{LAMP}\n:::\n\n"
        f"/// note | Another\n{LAMP}\n///\n\n:::info[A title]\n:::\n",
        ["The title", LAMP, "Another", LAMP, "A title"],
    ),
    "tabs": (
        f'=== "The tab"\n\n    {LAMP}\n\n    ```\n    lamp\n    ```\n\n'
        '=== "8.x"\n\n    It is small.\n',
        ["The tab", LAMP, "It is small."],
    ),
    "admonitions": (
        f'!!! note\n    {LAMP}\n\n??? tip "It is"\n\n    Small.\n',
        [LAMP, "It is", "Small."],
    ),
    "lines of extensions": (
        '--8<-- "lamp.md"\n\n[TOC]\n\n[[toc]]\n\n<<< @/lamp.js{2}\n\n(lamp)=\n% a comment\n',
        [],
    ),
    "an abbreviation": ("*[HTML]: Hyper Text\n\nIt is small.\n", ["It is small."]),
    "signs in a sentence": (
        "See [[page|text]], :smile:, ++ctrl+c++, $name, ${{ x }}, <<x>>, [^9] and [@doe, p. 5].\n",
        ["See,,,,,, and."],
    ),
    "brackets": ("It [is] new [1], as (see [below]) told.\n", None),
    "a note of GitHub": (f"> [!NOTE]\n> {LAMP}\n", [LAMP]),
    "a list below a comment": (f"<!-- md:option x -->\n\n:   <!-- y --> {LAMP}\n", [LAMP]),
    "points and suffixes": ("It is `git`'s, a `x`-like and (see `a` `b` `c`'s) one.\n", None),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_come_back_unchanged(tmp_path: Path, name: str) -> None:
    text, sentences = DIALECTS[name]
    file = read(tmp_path / "a.md", text)
    assert unchanged(file) == text
    if sentences is not None:
        assert file.sentences == [sentences]


def test_what_was_misread_stays_and_is_counted(tmp_path: Path) -> None:
    text = (
        f"{LAMP}\n\n:name x: an unknown\n\nThe old lamp <gh-pr:1 is new.\n\nconst a = {{b: 5}};\n"
    )
    file = read(tmp_path / "a.md", text)
    assert file.sentences == [[LAMP]] and unchanged(file) == text
    (note,) = file.notes
    assert str(note) == (
        f"{file.path}: 2 blocks left as they are, as their markup is not known: lines 3, 5; "
        "1 block left as it is, as it is no prose: line 7"
    )


@pytest.mark.parametrize(
    ("front", "count"),
    [
        ('---\ntitle: "The lamp"\ntext: It is new.\ndraft: true\ntags:\n  - The old\n---\n', 3),
        ('+++\ntitle = "The lamp"\ndate = 2024-01-02 10:00\n+++\n', 1),
        ('{\n  "title": "The lamp",\n  "weight": 5\n}\n', 1),
        ("---\nlayout: page\n---\n", 0),
    ],
)
def test_texts_of_front_matter_stay_and_are_counted(tmp_path: Path, front: str, count: int) -> None:
    file = read(tmp_path / "a.md", f"{front}\n{LAMP}\n")
    assert unchanged(file) == f"{front}\n{LAMP}\n"
    notes = [f"{file.path}: not translated: texts in the front matter ({count})"] if count else []
    assert [str(note) for note in file.notes] == notes
    assert sum(note.count for note in file.notes) == count


def test_escaped_parentheses_in_pairs_are_mathematics(tmp_path: Path) -> None:
    file = read(tmp_path / "a.md", f"{LAMP}\n\nThe value \\(y\\) is small.\n")
    assert file.sentences == [[LAMP]]
    file = read(tmp_path / "b.md", f"{LAMP}\n\nThe \\(old lamp is dirty.\n")
    assert file.sentences == [[LAMP, "The (old lamp is dirty."]]
    file = read(tmp_path / "c.md", f"{LAMP}\n\nThe old\\) lamp \\(is dirty.\n")
    assert file.sentences == [[LAMP, "The old) lamp (is dirty."]]
    file = read(tmp_path / "d.md", f"{LAMP}\n\nThe \\(y\\) lamp \\(is dirty.\n")
    assert file.sentences == [[LAMP]]


def test_a_file_that_is_mostly_misread_is_rejected(tmp_path: Path) -> None:
    text = "".join(f"The old lamp <unknown:{n} is new.\n\n" for n in range(5)) + LAMP
    with pytest.raises(GtransError, match=r"5 of 6 blocks would not come back .* \(lines 1, 3, 5"):
        read(tmp_path / "a.md", text)


def test_html_that_a_program_reads_stays(tmp_path: Path) -> None:
    text = (
        f"<p>{LAMP}</p>\n<p>${{{{ x }}}} of {{{{ y }}}}</p>\n<td>maxLength</td><i>const a = [];</i>"
    )
    file = read(tmp_path / "a.html", text)
    assert file.sentences == [[LAMP, "of"]] and unchanged(file) == text
    assert "2 blocks left as they are, as they are no prose: lines 3, 3" in str(file.notes[0])


def test_links_to_headings_follow_their_translation(tmp_path: Path) -> None:
    text = (
        "# The `lamp`\n\n## The lamp\n\n## Its id {#own}\n\n"
        "See [it](#the-lamp), [this](#the-lamp-1), [own](#own), [other](#x) and [that].\n\n"
        "```\n[it](#the-lamp)\n```\n\n[that]: #the-lamp-1\n"
    )
    file = read(tmp_path / "a.md", text)
    assert unchanged(file) == text
    words = {"The": "Die schöne", "The lamp": "Die Lampe", "Its id": "Kennung"}
    found = file.translated([[words.get(one, one) for one in file.sentences[0]]], " ").decode()
    assert "[it](#die-schöne-lamp), [this](#die-lampe), [own](#own), [other](#x)" in found
    assert "```\n[it](#the-lamp)\n```" in found and "[that]: #die-lampe\n" in found
