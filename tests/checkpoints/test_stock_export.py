"""``gtrans convert --to fairseq``: the same translations in a fast engine."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from support.tiny_models import TINY
from support.translating import error

from gtrans.checkpoints.checkpoint import Checkpoint
from gtrans.checkpoints.export import marks_of
from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.text.prepared_folder import load_pipeline

if TYPE_CHECKING:
    from support.tiny_models import TinyWorld

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
LIMIT = 12


def trained(tiny: TinyWorld, folder: Path, *options: str, updates: int = 60) -> Path:
    """A tiny model after some updates, so that its translations differ."""
    tiny.run.succeed(
        "train", tiny.data, "--user-dir", "gtrans", "--task", "document_translation",
        "--arch", "gtransformer_tiny", *TINY, *options, "--optimizer", "adam", "--lr", "0.01",
        "--criterion", "label_smoothed_cross_entropy", "--max-tokens", "1024",
        "--max-update", updates, "--disable-validation", "--save-dir", folder,
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
    size = ("--max-len-a", "0", "--max-len-b", str(LIMIT), "--beam", "1")
    assert main([*argv, "--cpu", *size, *options]) == 0
    return [line for line in output.read_text().splitlines() if line]


def sentences_of(
    tiny: TinyWorld, folder: Path, model: Path, *before: str
) -> tuple[Path, list[list[str]], Callable[[Any], list[str]]]:
    """A text of sentences, their pieces, and what makes text of an engine's results."""
    source, target = load_pipeline(model, "en"), load_pipeline(model, "de")
    sentences = [line for document in tiny.source() for line in document][:30]
    text = folder / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences))
    pieces = [[*before, *source.encode(sentence).split()] for sentence in sentences]
    return text, pieces, lambda found: [target.decode(" ".join(one.hypotheses[0])) for one in found]


def test_a_sentence_model_translates_the_same(tiny: TinyWorld, tmp_path: Path) -> None:
    out = tmp_path / "out"
    path = tiny.checkpoints["sentence"]
    assert main(["convert", "--to", "fairseq", str(path), str(out)]) == 0
    text, pieces, decoded = sentences_of(tiny, tmp_path, out, "<s>")
    expected = ours(path, text, tmp_path / "o")
    found = engine(out, tmp_path / "fp32").translate_batch(
        pieces, beam_size=1, max_decoding_length=LIMIT
    )
    assert decoded(found) == expected


@pytest.mark.long
def test_a_beam_finds_the_same(tiny: TinyWorld, tmp_path: Path) -> None:
    """Of sentences that end by themselves: at the limit ours also counts the end mark."""
    end = ("--unit", "sentence", "--sentence-marks", "end")
    path, out = trained(tiny, tmp_path / "run", *end, updates=600), tmp_path / "out"
    assert main(["convert", "--to", "fairseq", str(path), str(out)]) == 0
    text, pieces, decoded = sentences_of(tiny, tmp_path, out)
    translator = engine(out, tmp_path / "fp32")
    for beam in (1, 5):
        limit = ("--max-len-b", "40", "--beam", str(beam))
        expected = ours(path, text, tmp_path / f"o{beam}", *limit)
        assert len(set(expected)) > 5
        found = translator.translate_batch(pieces, beam_size=beam, max_decoding_length=40)
        assert decoded(found) == expected
    # In int8 words differ, in a model as narrow as this one in every third sentence.
    small = engine(out, tmp_path / "int8", "int8").translate_batch(
        pieces, beam_size=5, max_decoding_length=40
    )
    same = sum(a.hypotheses == b.hypotheses for a, b in zip(small, found, strict=True))
    assert same >= 0.5 * len(pieces)


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
    options = {"task": {"_name": "document_translation"}, "model": {"_name": "han_transformer"}}
    with pytest.raises(GtransError, match="cannot hold the model 'han_transformer"):
        marks_of(Checkpoint(path, {"cfg": options, "model": {}}))
