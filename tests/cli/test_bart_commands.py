"""BART by the commands a user types: byte-level BPE, conversion, training, translation."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.pretrained_models import FLAGS, fairseq_model, frame_of, hugging_face_model
from support.synthetic_corpus import prepare, write_short_test
from support.tiny_models import StockCommands

from gtrans.cli import main
from gtrans.decoding.loading import load_models
from gtrans.tasks.options import read_dictionary
from gtrans.text.pipeline import PLACEHOLDER, clean
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.subwords import ByteBpePipeline, read_pieces

# What mBART has in common with it, test_mbart_commands.py tests at once.
pytestmark = pytest.mark.long

LANGUAGES = ("--source-lang", "en", "--target-lang", "de")
TEXTS = (
    "The guard was tired.", "Über 3,5 %  Käse", "don't  we'll I'VE", "a\u00a0b\tc",
    "\u4f60\u597d \U0001f600", "</s> <|endoftext|> [de_DE] <pad>", "x" * 40, "\u200b",
)  # fmt: skip


@dataclass(frozen=True)
class World:
    """Text, the files of a BART as fairseq and as Hugging Face publish them, prepared text."""

    text: Path
    fairseq: Path
    hugging_face: Path
    folder: Path

    def data(self, form: str) -> Path:
        return self.folder / f"data-{form}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    from tokenizers import ByteLevelBPETokenizer

    folder = tmp_path_factory.mktemp("bart")
    text, published, other = folder / "text", folder / "bart.base", folder / "bart-base"
    write_short_test(text)
    published.mkdir()
    other.mkdir()
    trainer = ByteLevelBPETokenizer()
    trainer.train([str(text / "train.en"), str(text / "train.de")], vocab_size=400)
    trainer.save_model(str(other))
    numbers: dict[str, int] = json.loads((other / "vocab.json").read_text())
    assert len(numbers) == 400
    merges = (other / "merges.txt").read_text()
    (published / "encoder.json").write_text(json.dumps(numbers))
    (published / "vocab.bpe").write_text(merges)
    # Rows are by frequency there, and some belong to no piece.
    order = sorted(numbers, key=lambda piece: random.Random(piece).random())
    rows = [*(str(numbers[piece]) for piece in order), "madeupword0000"]
    (published / "dict.txt").write_text("".join(f"{row} 1\n" for row in rows))
    special = {symbol: number for number, symbol in enumerate(("<s>", "<pad>", "</s>", "<unk>"))}
    table = [*order, "madeupword0000"]
    (other / "vocab.json").write_text(json.dumps(
        {**special, **{piece: number for number, piece in enumerate(table, 4)},
         "<mask>": len(table) + 4}
    ))  # fmt: skip
    world = World(text, published, other, folder)
    named = ("--byte-bpe", published, "--dictionary", published / "dict.txt")
    assert prepare(text, world.data("fairseq"), *named) == 0
    assert prepare(text, world.data("huggingface"), "--byte-bpe", other) == 0
    return world


def pipeline(world: World, form: str = "fairseq") -> ByteBpePipeline:
    found = load_pipeline(world.data(form), "de")
    assert isinstance(found, ByteBpePipeline)
    return found


def test_numbers_are_those_of_fairseqs_own_encoder(world: World) -> None:
    from fairseq.data.encoders.gpt2_bpe_utils import get_encoder

    theirs = get_encoder(str(world.fairseq / "encoder.json"), str(world.fairseq / "vocab.bpe"))
    for sentence in [*TEXTS[:5], *(world.text / "valid.de").read_text().split("\n")]:
        text = " ".join(sentence.split())
        if text:
            assert pipeline(world).encode(sentence) == " ".join(map(str, theirs.encode(text)))


def test_both_forms_have_the_same_rows(world: World) -> None:
    rows = []
    for form in ("fairseq", "huggingface"):
        dictionary = read_dictionary(str(world.data(form)), "de")
        ours = pipeline(world, form)
        rows.append([
            dictionary.encode_line(ours.encode(text), add_if_not_exist=False).tolist()
            for text in TEXTS
        ])  # fmt: skip
        assert not any(dictionary.unk() in row for row in rows[-1])
    assert rows[0] == rows[1]
    table = json.loads((world.hugging_face / "vocab.json").read_text())
    pieces = pipeline(world, "huggingface").encode(TEXTS[0]).split()
    assert rows[0][0][:-1] == [table[piece] for piece in pieces]


@given(text=st.text(max_size=30))
def test_any_text_comes_back(world: World, text: str) -> None:
    """All but white space and what no line can hold, which no pipeline keeps."""
    ours = pipeline(world)
    tokens = ours.encode(text)
    assert tokens.split() and set(tokens.split()) <= set(read_pieces(world.fairseq / "dict.txt"))
    assert ours.decode(tokens) == (clean(text) or PLACEHOLDER)


@given(symbols=st.lists(st.integers(0, 420), max_size=12))
def test_whatever_a_model_writes_is_one_line(world: World, symbols: list[int]) -> None:
    """Halves of characters, line breaks and rows without a piece included."""
    text = pipeline(world).decode(" ".join(map(str, symbols)))
    assert len(f"{text}|".splitlines()) == 1


@pytest.mark.parametrize("form", ["huggingface", pytest.param("fairseq", marks=pytest.mark.long)])
def test_from_published_files_to_scores(
    world: World, form: str, stock: StockCommands, tmp_path: Path, capsys: Any
) -> None:
    data, converted = world.data(form), tmp_path / "bart.pt"
    make = fairseq_model if form == "fairseq" else hugging_face_model
    theirs, published = make("bart", tmp_path / form, data, positions=600)
    assert main(["convert", "--from", form, "--data", str(data), *LANGUAGES, str(published),
                 str(converted)]) == 0  # fmt: skip
    # The converted model is theirs, on text in its own pieces.
    dictionary = read_dictionary(str(data), "de")
    words = [
        dictionary.encode_line(pipeline(world, form).encode(text), add_if_not_exist=False)[:-1]
        for text in TEXTS[:2]
    ]
    source, previous = (
        torch.tensor([row]) for row in frame_of("bart", data, [row.tolist() for row in words])
    )
    (ours,), _ = load_models([str(converted)], str(data), cpu=True)
    with torch.no_grad():
        if form == "fairseq":
            expected = theirs(source, None, previous)[0]
        else:
            expected = theirs(input_ids=source, decoder_input_ids=previous).logits
        assert torch.allclose(ours(source, None, previous)[0], expected, atol=1e-4)
    stock.succeed(
        "train", data, "--user-dir", "gtrans", "--task", "document_translation",
        "--arch", "gtransformer_bart_base", *FLAGS, "--sentence-marks", "bart", "--init-from",
        converted, "--optimizer", "adam", "--lr", "1e-4", "--criterion",
        "label_smoothed_cross_entropy", "--max-tokens", "1024", "--max-update", "2",
        "--lr-scale-pretrained", "1", "--disable-validation", "--num-workers", "0", "--cpu",
        "--no-epoch-checkpoints", "--save-dir", tmp_path / "run",
    )  # fmt: skip
    for checkpoint in (converted, tmp_path / "run" / "checkpoint_last.pt"):
        output = tmp_path / f"{checkpoint.stem}.de"
        assert main(["translate", "--path", str(checkpoint), "--data", str(data), "--input",
                     str(world.text / "test.en"), "--output", str(output), "--beam", "2",
                     "--max-len-a", "0", "--max-len-b", "8", "--cpu"]) == 0  # fmt: skip
        lines = output.read_text(encoding="utf-8").split("\n")
        wanted = (world.text / "test.en").read_text().split("\n")
        assert [bool(line) for line in lines] == [bool(line) for line in wanted]
        capsys.readouterr()
        assert main(["score", "--hyp", str(output), "--ref", str(world.text / "test.de"), "--data",
                     str(data), "--target-lang", "de"]) == 0  # fmt: skip
        assert "d-BLEU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--byte-bpe", "{fairseq}"), "needs `--dictionary`, the dict.txt of the model"),
        (("--byte-bpe", "{other}", "--dictionary", "{fairseq}/dict.txt"), "of the 256 bytes are m"),
    ],
)
def test_mistakes(
    options: tuple[str, ...], message: str, world: World, tmp_path: Path, capsys: Any
) -> None:
    places = {"fairseq": world.fairseq, "other": world.hugging_face}
    given = [part.format(**places) for part in options]
    assert prepare(world.text, tmp_path / "x", *given) == 1
    error = capsys.readouterr().err.strip().split("\n")[-1]
    assert error.startswith("gtrans: error: ") and message in error
    assert not (tmp_path / "x").exists()
