"""Attention maps of a unit, and what a memory selects."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.memory_models import model_of
from support.tiny_models import TinyWorld
from support.untrained import task_for, untrained
from torch import Tensor

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.analyses.maps import Axis, UnitText, attention_maps, of_sentences, unit_text
from gtrans.lab.analyses.memory import (
    Gain,
    MemoryGain,
    add_gains,
    gain_figure,
    random_memories,
)
from gtrans.lab.attention import Location
from gtrans.models.bert_context_transformer import BertContextConfig, BertContextTransformer
from gtrans.modules.memory import RecurrentMemory

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
SOURCE = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS, BOS, B, EOS]])
READ = torch.tensor([[BOS, C, EOS, BOS, A, A, EOS, BOS, B]])
TARGET = torch.tensor([[C, EOS, PAD, A, A, EOS, PAD, B, EOS]])
NET_INPUT: dict[str, Any] = {
    "src_tokens": SOURCE, "src_lengths": torch.tensor([10]), "prev_output_tokens": READ
}  # fmt: skip


# ---- maps ----------------------------------------------------------------------------------------


def test_words_and_weights_of_a_document() -> None:
    task = task_for("document")
    model = untrained(task).eval()
    text = unit_text(model, task, NET_INPUT, TARGET)
    assert text.source == Axis(
        ("<s>", "a", "b", "</s>", "<s>", "c", "</s>", "<s>", "b", "</s>"),
        (1, 1, 1, 1, 2, 2, 2, 3, 3, 3),
    )
    assert text.read.labels[:3] == ("<s>", "c", "</s>")
    assert text.written.labels[:2] == ("c", "</s>")
    maps = {one.name: one for one in attention_maps(model, NET_INPUT, text)}
    assert set(maps) >= {"encoder-self-group-layer-1", "encoder-self-global-layer-2",
                         "decoder-cross-group-layer-2", "decoder-cross-global-layer-2"}  # fmt: skip
    cross = maps["decoder-cross-global-layer-2"]
    assert cross.queries == text.written and cross.keys == text.source
    assert cross.weights.sum(2).allclose(torch.ones(2, 9))
    group = maps["encoder-self-group-layer-1"].weights
    assert not group[:, :4, 4:].any() and not group[:, 4:7, 7:].any()

    # By the equation: softmax(QK / sqrt(d)) of the embedded words, sentence by sentence.
    attention = model.encoder.layers[0].self_attn
    kept: list[Tensor] = []
    attention.q_proj.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    with torch.no_grad():
        model(**NET_INPUT)
        states = kept[0][4:7]
        q, k = (p(states).view(3, 2, 8).transpose(0, 1)
                for p in (attention.q_proj, attention.k_proj))  # fmt: skip
        expected = (q @ k.transpose(1, 2) / math.sqrt(8)).softmax(-1)
    assert group[:, 4:7, 4:7].allclose(expected, atol=1e-6)

    some = {one.name: one for one in of_sentences(maps.values(), 2, 2)}
    second = some["decoder-cross-group-layer-2"]
    assert second.queries.labels == text.written.labels[3:7]
    assert second.keys.labels == ("<s>", "c", "</s>")
    assert some["decoder-cross-global-layer-2"].keys.labels == text.source.labels


def test_writing_to_a_memory_and_reading_it() -> None:
    """Sentence 2 reads what sentence 1 has written; both by their weights as defined."""
    model = model_of(memory_size=3).eval()
    of_source, of_target = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3), (1, 1, 1, 2, 2, 2, 2, 3, 3)
    sides = ((SOURCE, of_source), (READ, of_target), (TARGET, of_target))
    axes = [Axis(tuple(map(str, ids[0].tolist())), numbers) for ids, numbers in sides]
    text = UnitText(*axes, axes[0])
    maps = {one.name: one for one in attention_maps(model, NET_INPUT, text)}
    write = [maps[f"encoder-update-layer-2-sentence-{number}"] for number in (1, 2, 3)]
    assert [one.keys.labels for one in write] == [
        ("0", "4", "5", "2"), ("0", "6", "2"), ("0", "5", "2")
    ]  # fmt: skip
    assert all(one.queries.labels == ("1", "2", "3") for one in write)
    for number, words in ((1, ("0", "6", "2")), (2, ("0", "4", "4", "2"))):
        keys = maps[f"decoder-update-layer-2-sentence-{number}"].keys.labels
        assert keys == words[: len(keys)] and len(keys) >= len(words) - 1
    read = maps["encoder-memory-layer-2"]
    assert read.weights.shape == (2, 10, 3) and read.keys.labels == ("1", "2", "3")

    memory: RecurrentMemory = model.encoder.layers[1].memory
    kept: dict[str, list[Tensor]] = {"h": [], "update": [], "keys": []}
    memory.register_forward_pre_hook(lambda _, given: kept["h"].append(given[0]))
    for name, layer in (("update", memory.update_attn.q_proj), ("keys", memory.output_attn.k_proj)):
        layer.register_forward_pre_hook(lambda _, given, name=name: kept[name].append(given[0]))
    with torch.no_grad():
        model(**NET_INPUT)
        (h,), (keys,) = kept["h"], kept["keys"]
        expected = weights_of(memory.update_attn, kept["update"][1], h[4:7])
        assert write[1].weights.allclose(expected, atol=1e-6)
        # The memory of sentence 2: rows 3 to 6 of those of all sentences.
        expected = weights_of(memory.output_attn, h[4:7], keys[3:6])
        assert read.weights[:, 4:7].allclose(expected, atol=1e-6)


def weights_of(attention: Any, query: Tensor, key: Tensor) -> Tensor:
    """softmax(QK / sqrt(d)), ``(heads, queries, keys)``."""
    q, k = (
        projection(states).view(len(states), 2, 8).transpose(0, 1)
        for projection, states in ((attention.q_proj, query), (attention.k_proj, key))
    )
    return (q @ k.transpose(1, 2) / math.sqrt(8)).softmax(-1)


def test_a_context_that_is_read_apart() -> None:
    """The words of the neighbours are beside those of the current sentence."""
    options = BertContextConfig(
        context_input="words", context_layers=1, encoder_layers=1, decoder_layers=1,
        encoder_embed_dim=16, encoder_ffn_embed_dim=16, decoder_ffn_embed_dim=16,
        encoder_attention_heads=2, decoder_attention_heads=2,
    )  # fmt: skip
    task = task_for("window")
    model = BertContextTransformer.build_model(OmegaConf.structured(options), task).eval()
    net_input = {**NET_INPUT, "prev_output_tokens": torch.tensor([[BOS, B]]),
                 "current": torch.tensor([1])}  # fmt: skip
    text = unit_text(model, task, net_input, torch.tensor([[B, EOS]]))
    maps = {one.name: one for one in attention_maps(model, net_input, text)}
    context = maps["decoder-context-layer-1"]
    assert context.queries.labels == ("b", "</s>")
    assert context.keys.labels == ("<s>", "a", "b", "</s>", "<s>", "b", "</s>")
    assert maps["encoder-context-layer-1"].queries.labels == ("<s>", "c", "</s>")
    (cross,) = (one for one in maps.values() if one.place.kind == "cross")
    assert cross.keys.labels == ("<s>", "c", "</s>")


@pytest.mark.long
def test_the_gallery(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "maps"
    options = ["--data", str(tiny.data), "--cpu", "--split", "test", "--out", str(out)]
    command = ["analyse", "maps", "--path", str(tiny.checkpoints["document"]), *options]
    assert main([*command, "--unit", "2", "--sentences", "1-2", "--kinds", "cross"]) == 0
    assert "3 maps" in capsys.readouterr().out
    page = (out / "index.html").read_text(encoding="utf-8")
    pictures = re.findall(r'<img src="([^"]+)"', page)
    assert len(pictures) == 3 == len(list(out.glob("*.svg")))
    assert all((out / name).read_bytes().startswith(b"<?xml") for name in pictures)
    assert ">&lt;s&gt;<" in (out / pictures[1]).read_text(encoding="utf-8")
    numbers = json.loads((out / "maps.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in numbers] == [
        *("decoder-cross-global-layer-2", "decoder-cross-group-layer-1"),
        "decoder-cross-group-layer-2",
    ]
    for one in numbers:
        assert (len(one["weights"]), len(one["weights"][0])) == (
            len(one["queries"]), len(one["keys"])
        )  # fmt: skip
        assert all(sum(row) == pytest.approx(1, abs=1e-3) for row in one["weights"])
    for wrong, message in (
        (["--unit", "99"], "`--unit` must be 1 to"),
        (["--sentences", "3-2"], "`--sentences` must be A-B"),
        (["--sentences", "1-999"], "`--sentences 1-999`: unit 1 of test has"),
        (["--sentences", "50-99"], "`--sentences 50-99`: unit 1 of test has"),
        (["--kinds", "memory"], "it has no attention that"),
    ):
        assert main([*command, *wrong]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


# ---- information gain ----------------------------------------------------------------------------


def test_gain_by_hand() -> None:
    """A trained head that is sure, another that is not, against uniform weights over 4 keys."""
    gain = Gain()
    uniform = torch.full((2, 1, 4), 0.25)
    gain.add(torch.tensor([[[1.0, 0, 0, 0]], [[0.25] * 4]]), uniform)
    assert (gain.entropy, gain.random_entropy, gain.gain) == pytest.approx((1, 2, 1))
    assert gain.divergence == pytest.approx(1)
    gain.add(uniform, uniform)
    assert (gain.queries, gain.gain, gain.divergence) == (2, pytest.approx(0.5), pytest.approx(0.5))


def test_a_memory_that_is_sure_gains_all_bits() -> None:
    """Update Attention that looks at the first word of 4 alone, next to one that knows nothing."""
    model = model_of(memory_size=3).eval()
    before = [parameter.clone() for parameter in model.parameters()]
    places: dict[Location, Gain] = {}
    add_gains(places, model, NET_INPUT, draws=2, seed=1)
    assert {(place.side, place.kind) for place in places} == {
        (side, kind) for side in ("encoder", "decoder") for kind in ("update", "memory")
    }
    # As untrained as the random ones: nothing is gained, but the maps are not the same.
    output = places[Location("encoder", "memory", 2)]
    assert output.queries == 20 and abs(output.gain) < 0.2 and output.divergence > 0
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))

    # Trained until each word reads a vector of its own: log2(3) bits more than with equal weights.
    memory: Any = model.encoder.layers[1].memory
    with torch.no_grad():
        memory.output_attn.k_proj.weight.mul_(1e4)
    places.clear()
    add_gains(places, model, NET_INPUT, draws=1, seed=1)
    output = places[Location("encoder", "memory", 2)]
    assert output.entropy < 0.05
    assert output.gain == pytest.approx(output.random_entropy, abs=0.05)
    with random_memories(model, 1):
        assert float(memory.output_attn.k_proj.weight.detach().abs().max()) < 10
    sizes = [MemoryGain("a", "a.pt", 3, places), MemoryGain("b", "b.pt", 3, places)]
    (gain, _), series = gain_figure(sizes).panels, gain_figure(sizes).panels[0].series
    assert gain.x_label == "memory vectors"
    assert [one.label for one in series] == ["Update Attention", "Output Attention"]
    expected = sum(places[Location(side, "memory", 2)].gain for side in ("encoder", "decoder")) / 2
    assert series[1].points[0].y == pytest.approx(expected) and series[1].points[0].runs == 2
    with pytest.raises(GtransError, match="a line is of one system"):
        gain_figure([MemoryGain(name, f"{name}.pt", 3, places, name) for name in "ab"])


def test_a_model_without_memory(tiny: TinyWorld, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", str(tiny.data), "--cpu", "--units", "2"]
    assert main(["analyse", "memory", "--path", str(tiny.checkpoints["document"]), *options]) == 1
    assert "its model has no recurrent memory" in capsys.readouterr().err
