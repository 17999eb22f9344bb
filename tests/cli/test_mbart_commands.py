"""mBART by the commands a user types: SentencePiece text, training, trimming, translation."""

from __future__ import annotations

import pickle
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from support.folders import binarised_again
from support.pretrained_models import FLAGS, LANGS, fairseq_model, frame_of, vocabulary
from support.synthetic_corpus import prepare, write_short_test
from support.tiny_models import StockCommands

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.checkpoints.sources import MBART25
from gtrans.cli import main
from gtrans.text.prepared_folder import load_pipeline
from gtrans.text.subwords import SentencePiecePipeline, read_subwords
from gtrans.translating.loading import load_models

SETTINGS = (
    *("--task", "document_translation", "--sentence-marks", "mbart", "--langs", MBART25),
    *("--optimizer", "adam", "--adam-eps", "1e-06", "--adam-betas", "(0.9, 0.98)"),
    *("--lr-scheduler", "polynomial_decay", "--lr", "3e-3", "--warmup-updates", "2"),
    *("--total-num-update", "40", "--criterion", "label_smoothed_cross_entropy"),
    *("--label-smoothing", "0.2", "--dropout", "0.1", "--attention-dropout", "0.1"),
    *("--max-tokens", "2048", "--no-epoch-checkpoints", "--num-workers", "0", "--cpu"),
    *("--lr-scale-pretrained", "1", "--disable-validation", "--log-format", "simple"),
)


@dataclass(frozen=True)
class World:
    """Text, a folder like mbart.cc25's, and the text prepared with it."""

    text: Path
    published: Path
    data: Path


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    import sentencepiece

    folder = tmp_path_factory.mktemp("mbart")
    text, published, data = folder / "text", folder / "mbart.cc25", folder / "data"
    write_short_test(text)
    published.mkdir()
    sentencepiece.SentencePieceTrainer.train(
        input=f"{text / 'train.en'},{text / 'train.de'}", vocab_size=300, num_threads=1,
        model_prefix=str(published / "sentence.bpe"), minloglevel=2, byte_fallback=False,
    )  # fmt: skip
    world = World(text, published, data)
    model = published / "sentence.bpe.model"
    # Subwords that the corpus does not use, as most of mBART's.
    subwords = [*(f"\u2581unused{number}" for number in range(50))]
    assert prepare(text, folder / "first", "--sentencepiece", model) == 0
    known = read_subwords(folder / "first" / "dict.en.txt")
    assert len(known) == 297  # without <unk>, <s> and </s>
    full = [*known[:100], *subwords, *known[100:]]
    (published / "dict.txt").write_text("".join(f"{subword} 1\n" for subword in full))
    named = ("--sentencepiece", model, "--dictionary", published / "dict.txt")
    assert prepare(text, data, *named) == 0
    fairseq_model(published, data, positions=600)
    return world


def train(stock: StockCommands, data: Path, folder: Path, start: Path, *options: str) -> Any:
    # The published file does not say which vocabulary it has; one that was trimmed does.
    published = start.parent.name == "mbart.cc25"
    named = ["--init-dict", str(start.with_name("dict.txt"))] if published else []
    return stock.succeed(
        "train", data, "--user-dir", "gtrans", "--arch", "gtransformer_mbart_large", *FLAGS,
        *SETTINGS, "--save-dir", folder, "--init-from", start, *named, *options,
    )  # fmt: skip


def test_text_is_segmented_and_joined(world: World, tmp_path: Path) -> None:
    pipeline = load_pipeline(world.data, "de")
    assert isinstance(pipeline, SentencePiecePipeline)
    lines = (world.text / "test.de").read_text().splitlines()
    for line in filter(None, lines):
        subwords = pipeline.encode(line)
        assert " " not in pipeline.segment(line).replace(" ", "") and "\u2581" in subwords
        assert pipeline.decode(subwords) == line
    encoded = (world.data / "text" / "test.bpe.de").read_text().splitlines()
    assert encoded == [pipeline.encode(line) if line else "" for line in lines]
    # No reserved token, no empty line.
    assert "</s>" not in pipeline.encode("a </s> [de_DE] b").split()
    assert pipeline.decode(pipeline.encode("der </s> [de_DE]")) == "der </s> [de_DE]"
    assert pipeline.decode(pipeline.encode("\u2581@\\lower@")) == "@\\lower@"
    assert pipeline.encode("\u200b").strip() and pipeline.encode("  \t ").strip()
    assert pipeline.decode("\u2581unused1 \u2581unused2") == "unused1 unused2"
    again = pickle.loads(pickle.dumps(pipeline))
    assert again.encode(lines[0]) == pipeline.encode(lines[0])


