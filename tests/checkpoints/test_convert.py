"""``gtrans convert --from fairseq``: stock Transformers of any shape work as they did there."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from fairseq_cli import train
from support import reference
from support.pretrained_models import PIECES, shaken, write_dictionaries
from torch import nn

from gtrans.checkpoints.reading import read_checkpoint
from gtrans.cli import main
from gtrans.decoding.loading import load_models

SIZES = {
    "encoder_layers": 3, "decoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 40,
    "decoder_ffn_embed_dim": 56, "encoder_attention_heads": 2, "decoder_attention_heads": 4,
}  # fmt: skip
SHARED = {"share_all_embeddings": True}
OUTPUT = "decoder.output_projection.weight"
State = dict[str, Any]
Change = Callable[[State], object]


def stock(data: Path, **options: Any) -> tuple[nn.Module, State]:
    """A model of fairseq's, and the checkpoint that it writes of it."""
    args = Namespace(
        **{**SIZES, **options}, arch="transformer", task="translation", source_lang="en",
        target_lang="de", dropout=0.3, label_smoothing=0.1, max_source_positions=30,
        max_target_positions=30,
    )  # fmt: skip
    base_architecture(args)
    words = (Dictionary.load(str(data / f"dict.{lang}.txt")) for lang in ("en", "de"))
    source, target = words
    task: Any = Namespace(source_dictionary=source, target_dictionary=target)
    torch.manual_seed(2)
    model = shaken(TransformerModel.build_model(args, task))
    return model, {"args": args, "model": model.state_dict()}


def convert(data: Path, source: Path, target: Path) -> int:
    files = (str(source), str(target))
    return main(["convert", "--from", "fairseq", "--data", str(data), *files])


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dictionaries(tmp_path_factory.mktemp("data"))


def converted(model: nn.Module, state: State, data: Path, folder: Path) -> Any:
    """The options of the converted model, which gives the same logits."""
    torch.save(state, folder / "in.pt")
    assert convert(data, folder / "in.pt", folder / "out.pt") == 0
    (ours,), _ = load_models([str(folder / "out.pt")], str(data), cpu=True)
    source = torch.tensor([[5, 9, 7, 4, 12, 2], [8, 6, 2, 1, 1, 1]])
    previous = torch.tensor([[2, 10, 11, 4], [2, 13, 1, 1]])
    with torch.no_grad():
        expected = model(source, torch.tensor([6, 3]), previous)[0]
        found = ours(source, None, previous)[0]
    real = previous.ne(1)
    words = expected.size(-1)  # the mask is added behind them
    torch.testing.assert_close(found[real][:, :words], expected[real], atol=1e-5, rtol=1e-5)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    return read_checkpoint(folder / "out.pt")["cfg"]


