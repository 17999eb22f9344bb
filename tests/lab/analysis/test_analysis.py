"""Attention, gates and gradients of a model that is being watched."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.tiny_models import TinyWorld
from support.untrained import task_for
from torch import Tensor

from gtrans.cli import main
from gtrans.errors import GtransError
from gtrans.lab.attention import Location, Measurements, Opening, Spread, watched
from gtrans.lab.gradients import Distances, Reach, add_gradients
from gtrans.models.bert_context_transformer import BertContextConfig, BertContextTransformer
from gtrans.models.concat_transformer import ConcatTransformer, ConcatTransformerConfig
from gtrans.models.flat_transformer import FlatTransformer, FlatTransformerConfig
from gtrans.models.gtrans_fusion import GtransFusion, GtransFusionConfig
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.models.memory_transformer import MemoryTransformer, MemoryTransformerConfig

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
SIZES: dict[str, Any] = {
    "encoder_layers": 2, "decoder_layers": 2, "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 16, "decoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2,
}  # fmt: skip
GLOBAL = {f"{side}_global_layers": 1 for side in ("encoder", "decoder", "cross")}
GROUP = dict.fromkeys(GLOBAL, 0)
# Three sentences on both sides.
SOURCE = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS, BOS, B, EOS]])
READ = torch.tensor([[BOS, C, EOS, BOS, A, A, EOS, BOS, B]])
TARGET = torch.tensor([[C, EOS, PAD, A, A, EOS, PAD, B, EOS]])


def built(model: Any, options: Any, unit: str = "document") -> Any:
    torch.manual_seed(1)
    return model.build_model(OmegaConf.structured(options), task_for(unit)).eval()


def seen_of(model: Any) -> Measurements:
    with torch.no_grad(), watched(model) as seen:
        model(SOURCE, None, READ)
    return seen


def reach_of(model: Any, farthest: int = 5, **more: Tensor) -> Reach:
    reach = Reach()
    net_input = {"src_tokens": SOURCE, "src_lengths": None, "prev_output_tokens": READ, **more}
    add_gradients(reach, model, net_input, TARGET, Distances(farthest))
    return reach


# ---- attention and gates -------------------------------------------------------------------------


def test_bits_by_hand() -> None:
    """Two heads, each sure of another one of four keys; then all keys alike."""
    spread = Spread()
    visible = torch.ones(1, 4, dtype=torch.bool)
    spread.add(torch.tensor([[[1.0, 0, 0, 0]], [[0, 1.0, 0, 0]]]), visible)
    assert _bits(spread) == pytest.approx((1, 1, 0, 2))
    spread.add(torch.full((2, 1, 4), 0.25), visible)
    assert _bits(spread) == pytest.approx((2, 3, 2, 4))


def _bits(spread: Spread) -> tuple[float, float, float, float]:
    return spread.queries, spread.entropy, spread.head_entropy, spread.max_entropy


def test_attention_that_prefers_nothing_has_the_entropy_of_what_it_sees() -> None:
    model = built(GTransformer, GTransformerConfig(**SIZES, **GLOBAL))
    for name, parameter in model.named_parameters():
        if "k_proj" in name:
            torch.nn.init.zeros_(parameter)
    seen = seen_of(model)
    for location, spread in seen.attention.items():
        assert spread.entropy == pytest.approx(spread.max_entropy), location
        assert spread.head_entropy == pytest.approx(spread.max_entropy), location
    # Sentences of 4, 3 and 3 source tokens; a document of 10; 9 target tokens.
    group = seen.attention[Location("encoder", "self", 1, "group")]
    assert group.queries == 10
    assert group.max_entropy == pytest.approx(4 * 2 + 6 * math.log2(3))
    whole = seen.attention[Location("encoder", "self", 2, "global")]
    assert whole.max_entropy == pytest.approx(10 * math.log2(10))
    causal = seen.attention[Location("decoder", "self", 2, "global")]
    assert causal.max_entropy == pytest.approx(sum(math.log2(n) for n in range(1, 10)))
    cross = seen.attention[Location("decoder", "cross", 2, "global")]
    assert cross.max_entropy == pytest.approx(9 * math.log2(10))


@pytest.mark.parametrize(
    ("model", "options", "unit", "places"),
    [
        (GTransformer, GTransformerConfig(**SIZES, **GLOBAL), "document",
         {("self", "group"): 4, ("self", "global"): 2, ("cross", "group"): 2,
          ("cross", "global"): 1}),
        (GTransformer, GTransformerConfig(doc_mode="full", **SIZES), "document",
         {("self", "global"): 4, ("cross", "global"): 2}),
        (MemoryTransformer, MemoryTransformerConfig(memory_layers="1", **SIZES), "stream",
         {("self", "group"): 4, ("cross", "group"): 2, ("memory", ""): 2,
          ("update", ""): 2}),
        (GtransFusion, GtransFusionConfig(**SIZES), "document",
         {("self", "global"): 4, ("cross", "global"): 2}),
    ],
    ids=["gtransformer", "document", "memory", "fusion"],
)  # fmt: skip
def test_every_attention_is_seen(
    model: Any, options: Any, unit: str, places: dict[tuple[str, str], int]
) -> None:
    made = built(model, options, unit)
    with torch.no_grad():
        before = made(SOURCE, None, READ)[0]
    seen = seen_of(made)
    found: dict[tuple[str, str], int] = {}
    for location, spread in seen.attention.items():
        found[location.kind, location.range] = found.get((location.kind, location.range), 0) + 1
        assert 0 <= spread.head_entropy <= spread.entropy + 1e-6
        assert spread.entropy <= spread.max_entropy + 1e-4
    assert found == places
    # Nobody watches any longer, and nothing has changed.
    assert all(getattr(module, "observer", None) is None for module in made.modules())
    with torch.no_grad():
        assert torch.equal(made(SOURCE, None, READ)[0], before)


def test_observers_are_given_back_after_an_error() -> None:
    model = built(GTransformer, GTransformerConfig(**SIZES, **GLOBAL))
    attention = model.encoder.layers[0].self_attn
    own: Any = lambda weights, plan: None  # noqa: E731
    attention.observer = own
    with pytest.raises(RuntimeError), watched(model):
        raise RuntimeError
    assert attention.observer is own
    assert not model.encoder.layers[1].self_attn.gate.proj._forward_hooks


@pytest.mark.parametrize("bias", [-2.0, 0.0, 3.0])
def test_gates_begin_as_far_open_as_their_bias_says(bias: float) -> None:
    share = 1 / (1 + math.exp(bias))
    model = built(GTransformer, GTransformerConfig(gate_bias=bias, **SIZES, **GLOBAL))
    gates = seen_of(model).gates
    assert {(location.side, location.kind, location.layer) for location in gates} == {
        ("encoder", "self", 2), ("decoder", "self", 2), ("decoder", "cross", 2)
    }  # fmt: skip
    assert all(opening.mean == pytest.approx(share) for opening in gates.values())

    options = BertContextConfig(
        context_gate_bias=bias, context_input="words", context_layers=1, **SIZES
    )
    with torch.no_grad():
        aware = built(BertContextTransformer, options, "window")
        with watched(aware) as seen:
            aware(SOURCE, None, torch.tensor([[BOS, B]]), current=torch.tensor([2]))
    assert {(location.side, location.layer) for location in seen.gates} == {
        (side, layer) for side in ("encoder", "decoder") for layer in (1, 2)
    }
    assert all(opening.mean == pytest.approx(share) for opening in seen.gates.values())
    assert Location("context_encoder", "self", 1, "global") in seen.attention
    assert Location("decoder", "context", 2) in seen.attention


def test_nothing_seen_is_no_division() -> None:
    assert Opening().mean == 0 and Reach().mean("source", 1) == 0


# ---- gradients -----------------------------------------------------------------------------------


def test_gradients_are_those_of_the_embedded_words() -> None:
    """By finite differences: sentence 2's loss, every word of source sentence 0."""
    model = built(GTransformer, GTransformerConfig(**SIZES, **GLOBAL)).double()
    reach = reach_of(model)
    table, step = model.encoder.embed_tokens.weight, 1e-5
    with torch.no_grad():
        embed, norms = model.encoder.embed, []
        for word in range(4):
            slopes = []
            for axis in range(16):
                losses = []
                for sign in (1, -1):
                    moved = torch.zeros(10, 16, dtype=table.dtype)
                    moved[word, axis] = sign * step
                    handle = embed.register_forward_hook(lambda _, __, x, by=moved: x + by)
                    found = model(SOURCE, None, READ)[0][0].log_softmax(-1)
                    handle.remove()
                    losses.append(-found[7, B] - found[8, EOS])
                slopes.append(float(losses[0] - losses[1]) / (2 * step))
            norms.append(math.hypot(*slopes))
    # Words of target sentences 2 and 1 see source sentences two back: 0; and none.
    assert reach.words["source", 2] == 4
    assert reach.mean("source", 2) == pytest.approx(sum(norms) / 4, rel=1e-4)


