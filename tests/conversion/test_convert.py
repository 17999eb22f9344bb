"""``gtrans convert``: checkpoints of the authors' G-Transformer work here as they did there."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils, utils
from fairseq_cli import train
from omegaconf import OmegaConf
from support import reference
from support.authors_format import (
    SMALL,
    as_authors,
    checkpoint,
    convert,
    dictionaries,
    random_model,
    save_fixture,
    with_,
    without,
)
from support.reference import arrays, tensor
from support.suites import one_in

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.models.base.warm_start import WarmStartOptions, warm_start
from gtrans.models.gtransformer import GTransformer, GTransformerConfig


def load(path: Path, data: Path, repo: Path) -> tuple[Any, Any]:
    """The way the issue asks for: fairseq's own loader after importing the plugin."""
    utils.import_user_module(argparse.Namespace(user_dir=str(repo / "gtrans")))
    models, cfg, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(data)}
    )
    return models[0].eval(), cfg


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference.write_corpus(tmp_path_factory.mktemp("corpus"), ["train", "valid", "test"])


@pytest.fixture(scope="module")
def authors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_fixture(tmp_path_factory.mktemp("authors") / "checkpoint_best.pt")


@pytest.fixture(scope="module")
def converted(authors: Path, corpus: Path) -> Path:
    path = authors.with_name("converted.pt")
    assert convert(corpus, authors, path) == 0
    return path


def test_the_fixtures_logits(converted: Path, corpus: Path, repo: Path) -> None:
    model, cfg = load(converted, corpus, repo)
    logits = model(tensor("src_tokens"), tensor("src_lengths"), tensor("prev_output_tokens"))[0]
    real = tensor("prev_output_tokens").ne(1)
    assert logits.shape == tensor("decoder_logits").shape
    torch.testing.assert_close(logits[real], tensor("decoder_logits")[real], atol=1e-4, rtol=0)
    assert cfg.model._name == "gtransformer"
    assert cfg.model.unit == "document" and cfg.model.sentence_marks == "both"
    assert cfg.model.langs == "en,de" and cfg.model.max_doc_tokens == 512
    assert cfg.model.dropout == 0.3 and cfg.criterion.label_smoothing == 0.1


def test_the_written_file_holds_plain_data_only(converted: Path) -> None:
    assert torch.serialization.get_unsafe_globals_in_checkpoint(converted) == []
    state = torch.load(converted)
    assert type(state["cfg"]["model"]) is dict and state["args"] is None
    shared = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    assert len({state["model"][f"{name}.weight"].data_ptr() for name in shared}) == 1


def test_generate_decodes_as_the_authors(converted: Path, corpus: Path, repo: Path) -> None:
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("fairseq-generate"), corpus, "--path", converted),
            *("--user-dir", "gtrans", "--task", "document_translation", "--cpu"),
            *("--beam", "5", "--max-len-a", "1.2", "--max-len-b", "10"),
        ],
        cwd=repo,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^H-(\d+)\t.*\t(.*)$", done.stdout, re.MULTILINE)
    found = {int(number): text for number, text in lines}
    words = reference.words_only()
    expected = {}
    for row, number in enumerate(arrays()["id"].tolist()):
        before = sum(len(document) for document in reference.documents("source")[:number])
        for k, ids in enumerate(reference.sentences(reference.hypotheses("beam5", row)[0])):
            expected[before + k] = " ".join(words[i] for i in ids[:-1])
    assert found == expected


