"""Options of the task and the model: their ranges, their sizes, what they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.tiny_models import TINY, StockCommands, TinyWorld

from gtrans.conversion.showing import checkpoint_facts

COMMON = (
    *("--user-dir", "gtrans", "--task", "document_translation", "--unit", "document"),
    *("--arch", "gtransformer_tiny", *TINY, "--optimizer", "adam", "--lr", "0.01"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "512", "--seed", "3"),
    *("--disable-validation", "--num-workers", "0", "--cpu", "--word-dropout", "0.2"),
)


def train(world: TinyWorld, folder: Path, *options: str | Path) -> Any:
    return world.run("train", world.data, *COMMON, "--save-dir", folder, *options)


def test_options_out_of_range(tiny: TinyWorld, tmp_path: Path) -> None:
    for flag, value, message in (
        ("--max-doc-tokens", "3", "`--max-doc-tokens` must be at least 8, but is 3."),
        ("--source-lang", "fr", "has a corpus of en and de"),
        ("--best-checkpoint-metric", "bleuu", "there is no such score; there are loss, nll_loss"),
        ("--word-dropout", "1.5", "`--word-dropout` must be at least 0 and below 1"),
        ("--cross-global-layers", "3", "`--cross-global-layers` must be between 0 and 2, the"),
        ("--encoder-attention-heads", "3", "`--encoder-attention-heads` must divide"),
        ("--encoder-embed-dim", "0", "`--encoder-embed-dim` must be at least 1, but is 0"),
        ("--decoder-ffn-embed-dim", "-4", "`--decoder-ffn-embed-dim` must be at least 1"),
        ("--dropout", "1.5", "`--dropout` must be at least 0 and below 1, but is 1.5"),
        ("--attention-dropout", "-0.5", "`--attention-dropout` must be at least 0 and below"),
        ("--lr-scale-pretrained", "nan", "`--lr-scale-pretrained` must be at least 0"),
    ):
        done = train(tiny, tmp_path, flag, value, "--max-update", "1")
        assert done.status != 0
        assert message in done.stderr.strip().split("\n")[-1]


def test_one_language_says_the_direction(tiny: TinyWorld, tmp_path: Path) -> None:
    done = train(tiny, tmp_path, "--source-lang", "de", "--max-update", "1")
    assert done.status == 0, done.stderr
    assert checkpoint_facts(tmp_path / "checkpoint_last.pt")["languages"] == "de-en"


@pytest.mark.parametrize("choice", ["--optimizer=adafactor", "--lr-scheduler=manual"])
def test_classes_whose_options_are_a_namespace(
    choice: str, tiny: TinyWorld, tmp_path: Path
) -> None:
    """fairseq's older optimizers and schedules."""
    done = train(tiny, tmp_path, choice, "--max-update", "1")
    assert done.status == 0, done.stderr


def test_preprocess_takes_the_plugin(stock: StockCommands, tmp_path: Path) -> None:
    """Blank lines survive, and `--user-dir gtrans` is accepted."""
    for lang in ("en", "de"):
        (tmp_path / f"train.{lang}").write_text("a b\nc\n\nd\n", encoding="utf-8")
    stock.succeed(
        "preprocess", "--user-dir", "gtrans", "-s", "en", "-t", "de", "--joined-dictionary",
        "--trainpref", tmp_path / "train", "--destdir", tmp_path / "bin",
    )  # fmt: skip
    from fairseq.data import data_utils

    lines = data_utils.load_indexed_dataset(str(tmp_path / "bin" / "train.en-de.en"))
    assert lines.sizes.tolist() == [3, 2, 1, 2]
