"""Options of the task and the model: their ranges, their sizes, what they change."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.models.transformer import TransformerModel, base_architecture
from omegaconf import OmegaConf
from support.stock_sizes import SIZES, dictionary
from support.tiny_models import TINY, StockCommands, TinyWorld

from gtrans.errors import GtransError
from gtrans.models.gtransformer import PRESETS, GTransformer, GTransformerConfig

COMMON = (
    *("--user-dir", "gtrans", "--task", "document_translation", "--unit", "document"),
    *("--arch", "gtransformer_tiny", *TINY, "--optimizer", "adam", "--lr", "0.01"),
    *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "512", "--seed", "3"),
    *("--disable-validation", "--num-workers", "0", "--cpu", "--word-dropout", "0.2"),
)


def train(world: TinyWorld, folder: Path, *options: str | Path) -> Any:
    return world.run("train", world.data, *COMMON, "--save-dir", folder, *options)


def test_word_dropout_ends_after_its_epochs(tiny: TinyWorld, tmp_path: Path) -> None:
    """With one epoch of it, later epochs train on whole words: another result than without end."""
    weights = []
    for epochs in ("1", "0"):
        folder = tmp_path / epochs
        done = train(tiny, folder, "--max-epoch", "2", "--word-dropout-epochs", epochs,
                     "--max-tokens", "2048", "--no-epoch-checkpoints")  # fmt: skip
        assert done.status == 0, done.stderr
        saved = torch.load(folder / "checkpoint_last.pt")["model"]
        weights.append(saved["encoder.embed_tokens.weight"])
    assert not torch.equal(*weights)


def test_options_out_of_range(tiny: TinyWorld, tmp_path: Path) -> None:
    for flag, value, message in (
        ("--max-doc-tokens", "3", "`--max-doc-tokens` must be at least 8, but is 3."),
        ("--word-dropout", "1.5", "`--word-dropout` must be at least 0 and below 1"),
        ("--cross-global-layers", "3", "`--cross-global-layers` must be between 0 and 2, the"),
        ("--encoder-attention-heads", "3", "`--encoder-attention-heads` must divide"),
        ("--encoder-embed-dim", "0", "`--encoder-embed-dim` must be at least 1, but is 0"),
        ("--decoder-ffn-embed-dim", "-4", "`--decoder-ffn-embed-dim` must be at least 1"),
        ("--dropout", "1.5", "`--dropout` must be at least 0 and below 1, but is 1.5"),
        ("--attention-dropout", "-0.5", "`--attention-dropout` must be at least 0 and below"),
        ("--activation-dropout", "nan", "`--activation-dropout` must be a number, of at most"),
        ("--gate-bias", "1e39", "`--gate-bias` must be a number, of at most 1e+06, but is 1e+39"),
        ("--gate-bias", "nan", "`--gate-bias` must be a number, of at most 1e+06, but is nan"),
        ("--lr-scale-pretrained", "nan", "`--lr-scale-pretrained` must be at least 0"),
    ):
        done = train(tiny, tmp_path, flag, value, "--max-update", "1")
        assert done.status != 0
        assert message in done.stderr.strip().split("\n")[-1]


@pytest.mark.parametrize(
    ("name", "layers", "dim", "ffn", "heads"),
    [
        ("gtransformer_tiny", 6, 256, 1024, 4),
        ("gtransformer_small", 6, 512, 1024, 4),
        ("gtransformer_base", 6, 512, 2048, 8),
        ("gtransformer_big", 6, 1024, 4096, 16),
        ("gtransformer_large", 12, 1024, 4096, 16),
    ],
)
def test_presets(name: str, layers: int, dim: int, ffn: int, heads: int) -> None:
    cfg = OmegaConf.structured(GTransformerConfig)
    cfg._name = name
    symbols = dictionary()
    task = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    with torch.device("meta"):
        model = GTransformer.build_model(cfg, task)
    for side in (model.encoder, model.decoder):
        assert len(side.layers) == layers
        assert side.layers[0].fc1.weight.shape == (ffn, dim)
        assert side.layers[0].self_attn.heads == heads
    assert set(PRESETS) >= {name}


@pytest.mark.parametrize("pre_norm", [False, True])
def test_full_mode_has_the_parameters_of_fairseqs_transformer(pre_norm: bool) -> None:
    symbols = dictionary()
    task: Any = SimpleNamespace(source_dictionary=symbols, target_dictionary=symbols)
    norm = {f"{side}_normalize_before": pre_norm for side in ("encoder", "decoder")}
    args = SimpleNamespace(**SIZES, **norm, share_all_embeddings=True,
                           max_source_positions=99, max_target_positions=99)  # fmt: skip
    base_architecture(args)
    stock = TransformerModel.build_model(args, task)
    options = GTransformerConfig(**SIZES, **norm, share_all_embeddings=True, doc_mode="full")
    ours = GTransformer.build_model(OmegaConf.structured(options), task)
    count = [sum(p.numel() for p in model.parameters()) for model in (stock, ours)]
    assert count[0] == count[1]


def test_different_dictionaries_cannot_share_embeddings() -> None:
    task: Any = SimpleNamespace(
        source_dictionary=dictionary(), target_dictionary=dictionary(["other"])
    )
    options = GTransformerConfig(**SIZES, share_all_embeddings=True)
    with pytest.raises(GtransError, match="`--share-all-embeddings` needs a joint dictionary"):
        GTransformer.build_model(OmegaConf.structured(options), task)


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
