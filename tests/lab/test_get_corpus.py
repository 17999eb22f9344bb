"""``gtrans get-corpus``: from published files to what the run scripts read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from gtrans.cli import main
from gtrans.lab.corpora import corpus_named, read_corpora
from gtrans.text.reader import read_parallel

MARUF = "concatenated_en2de_{}_{}.txt"


def files(folder: Path, contents: dict[str, str]) -> Path:
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def maruf(folder: Path, name: str = "IWSLT2017") -> Path:
    texts = {}
    for split in ("train", "dev", "test"):
        texts[f"{name}/{MARUF.format(split, 'en')}"] = f"<d>\r\n{split} one\r\n\r\n<d>\r\ntwo\r\n"
        texts[f"{name}/{MARUF.format(split, 'de')}"] = f"<d>\n{split} eins\nleer\n<d>\nzwei\n"
    return files(folder, texts)


def error_of(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    capsys.readouterr()
    assert main([str(word) for word in words]) == 1
    message = capsys.readouterr().err
    errors = [line for line in message.splitlines() if line.startswith("gtrans: error: ")]
    assert len(errors) == 1, message
    return errors[0]


def get(*words: str | Path) -> int:
    return main(["get-corpus", *map(str, words)])


# ---- the list ------------------------------------------------------------------------------------


def test_every_corpus_is_described(repo: Path, capsys) -> None:
    page = (repo / "docs" / "corpora.md").read_text(encoding="utf-8")
    names = [name for corpus in read_corpora() for name in (corpus.name, *corpus.also)]
    assert len(names) == len(set(names)) and all(f"`{name}`" in page for name in names)
    assert main(["get-corpus", "iwslt14-deen", "--list"]) == 0
    assert capsys.readouterr().out.startswith("iwslt14: ")
    message = error_of(capsys, "get-corpus", "ldc-zhen", "--out", "out")
    assert "`--from DIR`" in message


def test_the_names_of_the_run_scripts_are_known(repo: Path) -> None:
    script = 'source exp_gtransformer/lib.sh; echo "${CORPORA[*]}"'
    words = ["bash", "-c", f"NAME=x SUMMARY=x TRAINS=no; {script}"]
    done = subprocess.run(words, cwd=repo, capture_output=True, text=True, check=True)
    for name in (*done.stdout.split(), "iwslt14", "wmt14", "ldc", "opus100"):
        assert corpus_named(name).name == name


def test_the_list_says_what_was_not_tried(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get-corpus", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("europarl7")).endswith("untried")
    assert next(line for line in lines if line.startswith("ldc")).endswith("none")
    assert main(["get-corpus", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(read_corpora())


# ---- corpora -------------------------------------------------------------------------------------


def test_a_corpus_as_the_run_scripts_want_it(tmp_path: Path, repo: Path, capsys) -> None:
    out = tmp_path / "texts"
    assert get("iwslt17", "--from", maruf(tmp_path / "in"), "--out", out) == 0
    assert "train: 2 documents, 2 sentence pairs; dropped: 1 empty on one side" in (
        capsys.readouterr().out
    )
    assert (out / "iwslt17" / "train.en").read_text() == "train one\n\ntwo\n"
    assert (out / "iwslt17" / "dev.de").read_text() == "dev eins\n\nzwei\n"
    record = json.loads((out / "iwslt17" / "corpus.json").read_text())
    assert record["splits"]["test"]["dropped"]["empty on one side"] == 1
    assert len(record["read"]) == 6
    texts = {f"{split}.{lang}" for split in ("dev", "test", "train") for lang in ("de", "en")}
    assert {path.name for path in (out / "iwslt17").iterdir()} == {"corpus.json", *texts}
    script = repo / "exp_gtransformer" / "prepare-bpe.sh"
    words = [script, "--data", out, "--corpus", "iwslt17", "--out", tmp_path / "o", "--dry-run"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{out}/iwslt17/train" in done.stdout


def test_pairs_with_an_empty_side_can_be_refused(tmp_path: Path, capsys) -> None:
    words = ("--from", maruf(tmp_path / "in"), "--out", tmp_path, "--empty", "refuse")
    message = error_of(capsys, "get-corpus", "iwslt17", *words)
    assert "_de.txt:3: a pair of iwslt17 train ('leer') is empty on one side; " in message
    assert "`--empty drop`" in message
    assert not (tmp_path / "iwslt17").exists()


def test_what_is_missing_is_named(tmp_path: Path, capsys) -> None:
    source = maruf(tmp_path / "in")
    (source / "IWSLT2017" / MARUF.format("train", "en")).unlink()
    words = ("--from", source, "--out", tmp_path / "out")
    message = error_of(capsys, "get-corpus", "ted-iwslt17", *words)
    assert "has no file IWSLT2017/concatenated_en2de_train_en.txt or" in message
    assert get("ted-iwslt17", *words, "--splits", "dev,test") == 0
    assert (tmp_path / "out" / "ted-iwslt17" / "test.de").is_file()
    assert "`--splits` 'x'" in error_of(capsys, "get-corpus", "iwslt17", *words, "--splits", "x")
    assert "`--form` 'x'" in error_of(capsys, "get-corpus", "iwslt17", *words, "--form", "x")
    assert "no such folder" in error_of(
        capsys, "get-corpus", "iwslt17", "--from", tmp_path / "none", "--out", tmp_path
    )
    assert "there is no corpus 'iwslt16'" in error_of(capsys, "get-corpus", "iwslt16", "--list")


def xml(name: str, sentences: list[str]) -> str:
    segs = "".join(f'<seg id="{n}">{text}</seg>\n' for n, text in enumerate(sentences, start=1))
    return f'<mteval><srcset setid="x"><doc docid="{name}">\n{segs}</doc></srcset></mteval>\n'


def tags(words: list[str]) -> str:
    return "".join(
        f"<url>u</url>\n<talkid>{n}</talkid>\n<title>T {word}</title>\n{word}\n"
        for n, word in enumerate(words)
    )


def test_iwslt17_as_published(tmp_path: Path) -> None:
    """The references of tst2016 and tst2017 are the source side of the other direction."""
    texts = {f"en-de/train.tags.en-de.{lang}": tags([f"{lang} train"]) for lang in ("en", "de")}
    for name in ("dev2010", *(f"tst{year}" for year in range(2010, 2018))):
        for lang in ("en", "de"):
            pair = "de-en" if lang == "de" and name in ("tst2016", "tst2017") else "en-de"
            texts[f"{pair}/IWSLT17.TED.{name}.{pair}.{lang}.xml"] = xml(name, [f"{lang} {name}"])
    source = files(tmp_path / "in", texts)
    assert get("iwslt17", "--from", source, "--out", tmp_path) == 0
    folder = tmp_path / "iwslt17"
    assert (folder / "train.en").read_text() == "en train\n"
    assert len(read_parallel(folder / "dev.en", folder / "dev.de")) == 7
    assert (folder / "test.de").read_text() == "de tst2016\n\nde tst2017\n"


def test_iwslt14_is_cleaned_and_every_23rd_pair_held_out(tmp_path: Path) -> None:
    """Length and ratio are counted in Moses tokens; the titles count as sentences."""
    words = ["kurz", "wort " * 176, "eins , zwei , drei", *(f"satz {n}" for n in range(30))]
    english = ["short", "word " * 176, "one", *(f"sentence {n}" for n in range(30))]
    texts = {"train.tags.de-en.de": tags(words), "train.tags.de-en.en": tags(english)}
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
        for lang in ("de", "en"):
            texts[f"IWSLT14.{name}.de-en.{lang}.xml"] = xml(name, [f"{lang} {name}"])
    assert get("iwslt14", "--from", files(tmp_path / "in", texts), "--out", tmp_path) == 0
    record = json.loads((tmp_path / "iwslt14" / "corpus.json").read_text())
    counts = record["splits"]
    assert counts["train"]["dropped"]["too long"] == 2  # the sentence and the title
    assert counts["train"]["dropped"]["ratio"] == 2
    kept = 2 * (len(words) - 2)
    assert counts["dev"]["pairs"] == kept // 23
    assert counts["train"]["pairs"] == kept - kept // 23
    assert counts["test"]["documents"] == 5
    train = read_parallel(tmp_path / "iwslt14" / "train.de", tmp_path / "iwslt14" / "train.en")
    assert len(train) == counts["train"]["documents"] and train[0][0] == ["T kurz", "kurz"]


def test_several_languages(tmp_path: Path) -> None:
    texts = {}
    for low, high in (("af", "en"), ("en", "zh")):
        for split in ("train", "dev", "test"):
            for lang in (low, high):
                texts[f"supervised/{low}-{high}/opus.{low}-{high}-{split}.{lang}"] = f"{lang}\n"
    source = files(tmp_path / "in", texts)
    words = ("opus-100", "--from", source, "--out", tmp_path, "--pairs", "zh-en,af-en")
    assert get(*words) == 0
    assert (tmp_path / "opus-100" / "train.zh-en.zh").read_text() == "zh\n"
    assert (tmp_path / "opus-100" / "test.af-en.en").read_text() == "en\n"
    # Each pair has files of its own, so it may be made anew with another text.
    files(source, {"supervised/af-en/opus.af-en-train.en": "other\n"})
    assert get(*words) == 0
    assert (tmp_path / "opus-100" / "train.af-en.en").read_text() == "other\n"
    assert (tmp_path / "opus-100" / "train.zh-en.en").read_text() == "en\n"


def test_the_record_has_all_calls(tmp_path: Path, capsys) -> None:
    """Splits and pairs that are made later are added, those before one that fails stay."""
    texts = {}
    for low, high in (("af", "en"), ("en", "zh"), ("de", "en")):
        for split in ("train", "dev", "test"):
            for lang in (low, high):
                text = "" if (split, lang) == ("dev", "zh") else f"{lang}\n"
                texts[f"{low}-{high}/opus.{low}-{high}-{split}.{lang}"] = text
    source = files(tmp_path / "in", texts)
    words = ("opus-100", "--from", source, "--out", tmp_path)
    error_of(capsys, "get-corpus", *words, "--pairs", "af-en,zh-en")
    place = tmp_path / "opus-100" / "corpus.json"
    splits = ("train", "dev", "test")
    assert list(json.loads(place.read_text())["splits"]) == [f"{one}.af-en" for one in splits]
    assert get(*words, "--pairs", "de-en", "--splits", "train") == 0
    assert get(*words, "--pairs", "de-en", "--splits", "test") == 0
    record = json.loads(place.read_text())
    assert record["pairs"] == ["af-en", "de-en"] and len(record["read"]) == 10
    assert set(record["splits"]) == {f"{one}.af-en" for one in splits} | {
        "train.de-en", "test.de-en"
    }  # fmt: skip
    assert record["splits"]["train.de-en"]["form"] == "opus"


def test_further_references_of_several_languages(tmp_path: Path, capsys) -> None:
    """Each pair has its own; what lacks a sentence leaves nothing of its pair behind."""
    texts = {}
    for lang, second in (("de", "two"), ("it", "")):
        references = "".join(
            f'<doc docid="a" sysid="r{n}"><seg id="1">{text}</seg></doc>'
            for n, text in enumerate(("one", second))
        )
        name = f"IWSLT17.TED.tst2017.mltlng.{lang}-en"
        texts[f"{name}.{lang}.xml"] = xml("a", [lang])
        texts[f"{name}.en.xml"] = f"<mteval><refset>{references}</refset></mteval>"
    words = ("iwslt17-multi", "--from", files(tmp_path / "in", texts), "--out", tmp_path)
    message = error_of(capsys, "get-corpus", *words, "--splits", "test", "--pairs", "de-en,it-en")
    assert "reference 2 lacks a sentence" in message
    names = {"test.de-en.de", "test.de-en.en", "test.de-en.ref2.en", "corpus.json"}
    assert {path.name for path in (tmp_path / "iwslt17-multi").iterdir()} == names
    assert (tmp_path / "iwslt17-multi" / "test.de-en.ref2.en").read_text() == "two\n"


def test_groups_with_sentences_and_consistency_sets(tmp_path: Path) -> None:
    texts = {f"context_agnostic/{lang}_train": f"{lang}\n" for lang in ("en", "ru")}
    for split in ("train", "dev", "test"):
        for lang in ("en", "ru"):
            texts[f"context_aware/{lang}_{split}"] = f"{lang} 1 _eos {lang} 2\n"
    texts["consistency_testsets/deixis_dev.json"] = "{}"
    source = files(tmp_path / "in", texts)
    assert get("opensubtitles-enru", "--from", source, "--out", tmp_path) == 0
    folder = tmp_path / "opensubtitles-enru"
    assert (folder / "train.ru").read_text() == "ru 1\nru 2\n"
    assert (folder / "sentences.en").read_text() == "en\n"
    assert (folder / "consistency" / "deixis_dev.json").read_text() == "{}"


def test_a_test_set_with_several_references(tmp_path: Path) -> None:
    docs = "".join(
        f'<doc docid="a" sysid="r{n}"><seg id="1">one {n}</seg></doc>\n' for n in range(3)
    )
    source = files(tmp_path / "in", {
        "newstest2016-zhen-src.zh.sgm": '<srcset><doc docid="a"><seg id="1">一</seg></doc>',
        "newstest2016-zhen-ref.en.sgm": f"<refset>{docs}</refset>",
    })  # fmt: skip
    words = ("--source-lang", "zh", "--target-lang", "en")
    assert get("newstest2016", "--from", source, "--out", tmp_path, *words) == 0
    folder = tmp_path / "newstest2016"
    assert (folder / "test.en").read_text() == "one 0\n"
    assert (folder / "test.ref3.en").read_text() == "one 2\n"


def test_a_corpus_of_ones_own(tmp_path: Path, capsys) -> None:
    """What `gtrans prepare` refuses, or takes for the end of a document, is dropped and counted."""
    texts = {f"{split}.en": "a\n\nb\nb\nc c c c\n<d>\nd\n" for split in ("train", "dev", "test")}
    texts |= {f"{split}.de": "A\n\n\nB\nC\n<d>\nD\n" for split in ("train", "dev", "test")}
    texts["train.en"] += "d\n"
    texts["train.de"] += "D\n"
    words = ("own", "--from", files(tmp_path / "in", texts), "--out", tmp_path)
    pair = ("--source-lang", "en", "--target-lang", "de")
    assert "own needs `--source-lang`" in error_of(capsys, "get-corpus", *words)
    message = error_of(capsys, "get-corpus", *words, *pair)
    assert "train.en:3 and " in message
    assert "train.de:3: a pair of own train ('b') is empty on one side" in message
    assert get(*words, *pair, "--empty", "drop") == 0
    assert (tmp_path / "own" / "test.en").read_text() == "a\n\nb\nc c c c\n\nd\n"
    capsys.readouterr()
    asked = ("--boundary", "<d>", "--empty", "drop", "--max-ratio", "2", "--drop-duplicates")
    assert get(*words, *pair, *asked, "--json") == 0
    counts = json.loads(capsys.readouterr().out)["train"]
    assert counts["dropped"] == {
        "empty on both sides": 1, "empty on one side": 1, "too long": 0, "ratio": 1, "duplicate": 1,
    }  # fmt: skip
    assert (tmp_path / "own" / "train.de").read_text() == "A\nB\n\nD\n"
    assert (
        tmp_path / "own" / "test.en"
    ).read_text() == "a\nb\nc c c c\n\nd\n"  # limits: train alone


def test_another_pair_does_not_take_the_text_of_the_first(tmp_path: Path, capsys) -> None:
    texts = {"train.en": "a\nb\n", "train.de": "A\nB\n", "train.fr": "x\ny\n"}
    first = files(tmp_path / "first", texts)
    other = files(tmp_path / "other", texts | {"train.en": "x\ny\n", "train.fr": "X\nY\n"})
    made = ("--out", tmp_path, "--splits", "train", "--source-lang", "en", "--target-lang")
    assert get("own", "--from", first, *made, "de") == 0
    message = error_of(capsys, "get-corpus", "own", "--from", other, *made, "fr")
    assert f"{tmp_path / 'own' / 'train.en'} is of the pair en-de" in message
    assert (tmp_path / "own" / "train.en").read_text() == "a\nb\n"
    assert not (tmp_path / "own" / "train.fr").exists()
    # The same text in two more languages is one corpus, and a pair may be made anew.
    assert get("own", "--from", first, *made, "fr") == 0
    assert json.loads((tmp_path / "own" / "corpus.json").read_text())["pairs"] == ["en-de", "en-fr"]
    single = ("--out", tmp_path / "single", *made[2:])
    assert get("own", "--from", first, *single, "de") == 0
    assert get("own", "--from", other, *single, "de") == 0
    assert (tmp_path / "single" / "own" / "train.en").read_text() == "x\ny\n"


def test_an_empty_part_of_a_corpus_is_refused(tmp_path: Path, capsys) -> None:
    parts = ("wesnoth-ende", "bible-ende", "msctd")
    story = {f"{part}/dev.{lang}": f"{part} {lang}\n" for part in parts for lang in ("en", "de")}
    (corpus,) = [it for it in read_corpora() if it.name == "story"]
    needed = [
        names[0]
        for part in corpus.forms[0].splits["dev"]
        for names in part.patterns("dev", "en", "de", corpus.year)
    ]
    source = files(tmp_path / "in", dict.fromkeys(needed, "a\n"))
    words = ("story", "--from", source, "--out", tmp_path, "--splits", "dev")
    assert get(*words) == 0
    for text in ("", "\n\n"):
        files(source, dict.fromkeys(needed[-2:], text))
        message = error_of(capsys, "get-corpus", *words)
        assert f"{needed[-2]}: no sentence pair of the dev text is in it" in message
    assert len(story) == len(needed)


def test_the_published_sets_have_the_papers_counts(real_data: Path, tmp_path: Path, capsys) -> None:
    """Dev and test of Maruf et al., with the sentences of the thesis's table 4.1."""
    folder = real_data / "ted-iwslt2017"
    words = ("--source-lang", "en", "--target-lang", "de", "--splits", "dev,test")
    assert get("own", "--from", folder, "--out", tmp_path, *words) == 0
    for name in ("dev.en", "test.de"):
        assert (tmp_path / "own" / name).stat().st_size > 100_000
    capsys.readouterr()
    arguments = [str(tmp_path / "own"), "--json"]
    assert main(["corpus-report", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["splits"]["dev"]["documents"] == 93 and found["splits"]["test"]["documents"] == 23
    assert [found["splits"][name]["sentences"] for name in ("dev", "test")] == [8967, 2271]


def test_the_file_of_corpora_is_valid(repo: Path) -> None:
    entries = yaml.safe_load((repo / "exp_gtransformer" / "corpora.yaml").read_text())
    assert [entry["name"] for entry in entries] == [corpus.name for corpus in read_corpora()]