def test_group_attention_reaches_no_other_sentence() -> None:
    reach = reach_of(built(GTransformer, GTransformerConfig(**SIZES, **GROUP)))
    assert reach.distances() == [-2, -1, 0, 1, 2]
    for side in ("source", "target"):
        for distance in reach.distances():
            assert (reach.mean(side, distance) > 0) == (distance == 0)
    # What follows a sentence is no input of its translation, and is not told of.
    assert ("target", -1) not in reach.words


def test_global_attention_reaches_all_and_what_is_far_can_be_left_out() -> None:
    model = built(GTransformer, GTransformerConfig(**SIZES, **GLOBAL))
    reach = reach_of(model)
    assert all(reach.mean("source", distance) > 0 for distance in (-2, -1, 0, 1, 2))
    assert all(reach.mean("target", distance) > 0 for distance in (0, 1, 2))
    assert reach_of(model, farthest=1).distances() == [-1, 0, 1]


def test_a_memory_knows_what_was_and_not_what_will_be() -> None:
    options = MemoryTransformerConfig(memory_bptt=-1, **SIZES)
    reach = reach_of(built(MemoryTransformer, options, "stream"))
    assert all(reach.mean("source", distance) > 0 for distance in (0, 1, 2))
    assert all(reach.mean("source", distance) == 0 for distance in (-1, -2))


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (FlatTransformer, FlatTransformerConfig(flat_bottom_layers=1, **SIZES)),
        (ConcatTransformer, ConcatTransformerConfig(**SIZES)),
    ],
)
def test_windows(model: Any, options: Any) -> None:
    """The target of a window is its current sentence: here the last, then the middle one."""
    made = built(model, options, "window")
    for current, distances in ((2, [0, 1, 2]), (1, [-1, 0, 1])):
        reach = Reach()
        net_input = {
            "src_tokens": SOURCE, "src_lengths": None,
            "prev_output_tokens": torch.tensor([[BOS, B]]), "current": torch.tensor([current]),
        }  # fmt: skip
        add_gradients(reach, made, net_input, torch.tensor([[B, EOS]]), Distances())
        assert [d for d in reach.distances() if reach.mean("source", d) > 0] == distances
        assert reach.words["target", 0] == 2