PRE_NORM = {"encoder_normalize_before": True, "decoder_normalize_before": True}
SHAPES: dict[str, dict[str, Any]] = {
    "post-norm": SHARED,
    "pre-norm": PRE_NORM,
    "pre-norm in the decoder": {
        "decoder_normalize_before": True, "share_decoder_input_output_embed": True,
    },
    "no final norm": {**PRE_NORM, "no_decoder_final_norm": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "other switches": {
        "activation_fn": "gelu", "no_scale_embedding": True, "layernorm_embedding": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, data: Path, tmp_path: Path) -> None:
    cfg = converted(*stock(data, **SHAPES[name]), data, tmp_path)
    learned = {"encoder_learned_pos", "decoder_learned_pos"}
    for option, value in {**SIZES, **SHAPES[name]}.items():
        assert option in learned or cfg["model"][option] == value, option
    assert cfg["model"]["learned_positions"] == (name == "learned positions")
    assert cfg["model"]["unit"] == "sentence" and cfg["model"]["sentence_marks"] == "end"
    assert cfg["model"]["dropout"] == 0.3 and cfg["criterion"]["label_smoothing"] == 0.1


def test_dictionaries_that_differ(tmp_path: Path) -> None:
    data = write_dictionaries(tmp_path / "data")
    (data / "dict.de.txt").write_text("".join(f"{piece} 1\n" for piece in PIECES[:14]))
    cfg = converted(*stock(data), data, tmp_path)
    assert not cfg["model"]["share_all_embeddings"]


def in_groups(state: State) -> None:
    """As fairseq writes its options since its release 0.10."""
    options = vars(state.pop("args"))
    task = {"_name": "translation", "source_lang": "en", "target_lang": "de"}
    state["cfg"] = {"model": {**options, "_name": "transformer"}, "task": task}


WAYS: dict[str, tuple[Change, dict[str, Any]]] = {
    "options in groups": (in_groups, SHARED),
    "sizes of the state dict win": (
        lambda state: setattr(state["args"], "encoder_layers", 6), {}
    ),
    "norms, too": (lambda state: setattr(state["args"], "encoder_normalize_before", True), {}),
    "no entry for a shared projection": (lambda state: state["model"].pop(OUTPUT), SHARED),
    "embed_out": (
        lambda state: state["model"].update({"decoder.embed_out": state["model"].pop(OUTPUT)}), {}
    ),
    "entries without meaning": (
        lambda state: state["model"].update({
            "encoder.embed_positions.weights": torch.ones(9, 24),
            "encoder.embed_positions._float_tensor": torch.zeros(1),
            "decoder.version": torch.tensor([3.0]),
        }),
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WAYS)
def test_other_ways_to_say_the_same(name: str, data: Path, tmp_path: Path) -> None:
    change, shape = WAYS[name]
    model, state = stock(data, **shape)
    change(state)
    converted(model, state, data, tmp_path)


def test_half_precision(data: Path, tmp_path: Path) -> None:
    model, state = stock(data)
    state["model"] = {name: tensor.half() for name, tensor in state["model"].items()}
    model.load_state_dict({name: tensor.float() for name, tensor in state["model"].items()})
    converted(model, state, data, tmp_path)


def test_the_report_and_the_file(data: Path, tmp_path: Path, capsys: Any) -> None:
    """The file holds plain data only, and one table where the model has one."""
    converted(*stock(data, **SHARED), data, tmp_path)
    printed = capsys.readouterr().out
    assert "layers 3 + 2, dim 24, feed-forward 40 + 56, heads 2 + 4, post-norm" in printed
    assert "vocabulary 25 + 25, languages None, special tokens end" in printed
    assert " ignored: encoder.version" in printed
    path = tmp_path / "out.pt"
    assert torch.serialization.get_unsafe_globals_in_checkpoint(path) == []
    state = torch.load(path)
    assert type(state["cfg"]["model"]) is dict and state["args"] is None
    shared = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    assert len({state["model"][f"{name}.weight"].data_ptr() for name in shared}) == 1


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
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The command in this process: an update too small to see leaves the weights as they were."""
    data = reference.write_corpus(tmp_path / "data", ["train", "valid"])
    path = tmp_path / "out.pt"
    converted(*stock(data, **SHARED), data, tmp_path)
    sizes = [f"--{name.replace('_', '-')}={value}" for name, value in SIZES.items()]
    options = (
        *(str(data), "--user-dir", str(repo / "gtrans"), "--task", "document_translation"),
        *("--arch", "gtransformer_tiny", *sizes, "--unit", "sentence", "--sentence-marks", "end"),
        *("--share-all-embeddings", "--optimizer", "adam", "--lr", "1e-9", "--max-update", "1"),
        *("--criterion", "label_smoothed_cross_entropy", "--max-tokens", "99", "--cpu"),
        *("--num-workers", "0", "--disable-validation"),
        *("--save-dir", str(tmp_path), *start, str(path)),
    )
    monkeypatch.setattr(sys, "argv", ["fairseq-train", *options])
    caplog.set_level("INFO", logger="fairseq")
    train.cli_main()
    assert f"Loaded checkpoint {path}" in caplog.text
    before, after = (
        read_checkpoint(file)["model"] for file in (path, tmp_path / "checkpoint_last.pt")
    )
    assert set(before) == set(after)
    for name, weights in before.items():
        torch.testing.assert_close(after[name], weights, atol=1e-6, rtol=0)


# ---- what is refused ---------------------------------------------------------------------------


def add(name: str, *shape: int) -> Change:
    return lambda state: state["model"].update({name: torch.zeros(*shape)})


def drop(part: str) -> Change:
    def change(state: State) -> None:
        state["model"] = {n: tensor for n, tensor in state["model"].items() if part not in n}

    return change


def option(name: str, value: Any) -> Change:
    return lambda state: setattr(state["args"], name, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (add("encoder.embed_positions.weight", 9, 24), "it lacks decoder.embed_positions.weight"),
        (add("decoder.adaptive_softmax.head.weight", 9, 24), "does not have decoder.adaptive"),
        (option("activation_fn", "tanh"), "the activation tanh (there is relu, gelu, swish)"),
        (option("no_token_positional_embeddings", True), "no positions"),
        (option("cross_self_attention", True), "joint cross- and self-attention"),
        (option("encoder_attention_heads", 5), "must divide"),
        (option("encoder_attention_heads", None), "(KeyError: 'encoder_attention_heads')"),
        (option("arch", "bart_large"), "is 'bart_large', neither mBART nor a `transformer`"),
        (drop("fc2.bias"), "it lacks encoder.layers.0.fc2.bias"),
        (drop("encoder.layers.1."), "this model does not have encoder.layers.2.self_attn"),
        (drop("embed_tokens"), "only a part of one: it holds no encoder.embed_tokens.weight"),
        (add("decoder.layers.0.fc1.weight", 56, 20), "but the model needs (56, 24)"),
        (add("encoder.embed_tokens.weight", 9, 24), "has 9 rows, but "),
        (lambda state: state.update(args=None), "not a checkpoint of fairseq's, it holds no opt"),
        (lambda state: state.pop("model"), "it holds no model"),
    ],
)
def test_refusals(change: Change, message: str, data: Path, tmp_path: Path, capsys: Any) -> None:
    _, state = stock(data)
    change(state)
    torch.save(state, tmp_path / "in.pt")
    assert convert(data, tmp_path / "in.pt", tmp_path / "out.pt") == 1
    error = capsys.readouterr().err
    assert error.startswith("gtrans: error: ") and error.count("\n") == 1, error
    assert message in error and [path.name for path in tmp_path.iterdir()] == ["in.pt"]


def test_files_that_are_not_there_or_not_to_be_written(
    data: Path, tmp_path: Path, capsys: Any
) -> None:
    path, target = tmp_path / "in.pt", tmp_path / "out.pt"
    torch.save(stock(data)[1], path)
    before = path.read_bytes()
    for arguments, message in (
        ((data, tmp_path / "none.pt", target), "none.pt: there is no such checkpoint"),
        ((tmp_path / "none", path, target), "none: there is no such data folder"),
        ((tmp_path, path, target), "this is no data folder (it has in.pt)"),
        ((data, path, tmp_path / "none" / "out.pt"), "there is no folder"),
        ((data, path, tmp_path), "this is a folder"),
        ((data, path, path.parent / "." / path.name), "is the input"),
    ):
        assert convert(*arguments) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    assert [file.name for file in tmp_path.iterdir()] == ["in.pt"]
    assert path.read_bytes() == before
