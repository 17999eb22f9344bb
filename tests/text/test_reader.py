"""The reader of text: every kind of file is read as what it is, or rejected by what it is."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrans.cli import main
from gtrans.data.documents import resolve
from gtrans.errors import GtransError
from gtrans.text.reader import (
    Document,
    Reader,
    Segment,
    Sides,
    TextSelection,
    iterate_lines,
    open_text,
    read_documents,
    read_parallel,
)
from gtrans.text.reader.base import Head

TWO = [["A b.", "C."], ["D e."]]
PLAIN = "A b.\nC.\n\nD e.\n"
SGM = (
    '<srcset setid="t" srclang="en">\n<doc docid="1" genre="news">\n<hl>\n<seg id="1">A b.</seg>\n'
    '</hl>\n<p>\n<seg id="2">C.\n</p>\n</doc>\n'
    '<DOC docid="2"><SEG id=1>D e.</SEG></DOC>\n</srcset>\n'
)
REF = SGM.replace("srcset", "refset")
XML = """<?xml version='1.0' encoding='utf-8'?>
<dataset id="wmttest2024.en-de"><collection id="general">
<doc origlang="en" id="1" domain="news">
<src lang="en"><p><seg id="1">A b.</seg></p><p><seg id="2">C.</seg></p></src>
<ref lang="de" translator="refA"><p><seg id="1">a b.</seg><seg id="2">c.</seg></p></ref>
<ref lang="de" translator="refB"><p><seg id="1">a &amp; b.</seg><seg id="2">C!</seg></p></ref>
<hyp system="ONLINE-A" language="de"><seg id="1">x b.</seg><seg id="2"></seg></hyp>
<hyp system="ONLINE-B" language="de"><seg id="1">y b.</seg><seg id="2">y.</seg></hyp>
</doc>
<doc origlang="en" id="2"><src lang="en"><p><seg id="1">D e.</seg></p></src>
<ref lang="de" translator="refA"><p><seg id="1">d e.</seg></p></ref>
<hyp system="ONLINE-A"><seg id="1">x e.</seg></hyp>
<hyp system="ONLINE-B"><seg id="1">y e.</seg></hyp></doc>
</collection></dataset>
"""
ROWS = [("1", "A b."), ("1", "C."), ("2", "D e.")]


def rows(*entries: dict[str, object]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def file(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


READ = {
    "empty lines": PLAIN,
    "several empty lines": "\n\nA b.\nC.\n\n \t\nD e.",
    "<d>": "<d>\nA b.\nC.\n<d>\n\nD e.\n<d>\n",
    "Windows, byte order mark": "\ufeffA b.\r\nC.\r\n\r\nD e.\r\n",
    "white space": " A b. \n\tC.\n\u3000\nD e.\n",
    "<doc>": '<doc id="1" title="x">\nA b.\nC.\n</doc>\n<doc id="2">\nD e.\n</doc>\n',
    "<doc> of WikiExtractor": '<doc id="1" title=""A" B">\nA b.\nC.\n</doc>\n<DOC x=1>\nD e.\n',
    "OPUS": "\n<fromDoc>a/1.xml.gz\n\nA b.\nC.\n\n<fromDoc>a/2.xml.gz</fromDoc>\n\nD e.\n",
    "OPUS, both": "<fromDoc>1\n<toDoc>2\n\nA b.\nC.\n\n<fromDoc>3\n<toDoc>4\n\nD e.\n",
    "JSON lines": rows(*({"doc_id": d, "text": s} for d, s in ROWS)),
    "ids of segments": rows(
        *({"document_id": d, "segment_id": n, "source": s} for n, (d, s) in enumerate(ROWS))
    ),
    "HPLT": rows({"id": "x", "text": "A b.\nC."}, {"id": "y", "text": "D e."}),
    "ParaDocs": rows(*({"src_docid": d, "src": s, "tgt": "t"} for d, s in ROWS)),
    "WMT25": rows({"doc_id": 1, "src_text": "A b.\n\nC."}, {"doc_id": 2, "src_text": "D e."}),
    "table": "doc_id\tsource\n" + "".join(f"{d}\t{s}\n" for d, s in ROWS),
    "SGM": SGM,
    "SGM without a head": SGM.partition("\n")[2],
    "WMT XML": XML,
}


@pytest.mark.parametrize("packed", [False, True], ids=["", "gzip"])
@pytest.mark.parametrize("content", READ.values(), ids=READ)
def test_what_is_read(content, packed, tmp_path):
    path = file(tmp_path, gzip.compress(content.encode()) if packed else content)
    assert read_documents(path) == TWO


REJECTED = {
    "HTML": ("<!DOCTYPE html>\n<html lang=en>\n<body>\n<p>A.</p>\n", "markup (line 1: <"),
    "HTML in capitals": ("<HTML>\n<BODY>\nA.\n", "markup (line 1: <"),
    "a part of HTML": ("<p>A.</p>\n<p class=x>B.</p>\n", "markup (line 1: <p>A.</p>)"),
    "HTML after text": ("A.\nB.\n" + "<p>C.</p>\n" * 5, "markup (line 3"),
    "HTML without end tags": ("<p>A.\n<p>B.\n<P class=x>C.\n", "markup (line 1: <p>A."),
    "Europarl": ('<CHAPTER ID=1>\nA.\n<SPEAKER ID=1 NAME="P">\nB.\n<P>\nC.\n', "markup (line 1"),
    "a whole file of Europarl": (
        '<CHAPTER ID="1">\n<SPEAKER ID="1">\n<P>\n' + "A.\n" * 60,
        "markup (line 1",
    ),
    "<s>": ("<s> A. </s>\n<s id=1>B.</s>\n", "markup (line 1: <s> A."),
    "SRT": ("1\n00:00:01,000 --> 00:00:02,000\nA.\n\n2\n", "subtitles"),
    "WebVTT": ("WEBVTT\n\n00:01.000 --> 00:02.000\nA.\n", "subtitles"),
    "fairseq-generate": ("S-0\ta\nT-0\tb\nH-0\t-1\tc\n", "output of fairseq-generate; its"),
    "n best": ("0 ||| a ||| -1\n0 ||| b ||| -2\n", "a list of the n best translations; keep"),
    "an aligner": ("a b ||| c d\ne ||| f\n", "sentence pairs of a word aligner; write both sides"),
    "LRC": ("[ar:x]\n[00:12.00]A.\n[00:15.30]B.\n", "subtitles (LRC)"),
    "SBV": ("0:00:01.000,0:00:02.000\nA.\n\n0:00:03.000,0:00:04.000\nB.\n", "subtitles (SBV)"),
    "MicroDVD": ("{1}{20}A.\n{21}{40}B.\n", "subtitles (MicroDVD"),
    "MPL2": ("[1][20]A.\n[21][40]B.\n", "subtitles (MicroDVD or MPL2)"),
    "ASS": ("[Script Info]\nTitle: x\n\n[Events]\nDialogue: 0,0:00:01.00,A.\n", "subtitles (ASS)"),
    "TTML": ('<tt xmlns="http://www.w3.org/ns/ttml"><body><p>A.</p></body></tt>\n', "(TTML)"),
    "opus_read": ('# a.xml\n\n===\n(src)="1">A.\n(trg)="1">B.\n===\n', "output of opus_read"),
    "PO": ('# x\nmsgid ""\nmsgstr ""\n\nmsgid "A."\nmsgstr "B."\n', "PO, messages of a program"),
    "CSV": ("doc_id,source,target\n1,A.,B.\n", "a table with commas (CSV); write it with tabs"),
    "CSV with languages": ('id,en,de\n1,"A, b",B\n', "commas"),
    "CSV with semicolons": ("source;target\nA.;B.\n", "commas"),
    "CSV in quotes": ('"A.","B."\n"C, d.","D."\n', "commas"),
    "LaTeX": ("% x\n\\documentclass{article}\nA.\n", "LaTeX"),
    "TMX": ("<tmx version=1>\n<tu><tuv><seg>A.</seg></tuv></tu>\n</tmx>\n", "TMX; write its"),
    "TMX with a head": ('<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "x">\n<tmx>\n', "TMX; write"),
    "XLIFF": ('<?xml version="1.0"?>\n<xliff version="1.2">\n', "XLIFF; write its"),
    "other XML": ('<?xml version="1.0"?>\n<!-- x -->\n<bible>\n', "XML (<bible>); write its"),
    "JSON": ('[\n  {"doc_id": "1", "text": "A."}\n]\n', "JSON"),
    "JSON on one line": ('[{"doc_id": "1", "text": "A."}]\n', "JSON"),
    "printed JSON": ('{\n  "a": 1\n}\n', "JSON"),
    "two columns": ("A.\tB.\nC.\tD.\n", "a table without document ids; the first line of a table"),
    "cut rows": ('{"doc_id": "1", "text": "A.', ":1: not JSON"),
    "PDF": (b"%PDF-1.7\n%\xe2\xe3\n", "PDF"),
    "DOCX": (b"PK\x03\x04\x14\0\6\0\n", "zip archive"),
    "UTF-16 without a mark": ("A b.\n".encode("utf-16-le"), "UTF-16"),
    "xz": (b"\xfd7zXZ\0\n", "packed with xz"),
    "nothing": ("\ufeff\n<d>\n", "holds no sentence"),
}


@pytest.mark.parametrize(("content", "what"), REJECTED.values(), ids=REJECTED)
def test_what_is_no_text_is_rejected_by_what_it_is(content, what, tmp_path, capsys):
    """By every command, before anything is written."""
    path = str(file(tmp_path, content, "train.en"))
    file(tmp_path, "a\n" * 7, "train.de")
    out = tmp_path / "out"
    score = ["score", "--hyp", path, "--ref", path]
    prepare = ["prepare", "--source-lang", "en", "--target-lang", "de", "--out", str(out)]
    prepare += ["--train", str(tmp_path / "train")]
    for command in (score, prepare) if what != "holds no sentence" else (score,):
        assert main(command) == 1
        (*_, line) = capsys.readouterr().err.splitlines()
        assert line.startswith("gtrans: error: ") and what in line and path in line
    assert not out.exists()


TEXT = {
    "tags in a text": ["<html> begins a page.", "<p> begins a paragraph.", "<br> ends a line."],
    "lines with commas": ["So, no", "source, text", '"Ja", sagte er, "nein".', "A, b"],
    "bars": ["A ||| b.", "B.", "C."],
    "a list": ["Ja,nein", "B, c.", "C."],
    "times": ["[00:12] A.", "B.", "10:30, 11:30", "C."],
    "tags here and there": ["<p> is a tag.", *["A."] * 30, "<div id=sec1></div>", "<i>B.</i>"],
    "only inline tags": ["<i>A.</i>", "<i>B.</i>", "<b>C.</b>"],
    "placeholders": ["<empty string>", "<user name>", "A."],
    "comparison": ["x < y and y > z", "<3", "a <b or c> d"],
    "braces": ["{so it begins.", "{ and goes on}", '{"A," she said}', "B."],
    "brackets": ["[1] A.", "[laughs]", "[", '["Ja," said he,', "B."],
    "a tab": ["A\tb.", "C."],
    "numbers": ["1", "2", "1:30 --> 2:30"],
    "entities": ["A &amp; B", "&lt;p&gt;"],
    "boundaries inside of a line": ["<d> A", "B <doc>", "<doc>C</doc>, so", "<documentation>"],
    "other line ends": ["A\u2028b\x85c\x0bd\x1ee\rf", "B"],
}


@pytest.mark.parametrize("lines", TEXT.values(), ids=TEXT)
def test_text_is_read_as_it_is(lines, tmp_path):
    assert read_documents(file(tmp_path, "\n".join(lines) + "\n")) == [lines]


CHOSEN = {
    "all references": ("reference", TextSelection(), [["a b.|a & b.", "c.|C!"], ["d e.|d e."]]),
    "a reference": ("reference", TextSelection(references=("refA",)), [["a b.", "c."], ["d e."]]),
    "one that is missing": (
        "reference", TextSelection(references=("refB",)), [["a & b.", "C!"], [""]]
    ),
    "a system": ("translation", TextSelection(system="ONLINE-A"), [["x b.", ""], ["x e."]]),
    "no system": (
        "translation", TextSelection(), "has translations by ONLINE-A, ONLINE-B; name one"
    ),
    "no such reference": (
        "reference", TextSelection(references=("C",)),
        "no reference 'C' (`--reference`), only refA, refB",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("role", "selection", "wanted"), CHOSEN.values(), ids=CHOSEN)
def test_several_texts_in_a_file_are_chosen(role, selection, wanted, tmp_path):
    reader = open_text(file(tmp_path, XML), role, selection)
    if isinstance(wanted, str):
        with pytest.raises(GtransError) as error:
            list(reader)
        assert wanted in str(error.value)
        return
    found = list(reader)
    assert [["|".join(one.texts) for one in document.segments] for document in found] == wanted
    left_out = [one.text() for d in found for one in d.segments if one.left_out]
    assert left_out == ([""] if selection.references == ("refB",) else [])


DIRECTIONS = rows(
    {"doc_id": 1, "src_lang": "en", "tgt_lang": "de_DE", "src": "A.", "refs": {"A": {"ref": "a."}}},
    {"doc_id": 2, "src_lang": "en", "tgt_lang": "de_DE", "src": "B.", "refs": {}},
    {"doc_id": 3, "src_lang": "en", "tgt_lang": "cs_CZ", "src": "C.", "refs": {"A": "c."}},
)


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        (TextSelection(direction="en-de"), [("A.", "a.")]),
        (TextSelection(direction="en-cs_CZ"), [("C.", "c.")]),
        (
            TextSelection(direction="en-cs", columns={"reference": "src"}),
            "has one side only, 'src'",
        ),
        (TextSelection(direction="en_US-de"), [("A.", "a.")]),
        (TextSelection(direction="en-de_AT"), "no row of the direction en-de_AT"),
        (TextSelection(), "choose one with `--direction`: en-de_DE, en-cs_CZ"),
        (
            TextSelection(direction="en-fr"),
            "no row of the direction en-fr, only of en-de_DE, en-cs_CZ",
        ),
        (
            TextSelection(direction="en-cs", columns={"source": "text"}),
            ":1: there is no column 'text'",
        ),
    ],
)
def test_rows_of_several_directions(selection, wanted, tmp_path, capsys):
    path = file(tmp_path, DIRECTIONS)
    try:
        assert list(Sides(path, path, selection).read()) == wanted
    except GtransError as error:
        assert str(wanted) in str(error)  # noqa: PT017
    told = capsys.readouterr().err
    assert ("1 sentence pairs are left out: they are without a reference" in told) == (
        wanted == [("A.", "a.")]
    )


PAIRS = {
    "plain": (PLAIN, "a b.\nc.\n\nd e.\n", None),
    "other boundaries": (PLAIN, "<doc>\na b.\nc.\n</doc>\n<doc>\nd e.\n", None),
    "ids and none": (SGM, "a b.\nc.\n\nd e.\n", None),
    "one ends": ("a\nb\n", "A\n", "{s}:2 is a sentence but {t} ends"),
    "the other ends": ("a\n", "A\n\nB\n", "{s} ends but {t}:2 is a document boundary"),
    "boundary": ("a\n\nb\n", "A\nB\n", "{s}:2 is a document boundary but {t}:2 is a sentence"),
    "boundaries": ("a\n\nb\nc\n", "A\n\n\nB\n\nC\n", "{s}:4 is a sentence but {t}:5 is a document"),
    "empty side": ("a\nb\n", "\n", "{s}:1 is a sentence but {t} ends"),
    "segments": (SGM, "a b.\n\nd e.\n", "a document: 2 in '1' in {s}:2, 1 in '' in {t}:1;"),
    "documents": (SGM, "a b.\nc.\n", "document 2 is '2' in {s}:10, but missing in {t}"),
    "names": (SGM, REF.replace('"2"', '"3"', 1),
              "'1' in {s}:2 has the segment '2', '1' in {t}:2 has not"),
    "name": (SGM, REF.replace('docid="1"', 'docid="9"'), "1 is '1' in {s}:2, but '9' in {t}:2;"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "target", "message"), PAIRS.values(), ids=PAIRS)
def test_both_sides_are_matched(source, target, message, tmp_path):
    """Or the first difference is named with files and lines."""
    sides = Sides(file(tmp_path, source, "s"), file(tmp_path, target, "t"))
    if message is None:
        assert list(sides.read()) == [("A b.", "a b."), ("C.", "c."), None, ("D e.", "d e.")]
        return
    with pytest.raises(GtransError) as error:
        list(sides.read())
    assert message.format(s=sides.source, t=sides.target) in str(error.value)
    assert "\n" not in str(error.value)


def test_prepare_reads_one_file_with_both_sides(tmp_path, capsys):
    path, out = file(tmp_path, XML, "wmt.xml"), tmp_path / "out"
    prepare = ["prepare", "--source-lang", "en", "--target-lang", "de", "--bpe-merges", "5"]
    many = file(tmp_path, rows(*({"doc_id": n, "src": "ab ab", "tgt": "cd cd"} for n in range(9))))
    prepare += ["--train", str(many), "--test", str(path), "--workers", "1", "--out", str(out)]
    assert main(prepare) == 1
    assert "has the references refA, refB; choose one with `--reference`" in capsys.readouterr().err
    assert main([*prepare, "--reference", "refB"]) == 0
    assert "1 sentence pairs are left out: they are without a reference" in capsys.readouterr().err
    text = out / "text"
    assert (text / "test.plain.de").read_text(encoding="utf-8") == "a & b.\nC!\n"
    assert (text / "train.tok.de").read_text(encoding="utf-8") == "\n\n".join(["cd cd"] * 9) + "\n"
    for content, what in (
        (PLAIN, "give its name without the language"),
        (SGM, "no reference, only source"),
        (REF, "one side only, 'reference'"),
    ):
        prepare[prepare.index("--train") + 1] = str(file(tmp_path, content, "one"))
        assert main(prepare) == 1
        assert what in capsys.readouterr().err


def test_systems_of_one_file_are_scored_by_their_names(tmp_path, capsys):
    path = str(file(tmp_path, XML.replace('"en" id="2"', '"en" id="2" testsuite="x"'), "wmt.xml"))
    command = ["score", "--ref", path, "--src", path, "--resample", "none", "--metrics", "s_bleu"]
    assert main([*command, "--hyp", f"ONLINE-A={path}", f"ONLINE-B={path}"]) == 0
    told = capsys.readouterr().out
    assert "1 of 3 segments are left out: they are of test suites" in told
    plain = str(file(tmp_path, PLAIN, "plain"))
    assert main(["score", "--hyp", plain, "--ref", plain, plain, "--reference", "refA"]) == 1
    assert f"{plain} is plain text, a reference without a name" in capsys.readouterr().err
    assert "2 references, all of which are used: refA, refB" in told
    assert main([*command, "--hyp", f"x={path}"]) == 1
    assert f"name one of them: `--hyp ONLINE-A={path}`" in capsys.readouterr().err


BY_LANGUAGE = [
    {"translation": {"en": "The lamp is new.", "de": "Die Lampe ist neu."}},
    {"translation": {"en": "It is small.", "de": "Sie ist klein."}},
]


def test_two_files_of_rows_stand_behind_one_prefix(tmp_path: Path) -> None:
    for lang in ("en", "de"):
        file(tmp_path, rows({"doc_id": 1, "text": lang}), f"train.{lang}.jsonl")
    paths = [resolve(str(tmp_path / "train"), lang) for lang in ("en", "de")]
    assert [path.name for path in paths] == ["train.en.jsonl", "train.de.jsonl"]
    with pytest.raises(GtransError, match="there are train.en.jsonl.; check the prefix"):
        resolve(str(tmp_path / "train.en"), "en")


def test_rows_of_the_hugging_face_hub(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Their texts stand under languages; without document ids, each is a document."""
    path = str(file(tmp_path, rows(*BY_LANGUAGE), "hub.jsonl"))
    assert read_parallel(path, path, TextSelection(direction="en-de_DE")) == [
        (["The lamp is new."], ["Die Lampe ist neu."]),
        (["It is small."], ["Sie ist klein."]),
    ]
    told = f"{path}: its rows have no document ids, so each of them is a document of its own\n"
    assert capsys.readouterr().err == told
    one = str(file(tmp_path, rows(*({**row, "doc_id": "a"} for row in BY_LANGUAGE)), "one.jsonl"))
    ((source, _),) = read_parallel(one, one, TextSelection(target_lang="de"))
    assert source == ["The lamp is new.", "It is small."]
    plain = str(file(tmp_path, "Die Lampe ist neu.\nSie ist klein.\n", "plain.de"))
    command = ["score", "--hyp", plain, "--ref", one, "--metrics", "s_bleu"]
    assert main([*command, "--target-lang", "de"]) == 0
    told = capsys.readouterr().out
    assert "s-BLEU" in told and "nrefs:1" in told
    assert main(command) == 1
    message = "one.jsonl:1: its texts are in the languages en, de; name both languages: "
    assert message in capsys.readouterr().err
    assert main([*command, "--target-lang", "fr"]) == 1
    assert "en, de; none of them is 'fr'" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["md", "csv", "po", "yaml", "strings", "rst", "tex.gz"])