@pytest.mark.long
def test_training_translation_scores(
    world: World, stock: StockCommands, tmp_path: Path, capsys: Any
) -> None:
    start = world.published / "model.pt"
    for name, options in {
        "document": ("--unit", "document", "--max-update", "6"),
        "baseline": ("--unit", "document", "--doc-mode", "full", "--max-update", "2"),
        "sentence": ("--unit", "sentence", "--max-update", "2"),
    }.items():
        done = train(stock, world.data, tmp_path / name, start, *options)
        log = done.stdout + done.stderr
        assert f"initialised from {start}" in log
        new = 60 if name == "document" else 0
        assert f"{new:5d} newly initialised" in log or new, log
        path = tmp_path / name / "checkpoint_last.pt"
        output = tmp_path / f"{name}.de"
        assert main(["translate", "--path", str(path), "--data", str(world.data), "--input",
                     str(world.text / "test.en"), "--output", str(output), "--beam", "2",
                     "--max-len-a", "0", "--max-len-b", "12", "--cpu"]) == 0  # fmt: skip
        lines = output.read_text(encoding="utf-8").split("\n")
        source = (world.text / "test.en").read_text().split("\n")
        assert [bool(line) for line in lines] == [bool(line) for line in source]
        assert "\u2581" not in output.read_text(encoding="utf-8")
        capsys.readouterr()
        assert main(["score", "--hyp", str(output), "--ref", str(world.text / "test.de"), "--src",
                     str(world.text / "test.en"), "--data", str(world.data), "--target-lang",
                     "de"]) == 0  # fmt: skip
        assert "d-BLEU" in capsys.readouterr().out


@pytest.mark.long
def test_trimmed_vocabulary(
    world: World, stock: StockCommands, tmp_path: Path, capsys: Any
) -> None:
    small, data = tmp_path / "small", tmp_path / "data"
    source = world.published / "model.pt"
    assert main(["trim-vocab", "--data", str(world.data), "--out", str(small), str(source)]) == 0
    printed = capsys.readouterr().out
    kept = read_subwords(small / "dict.txt")
    before = read_subwords(world.published / "dict.txt")
    assert f"{len(kept) + 4:,} of {len(before) + 4:,} subwords kept" in printed
    assert not any(subword.startswith("\u2581unused") for subword in kept)
    assert kept == [subword for subword in before if subword in set(kept)]
    used = set((world.data / "text" / "train.bpe.de").read_text().split())
    assert used & set(before) <= set(kept)

    # The corpus in the new vocabulary: the same subwords, as none that it uses is gone.
    named = ("--sentencepiece", small / "sentence.bpe.model", "--dictionary", small / "dict.txt")
    assert prepare(world.text, data, *named) == 0
    for name in ("train", "valid"):
        old, new = ((folder / "text" / f"{name}.bpe.de").read_text() for folder in
                    (world.data, data))  # fmt: skip
        assert old == new

    # The same logits on kept subwords, by this project's model.
    converted = {}
    for name, checkpoint, folder in (("full", source, world.data),
                                     ("small", small / "model.pt", data)):  # fmt: skip
        out = tmp_path / f"{name}.pt"
        assert main(["convert", "--from", "fairseq", "--data", str(folder), "--source-lang", "en",
                     "--target-lang", "de", str(checkpoint), str(out)]) == 0  # fmt: skip
        (model,), _ = load_models([str(out)], str(folder), cpu=True)
        entries = vocabulary(folder, LANGS["mbart"])
        words = [
            [entries.index(subword) for subword in kept[first : first + 6]] for first in (5, 40)
        ]
        framed, previous = (torch.tensor([part]) for part in frame_of("mbart", folder, words))
        with torch.no_grad():
            logits = model(framed, None, previous)[0][0]
        converted[name] = logits[:, [entries.index(entry) for entry in
                                     (*kept, "</s>", "[de_DE]", "<mask>")]]  # fmt: skip
    torch.testing.assert_close(converted["small"], converted["full"], atol=1e-5, rtol=1e-5)

    # The trimmed model knows its subwords: as many others are refused, and so is a second trimming
    # with a corpus in other subwords.
    other = shutil.copytree(data, tmp_path / "other")
    for lang in ("en", "de"):
        path = other / f"dict.{lang}.txt"
        path.write_text("".join(reversed(path.read_text().splitlines(True))))
    binarised_again(other)
    capsys.readouterr()
    languages = ["--source-lang", "en", "--target-lang", "de"]
    command = ["convert", "--from", "fairseq", "--data", str(other), *languages]
    assert main([*command, str(small / "model.pt"), str(tmp_path / "no.pt")]) == 1
    assert f"it was not made with '{other}'" in capsys.readouterr().err
    assert main(["trim-vocab", "--data", str(other), "--out", str(tmp_path / "smaller"),
                 str(small / "model.pt")]) == 1  # fmt: skip
    assert f"it was not made with '{other}'" in capsys.readouterr().err
    assert not (tmp_path / "smaller").exists() and not (tmp_path / "no.pt").exists()

    done = train(stock, data, tmp_path / "run", small / "model.pt", "--unit", "document",
                 "--max-update", "1")  # fmt: skip
    log = done.stdout + done.stderr
    assert "    0 grown" in log and "60 newly initialised" not in log
    state = read_checkpoint(tmp_path / "run" / "checkpoint_last.pt")["model"]
    assert state["encoder.embed_tokens.weight"].shape[0] == len(kept) + 4 + 25 + 1


