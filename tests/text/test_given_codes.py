"""``gtrans prepare`` with somebody's own BPE codes, dictionaries and binarised corpora."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.tiny_models import StockCommands, TinyWorld

from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline

PAIR = ("prepare", "--source-lang", "en", "--target-lang", "de")


@pytest.fixture(scope="module")
def foreign(tiny: TinyWorld, stock: StockCommands, tmp_path_factory) -> Path:
    """``codes``, text in their pieces, and ``bin``, which fairseq-preprocess has made of it."""
    folder = tmp_path_factory.mktemp("foreign")
    shutil.copy(tiny.data / "codes.bpe", folder / "codes")
    for split in ("train", "valid", "test"):
        for lang in ("en", "de"):
            shutil.copy(tiny.data / "text" / f"{split}.bpe.{lang}", folder / f"{split}.{lang}")
    stock.succeed(
        "preprocess", "--source-lang", "en", "--target-lang", "de",
        "--trainpref", folder / "train", "--validpref", folder / "valid",
        "--testpref", folder / "test", "--destdir", folder / "bin",
    )  # fmt: skip
    return folder


def take(foreign: Path) -> Path:
    """The data folder that is made from ``bin``."""
    words = ["--binarised", str(foreign / "bin"), "--bpe-codes", str(foreign / "codes")]
    assert main([*PAIR, *words, "--out", str(foreign / "data")]) == 0
    return foreign / "data"


def test_a_binarised_corpus_becomes_a_data_folder(foreign, capsys):
    taken = take(foreign)
    copied = [path for path in (foreign / "bin").iterdir() if path.suffix != ".log"]
    assert len(copied) == 14
    for path in copied:
        assert (taken / path.name).read_bytes() == path.read_bytes()
    for lang in ("en", "de"):
        pipeline = load_pipeline(taken, lang)
        for line in (foreign / f"test.{lang}").read_text(encoding="utf-8").splitlines():
            if line:
                words = line.replace("@@ ", "")
                assert pipeline.encode(words) == line
                assert pipeline.decode(line) == words
    take(foreign)
    assert "binarise: finished earlier, skipped" in capsys.readouterr().err


@pytest.mark.long
def test_a_model_of_it_translates_text_as_it_was_before_bpe(foreign, stock, tmp_path):
    data, model = str(foreign / "bin"), str(tmp_path / "checkpoint_last.pt")
    train = (
        *("--user-dir", "gtrans", "--task", "document_translation", "--source-lang", "en"),
        *("--target-lang", "de", "--arch", "gtransformer_tiny", "--max-tokens", "512", "--cpu"),
        *("--encoder-embed-dim", "32", "--max-update", "1", "--lr", "5e-4", "--optimizer", "adam"),
        *("--disable-validation", "--save-dir", str(tmp_path)),
    )
    stock.succeed("train", data, *train)  # the folder of fairseq-preprocess itself
    text = tmp_path / "in.en"
    lines = (foreign / "test.en").read_text(encoding="utf-8").replace("@@ ", "").splitlines()[:6]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    out = tmp_path / "out.de"
    words = ["translate", "--path", model, "--input", str(text), "--output", str(out)]
    assert main([*words, "--data", str(take(foreign)), "--cpu", "--beam", "1"]) == 0
    assert len(out.read_text(encoding="utf-8").splitlines()) == len(lines)


def test_text_is_prepared_with_given_codes_and_dictionary(foreign, tiny, tmp_path, capsys):
    """It has no training text, and is not said to train."""
    dictionary = tiny.data / "dict.en.txt"
    words = [
        *("--valid", str(tiny.text / "valid"), "--bpe-codes", str(foreign / "codes")),
        *("--dictionary", str(dictionary), "--no-truecase", "--out", str(tmp_path / "data")),
    ]
    assert main([*PAIR, *words]) == 0
    data = tmp_path / "data"
    assert (data / "codes.bpe").read_bytes() == (foreign / "codes").read_bytes()
    assert (data / "dict.de.txt").read_bytes() == dictionary.read_bytes()
    state = json.loads((data / "prepare.json").read_text(encoding="utf-8"))
    assert state["bpe"]["merges"] == len((foreign / "codes").read_text().splitlines()) - 1
    (last,) = [line for line in capsys.readouterr().err.splitlines() if "is ready" in line]
    assert "gtrans train" not in last


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--binarised {f}/bin", "`--binarised` needs `--bpe-codes` or"),
        ("--binarised {f}/bin --bpe-codes {f}/few", "the subword model makes only"),
        ("--binarised {f}/none --bpe-codes {f}/codes", "has no split SPLIT.en-de.en.idx"),
        ("--binarised {f}/bin --bpe-codes {f}/codes --train t", "`--train` cannot be combined"),
        ("--binarised {f}/bin --bpe-codes {f}/test.en", "test.en:1: not a BPE merge"),
        ("--bpe-codes {f}/codes --test {f}/test", "`--train` is missing: a truecaser"),
        ("--bpe-codes {f}/codes --dictionary d.txt --train t", "there is no file 'd.txt'"),
    ],
)
def test_a_mistake_is_one_line(words, said, foreign, tmp_path, capsys):
    codes = (foreign / "codes").read_text(encoding="utf-8").splitlines(keepends=True)
    (foreign / "few").write_text("".join(codes[:5]), encoding="utf-8")
    out = ["--out", str(tmp_path / "data")]
    assert main([*PAIR, *words.format(f=foreign).split(), *out]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("gtrans: error: ") and said in error
    assert not (tmp_path / "data").exists()
