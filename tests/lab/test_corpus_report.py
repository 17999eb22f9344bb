"""``gtrans corpus-report``: counts of a corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gtrans.cli import main
from gtrans.identity.json_files import read_json


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    texts = {
        "train.en": "a b c d e\na b c d e\n\nf\n", "train.de": "A B\nA B\n\nC D E F G H\n",
        "dev.en": "a b c d e\ng\n", "dev.de": "A x\ny\n",
        "test.en.gz": "f\n", "test.de": "C\n",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict:
    assert main(["corpus-report", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_counts(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--source-lang", "en", "--target-lang", "de", "--max-doc-tokens", "8")
    found = report(capsys, corpus, *words)
    assert found["tokens are"] == "words" and list(found["splits"]) == ["train", "dev", "test"]
    assert found["splits"]["train"] == {
        "documents": 2, "sentences": 3, "instances": 3,
        "sentences of a document": 1.5, "sentences of an instance": 1.0,
        "tokens of an instance": 5.67, "longest document": 2, "longest document in tokens": 10,
        "duplicates": 1, "in train": None, "in train, of": None,
        "en": {"tokens": 11, "types": 6, "longest sentence": 5, "unknown": None},
        "de": {"tokens": 10, "types": 8, "longest sentence": 6, "unknown": None},
    }  # fmt: skip
    dev = found["splits"]["dev"]
    assert (dev["in train"], dev["in train, of"], dev["duplicates"]) == (1, 1, 0)
    assert (dev["en"]["unknown"], dev["de"]["unknown"]) == (1, 2)
    assert main(["corpus-report", str(corpus), *words]) == 0
    assert "en: unknown tokens" in capsys.readouterr().out


def test_a_prepared_folder_is_counted_in_pieces(tiny, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys, tiny.data)
    state = read_json(tiny.data / "prepare.json")
    assert found["languages"] == [state["source_lang"], state["target_lang"]]
    assert found["tokens are"] == "pieces" and found["splits"]["train"]["en"]["unknown"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none"], "there is no such folder"),
        (["."], "texts of 0 languages (none)"),
        ([".", "--source-lang", "en"], "belong together"),
        ([".", "--source-lang", "en", "--target-lang", "de"], "no text of en-de"),
        ([".", "--max-doc-tokens", "0"], "`--max-doc-tokens` must be at least 1"),
        ([".", "--source-lang", "*", "--target-lang", "de"], "no text of *-de"),
        ([".", "--source-lang", "de", "--target-lang", "de"], "are both 'de'"),
        (["none", "--source-lang", "en", "--target-lang", "de"], "there is no such folder"),
    ],
)
def test_mistakes_are_one_line(words, message, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["corpus-report", *words]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_side_that_is_missing(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a split it is refused; a second reference has no other side; of other texts it is said."""
    words = ("--source-lang", "en", "--target-lang", "de")
    (corpus / "test.ref1.de").write_text("C\n", encoding="utf-8")
    (corpus / "notes.en").write_text("x\n", encoding="utf-8")
    assert main(["corpus-report", str(corpus), *words]) == 0
    (said,) = capsys.readouterr().err.splitlines()
    assert said == f"{corpus / 'notes'}.en: not counted, there is no notes.de"
    # Texts of another pair, as `gtrans get-corpus` writes those of several, are not of this one.
    for name in ("train.zh-en.zh", "train.zh-en.en", "train.de-en.en", "train.de-en.de"):
        (corpus / name).write_text("x\n", encoding="utf-8")
    assert "train.de-en" in report(capsys, corpus, *words)["splits"]
    (corpus / "train.de-en.de").unlink()
    assert main(["corpus-report", str(corpus), *words]) == 1
    assert "train.de-en.de: there is no such file" in capsys.readouterr().err
    (corpus / "train.de-en.en").unlink()
    (corpus / "test.de").rename(corpus / "tset.de")
    assert main(["corpus-report", str(corpus), *words]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert f"{corpus / 'test'}.de: there is no such file (nor .gz), the other side of" in error


def test_the_direction_is_recorded_or_said_to_be_a_guess(
    corpus: Path, tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(capsys, corpus)["languages"] == ["de", "en"]
    assert main(["corpus-report", str(corpus)]) == 0
    assert "taken as from de to en, in the order of the alphabet" in capsys.readouterr().err
    for record in ({"pair": "en-de"}, {"pairs": ["en-de"]}):
        (corpus / "corpus.json").write_text(json.dumps(record), encoding="utf-8")
        assert main(["corpus-report", str(corpus), "--json"]) == 0
        out, err = capsys.readouterr()
        assert json.loads(out)["languages"] == ["en", "de"] and err == ""
    for record in ('{"pairs": ["en-de", "en-fr"]}', "{", "[]", '{"pair": 1}'):
        (corpus / "corpus.json").write_text(record, encoding="utf-8")
        assert report(capsys, corpus)["languages"] == ["de", "en"]
    words = ("--source-lang", "fr", "--target-lang", "ru")
    assert main(["corpus-report", str(tiny.data), *words]) == 1
    assert "it was prepared from" in capsys.readouterr().err
