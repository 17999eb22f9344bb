"""What ``gtrans convert`` refuses, with one line and nothing written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import reference
from support.authors_format import checkpoint, convert, save_fixture, with_

from gtrans.cli import main
from gtrans.environment import import_plugin
from gtrans.errors import GtransError
from gtrans.models.base.checkpoint_fit import check_fit


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reference.write_corpus(tmp_path_factory.mktemp("corpus"), [])


def assert_refused(
    capsys: pytest.CaptureFixture[str], status: int, message: str, target: Path
) -> None:
    error = capsys.readouterr().err
    assert status == 1
    assert error.startswith("gtrans: error: ") and error.count("\n") == 1, error
    assert message in error
    assert not target.is_file() and not target.with_name(f"{target.name}.tmp").exists()


def add(name: str, *shape: int) -> Callable[[dict[str, Any]], None]:
    return lambda state: state["model"].update({name: torch.zeros(*shape)})


def drop(pattern: str) -> Callable[[dict[str, Any]], None]:
    def change(state: dict[str, Any]) -> None:
        state["model"] = {n: p for n, p in state["model"].items() if not re.search(pattern, n)}

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add("encoder.embed_positions.weight", 9, 24), "it lacks decoder.embed_positions.weight"),
        (add("encoder.extra.weight", 9), "this model does not have encoder.extra.weight."),
        (with_("activation_fn", "tanh"), "the activation tanh (there is relu, gelu, swish)"),
        (with_("no_token_positional_embeddings", True), "no positions"),
        (with_("cross_self_attention", True), "joint cross- and self-attention"),
        (with_("encoder_attention_heads", 5), "must divide"),
        (drop("fc2.bias"), "it lacks encoder.layers.0.fc2.bias"),
        (drop(r"encoder\.layers\.1\."), "this model does not have encoder.layers.2.fc1"),
        (
            drop(r"layers\.2\.self_attn_(global|gate)"),
            "does not have encoder.layers.0.self_attn.global_attn",
        ),
        (drop("embed_tokens"), "only a part of one: it holds no encoder.embed_tokens.weight"),
        (add("decoder.layers.0.fc1.weight", 56, 20), "but the model needs (56, 24)"),
        (lambda state: state.update(args=None), "it holds no options ('args')"),
        (lambda state: state.pop("model"), "it holds no model"),
    ],
)
def test_refusals(
    change: Callable[[dict[str, Any]], None],
    message: str,
    corpus: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = checkpoint(corpus, {"encoder_layers": 3, "encoder_global_layers": 3})
    change(state)
    source, target = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save(state, source)
    assert_refused(capsys, convert(corpus, source, target), message, target)


@pytest.mark.parametrize("program", ["fairseq", "g-transformer", "huggingface"])
def test_a_model_of_marian_itself(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "model.npz", tmp_path / "out.pt"
    source.write_bytes(b"PK")
    status = main(["convert", "--from", program, str(source), str(target)])
    message = "model.npz: this is a model of Marian itself; convert it with `python -m transformers"
    assert_refused(capsys, status, message, target)


def test_a_table_without_dimensions() -> None:
    import_plugin()
    tables = {"encoder.embed_tokens.weight": torch.tensor(1.0)}
    state = {"model": tables, "cfg": {"model": {"_name": "gtransformer_tiny"}}}
    with pytest.raises(GtransError, match=r"^a\.pt: the model that .* is damaged"):
        check_fit(state, "a.pt")


def test_both_sizes_of_a_vocabulary_that_does_not_fit(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = checkpoint(corpus, langs="en,de,fr")
    source, target = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save(state, source)
    status = convert(corpus, source, target)
    message = (
        f"encoder.embed_tokens.weight has 60 rows, but {corpus}/dict.en.txt with [en], [de], "
        "[fr], <mask> has 61"
    )
    assert_refused(capsys, status, message, target)


def test_files_that_are_not_there_or_not_to_be_written(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    authors = save_fixture(tmp_path / "in.pt")
    target = tmp_path / "out.pt"
    status = convert(corpus, tmp_path / "none.pt", target)
    assert_refused(capsys, status, "none.pt: there is no such checkpoint", target)
    status = convert(tmp_path / "none", authors, target)
    assert_refused(capsys, status, "none: there is no such data folder", target)
    status = convert(tmp_path, authors, target)
    assert_refused(capsys, status, "this is no data folder (it has in.pt)", target)
    inside = tmp_path / "none" / "out.pt"
    assert_refused(capsys, convert(corpus, authors, inside), "there is no folder", inside)
    assert_refused(capsys, convert(corpus, authors, tmp_path), "this is a folder", tmp_path)
    trained = tmp_path / "trained.pt"
    trained.write_bytes(authors.read_bytes())
    assert convert(corpus, authors, trained) == 1
    assert "exists, and this command did not write it; name another" in capsys.readouterr().err
    assert trained.read_bytes() == authors.read_bytes()
    assert convert(corpus, authors, trained, "--force") == 0
    assert convert(corpus, authors, trained) == 0  # a converted one is written again
    same = authors.parent / "." / authors.name
    before = authors.read_bytes()
    assert convert(corpus, authors, same) == 1
    assert "is the input" in capsys.readouterr().err
    assert authors.read_bytes() == before
