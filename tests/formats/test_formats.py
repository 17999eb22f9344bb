"""Documents of all formats: their sentences, and their trees after any translation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mixed_documents import (
    HTML,
    MARKDOWN,
    RUNNING,
    TEXT,
    tree_of,
    tree_of_docx,
    write_docx,
    write_mixed,
)

from gtrans.errors import GtransError
from gtrans.formats.catalogue import DocumentReader, check_format, format_of
from gtrans.formats.sentences import splitter
from gtrans.text.document_file import LEFT, MOVED, DocumentFile

ENGLISH = splitter("en")


def read(path: Path, split_sentences: bool | None = None) -> DocumentFile:
    return DocumentReader("en", split_sentences).read(path, check_format(path, None))


def by_words(change: Callable[[list[str]], list[str]], file: DocumentFile) -> bytes:
    """The file with its sentences changed as lists of words."""
    found = [[" ".join(change(one.split())) for one in of] for of in file.sentences]
    return file.translated(found, " ")


def upper_and_backwards(words: list[str]) -> list[str]:
    return [word.upper() for word in reversed(words)]


def test_a_document_is_one_document_of_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(MARKDOWN)
    (sentences,) = read(tmp_path / "a.md").sentences
    assert sentences[:5] == [
        "The old man",
        "He was very late and had in mind.",
        "It was heavy, you see; a * star & more.",
        "You are late.",
        "It was heavy.",
    ]
    assert not any("print" in one or "Not:" in one or "indented" in one for one in sentences)
    (tmp_path / "a.html").write_text(HTML)
    (sentences,) = read(tmp_path / "a.html").sentences
    assert sentences == [
        *("The man & the dog", "The old man", "It was very heavy, and sang.", "You are"),
        *("late, 10 Going home.", "One dog", "a dog", "The man", "The old dog", "Where you?"),
        "It sang.",
    ]
    write_docx(tmp_path / "a.docx")
    (sentences,) = read(tmp_path / "a.docx").sentences
    assert sentences == [
        *("The old man", "It was very heavy.", "You are late.", "He had 10 dogs.", "It sang."),
        *("One dog", "The dog sang.", "The header"),
    ]


def test_plain_text_as_lines_and_as_running_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    file = read(tmp_path / "a.txt")
    assert file.sentences == [["The old man.", "It was heavy."], ["You are late."]]
    assert by_words(list, file).decode() == TEXT
    (tmp_path / "a.txt").write_text(RUNNING)
    file = read(tmp_path / "a.txt", split_sentences=True)
    assert file.sentences == [
        ["The old man was late.", "It was heavy, 3.5 kg!", "Where were you?", "It sang at."]
    ]
    assert by_words(list, file).decode() == RUNNING
    assert file.sentence_places == [f"{file.path}:{n}" for n in (1, 1, 1, 3)]


@pytest.mark.parametrize("change", [list, upper_and_backwards, lambda words: ["Wort"] * 30])
def test_the_tree_stays(tmp_path: Path, change: Callable[[list[str]], list[str]]) -> None:
    for place in write_mixed(tmp_path / "in"):
        path = tmp_path / "in" / place
        file = read(path)
        copy = tmp_path / place.name
        copy.write_bytes(by_words(change, file))
        assert tree_of(copy) == tree_of(path), place
        stays = re.compile("alternative texts|front matter")
        kinds = {note.kind for note in file.notes if not stays.search(note.detail)}
        assert kinds <= {MOVED, LEFT}
        assert all("markup is not known" not in note.detail for note in file.notes)


WORDS = st.lists(
    st.text("aB1.,*_`[]<>&#|~$!\\-+=:()\"'é字{}^/\uffff", min_size=1, max_size=6), min_size=1
)


@settings(max_examples=15)
@given(st.lists(WORDS, min_size=1, max_size=4))
def test_any_translation_keeps_the_tree_of_word(
    tmp_path_factory: pytest.TempPathFactory, words: list[list[str]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.docx"
    write_docx(path)
    file = read(path)
    found = [" ".join(words[n % len(words)]) for n in range(len(file.sentences[0]))]
    assert tree_of_docx(file.translated([found], " ")) == tree_of_docx(path.read_bytes())


def test_emphasis_that_finds_no_words_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("Title\n\n*The* **old** ~~man~~ [sang](x)\n")
    file = read(path)
    assert file.translated([["Titel", "A"]], " ").decode() == "Titel\n\n[A](x)\n"
    assert list(map(str, file.notes)) == [f"{path}:3: emphasis lost (1 x * and 1 x ** and 1 x ~~)"]


def test_rows_with_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"doc_id": "a", "src_text": "One.\\nTwo.", "refs": {"r": "x"}}\n\n'
        '{"doc_id": "b", "src_text": "Three. Four."}\n'
    )
    file = read(path)
    assert file.sentences == [["One.", "Two."], ["Three. Four."]]
    assert file.sentence_places == [f"{path}:1", f"{path}:1", f"{path}:3"]
    rows = by_words(upper_and_backwards, file).decode().split("\n")
    assert json.loads(rows[0]) == {
        "doc_id": "a", "src_text": "One.\nTwo.", "refs": {"r": "x"}, "hypothesis": "ONE.\nTWO.",
    }  # fmt: skip
    assert rows[1] == "" and json.loads(rows[2])["hypothesis"] == "FOUR. THREE."
    file = read(path, split_sentences=True)
    assert file.sentences == [["One.", "Two."], ["Three.", "Four."]]
    assert file.ids == [("a", ["1", "2"]), ("b", ["1", "2"])]
    path = tmp_path / "a.tsv"
    path.write_text("doc_id\tseg_id\tsource\nx\t7\tOne.\ny\t1\tTwo.\nx\t8\tThree.\n")
    file = read(path)
    assert file.ids == [("x", ["7", "8"]), ("y", ["1"])]
    assert by_words(upper_and_backwards, file).decode() == (
        "doc_id\tseg_id\tsource\thypothesis\nx\t7\tOne.\tONE.\ny\t1\tTwo.\tTWO.\n"
        "x\t8\tThree.\tTHREE.\n"
    )
    path.write_text("plain\n")
    with pytest.raises(GtransError, match="no rows with document ids"):
        read(path)


def test_names_say_the_format(tmp_path: Path) -> None:
    assert format_of(Path("a.TXT.gz")) == "text" and format_of(Path("b.MD")) == "markdown"
    with pytest.raises(GtransError, match=r"'a.odt': the format of '.odt' is not known; known are"):
        check_format(Path("a.odt"), None)
    assert check_format(Path("a.odt"), "html") == "html"


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_text_that_is_not_utf8_is_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes("a\nschön\n".encode("latin-1"))
    with pytest.raises(GtransError, match=f"{name}:2: not UTF-8"):
        read(tmp_path / name)


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """Never a traceback, and never a file that is not whole."""
    random = Random(1)
    write_docx(tmp_path / "good.docx")
    for name, whole in (
        ("a.md", MARKDOWN.encode()),
        ("a.html", HTML.encode()),
        ("a.docx", (tmp_path / "good.docx").read_bytes()),
        ("a.jsonl", b'{"doc_id": "a", "source": "One."}\n'),
        ("a.tsv", b"doc_id\tsource\na\tOne.\n"),
    ):
        for _ in range(40):
            begin = random.randrange(len(whole))
            end = begin + random.choice((0, 1, 5, 10_000))
            inserted = random.choice((b"", b"<![x[", b"\xff", b"</", b"`[|", b"\n> - ", b"&#x;"))
            (tmp_path / name).write_bytes(whole[:begin] + inserted + whole[end:])
            with suppress(GtransError):
                by_words(upper_and_backwards, read(tmp_path / name))


def test_what_did_not_change_is_written_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(HTML)
    assert by_words(list, read(tmp_path / "a.html")).decode() == (
        HTML.replace("The  <em>", "The <em>").replace("You\nare", "You are")
    )


FENCED = '```json\n{"a": "It sang."}\n```'


@pytest.mark.parametrize("way", ["found by itself", "--format html"])
def test_markup_in_rows_stays(tmp_path: Path, way: str) -> None:
    """As in a file of HTML; a line stays a line."""
    text = f"<p>It sang. We go.</p>\n\n{FENCED}\nYou are <b>late</b>.<br>The man &amp; I.\nIt sang."
    if way == "--format html":
        text = "You " + text
    row = {"doc_id": "w", "src_text": text}
    path = tmp_path / "wmt26.jsonl"
    path.write_text(json.dumps(row) + "\n")
    forced = "html" if way == "--format html" else None
    file = DocumentReader("en", None).read(path, check_format(path, forced))
    assert file.sentences[0][-3:] == ["You are late.", "The man & I.", "It sang."]
    found = json.loads(by_words(upper_and_backwards, file))
    lines = found.pop("hypothesis").split("\n")
    assert found == row and "\n".join(lines[2:5]) == FENCED and not lines[1]
    assert lines[5] == "LATE. <b>ARE</b> YOU<br>I. &amp; MAN THE"
    assert lines[6] == "SANG. IT"
    assert json.loads(by_words(list, file))["hypothesis"] == text


def test_rows_of_text_with_a_tag_here_and_there_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"doc_id": "a", "seg_id": n, "source": "Go home."} for n in range(3)]
    rows[0]["source"] = "<b> is a tag."
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read(path).sentences == [["<b> is a tag.", "Go home.", "Go home."]]
