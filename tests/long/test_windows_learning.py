"""Flat-Transformer on the embedded corpus, by the commands that `docs/training.md` shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gtrans.cli import main

if TYPE_CHECKING:
    from support.tiny_models import StockCommands


# As in docs/training.md.
SETTINGS = (
    *("--encoder-layers", "3", "--decoder-layers", "3", "--encoder-embed-dim", "128"),
    *("--encoder-ffn-embed-dim", "512", "--decoder-ffn-embed-dim", "512"),
    *("--share-all-embeddings", "--dropout", "0.1", "--optimizer", "adam"),
    *("--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt", "--seed", "1"),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", "0.1"),
    *("--max-tokens", "4096", "--no-epoch-checkpoints", "--cpu", "--num-workers", "0"),
)
SENTENCE = (
    *("--arch", "gtransformer_tiny", "--unit", "sentence", "--lr", "0.003"),
    *("--warmup-updates", "100", "--max-update", "400"),
)
FLAT = (
    *("--arch", "flat_transformer_tiny", "--positions", "sentence", "--lr-scale-pretrained", "1"),
    *("--lr", "0.0015", "--warmup-updates", "240", "--max-update", "1000"),
)


@pytest.mark.long
def test_flat_translates_what_the_source_of_a_neighbour_decides(
    stock: StockCommands, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """90% with the true sentence before, chance with random words in its place."""
    corpus, data = tmp_path / "corpus", tmp_path / "data"
    made = ["make-corpus", "--seed", "1", "--docs", "4000", "--pair", "en-de"]
    assert main([*made, "--out", str(corpus)]) == 0
    splits = [x for split in ("train", "valid", "test") for x in (f"--{split}", corpus / split)]
    prepared = ["prepare", "--source-lang", "en", "--target-lang", "de", *splits]
    prepared += ["--bpe-merges", "1000", "--out", data]
    assert main([str(part) for part in prepared]) == 0
    checkpoints = {name: tmp_path / name / "checkpoint_best.pt" for name in ("sentence", "flat")}
    for name, options in (
        ("sentence", SENTENCE),
        ("flat", (*FLAT, "--init-from", checkpoints["sentence"])),
    ):
        stock.succeed(
            "train", data, "--user-dir", "gtrans", "--task", "document_translation", *SETTINGS,
            *options, "--save-dir", checkpoints[name].parent,
        )  # fmt: skip
    for kind in ("true", "random"):
        capsys.readouterr()
        command = ["contrast", "--path", checkpoints["flat"], "--data", data, "--json", "--set"]
        command += [corpus / "contrastive" / f"{name}.jsonl" for name in ("pronoun", "ellipsis")]
        assert main([*map(str, command), "--context-kind", kind, "--cpu"]) == 0
        found = json.loads(capsys.readouterr().out)["contrastive"]
        for phenomenon, cells in found.items():
            if kind == "true":
                assert cells["1"] >= 0.9, (phenomenon, cells)
            else:
                assert 0.4 <= cells["1"] <= 0.6, (phenomenon, cells)
            assert 0.4 <= cells["2"] <= 0.6, (kind, phenomenon, cells)