def test_what_looks_like_text_is_known_by_its_name(suffix, tmp_path):
    path = file(tmp_path, "A.\n", f"file.{suffix}")
    with pytest.raises(GtransError, match="is no plain text but"):
        read_documents(path)


def test_a_new_format_is_one_class(tmp_path):
    """It is found, read, and prepared from, like those of the package."""

    class Bars(Reader):
        title = "documents between bars"

        @classmethod
        def recognises(cls, head: Head) -> bool:
            return head.first.startswith("|")

        def __iter__(self) -> Iterator[Document]:
            for number, line in self.lines:
                _, name, *sides = line.split("|")
                segments = [Segment(number, [sides[self.role == "reference"]])]
                yield Document(name, number, segments)

    try:
        path, out = file(tmp_path, "|a|ab ab|cd cd\n|b|ab|cd\n"), tmp_path / "out"
        assert list(Sides(path, path).read()) == [("ab ab", "cd cd"), None, ("ab", "cd")]
        prepare = ["prepare", "--source-lang", "en", "--target-lang", "de", "--bpe-merges", "5"]
        assert main([*prepare, "--train", str(path), "--out", str(out)]) == 0
        assert (out / "text" / "train.tok.en").read_text() == "ab ab\n\nab\n"
    finally:
        Reader.kinds.remove(Bars)