def test_the_report(
    authors: Path, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(corpus, authors, tmp_path / "out.pt") == 0
    printed = capsys.readouterr().out
    assert "layers 3 + 3, dim 32, feed-forward 64 + 64, heads 4 + 4, post-norm" in printed
    assert "top 2 encoder, 1 decoder and 2 cross-attention layers" in printed
    assert "vocabulary 60 + 60, languages en,de, special tokens both" in printed
    assert "tensors: 57 kept, 122 renamed, 4 ignored" in printed
    assert "ignored: encoder.embed_positions._float_tensor" in printed


@pytest.mark.parametrize(
    "start",
    [
        ["--finetune-from-model"],
        ["--reset-optimizer", "--reset-dataloader", "--reset-meters", "--restore-file"],
    ],
    ids=["finetune", "restore"],
)
@pytest.mark.filterwarnings("ignore:::hydra", "ignore:.*ConfigStore.*", "ignore:.*pin_memory")
def test_training_goes_on_from_it(
    start: list[str],
    converted: Path,
    corpus: Path,
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The command in this process: an update too small to see leaves the weights as they were."""
    options = (
        *(str(corpus), "--user-dir", str(repo / "gtrans"), "--task", "document_translation"),
        *("--arch", "gtransformer_tiny", "--encoder-layers", "3", "--decoder-layers", "3"),
        *("--encoder-embed-dim", "32", "--encoder-ffn-embed-dim", "64"),
        *("--decoder-ffn-embed-dim", "64", "--decoder-global-layers", "1", "--langs", "en,de"),
        *("--share-all-embeddings", "--optimizer", "adam", "--lr", "1e-9", "--max-update", "1"),
        *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "99", "--cpu"),
        *("--num-workers", "0", "--disable-validation"),
        *("--save-dir", str(tmp_path), *start, str(converted)),
    )
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *options])
    caplog.set_level("INFO", logger="fairseq")
    train.cli_main()
    assert f"Loaded checkpoint {converted}" in caplog.text
    before, after = (
        read_checkpoint(path)["model"] for path in (converted, tmp_path / "checkpoint_last.pt")
    )
    assert set(before) == set(after)
    for name, weights in before.items():
        torch.testing.assert_close(after[name], weights, atol=1e-6, rtol=0)


# ------------------------------------------------------------------ other shapes


def tops(encoder: int, decoder: int, cross: int) -> dict[str, Any]:
    """Layers with global attention."""
    names = ("encoder_global_layers", "decoder_global_layers", "cross_global_layers")
    return dict(zip(names, (encoder, decoder, cross), strict=True))


PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SEPARATE = {"share_all_embeddings": False}
SHAPES: dict[str, dict[str, Any]] = {
    "pre_norm": {"encoder_layers": 2, "decoder_layers": 4, **PRE_NORM, **tops(1, 2, 3)},
    "pre_norm_decoder_only": {"decoder_normalize_before": True},
    "all_layers_global": {"encoder_layers": 4, **tops(4, 2, 2)},
    "global_in_the_encoder_only": {"decoder_global_layers": 0, "cross_global_layers": 0},
    "global_in_cross_attention_only": tops(0, 0, 1),
    "no_global": tops(0, 0, 0),
    "full": {"doc_mode": "full"},
    "tied_decoder": {**SEPARATE, "share_decoder_input_output_embed": True},
    "separate_embeddings": {**SEPARATE, "no_scale_embedding": True, "activation_fn": "gelu"},
}


def assert_same_logits(ours: Any, converted: Any) -> None:
    inputs = (tensor("src_tokens"), tensor("src_lengths"), tensor("prev_output_tokens"))
    with torch.no_grad():
        torch.testing.assert_close(converted(*inputs)[0], ours(*inputs)[0], atol=1e-5, rtol=1e-5)


def converted_as(
    model: GTransformer,
    shape: dict[str, Any],
    data: Path,
    repo: Path,
    folder: Path,
    change: Callable[[dict[str, Any]], None] = lambda state: None,
) -> Any:
    """The options of a model that the authors' program saved, which gives the same logits."""
    state = as_authors(model, shape)
    change(state)
    torch.save(state, folder / "in.pt")
    assert convert(data, folder / "in.pt", folder / "out.pt") == 0
    found, cfg = load(folder / "out.pt", data, repo)
    assert_same_logits(model, found)
    assert {parameter.dtype for parameter in found.parameters()} == {torch.float32}
    assert set(found.state_dict()) == set(model.state_dict())
    return cfg


@pytest.mark.parametrize("name", one_in(3, SHAPES))
def test_other_shapes(name: str, corpus: Path, repo: Path, tmp_path: Path) -> None:
    shape = SHAPES[name]
    cfg = converted_as(random_model(shape, *dictionaries(corpus)), shape, corpus, repo, tmp_path)
    for option, value in {**SMALL, **shape}.items():
        assert cfg.model[option] == value, option


def test_dictionaries_that_differ(repo: Path, tmp_path: Path) -> None:
    """Padding words of fairseq-preprocess are words of the file like all others."""
    words = reference.words_only()
    words.pad_to_multiple_(8)
    assert "madeupword0000" in words.symbols
    data = reference.write_corpus(tmp_path / "data", [], words)
    reference.words_only().save(str(data / "dict.de.txt"))
    source, target = dictionaries(data)
    assert len(source) == 67 and len(target) == 60
    converted_as(random_model(SEPARATE, source, target), SEPARATE, data, repo, tmp_path)


def plain_names(state: dict[str, Any]) -> None:
    state["model"] = {n.replace("_attn_local.", "_attn."): p for n, p in state["model"].items()}
    del state["args"].doc_mode


OUTPUT = "decoder.output_projection.weight"
WAYS: dict[str, tuple[Callable[[dict[str, Any]], Any], dict[str, Any]]] = {
    "langs missing": (without("langs"), {}),
    "langs a list": (with_("langs", ["en", "de"]), {}),
    "languages from langs": (without("source_lang"), {}),
    "sizes of the state dict win": (with_("encoder_layers", 6), {}),
    "norms, too": (with_("encoder_normalize_before", True), {}),
    "gates show that mode is partial": (with_("doc_mode", "full"), {}),
    "local names": (without("doc_mode"), tops(0, 0, 0)),
    "plain names": (plain_names, {"doc_mode": "full"}),
    "heads of the arch": (without("encoder_attention_heads"), {"encoder_attention_heads": 8}),
    "no entry for a shared projection": (lambda state: state["model"].pop(OUTPUT), {}),
    "embed_out": (
        lambda state: state["model"].update({"decoder.embed_out": state["model"].pop(OUTPUT)}),
        SEPARATE,
    ),
    "entries without meaning": (
        lambda state: state["model"].update({"encoder.embed_positions.weights": torch.ones(9, 24)}),
        {},
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_other_ways_to_say_the_same(name: str, corpus: Path, repo: Path, tmp_path: Path) -> None:
    change, shape = WAYS[name]
    model = random_model(shape, *dictionaries(corpus))
    converted_as(model, shape, corpus, repo, tmp_path, change)


def test_half_precision(corpus: Path, repo: Path, tmp_path: Path) -> None:
    state = checkpoint(corpus)
    state["model"] = {n: p.half() for n, p in state["model"].items()}
    torch.save(state, tmp_path / "in.pt")
    assert convert(corpus, tmp_path / "in.pt", tmp_path / "out.pt") == 0
    model, _ = load(tmp_path / "out.pt", corpus, repo)
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_a_document_model_starts_from_it(corpus: Path, tmp_path: Path) -> None:
    torch.save(checkpoint(corpus), tmp_path / "in.pt")
    assert convert(corpus, tmp_path / "in.pt", tmp_path / "out.pt") == 0
    source, target = dictionaries(corpus)
    named = os.pathsep.join(str(corpus / f"dict.{lang}.txt") for lang in ("en", "de"))
    # The authors' own file will do, too, but it does not say which vocabulary it has.
    for path, init_dict in ((tmp_path / "out.pt", None), (tmp_path / "in.pt", named)):
        torch.manual_seed(2)
        cfg = OmegaConf.structured(GTransformerConfig(**SMALL))
        task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
        model = GTransformer.build_model(cfg, task).eval()
        sides = {"encoder": source, "decoder": target}
        report = warm_start(model, str(path), sides, WarmStartOptions(init_dict=init_dict))
        assert not report.new and not report.ignored and not report.grown
        assert_same_logits(random_model({}, source, target), model)
