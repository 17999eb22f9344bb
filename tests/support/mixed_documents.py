"""A folder of documents of all formats, and the trees of their markup."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, NavigableString, Tag
from docx import Document
from docx.oxml import OxmlElement
from docx.shared import Pt

MARKDOWN = r"""---
title: "Not: translated"
---
# The *old* man  #

He was **very late** and had `a_b = 1` in mind. It was [heavy](http://a.b/c "T"), you see
https://example.org/x_y; a \* star & more.

- [ ] You are late.
  It was heavy.
- > Where were you? It sang.\
  > It sang again.

1. One **old** dog
   - a [second][ref] one and ![image](i.png)

| the man | the *dog* \| cat |
|:--|--:|
| 12 | it `sang \| loud` twice |
| <b>late</b> and <kbd>Ctrl</kbd> | [ref] |

```python
print("He was late.")
```

    indented code

[^1]: The note is <http://x.y>.

<div class="x">
  The <b>man</b> was &lt; late.
</div>

> [!NOTE]
> It was heavy.[^1]

<img src="logo.png">
The old man sang.

- <details><summary>The dog</summary>It sang.</details>

> <p>You are late.</p>

!!! note "The dog"
    It was 10<sup>6</sup> and H<sub>2</sub>O for $5 or $50.

:::tip
It was heavy <!-- not: translated --> and {{ a_b }} sang.[^1]
:::

{% include x_y %}
He was late. {: .wide}

The end $x_1$
---

[ref]: http://e.f
"""

HTML = """<!DOCTYPE html>
<html lang="en"><head><title>The man &amp; the dog</title>
<script>if (a < b) { late("<p>It sang.</p>"); }</script><style>p { color: red }</style></head>
<body><!-- It sang. -->
<h1 class='a'>The  <em>old</em> man</h1>
<p>It was <a href="x?a=1&amp;b=2"><b>very</b> heavy</a>, and <code>ls -l</code> sang. You
are<br>late, 10<sup>6</sup> Go<b>ing</b> <!-- It --> home.
<ul><li>One dog<li>The <img src="x.png" alt="a dog"> man</ul>
<table><tr><th>12<td>The old <i>dog</i></table>
<pre>  keep   this
</pre><p translate="no">It sang.</p><div>Where <span class="notranslate">were</span> you?</div>
<p class=notranslate>It sang.<p title="translate=no">It sang.</p>
</body></html>
"""

TEXT = "The old man.\nIt was heavy.\n\nYou are late.\n"
RUNNING = "The old man was late. It was heavy, 3.5 kg! Where were you?\n\nIt sang at www.a.b.\n"


def write_docx(path: Path) -> None:
    """A document with styles, runs, a table, a header and code."""
    document = Document()
    document.add_heading("The old man", 1)
    paragraph = document.add_paragraph("It was ")
    paragraph.add_run("very").bold = True
    paragraph.add_run(" hea").italic = True
    paragraph.add_run("vy").italic = True
    paragraph.add_run(". You are late.")
    paragraph.add_run().add_break()
    paragraph.add_run("He had 10")
    paragraph.add_run("6").font.superscript = True
    paragraph.add_run(" dogs. ")
    paragraph._p.append(OxmlElement("w:bookmarkStart"))
    large = paragraph.add_run("It sang.")
    large.font.size = Pt(20)
    document.add_paragraph("One dog", style="List Bullet")
    code = document.styles.add_style("Source Code", 1)
    document.add_paragraph("print('It sang.')", style=code)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "12", "The dog sang."
    document.sections[0].header.paragraphs[0].text = "The header"
    document.save(str(path))


def write_mixed(folder: Path) -> list[Path]:
    """Twenty documents; returns their paths in ``folder``."""
    folder.mkdir()
    (folder / "manual" / "part two").mkdir(parents=True)
    texts: dict[str, str] = {}
    for place in ("", "manual/", "manual/part two/"):
        texts |= {f"{place}page.md": MARKDOWN, f"{place}page.html": HTML, f"{place}lines.txt": TEXT}
    rows = [
        {"doc_id": doc, "seg_id": seg, "src_text": text, "domain": "news"}
        for doc, seg, text in (("a", 1, "The old man."), ("b", 1, "It sang."), ("a", 2, "It was."))
    ]
    texts |= {
        "rows.jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "table.tsv": "document_id\tsource\ttarget\nx\tThe dog.\told\nx\tIt sang.\told\n",
        "manual/empty.html": "<html><body><hr></body></html>",
        "manual/code.md": "```\nIt sang.\n```\n",
        "manual/list.markdown": "* It sang.\n* The *old* man\n\n  It was heavy.\n",
        "manual/windows.md": "# The man\r\n\r\nIt was **heavy**.\r\n",
        "manual/short.htm": "<p>It sang.</p>",
        "manual/one.text": "It sang.\n",
    }
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    for name in ("letter.docx", "manual/letter.docx", "manual/part two/letter.docx"):
        write_docx(folder / name)
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def tree_of_html(text: str) -> list[Any]:
    """The tags and attributes, and the contents of what is no text to translate."""

    def tree(node: Tag) -> list[Any]:
        found: list[Any] = []
        for child in node.children:
            if isinstance(child, Tag):
                attributes = {
                    name: "" if name in ("alt", "title", "lang") else value
                    for name, value in child.attrs.items()
                }
                found.append([child.name, sorted(attributes.items()), tree(child)])
            elif type(child) is not NavigableString:
                found.append(str(child))  # comments, scripts, declarations
            elif node.name in ("pre", "code", "kbd") or "notranslate" in node.get("class", []):
                found.append(str(child))
        return found

    return tree(BeautifulSoup(text, "lxml"))


def tree_of_markdown(text: str) -> list[Any]:
    """The tree of the HTML that Markdown becomes, and what that does not show."""
    from gtrans.formats.markdown import parser

    hidden = ("front_matter", "structure", "template")
    tokens = [one for token in parser().parse(text) for one in (token, *(token.children or ()))]
    content = [token.content for token in tokens if token.type in hidden]
    return [*tree_of_html(parser().render(text)), content]


def tree_of_docx(contents: bytes) -> list[Any]:
    """Paragraphs with their styles, runs with their format; cells, breaks, code."""
    document = Document(io.BytesIO(contents))
    found: list[Any] = []
    for paragraph in [
        *document.paragraphs,
        *(p for table in document.tables for cell in table._cells for p in cell.paragraphs),
        *document.sections[0].header.paragraphs,
    ]:
        code = paragraph.text if paragraph.style.name == "Source Code" else ""
        runs = [(run.bold, run.italic, run.font.size) for run in paragraph.runs]
        tags = [element.tag for element in paragraph._p.iter()]
        found.append((paragraph.style.name, code, runs, tags))
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        found.append([member.filename for member in archive.infolist()])
    return found


def tree_of(path: Path) -> Any:
    """The tree of a document by the end of its name."""
    contents = path.read_bytes()
    if path.suffix == ".docx":
        return tree_of_docx(contents)
    text = contents.decode()
    if path.suffix in (".html", ".htm"):
        return tree_of_html(text)
    if path.suffix in (".md", ".markdown"):
        return tree_of_markdown(text)
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in text.splitlines()]
        return [{name: row[name] for name in row if name != "hypothesis"} for row in rows]
    if path.suffix == ".tsv":
        return [line.split("\t")[:3] for line in text.splitlines()]
    return [bool(line) for line in text.split("\n")]