def test_a_context_that_is_not_embedded_with_the_sentence() -> None:
    options = BertContextConfig(context_input="words", context_layers=1, **SIZES)
    model = built(BertContextTransformer, options, "window")
    with pytest.raises(GtransError, match="BertContextTransformer reads its context in another"):
        reach_of(model, current=torch.tensor([2]))


# ---- the command ---------------------------------------------------------------------------------


def test_the_command(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = "--data", str(tiny.data), "--cpu", "--units", "6"
    paths = [str(tiny.checkpoints[name]) for name in ("document", "other")]
    plot = tmp_path / "plot.png"
    command = ["analyse", "--path", *paths, *files, "--gradients", "--farthest", "2"]
    assert main([*command, "--plot", str(plot)]) == 0
    text = capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG")
    for part in (f"{paths[0]}: 12 updates, 6 units (document)", "decoder cross", "global", "open",
                 "gradient at distance", "1.0000"):  # fmt: skip
        assert part in text
    assert main([*command, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["updates"] == 12 and first["units"] == 6 and first["unit"] == "document"
    assert first["attention"] != second["attention"]
    assert {one["distance"] for one in first["gradients"]} == {-2, -1, 0, 1, 2}
    assert {one["range"] for one in first["attention"]} == {"group", "global"}
    for one in first["attention"]:
        assert 0 <= one["head_entropy"] <= one["entropy"] + 1e-6 <= one["most"] + 1e-4
    assert all(0 < one["open"] < 1 for one in first["gates"])
    # A batch is as good as units by themselves.
    assert main(["analyse", "--path", paths[0], *files, "--max-tokens", "1", "--json"]) == 0
    (alone,) = json.loads(capsys.readouterr().out)
    for one, other in zip(first["attention"], alone["attention"], strict=True):
        assert (one["layer"], one["queries"]) == (other["layer"], other["queries"])
        assert one["entropy"] == pytest.approx(other["entropy"], rel=1e-5)


def test_a_misspelt_analysis_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "mpas", "--path", "x.pt"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "`gtrans analyse` has no 'mpas'; it has " in error and "maps" in error


def test_seeds_are_of_one_model(tiny: TinyWorld, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [f"same={tiny.checkpoints[name]}" for name in ("document", "sentence")]
    command = ["analyse", "--path", *paths, "--data", str(tiny.data), "--cpu", "--units", "2"]
    assert main(command) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "unit sentence) and " in error and "are both called same, as seeds of one" in error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--units", "0"), "`--units` must be at least 1, but is 0."),
        (("--farthest", "-1"), "`--farthest` must be at least 0, but is -1."),
        (("--split", "dev"), "dev"),
        (("--plot", "plot.txt"), "`--plot` must end in .png, .pdf, .svg, but is 'plot.txt'."),
        (("--plot", "nowhere/plot.png"), "`--plot` 'nowhere/plot.png': cannot be written"),
    ],
)
def test_mistakes(
    options: tuple[str, ...], message: str, tiny: TinyWorld,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = str(tiny.checkpoints["document"])
    assert main(["analyse", "--path", path, "--data", str(tiny.data), "--cpu", *options]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
