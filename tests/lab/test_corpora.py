"""``gtrans get-corpus`` and ``corpus-report``: from published files to counted text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tiny_models import TinyWorld

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.corpora import Finder, corpus_named, read_corpora
from gtrans.lab.corpus_readers import (
    Pairs,
    read_articles,
    read_groups,
    read_lines,
    read_set,
    read_talks,
)
from gtrans.text.reader import read_parallel

BOM = "\ufeff"
MARUF = "IWSLT2017/concatenated_en2de_{}_{}.txt"
PUBLISHED = ("train", "dev", "test")
SPLITS = ("train", "valid", "test")

Call = Callable[..., str]


def files(folder: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command; what it prints, or with ``fails`` its one line of error."""

    def run(*words: str | Path, fails: bool = False) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words]) == int(fails)
        out, err = capsys.readouterr()
        if not fails:
            return out
        (error,) = [line for line in err.splitlines() if line.startswith("gtrans: error: ")]
        return error

    return run


@pytest.fixture
def get(call: Call, tmp_path: Path) -> Call:
    """``gtrans get-corpus`` from ``in`` to the test's folder."""

    def run(*words: str, fails: bool = False) -> str:
        paths = ("--from", tmp_path / "in", "--out", tmp_path)
        return call("get-corpus", *words, *paths, fails=fails)

    return run


def record(folder: Path) -> Any:
    return json.loads((folder / "corpus.json").read_text())


@pytest.mark.parametrize("module", ["make_corpus", "get_corpus", "corpus_report"])
def test_corpora_need_neither_torch_nor_fairseq(module: str, repo: Path) -> None:
    code = f"import sys, gtrans.lab.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, capture_output=True, text=True)
    assert not {"torch", "fairseq"} & set(done.stdout.split()), done.stderr


# ---- the list ------------------------------------------------------------------------------------


def test_every_corpus_is_listed_and_known_to_the_run_scripts(repo: Path, call: Call) -> None:
    page = (repo / "docs" / "corpora.md").read_text(encoding="utf-8")
    names = [name for corpus in read_corpora() for name in (corpus.name, *corpus.also)]
    assert len(names) == len(set(names))
    assert all(f"`{corpus.name}`" in page for corpus in read_corpora())
    lines = call("get-corpus", "--list").splitlines()
    for name, home in (("europarl7", "public"), ("ldc", "none")):
        assert next(line for line in lines if line.startswith(name)).endswith(home)
    for name in names:
        asked = "newstest2016" if name == "newstest" else name
        assert f"{asked}:\n  name: " in call("get-corpus", asked, "--list")
    script = 'source exp_gtransformer/lib.sh; echo "${CORPORA[*]}"'
    words = ["bash", "-c", f"NAME=x SUMMARY=x TRAINS=no; {script}"]
    done = subprocess.run(words, cwd=repo, capture_output=True, text=True, check=True)
    for name in (*done.stdout.split(), "iwslt14", "wmt14", "ldc", "opus100"):
        assert corpus_named(name).name == name


# ---- corpora -------------------------------------------------------------------------------------


def maruf(folder: Path) -> Path:
    texts = {}
    for split in PUBLISHED:
        texts[MARUF.format(split, "en")] = f"<d>\r\n{split} one\r\n\r\n<d>\r\ntwo\r\n"
        texts[MARUF.format(split, "de")] = f"<d>\n{split} eins\nleer\n<d>\nzwei\n"
    return files(folder, texts)