def test_what_cannot_be_trimmed(world: World, tmp_path: Path, capsys: Any) -> None:
    state = read_checkpoint(world.published / "model.pt")
    state["model"]["encoder.embed_tokens.weight"] = torch.zeros(9, 24)
    torch.save(state, tmp_path / "other.pt")
    out = tmp_path / "out"
    for arguments, message in (
        (("--data", str(world.data), str(tmp_path / "other.pt")), "has 9 rows, but"),
        (("--data", str(world.text), str(tmp_path / "other.pt")), "make it with 'gtrans prepare'"),
        (("--data", str(world.data), "--splits", "dev", "--", str(world.published / "model.pt")),
         "dev.en-de.en.idx: there is no such binarised file (`--splits`)."),
    ):  # fmt: skip
        assert main(["trim-vocab", "--out", str(out), *arguments]) == 1
        assert message in capsys.readouterr().err.splitlines()[-1]
        assert not out.exists()


@pytest.mark.long
def test_it_learns(world: World, stock: StockCommands, tmp_path: Path) -> None:
    """From the parameters of mBART to little more than half the loss."""
    losses = {}
    for updates in ("1", "250"):
        folder = tmp_path / updates
        train(stock, world.data, folder, world.published / "model.pt", "--max-update", updates,
              "--unit", "document", "--lr", "1e-2", "--total-num-update", "400")  # fmt: skip
        done = stock.succeed(
            "validate", world.data, "--user-dir", "gtrans", "--task", "document_translation",
            "--path", folder / "checkpoint_last.pt", "--valid-subset", "valid", "--max-tokens",
            "2048", "--cpu", "--num-workers", "0", "--log-format", "simple",
        )  # fmt: skip
        found = re.findall(r"nll_loss ([\d.]+)", done.stdout + done.stderr)
        losses[updates] = float(found[-1])
    assert losses["250"] < 0.6 * losses["1"], losses


def test_words_of_subwords_that_are_gone_are_segmented_anew(world: World, tmp_path: Path) -> None:
    subwords = read_subwords(world.published / "dict.txt")
    long = max((subword for subword in subwords if "unused" not in subword), key=len)
    fewer = tmp_path / "dict.txt"
    fewer.write_text("".join(f"{subword} 1\n" for subword in subwords if subword != long))
    model, pipelines = world.published / "sentence.bpe.model", []
    for name, dictionary in (("all", None), ("fewer", fewer)):
        (tmp_path / name).mkdir()
        SentencePiecePipeline.copy(model, dictionary, tmp_path / name)
        contents = {file.name: file.read_bytes() for file in (tmp_path / name).iterdir()}
        pipelines.append(SentencePiecePipeline("de", contents))
    word = long.replace("\u2581", "")
    whole, split = (pipeline.encode(word).split() for pipeline in pipelines)
    assert long in whole and long not in split
    assert set(split) <= set(subwords)
    assert pipelines[1].decode(" ".join(split)) == word
