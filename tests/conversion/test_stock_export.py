"""``gtrans convert --to fairseq``: the same translations in a fast engine."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support.tiny_models import TINY
from support.translating import error

from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
LIMIT = 12


def trained(tiny: TinyWorld, folder: Path, *options: str) -> Path:
    """A tiny model after some updates, so that its translations differ."""
    tiny.run.succeed(
        "train", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--arch", "gtransformer_tiny", *TINY, *options, "--optimizer", "adam", "--lr", "0.01",
        "--criterion", "label_smoothed_cross_entropy", "--max-tokens", "1024",
        "--max-update", "60", "--disable-validation", "--save-dir", folder,
        "--no-epoch-checkpoints", "--num-workers", "0", "--cpu",
    )  # fmt: skip
    return folder / "checkpoint_last.pt"


def engine(out: Path, to: Path, quantization: str | None = None) -> Any:
    """The exported model as CTranslate2 reads it."""
    converter = ctranslate2.converters.FairseqConverter(str(out / "model.pt"), str(out))
    with torch.serialization.safe_globals([argparse.Namespace]):
        converter.convert(str(to), quantization=quantization, force=True)
    return ctranslate2.Translator(str(to), device="cpu", intra_threads=1)


def ours(path: Path, text: Path, output: Path, *options: str) -> list[str]:
    argv = ["translate", "--path", str(path), "--input", str(text), "--output", str(output)]
    size = ("--max-len-a", "0", "--max-len-b", str(LIMIT))
    assert main([*argv, "--cpu", "--beam", "1", *size, *options]) == 0
    return [line for line in output.read_text().splitlines() if line]


@pytest.mark.parametrize("marks", ["both", pytest.param("end", marks=pytest.mark.long)])
def test_a_sentence_model_translates_the_same(
    tiny: TinyWorld, tmp_path: Path, marks: str
) -> None:
    path = tiny.checkpoints["sentence"]
    if marks != "both":
        path = trained(tiny, tmp_path / "run", "--unit", "sentence", "--sentence-marks", marks)
    out = tmp_path / "out"
    assert main(["convert", "--to", "fairseq", str(path), str(out)]) == 0
    source, target = load_pipeline(out, "en"), load_pipeline(out, "de")
    sentences = [line for document in tiny.source() for line in document][:30]
    before = ["<s>"] if marks == "both" else []
    pieces = [[*before, *source.encode(sentence).split()] for sentence in sentences]
    text = tmp_path / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences))
    expected = ours(path, text, tmp_path / "o")
    assert marks == "both" or len(set(expected)) > 2
    found = engine(out, tmp_path / "fp32").translate_batch(
        pieces, beam_size=1, max_decoding_length=LIMIT
    )
    assert [target.decode(" ".join(one.hypotheses[0])) for one in found] == expected
    # In int8 a word may differ.
    small = engine(out, tmp_path / "int8", "int8").translate_batch(
        pieces, beam_size=1, max_decoding_length=LIMIT
    )
    same = sum(a.hypotheses == b.hypotheses for a, b in zip(small, found, strict=True))
    assert same >= 0.8 * len(sentences)


def test_a_document_transformer_translates_the_same(tiny: TinyWorld, tmp_path: Path) -> None:
    options = ("--unit", "document", "--doc-mode", "full")
    path, out = trained(tiny, tmp_path / "run", *options), tmp_path / "out"
    assert main(["convert", "--to", "fairseq", str(path), str(out)]) == 0
    source, target = load_pipeline(out, "en"), load_pipeline(out, "de")
    document = tiny.source()[0]
    pieces = ["<s>"]
    for number, sentence in enumerate(document):
        pieces += [*(["</s>"] if number else []), *source.encode(sentence).split()]
    text = tmp_path / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in document))
    limit = ("--free", "--max-len-b", "25")
    (expected,) = ours(path, text, tmp_path / "o", *limit)
    (found,) = engine(out, tmp_path / "fp32").translate_batch(
        [pieces], beam_size=1, max_decoding_length=26 * len(document) - 1
    )  # without the mark that ends the last sentence, which ours writes at its limit, too
    sentences = " ".join(found.hypotheses[0]).split("<s>")
    decoded = [target.decode(one.strip()) for one in sentences if one.strip()]
    assert " ".join(" ".join(decoded).split()) == " ".join(expected.split())


def test_what_the_stock_model_cannot_hold_is_refused(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*words: str | Path) -> str:
        return error(["convert", "--to", "fairseq", *map(str, words)], capsys)

    path, out = tiny.checkpoints["document"], tmp_path / "out"
    assert "no place for group attention of this model" in refusal(path, out)
    assert "belongs to `--from`" in refusal(path, out, "--data", tiny.data)
    assert not out.exists()
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(tiny.checkpoints["sentence"], folder / "s.pt")
    assert "must stay" in refusal(folder / "s.pt", folder)
    frozen = Path(__file__).parents[1] / "frozen" / "0.1.0" / "han_transformer.pt"
    assert "cannot hold the model 'han_transformer" in refusal(frozen, out)
