"""The published forms of corpora, on files as they are: unordered ids, ``&``, missing end tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtrans.errors import GtransError
from gtrans.lab.corpus_readers import (
    Pairs,
    read_articles,
    read_groups,
    read_lines,
    read_set,
    read_talks,
    references_of,
)

BOM = "\ufeff"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def texts(pairs: Pairs) -> list[tuple[str, str] | None]:
    return [pair and (pair.source, pair.target) for pair in pairs]


def error_of(pairs: Pairs) -> str:
    with pytest.raises(GtransError) as error:
        list(pairs)
    assert "\n" not in str(error.value)
    return str(error.value)


# ---- lines ---------------------------------------------------------------------------------------


def test_maruf_has_a_line_before_each_document(tmp_path: Path) -> None:
    """With line ends of Windows, as the sets of TED and News are."""
    en = written(tmp_path, "en", f"{BOM}<d>\r\nA & B.\r\n\r\n<d>\r\nC\r\n")
    de = written(tmp_path, "de", "<d>\nA und B.\nleer\n<d>\nC\n")
    pairs = texts(read_lines(en, de, "<d>"))
    assert pairs == [None, ("A & B.", "A und B."), ("", "leer"), None, ("C", "C")]


def test_a_boundary_on_one_side_only_is_refused(tmp_path: Path) -> None:
    en, de = written(tmp_path, "en", "<d>\nA\n<d>\nB\n"), written(tmp_path, "de", "<d>\nA\nB\nC\n")
    assert f"{en}:3 is a line <d> but {de}:3 is not" in error_of(read_lines(en, de, "<d>"))


def test_files_of_different_lengths_are_refused(tmp_path: Path) -> None:
    en, de = written(tmp_path, "en", "A\nB\n"), written(tmp_path, "de", "A\n")
    assert f"{de} ends after line 1, but {en} goes on" in error_of(read_lines(en, de, "none"))


@pytest.mark.parametrize(("boundary", "middle"), [("empty", None), ("none", ("", ""))])
def test_two_empty_lines_are_a_boundary_or_a_pair(boundary, middle, tmp_path: Path) -> None:
    en, de = written(tmp_path, "en", "A\n \nB\n"), written(tmp_path, "de", "a\n\t\nb\n")
    assert texts(read_lines(en, de, boundary)) == [("A", "a"), middle, ("B", "b")]


def test_other_line_ends_stay_in_their_sentence(tmp_path: Path) -> None:
    """News Commentary v11 has them, and its files then seem to have different lengths."""
    en, de = written(tmp_path, "en", "A\u2028B\rC\n"), written(tmp_path, "de", "a\n")
    assert texts(read_lines(en, de, "none")) == [("A B C", "a")]


def test_a_sentence_that_would_be_a_boundary_is_refused(tmp_path: Path) -> None:
    en, de = written(tmp_path, "en", "<d>\n"), written(tmp_path, "de", "a\n")
    assert f"{en}:1: the sentence '<d>' would be read" in error_of(read_lines(en, de, "none"))


def test_groups(tmp_path: Path) -> None:
    en = written(tmp_path, "en", "a b . _eos c .\nx_eosy . _eos z .\n")
    ru = written(tmp_path, "ru", "A _eos B\nC _eos _eos\n")
    assert f"{en}:2 has 2 sentences between _eos, but {ru}:2 has 3" in error_of(read_groups(en, ru))
    ru = written(tmp_path, "ru", "A _eos B\nC _eos D\n")
    assert texts(read_groups(en, ru)) == [
        ("a b .", "A"), ("c .", "B"), None, ("x_eosy .", "C"), ("z .", "D"),
    ]  # fmt: skip


# ---- IWSLT ---------------------------------------------------------------------------------------

TALK = (
    "<doc docid=\"{n}\" genre=\"lectures\">\n<url>http://www.ted.com/talks/{n}</url>\n"
    "<keywords>talks, {n}</keywords>\n<speaker>Some One</speaker>\n<talkid>{n}</talkid>\n"
    "<title>{lang} title {n}</title>\n<description>{lang} about {n}</description>\n"
    "{extra}{text}</doc>\n"
)  # fmt: skip


def talks(folder: Path, lang: str, *texts: str, extra: str = "") -> Path:
    whole = "".join(
        TALK.format(n=n, lang=lang, extra=extra, text=text) for n, text in enumerate(texts, start=1)
    )
    return written(folder, f"train.tags.de-en.{lang}", whole)


def test_talks(tmp_path: Path) -> None:
    """Only one side names its translator; text is no XML."""
    extra = '<reviewer href="http://x">A B</reviewer>\n<translator href="http://y">C</translator>\n'
    de = talks(tmp_path, "de", "R&amp;D <laut>\n\nzwei\n", "drei\n", extra=extra)
    en = talks(tmp_path, "en", "R&D\nx\ntwo\n", "three\n")
    found = texts(read_talks(de, en, headings=False))
    assert found == [("R&amp;D <laut>", "R&D"), ("", "x"), ("zwei", "two"), None, ("drei", "three")]
    found = texts(read_talks(de, en, headings=True))
    assert found[:2] == [("de title 1", "en title 1"), ("de about 1", "en about 1")]
    assert found[6] == ("de title 2", "en title 2")


def test_talks_that_differ_are_refused(tmp_path: Path) -> None:
    de, en = talks(tmp_path, "de", "eins\n", "zwei\n"), talks(tmp_path, "en", "one\n", "two\n2\n")
    message = error_of(read_talks(de, en, headings=False))
    assert "document 2 (2) has 1 sentences" in message and "but 2 in" in message
    en = talks(tmp_path, "en", "one\n")
    assert f"{en} has 1 documents, but {de} has more" in error_of(
        read_talks(de, en, headings=False)
    )


SET = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE mteval [<!ENTITY big "boom"><!ENTITY file SYSTEM "file:///etc/passwd">]>\n'
    '<mteval>\n<{kind} setid="dev" srclang="german">\n{docs}</{kind}>\n</mteval>\n'
)


def of_set(folder: Path, name: str, docs: str, kind: str = "srcset") -> Path:
    return written(folder, name, BOM + SET.format(kind=kind, docs=docs))


def test_sets_are_matched_by_id(tmp_path: Path) -> None:
    de = of_set(
        tmp_path, "de.xml",
        '<doc docid="535" genre="lectures">\n<title>Titel & mehr\n<description>Kein Ende\n'
        '<seg id="2"> zwei </seg>\r\n<seg id="1">eins & so</seg>\n<seg id="4"/>\n</doc>\n'
        '<doc docid="9">\n<seg id="1">ein &lt;b&gt; &#228; &amp;amp; &big; &file;\n</doc>\n',
    )  # fmt: skip
    en = of_set(
        tmp_path, "en.xml",
        '<DOC docid="535">\n<SEG id="1">AT&T, Q&A &copy it</SEG>\n<seg id=2>two\n'
        '<seg id="3">three</seg>\n<seg id="4">four</seg>\n'
        '<doc docid="9"><seg id="1">a <b then x < y </3 <i>you</i></seg>\n',
        kind="refset",
    )  # fmt: skip
    assert texts(read_set(de, en)) == [
        ("zwei", "two"), ("eins & so", "AT&T, Q&A &copy it"), ("", "four"), ("", "three"), None,
        ("ein <b> ä &amp; &big; &file;", "a <b then x < y </3 <i>you</i>"),
    ]  # fmt: skip


def test_sets_of_wmt(tmp_path: Path) -> None:
    """Paragraphs, headlines and ids without an end; SGML has no head."""
    en = written(tmp_path, "s.sgm", '<srcset setid="newstest2015" srclang="any">\n'
        '<doc sysid="ref" docid="bbc.1" genre="news">\n<hl>\n<seg id="1">Head</seg>\n</hl>\n'
        '<p>\n<seg id="2">One.</seg>\n<seg id="3">Two.</seg>\n</p>\n</doc>\n')  # fmt: skip
    de = written(tmp_path, "r.sgm", '<refset setid="newstest2015" srclang="any" trglang="de">\n'
        '<doc sysid="ref" docid="bbc.1">\n<seg id="1">Kopf\n<p>\n<seg id="2">Eins.\n</p>\n'
        '<seg id="3">Zwei.</seg>\n</doc>\n</refset>\n')  # fmt: skip
    assert texts(read_set(en, de)) == [("Head", "Kopf"), ("One.", "Eins."), ("Two.", "Zwei.")]
    other = written(
        tmp_path, "o.sgm", '<refset><doc docid="cnn.1"><seg id="1">x</seg></doc></refset>'
    )
    message = error_of(read_set(en, other))
    assert f"document 1 is 'bbc.1' in {en}:2, but 'cnn.1' in {other}:1" in message
    assert "no <doc> with a <seg>" in error_of(read_set(written(tmp_path, "x", "text\n"), de))


def test_references_of_nist(tmp_path: Path) -> None:
    zh = written(tmp_path, "s.sgm", '<srcset><DOC docid="a"><seg id=1> 一 </seg></DOC></srcset>')
    docs = '<refset>{}</refset>'.format("".join(
        f'<DOC docid="a" sysid="E0{n}"><seg id=1> one {n} </seg></DOC>\n' for n in range(4)
    ))  # fmt: skip
    en = written(tmp_path, "r.sgm", docs)
    assert references_of(en) == ["E00", "E01", "E02", "E03"]
    assert texts(read_set(zh, en, 2)) == [("一", "one 2")]
    assert "has 4 references, and no number 5" in error_of(read_set(zh, en, 4))


def test_an_id_twice_and_a_tag_without_end_are_refused(tmp_path: Path) -> None:
    good = of_set(tmp_path, "good", '<doc docid="1"><seg id="1">a</seg></doc>', "refset")
    bad = of_set(tmp_path, "bad", '<doc docid="1">\n<seg id="1">a</seg>\n<seg id="1">b</seg></doc>')
    assert f"{bad}:7: the id 1 occurs twice in the document '1'" in error_of(read_set(bad, good))
    bad = written(tmp_path, "bad", '<doc docid="1"><seg id="1"' + "\nx" * 2_000)
    assert "a tag before this line has no end" in error_of(read_set(bad, good))


# ---- News Commentary -----------------------------------------------------------------------------


def test_articles(tmp_path: Path) -> None:
    for side in ("English", "German"):
        (tmp_path / side).mkdir()
        for name in ("b.txt", "a.txt"):
            written(tmp_path / side, name, f"{side} {name} 1\n\n{side} {name} 2\n")
    english, german = tmp_path / "English", tmp_path / "German"
    assert [pair and pair[0] for pair in read_articles(english, german)] == [
        "English a.txt 1", "English a.txt 2", None, "English b.txt 1", "English b.txt 2",
    ]  # fmt: skip
    (german / "a.txt").unlink()
    assert f"{english / 'a.txt'} has no counterpart" in error_of(read_articles(english, german))