def test_files_are_found_by_their_prefix(tmp_path):
    prefix = str(tmp_path / "dev.v1")
    with pytest.raises(GtransError, match=r"dev\.v1\.en' and no file '.*dev\.v1\.en\.gz'"):
        resolve(prefix, "en")
    packed = file(tmp_path, gzip.compress(b"a\n"), "dev.v1.en.gz")
    assert resolve(prefix, "en") == packed
    assert resolve(prefix, "en") != file(tmp_path, "a\n", "dev.v1.en") == resolve(prefix, "en")


SENTENCE = (
    st.text(st.characters(exclude_characters='<{["\t', exclude_categories=["Cs"]), min_size=1)
    .map(lambda text: " ".join(text.replace("\0", "").split("\n")).strip())
    .filter(lambda text: text and not text.startswith("\ufeff"))
)


@given(documents=st.lists(st.lists(SENTENCE, min_size=1), min_size=1))
def test_every_sentence_is_read(tmp_path_factory, documents):
    text = "\n\n".join("\n".join(sentences) for sentences in documents)
    path = file(tmp_path_factory.mktemp("documents"), f"{text}\n")
    assert read_documents(path) == documents


@pytest.mark.parametrize(
    ("corpus", "documents", "sentences"),
    [("ted-iwslt2017/test", 23, 2271), ("newstest-enru/wmttest2024.refA", 170, 997),
     ("msdocs-ende/dev", None, 2044), ("tvsub/dev", None, None)],
)  # fmt: skip
def test_real_corpora(corpus, documents, sentences, real_data):
    """Two of them have lines that are tags."""
    sides = [read_documents(path) for path in sorted(real_data.glob(f"{corpus}.*"))]
    assert len(sides) == 2
    assert [*map(len, sides[0])] == [*map(len, sides[1])]
    assert documents in (None, len(sides[0])) and sentences in (None, sum(map(len, sides[0])))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"source": "a" * 3_000_000}, "a line of 3,000,000 characters"),
        ({"source": "a", "refs": {"A": 5}}, "there is no reference"),
        ({"source": "a", "refs": {"A": "x", "B": 5}}, "there is no reference"),
    ],
)
def test_rows_that_are_no_sentences_are_rejected(row, message, tmp_path: Path) -> None:
    path = file(tmp_path, json.dumps({"doc_id": "a", **row}) + "\n", "a.jsonl")
    with pytest.raises(GtransError, match=f"a.jsonl:1: {message}"):
        list(open_text(path, "reference" if "refs" in row else "source"))


def test_lines_carry_their_numbers(tmp_path: Path) -> None:
    path = file(tmp_path, "\na\n\n\nb\nc\n\n")
    assert list(iterate_lines(path)) == [(2, "a"), (3, None), (5, "b"), (6, "c")]