def test_a_corpus_as_the_run_scripts_want_it(tmp_path: Path, repo: Path, get: Call) -> None:
    maruf(tmp_path / "in")
    message = get("iwslt17", "--empty", "refuse", fails=True)
    assert "_de.txt:3: a pair of iwslt17 train ('leer') is empty on one side; " in message
    assert "`--empty drop`" in message and not (tmp_path / "iwslt17").exists()
    said = get("iwslt17")
    assert "train: 2 documents, 2 sentence pairs; dropped: 1 empty on one side" in said
    out = tmp_path / "iwslt17"
    assert (out / "train.en").read_text() == "train one\n\ntwo\n"
    assert (out / "valid.de").read_text() == "dev eins\n\nzwei\n"
    assert record(out)["splits"]["test"]["dropped"]["empty on one side"] == 1
    assert len(record(out)["read"]) == 6
    texts = {f"{split}.{lang}" for split in SPLITS for lang in ("de", "en")}
    assert {path.name for path in out.iterdir()} == {"corpus.json", *texts}
    script = repo / "exp_gtransformer" / "prepare-bpe.sh"
    words = [script, "--data", tmp_path, "--corpus", "iwslt17", "--out", out / "o", "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{out}/train" in done.stdout


def test_what_is_missing_is_named(tmp_path: Path, get: Call, call: Call) -> None:
    (maruf(tmp_path / "in") / MARUF.format("train", "en")).unlink()
    message = get("ted-iwslt17", fails=True)
    assert "has no file IWSLT2017/concatenated_en2de_train_en.txt or" in message
    assert "unpack archives first" in message
    get("ted-iwslt17", "--splits", "valid,test")
    assert (tmp_path / "ted-iwslt17" / "test.de").is_file()
    assert "`--splits` 'x'" in get("iwslt17", "--splits", "x", fails=True)
    nowhere = ("--from", tmp_path / "none", "--out", tmp_path)
    assert "no such folder" in call("get-corpus", "iwslt17", *nowhere, fails=True)
    assert "`--from DIR`" in call("get-corpus", "ldc-zhen", "--out", "out", fails=True)
    assert "no corpus 'iwslt16'" in call("get-corpus", "iwslt16", "--list", fails=True)


def xml(name: str, sentences: list[str]) -> str:
    segs = "".join(f'<seg id="{n}">{text}</seg>\n' for n, text in enumerate(sentences, start=1))
    return f'<mteval><srcset setid="x"><doc docid="{name}">\n{segs}</doc></srcset></mteval>\n'


def tags(words: list[str]) -> str:
    return "".join(
        f"<url>u</url>\n<talkid>{n}</talkid>\n<title>T {word}</title>\n{word}\n"
        for n, word in enumerate(words)
    )


def test_iwslt17_as_published(tmp_path: Path, get: Call) -> None:
    """The references of tst2016 and tst2017 are the source side of the other direction."""
    texts = {f"en-de/train.tags.en-de.{lang}": tags([f"{lang} train"]) for lang in ("en", "de")}
    for name in ("dev2010", *(f"tst{year}" for year in range(2010, 2018))):
        for lang in ("en", "de"):
            pair = "de-en" if lang == "de" and name in ("tst2016", "tst2017") else "en-de"
            texts[f"{pair}/IWSLT17.TED.{name}.{pair}.{lang}.xml"] = xml(name, [f"{lang} {name}"])
    files(tmp_path / "in", texts)
    get("iwslt17")
    folder = tmp_path / "iwslt17"
    assert (folder / "train.en").read_text() == "en train\n"
    assert len(read_parallel(folder / "valid.en", folder / "valid.de")) == 7
    assert (folder / "test.de").read_text() == "de tst2016\n\nde tst2017\n"


def test_iwslt14_is_cleaned_and_every_23rd_pair_held_out(tmp_path: Path, get: Call) -> None:
    """Length and ratio are counted in Moses tokens; the titles count as sentences."""
    words = ["kurz", "wort " * 176, "eins , zwei , drei", *(f"satz {n}" for n in range(30))]
    english = ["short", "word " * 176, "one", *(f"sentence {n}" for n in range(30))]
    texts = {"train.tags.de-en.de": tags(words), "train.tags.de-en.en": tags(english)}
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
        for lang in ("de", "en"):
            texts[f"IWSLT14.{name}.de-en.{lang}.xml"] = xml(name, [f"{lang} {name}"])
    files(tmp_path / "in", texts)
    get("iwslt14")
    folder = tmp_path / "iwslt14"
    counts = record(folder)["splits"]
    assert counts["train"]["dropped"]["too long"] == 2  # the sentence and the title
    assert counts["train"]["dropped"]["ratio"] == 2
    kept = 2 * (len(words) - 2)
    assert counts["valid"]["pairs"] == kept // 23
    assert counts["train"]["pairs"] == kept - kept // 23
    assert counts["test"]["documents"] == 5
    train = read_parallel(folder / "train.de", folder / "train.en")
    assert len(train) == counts["train"]["documents"] and train[0][0] == ["T kurz", "kurz"]


def test_several_pairs_are_one_corpus(tmp_path: Path, get: Call) -> None:
    texts = {}
    for lang in ("de", "it", "nl", "ro"):
        pair = f"{lang}-en"
        for side in (lang, "en"):
            texts[f"train.tags.{pair}.{side}"] = tags([f"{side} train"])
            for name in ("dev2010", "tst2017.mltlng"):
                texts[f"IWSLT17.TED.{name}.{pair}.{side}.xml"] = xml(name, [f"{side} {name}"])
    files(tmp_path / "in", texts)
    get("iwslt17-multi")
    found = record(tmp_path / "iwslt17-multi")
    assert found["pairs"] == ["de-en", "it-en", "nl-en", "ro-en"] and len(found["read"]) == 24
    assert len(found["splits"]) == 12 and found["splits"]["train.de-en"]["form"] == "iwslt"
    assert (tmp_path / "iwslt17-multi" / "test.ro-en.ro").read_text() == "ro tst2017.mltlng\n"


def test_groups_with_sentences_and_consistency_sets(tmp_path: Path, get: Call) -> None:
    texts = {f"context_agnostic/{lang}_train": f"{lang}\n" for lang in ("en", "ru")}
    for split in PUBLISHED:
        for lang in ("en", "ru"):
            texts[f"context_aware/{lang}_{split}"] = f"{lang} 1 _eos {lang} 2\n"
    files(tmp_path / "in", {**texts, "consistency_testsets/deixis_dev.json": "{}"})
    get("opensubtitles-enru")
    folder = tmp_path / "opensubtitles-enru"
    for name, text in (
        ("train.ru", "ru 1\nru 2\n"),
        ("sentences.en", "en\n"),
        ("consistency/deixis_dev.json", "{}"),
    ):
        assert (folder / name).read_text() == text


def test_a_corpus_of_ones_own(tmp_path: Path, get: Call) -> None:
    """What `gtrans prepare` rejects, or takes for the end of a document, is dropped and counted."""
    texts = {f"{split}.en": "a\n\nb\nb\nc\n<d>\nd\n" for split in PUBLISHED}
    texts |= {f"{split}.de": "A\n\n\nB\nC\n<d>\nD\n" for split in PUBLISHED}
    files(tmp_path / "in", texts)
    pair = ("--source-lang", "en", "--target-lang", "de")
    assert "own needs `--source-lang`" in get("own", fails=True)
    message = get("own", *pair, fails=True)
    assert "train.en:3 and " in message
    assert "train.de:3: a pair of own train ('b') is empty on one side" in message
    get("own", *pair, "--empty", "drop")
    assert (tmp_path / "own" / "test.en").read_text() == "a\n\nb\nc\n\nd\n"
    get("own", *pair, "--boundary", "<d>", "--empty", "drop")
    dropped = record(tmp_path / "own")["splits"]["train"]["dropped"]
    assert dropped["empty on both sides"] == dropped["empty on one side"] == 1
    assert (tmp_path / "own" / "train.de").read_text() == "A\nB\nC\n\nD\n"
    # Another pair would take the place of the text that both share.
    files(tmp_path / "in", {f"{split}.fr": "a\n" for split in PUBLISHED})
    before = (tmp_path / "own" / "train.en").read_text()
    message = get("own", "--source-lang", "fr", "--target-lang", "en", fails=True)
    assert "own has the pair en-de; give another `--out`" in message
    assert (tmp_path / "own" / "train.en").read_text() == before


def test_texts_of_the_user_are_replaced_by_force_only(tmp_path: Path, get: Call) -> None:
    files(tmp_path / "in", {f"{split}.{lang}": "a\n" for split in SPLITS for lang in ("en", "de")})
    files(tmp_path / "own", {"train.en": "mine\n"})
    pair = ("--source-lang", "en", "--target-lang", "de")
    message = get("own", *pair, fails=True)
    assert "own/train.en' exists, and this command did not write it" in message
    get("own", *pair, "--splits", "valid", "test")  # with spaces or commas
    assert "own/train.en' exists" in get("own", *pair, fails=True)
    assert (tmp_path / "own" / "train.en").read_text() == "mine\n"
    get("own", *pair, "--force")
    get("own", *pair, "--splits", "valid,test")
    get("own", *pair)
    assert (tmp_path / "own" / "train.en").read_text() == "a\n"


def test_test_sets_from_2021_on_are_xml(tmp_path: Path, call: Call, get: Call) -> None:
    shown = call("get-corpus", "newstest2021", "--list")
    assert "wmt21" in shown and ".xml" in shown
    assert not any(word in shown for word in (".sgm", "wmt14", "wmt20", "wmt22"))
    shown = call("get-corpus", "newstest2018", "--list")
    assert "wmt18" in shown and ".sgm" in shown and ".xml" not in shown
    sides = {"src": "x", "ref": "y", "hyp": "z"}
    seg = "".join(f'<{s}><p><seg id="1">{t}</seg></p></{s}>' for s, t in sides.items())
    xml = f'<dataset id="a"><collection id="b"><doc id="c">{seg}</doc></collection></dataset>'
    pair = ("--source-lang", "en", "--target-lang", "de")
    files(tmp_path / "in", {"xml/wmttest2022.en-de.all.xml": xml})
    get("newstest2022", *pair)
    assert [(tmp_path / "newstest2022" / f"test.{lang}").read_text() for lang in ("en", "de")] == [
        "x\n",
        "y\n",
    ]
    assert "no file newstest2023.en-de.all.xml or" in get("newstest2023", *pair, fails=True)
    assert "those of 2008 to 2024" in get("newstest2031", *pair, fails=True)


def test_an_empty_part_of_a_corpus_is_rejected(tmp_path: Path, get: Call) -> None:
    (corpus,) = [it for it in read_corpora() if it.name == "story"]
    needed = [
        names[0]
        for part in corpus.forms[0].splits["valid"]
        for names in part.patterns("valid", "en", "de", corpus.year)
    ]
    assert len(needed) == 6
    source = files(tmp_path / "in", dict.fromkeys(needed, "a\n"))
    get("story", "--splits", "valid")
    for text in ("", "\n\n"):
        files(source, dict.fromkeys(needed[-2:], text))
        message = get("story", "--splits", "valid", fails=True)
        assert f"{needed[-2]}: no sentence pair of the valid text is in it" in message


# ---- files ---------------------------------------------------------------------------------------


def test_files_are_found_by_the_ends_of_their_paths(tmp_path: Path) -> None:
    texts = {"a/texts/dev/x.en": "x", "b/x.en": "y", "nc/a.txt": "a", "own.de": "1"}
    finder = Finder(files(tmp_path / "in", texts))
    found = finder.find([("none", "dev/x.en"), ("nc/",), ("./own.de",), ("missing",)])
    assert [str(path.relative_to(tmp_path / "in")) for path in found.values()] == [
        "a/texts/dev/x.en",
        "nc",
        "own.de",
    ]
    with pytest.raises(GtransError, match="differ, and both could be x.en"):
        finder.find([("x.en",)])


# ---- published forms -----------------------------------------------------------------------------


def texts_of(pairs: Pairs) -> list[tuple[str, str] | None]:
    """The pairs, and None between documents."""
    found = [pair and (pair.source, pair.target) for pair in pairs]
    return found[:-1] if found[-1:] == [None] else found


def error_of(pairs: Pairs) -> str:
    with pytest.raises(GtransError) as error:
        list(pairs)
    assert "\n" not in str(error.value)
    return str(error.value)


def written(folder: Path, name: str, text: str) -> Path:
    return files(folder, {name: text}) / name


@pytest.mark.parametrize(
    ("en", "de", "boundary", "expected"),
    [
        # A line before each document, with line ends of Windows, as the sets of Maruf et al.
        (
            f"{BOM}<d>\r\nA & B.\r\n\r\n<d>\r\nC\r\n",
            "<d>\nA und B.\nleer\n<d>\nC\n",
            "<d>",
            [None, ("A & B.", "A und B."), ("", "leer"), None, ("C", "C")],
        ),
        ("A\n \nB\n", "a\n\t\nb\n", "empty", [("A", "a"), None, ("B", "b")]),
        ("A\n \nB\n", "a\n\t\nb\n", "none", [("A", "a"), ("", ""), ("B", "b")]),
        # Other line ends inside a sentence, as News Commentary v11 has them.
        ("A\u2028B\rC\n", "a\n", "none", [("A B C", "a")]),
        ("<d>\nA\n<d>\nB\n", "<d>\nA\nB\nC\n", "<d>", "{en}:3 is a line <d> but {de}:3 is not"),
        ("A\nB\n", "A\n", "none", "{de} ends after line 1, but {en} goes on"),
        ("<d>\n", "a\n", "none", "{en}:1: the sentence '<d>' looks like"),
    ],
)
def test_lines(en: str, de: str, boundary: Any, expected: Any, tmp_path: Path) -> None:
    paths = {"en": written(tmp_path, "en", en), "de": written(tmp_path, "de", de)}
    pairs = read_lines(paths["en"], paths["de"], boundary)
    if isinstance(expected, str):
        assert expected.format(**paths) in error_of(pairs)
    else:
        assert texts_of(pairs) == expected


def test_groups(tmp_path: Path) -> None:
    en = written(tmp_path, "en", "a b . _eos c .\nx_eosy . _eos z .\n")
    ru = written(tmp_path, "ru", "A _eos B\nC _eos _eos\n")
    assert f"{en}:2 has 2 sentences between _eos, but {ru}:2 has 3" in error_of(read_groups(en, ru))
    ru = written(tmp_path, "ru", "A _eos B\nC _eos D\n")
    assert texts_of(read_groups(en, ru)) == [
        ("a b .", "A"),
        ("c .", "B"),
        None,
        ("x_eosy .", "C"),
        ("z .", "D"),
    ]


TALK = (
    '<doc docid="{n}" genre="lectures">\n<url>http://www.ted.com/talks/{n}</url>\n'
    "<keywords>talks, {n}</keywords>\n<speaker>Some One</speaker>\n<talkid>{n}</talkid>\n"
    "<title>{lang} title {n}</title>\n<description>{lang} about {n}</description>\n"
    "{extra}{text}</doc>\n"
)


def talks(folder: Path, lang: str, *texts: str, extra: str = "") -> Path:
    whole = (
        TALK.format(n=n, lang=lang, extra=extra, text=text) for n, text in enumerate(texts, start=1)
    )
    return written(folder, f"train.tags.de-en.{lang}", "".join(whole))


def test_talks(tmp_path: Path) -> None:
    """Only one side names its translator; text is no XML."""
    extra = '<reviewer href="http://x">A B</reviewer>\n<translator href="http://y">C</translator>\n'
    de = talks(tmp_path, "de", "R&amp;D <laut>\n\nzwei\n", "drei\n", extra=extra)
    en = talks(tmp_path, "en", "R&D\nx\ntwo\n", "three\n")
    found = texts_of(read_talks(de, en, headings=False))
    assert found == [("R&amp;D <laut>", "R&D"), ("", "x"), ("zwei", "two"), None, ("drei", "three")]
    found = texts_of(read_talks(de, en, headings=True))
    assert found[:2] == [("de title 1", "en title 1"), ("de about 1", "en about 1")]
    assert found[6] == ("de title 2", "en title 2")
    for english, message in (
        (("one\n", "two\n2\n"), f"document 1 (1) has 3 sentences in {de}:1 but 1 in"),
        (("R&D\nx\ntwo\n",), f"{en} has 1 documents, but {de} has more"),
    ):
        talks(tmp_path, "en", *english)
        assert message in error_of(read_talks(de, en, headings=False))


SET = (
    '<!DOCTYPE mteval [<!ENTITY big "boom"><!ENTITY file SYSTEM "file:///etc/passwd">]>\n'
    '<{kind} setid="dev" srclang="any">\n{docs}\n</{kind}>\n'
)


def of_set(folder: Path, name: str, docs: str, kind: str = "refset") -> Path:
    return written(folder, name, BOM + SET.format(kind=kind, docs=docs))


def test_sets_are_matched_by_id(tmp_path: Path) -> None:
    """Unordered ids, a sentence on one side alone, ``&``, missing end tags, several references."""
    de = of_set(
        tmp_path,
        "de.xml",
        '<doc docid="535">\n<title>Titel & mehr\n<seg id="2"> zwei </seg>\r\n<p>'
        '<seg id="1">eins & so</seg>\n<seg id="4"/>\n</doc>\n<doc docid="9">\n'
        '<seg id="1">ein &lt;b&gt; &#228; &amp;amp; &big; &file;\n</doc>',
        kind="srcset",
    )
    references = (
        f'<DOC docid="535" sysid="E{n}">\n<SEG id="1">AT&T, Q&A &copy {n}</SEG>\n<seg id=2>two\n'
        f'<seg id="3">three</seg>\n<seg id="4">four</seg>\n</DOC>\n<doc docid="9" sysid="E{n}">'
        '<seg id="1">a <b then x < y </3 <i>you</i></seg></doc>\n'
        for n in range(2)
    )
    en = of_set(tmp_path, "en.sgm", "".join(references))
    assert texts_of(read_set(de, en)) == [
        ("zwei", "two"),
        ("eins & so", "AT&T, Q&A &copy 0"),
        ("", "four"),
        ("", "three"),
        None,
        ("ein <b> ä &amp; &big; &file;", "a <b then x < y </3 <i>you</i>"),
    ]
    good, seg = of_set(tmp_path, "good", '<doc docid="1"><seg id="1">a</seg></doc>'), '<seg id="1">'
    for source, target, message in (
        (f'<doc docid="1">\n{seg}a</seg>\n{seg}b</seg></doc>', good, "occurs twice in the docum"),
        (f'<doc docid="1">{seg[:-1]}' + "\nx" * 2_000, good, "a tag before this line has no end"),
        (
            f'<doc docid="2">{seg}a</seg></doc>',
            good,
            f"document 1 is '2' in {tmp_path}/bad:1, but ",
        ),
        ("text", good, "no <doc> with a <seg>"),
    ):
        bad = written(tmp_path, "bad", source)
        assert message in error_of(read_set(bad, target))


def test_articles(tmp_path: Path) -> None:
    for side in ("English", "German"):
        for name in ("b.txt", "a.txt"):
            written(tmp_path, f"{side}/{name}", f"{side} {name} 1\n\n{side} {name} 2\n")
    english, german = tmp_path / "English", tmp_path / "German"
    assert [pair and pair[0] for pair in texts_of(read_articles(english, german))] == [
        "English a.txt 1",
        "English a.txt 2",
        None,
        "English b.txt 1",
        "English b.txt 2",
    ]
    (german / "a.txt").unlink()
    assert f"{english / 'a.txt'} has no counterpart" in error_of(read_articles(english, german))


# ---- gtrans corpus-report ------------------------------------------------------------------------

PAIR = ("--source-lang", "en", "--target-lang", "de")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return files(
        tmp_path,
        {
            "train.en": "a b c d e\na b c d e\n\nf\n",
            "train.de": "A B\nA B\n\nC D E F G H\n",
            "valid.en": "a b c d e\ng\n",
            "valid.de": "A x\ny\n",
            "test.en.gz": "f\n",
            "test.de": "C\n",
            "notes.en": "x\n",
            "test.ref2.de": "C\n",
        },
    )


def test_counts(corpus: Path, call: Call, tiny: TinyWorld) -> None:
    words = ("corpus-report", corpus, *PAIR, "--max-doc-tokens", "8")
    found = json.loads(call(*words, "--json"))
    assert found["tokens are"] == "words" and list(found["splits"]) == list(SPLITS)
    assert found["splits"]["train"] == {
        "documents": 2,
        "sentences": 3,
        "chunks": 3,
        "sentences of a document": 1.5,
        "sentences of a chunk": 1.0,
        "tokens of a chunk": 5.67,
        "longest document, sentences": 2,
        "longest document, tokens": 10,
        "duplicate pairs": 1,
        "sources of 5 words or more": 2,
        "of these in train": None,
        "en": {"tokens": 11, "types": 6, "unknown tokens": 0},
        "de": {"tokens": 10, "types": 8, "unknown tokens": 0},
    }
    valid = found["splits"]["valid"]
    assert (valid["sources of 5 words or more"], valid["of these in train"]) == (1, 1)
    assert (valid["en"]["unknown tokens"], valid["de"]["unknown tokens"]) == (1, 2)
    rows = [" ".join(line.split()) for line in call(*words).splitlines()]
    assert "en: types 6 6 1" in rows and "tokens of a chunk 5.67 5.0 3.0" in rows
    # Texts of another pair, as `gtrans get-corpus` writes those of several, are not of this one.
    names = ("train.zh-en.zh", "train.zh-en.en", "train.de-en.en", "train.de-en.de")
    files(corpus, dict.fromkeys(names, "x\n"))
    assert set(json.loads(call(*words, "--json"))["splits"]) == {*SPLITS, "train.de-en"}
    # A prepared folder is counted in subwords.
    found = json.loads(call("corpus-report", tiny.data, "--json"))
    assert (found["languages"], found["tokens are"]) == (["en", "de"], "subwords")
    assert found["splits"]["train"]["en"]["unknown tokens"] == 0
    fr = ("--source-lang", "fr", "--target-lang", "ru")
    assert "it was prepared from" in call("corpus-report", tiny.data, *fr, fails=True)


@pytest.mark.parametrize(
    ("content", "languages"),
    [
        ('{"pair": "en-de"}', ["en", "de"]),
        ('{"pairs": ["en-de"]}', ["en", "de"]),
        ('{"pairs": ["de-en"]}', ["de", "en"]),
        *((text, ["en", "de"]) for text in ('{"pairs": ["a-b", "a-c"]}', "{", "[]")),
    ],
)
def test_the_languages_are_recorded_or_those_of_the_files(
    content: str, languages: list[str], corpus: Path, call: Call
) -> None:
    files(corpus, {"corpus.json": content})
    assert json.loads(call("corpus-report", corpus, "--json"))["languages"] == languages
    (corpus / "corpus.json").unlink()
    files(corpus, {"dev.fr": "x\n"})
    error = call("corpus-report", corpus, fails=True)
    assert "it has texts of de, en, fr; name two with `--source-lang`" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "there is no such folder"),
        ([".", "--source-lang", "en"], "belong together"),
        ([".", "--source-lang", "*", "--target-lang", "de"], "no text of *-de"),
        (["half", *PAIR], "there is no file 'half/test.de' and no file"),
    ],
)
def test_mistakes_of_the_report(
    words: list[str], message: str, tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files(tmp_path, {"half/test.en": "x\n"}))
    assert message in call("corpus-report", *words, fails=True)


def test_the_published_sets_have_the_papers_counts(
    real_data: Path, tmp_path: Path, call: Call
) -> None:
    """Dev and test of Maruf et al., with the sentences of the thesis's table 4.1."""
    paths = ("--from", real_data / "ted-iwslt2017", "--out", tmp_path)
    call("get-corpus", "own", *paths, *PAIR, "--splits", "valid,test")
    for name in ("valid.en", "test.de"):
        assert (tmp_path / "own" / name).stat().st_size > 100_000
    found = json.loads(call("corpus-report", tmp_path / "own", "--json"))["splits"]
    assert [found[name]["documents"] for name in ("valid", "test")] == [93, 23]
    assert [found[name]["sentences"] for name in ("valid", "test")] == [8967, 2271]
