"""``gtrans prepare`` with somebody's own BPE codes and dictionary."""

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
def foreign(tiny: TinyWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``codes``, ``dict.txt``, and ``test.LANG``, text in their subwords."""
    folder = tmp_path_factory.mktemp("foreign")
    shutil.copy(tiny.data / "codes.bpe", folder / "codes")
    shutil.copy(tiny.data / "dict.en.txt", folder / "dict.txt")
    for lang in ("en", "de"):
        shutil.copy(tiny.data / "text" / f"test.bpe.{lang}", folder / f"test.{lang}")
    return folder


def test_text_is_prepared_with_given_codes_and_dictionary(foreign, tmp_path, capsys):
    """It has no training text, and is not said to train."""
    for lang in ("en", "de"):
        text = (foreign / f"test.{lang}").read_text(encoding="utf-8").replace("@@ ", "")
        (tmp_path / f"words.{lang}").write_text(text, encoding="utf-8")
    words = [
        *("--test", str(tmp_path / "words"), "--bpe-codes", str(foreign / "codes")),
        *("--dictionary", str(foreign / "dict.txt"), "--no-truecase", "--no-tokenise"),
    ]
    data = tmp_path / "data"
    assert main([*PAIR, *words, "--out", str(data)]) == 0
    assert (data / "codes.bpe").read_bytes() == (foreign / "codes").read_bytes()
    assert (data / "dict.de.txt").read_bytes() == (foreign / "dict.txt").read_bytes()
    state = json.loads((data / "prepare.json").read_text(encoding="utf-8"))
    assert state["bpe"]["merges"] == len((foreign / "codes").read_text().splitlines()) - 1
    (last,) = [line for line in capsys.readouterr().err.splitlines() if "is ready" in line]
    assert "gtrans train" not in last
    for lang in ("en", "de"):
        pipeline, segmented = load_pipeline(data, lang), foreign / f"test.{lang}"
        for line in filter(None, segmented.read_text(encoding="utf-8").splitlines()):
            assert pipeline.encode(line.replace("@@ ", "")) == line
            assert pipeline.decode(line) == line.replace("@@ ", "")


@pytest.mark.long
def test_a_model_of_fairseqs_folder_translates(foreign: Path, stock: StockCommands, tmp_path: Path):
    """Trained in a folder of fairseq-preprocess, it reads text by a folder with its codes."""
    for split in ("train", "valid"):
        for lang in ("en", "de"):
            shutil.copy(foreign / f"test.{lang}", tmp_path / f"{split}.{lang}")
    stock.succeed(
        "preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary",
        "--trainpref", tmp_path / "train", "--validpref", tmp_path / "valid",
        "--destdir", tmp_path / "bin",
    )  # fmt: skip
    stock.succeed(
        "train", tmp_path / "bin", "--user-dir", "gtrans", "--task", "document_translation",
        "--source-lang", "en", "--target-lang", "de", "--arch", "gtransformer_tiny", "--cpu",
        "--max-tokens", "512", "--encoder-embed-dim", "32", "--max-update", "1", "--lr", "5e-4",
        "--optimizer", "adam", "--disable-validation", "--save-dir", tmp_path,
    )  # fmt: skip
    text = (foreign / "test.en").read_text(encoding="utf-8").replace("@@ ", "").splitlines()[:6]
    (tmp_path / "in.en").write_text("\n".join(text) + "\n", encoding="utf-8")
    (tmp_path / "in.de").write_text("\n".join(text) + "\n", encoding="utf-8")
    words = [
        *("--test", str(tmp_path / "in"), "--bpe-codes", str(foreign / "codes"), "--no-truecase"),
        *("--dictionary", str(tmp_path / "bin" / "dict.en.txt"), "--no-tokenise"),
    ]
    assert main([*PAIR, *words, "--out", str(tmp_path / "data")]) == 0
    words = ["--path", str(tmp_path / "checkpoint_last.pt"), "--data", str(tmp_path / "data")]
    words += ["--input", str(tmp_path / "in.en"), "--output", str(tmp_path / "out.de")]
    assert main(["translate", *words, "--cpu", "--beam", "1"]) == 0
    assert len((tmp_path / "out.de").read_text(encoding="utf-8").splitlines()) == len(text)
