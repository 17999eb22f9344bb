"""What is measured of models: attention, gates, gradients, fusion, maps, memory, cost."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from support.tiny_models import TinyWorld
from support.untrained import fusion_model, memory_transformer, shake, task_for, untrained
from torch import Tensor

from gtrans.cli import main
from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.errors import GtransError
from gtrans.lab.analyses.fusion import fusion_weights
from gtrans.lab.analyses.maps import Axis, UnitText, attention_maps, of_sentences, unit_text
from gtrans.lab.analyses.memory import (
    HeadGain,
    MemoryGain,
    add_gains,
    gain_figure,
    with_random_memories,
)
from gtrans.lab.attention import (
    AttentionEntropy,
    AttentionMeasurements,
    GateOpening,
    Location,
    measure_attention,
)
from gtrans.lab.gradients import Distances, GradientsByDistance, add_gradients, layer_gradients
from gtrans.lab.runs import runs_of
from gtrans.models.bert_context_transformer import BertContextConfig, BertContextTransformer
from gtrans.models.concat_transformer import ConcatTransformer, ConcatTransformerConfig
from gtrans.models.flat_transformer import FlatTransformer, FlatTransformerConfig
from gtrans.models.gtrans_fusion import GtransFusion, GtransFusionConfig
from gtrans.models.gtransformer import GTransformer, GTransformerConfig
from gtrans.models.memory_transformer import MemoryTransformer, MemoryTransformerConfig
from gtrans.modules.memory import RecurrentMemory

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
SIZES: dict[str, Any] = {
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 16,
    "decoder_ffn_embed_dim": 16,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
}
GLOBAL = {f"{side}_global_layers": 1 for side in ("encoder", "decoder", "cross")}
GROUP = dict.fromkeys(GLOBAL, 0)
# Three sentences on both sides.
SOURCE = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS, BOS, B, EOS]])
READ = torch.tensor([[BOS, C, EOS, BOS, A, A, EOS, BOS, B]])
TARGET = torch.tensor([[C, EOS, PAD, A, A, EOS, PAD, B, EOS]])
NET_INPUT: dict[str, Any] = {
    "src_tokens": SOURCE,
    "src_lengths": torch.tensor([10]),
    "prev_output_tokens": READ,
}
WINDOW = {**NET_INPUT, "prev_output_tokens": torch.tensor([[BOS, B]])}


def built(model: Any, options: Any, unit: str = "document") -> Any:
    torch.manual_seed(1)
    return model.build_model(OmegaConf.structured(options), task_for(unit)).eval()


def seen_of(model: Any) -> AttentionMeasurements:
    with torch.no_grad(), measure_attention(model) as seen:
        model(SOURCE, None, READ)
    return seen


def reach_of(model: Any, farthest: int = 5, **more: Tensor) -> GradientsByDistance:
    reach = GradientsByDistance()
    add_gradients(reach, model, {**NET_INPUT, **more}, TARGET, Distances(farthest))
    return reach


# ---- attention and gates -------------------------------------------------------------------------


def test_bits_by_hand() -> None:
    """Two heads, each sure of another one of four keys; then all keys alike."""
    spread = AttentionEntropy()
    visible = torch.ones(1, 4, dtype=torch.bool)
    spread.add(torch.tensor([[[1.0, 0, 0, 0]], [[0, 1.0, 0, 0]]]), visible)
    assert _bits(spread) == pytest.approx((1, 1, 2))
    spread.add(torch.full((2, 1, 4), 0.25), visible)
    assert _bits(spread) == pytest.approx((2, 3, 4))


def _bits(spread: AttentionEntropy) -> tuple[float, float, float]:
    return spread.queries, spread.entropy, spread.max_entropy


def test_attention_that_prefers_nothing_has_the_entropy_of_what_it_sees() -> None:
    model = built(GTransformer, GTransformerConfig(**SIZES, **GLOBAL))
    for name, parameter in model.named_parameters():
        if "k_proj" in name:
            torch.nn.init.zeros_(parameter)
    assert (
        GateOpening().mean == 0 and GradientsByDistance().mean("source", 1) == 0
    )  # nothing is no division
    seen = seen_of(model)
    for location, spread in seen.entropies.items():
        assert spread.entropy == pytest.approx(spread.max_entropy), location
    # Sentences of 4, 3 and 3 source tokens; a document of 10; 9 target tokens.
    group = seen.entropies[Location("encoder", "self", 1, "group")]
    assert group.queries == 10
    assert group.max_entropy == pytest.approx(4 * 2 + 6 * math.log2(3))
    whole = seen.entropies[Location("encoder", "self", 2, "global")]
    assert whole.max_entropy == pytest.approx(10 * math.log2(10))
    causal = seen.entropies[Location("decoder", "self", 2, "global")]
    assert causal.max_entropy == pytest.approx(sum(math.log2(n) for n in range(1, 10)))
    cross = seen.entropies[Location("decoder", "cross", 2, "global")]
    assert cross.max_entropy == pytest.approx(9 * math.log2(10))


@pytest.mark.parametrize(
    ("model", "options", "unit", "places"),
    [
        (
            GTransformer,
            GTransformerConfig(**SIZES, **GLOBAL),
            "document",
            {
                ("self", "group"): 4,
                ("self", "global"): 2,
                ("cross", "group"): 2,
                ("cross", "global"): 1,
            },
        ),
        (
            GTransformer,
            GTransformerConfig(doc_mode="full", **SIZES),
            "document",
            {("self", "global"): 4, ("cross", "global"): 2},
        ),
        (
            MemoryTransformer,
            MemoryTransformerConfig(memory_layers="1", **SIZES),
            "stream",
            {("self", "group"): 4, ("cross", "group"): 2, ("memory", ""): 2, ("update", ""): 2},
        ),
        (
            GtransFusion,
            GtransFusionConfig(**SIZES),
            "document",
            {("self", "global"): 4, ("cross", "global"): 2},
        ),
    ],
    ids=["gtransformer", "document", "memory", "fusion"],
)
def test_every_attention_is_seen(
    model: Any, options: Any, unit: str, places: dict[tuple[str, str], int]
) -> None:
    made = built(model, options, unit)
    with torch.no_grad():
        before = made(SOURCE, None, READ)[0]
    seen = seen_of(made)
    found: dict[tuple[str, str], int] = {}
    for location, spread in seen.entropies.items():
        found[location.kind, location.range] = found.get((location.kind, location.range), 0) + 1
        assert 0 <= spread.entropy <= spread.max_entropy + 1e-4
    assert found == places
    # Nobody watches any longer, and nothing has changed.
    assert all(getattr(module, "observer", None) is None for module in made.modules())
    with torch.no_grad():
        assert torch.equal(made(SOURCE, None, READ)[0], before)


@pytest.mark.parametrize("bias", [-2.0, 0.0, 3.0])
def test_gates_begin_as_far_open_as_their_bias_says(bias: float) -> None:
    share = 1 / (1 + math.exp(bias))
    model = built(GTransformer, GTransformerConfig(gate_bias=bias, **SIZES, **GLOBAL))
    gates = seen_of(model).gates
    assert {(location.side, location.kind, location.layer) for location in gates} == {
        ("encoder", "self", 2),
        ("decoder", "self", 2),
        ("decoder", "cross", 2),
    }
    assert all(opening.mean == pytest.approx(share) for opening in gates.values())

    options = BertContextConfig(
        context_gate_bias=bias, context_input="words", context_layers=1, **SIZES
    )
    with torch.no_grad():
        aware = built(BertContextTransformer, options, "window")
        with measure_attention(aware) as seen:
            aware(SOURCE, None, torch.tensor([[BOS, B]]), current_sentence=torch.tensor([2]))
    assert {(location.side, location.layer) for location in seen.gates} == {
        (side, layer) for side in ("encoder", "decoder") for layer in (1, 2)
    }
    assert all(opening.mean == pytest.approx(share) for opening in seen.gates.values())
    assert Location("context_encoder", "self", 1, "global") in seen.entropies
    assert Location("decoder", "context", 2) in seen.entropies


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


def test_gradients_of_layers_are_those_of_the_loss_per_token() -> None:
    """By the definition of label smoothing, without the criterion."""
    task = task_for("document")
    model = untrained(task).double().eval()
    criterion = ChunkedCrossEntropy(task, label_smoothing=0.1)
    sample = {"target": TARGET, "ntokens": 7, "net_input": NET_INPUT}
    found = layer_gradients(model, criterion, [sample, sample])
    assert [(one.side, one.layer) for one in found] == [
        ("encoder", 1),
        ("encoder", 2),
        ("decoder", 1),
        ("decoder", 2),
    ]
    assert all(parameter.grad is None for parameter in model.parameters())
    real = TARGET[0] != PAD
    scores = model(**NET_INPUT)[0].log_softmax(-1)[0][real]
    own = -scores.gather(1, TARGET[0][real][:, None]).squeeze(1)
    spread = (-scores.sum(1) - own) * 0.1 / (scores.size(1) - 1)
    (0.9 * own + spread).mean().backward()
    for one in found:
        layer = getattr(model, one.side).layers[one.layer - 1]
        squares = [
            float(it.grad.square().sum()) for it in layer.parameters() if it.grad is not None
        ]
        assert one.norm == pytest.approx(math.sqrt(sum(squares))), one


@pytest.mark.parametrize(
    ("model", "options", "unit", "source", "target"),
    [
        (GTransformer, GTransformerConfig(**SIZES, **GROUP), "document", {0}, {0}),
        (
            GTransformer,
            GTransformerConfig(**SIZES, **GLOBAL),
            "document",
            {-2, -1, 0, 1, 2},
            {0, 1, 2},
        ),
        # A memory knows what was and not what will be.
        (
            MemoryTransformer,
            MemoryTransformerConfig(memory_bptt=-1, **SIZES),
            "stream",
            {0, 1, 2},
            {0, 1, 2},
        ),
    ],
    ids=["group", "global", "memory"],
)
def test_how_far_a_model_sees(
    model: Any, options: Any, unit: str, source: set[int], target: set[int]
) -> None:
    made = built(model, options, unit)
    reach = reach_of(made)
    assert reach.distances() == [-2, -1, 0, 1, 2]
    for side, distances in (("source", source), ("target", target)):
        assert {it for it in reach.distances() if reach.mean(side, it) > 0} == distances
    # What follows a sentence is no input of its translation, and is not told of.
    assert ("target", -1) not in reach.words
    assert reach_of(made, farthest=1).distances() == [-1, 0, 1]


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
        reach = GradientsByDistance()
        net_input = {**WINDOW, "current_sentence": torch.tensor([current])}
        add_gradients(reach, made, net_input, torch.tensor([[B, EOS]]), Distances())
        assert [d for d in reach.distances() if reach.mean("source", d) > 0] == distances
        assert reach.words["target", 0] == 2


def test_a_context_that_is_not_embedded_with_the_sentence() -> None:
    options = BertContextConfig(context_input="words", context_layers=1, **SIZES)
    model = built(BertContextTransformer, options, "window")
    with pytest.raises(GtransError, match="BertContextTransformer encodes its context apart"):
        reach_of(model, current_sentence=torch.tensor([2]))


# ---- the command ---------------------------------------------------------------------------------


def test_the_command(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = "--data", str(tiny.data), "--cpu", "--units", "6"
    paths = [str(tiny.checkpoints[name]) for name in ("document", "other")]
    plot = tmp_path / "plot.png"
    command = ["analyse", "--path", *paths, *files, "--gradients", "--farthest", "2"]
    command += ["--layer-gradients"]
    assert main([*command, "--plot", str(plot)]) == 0
    text = capsys.readouterr().out
    assert plot.read_bytes().startswith(b"\x89PNG")
    for part in (
        "encoder: self attention; entropy (bits)",
        "at most document, global",
        "share of the wider attention",
        "gradients at source words; mean norm at a word",
        "gradients of decoder layers; norm, loss per token",
    ):
        assert part in text
    assert main([*command, "--json"]) == 0
    figure = json.loads(capsys.readouterr().out)
    facts = figure["facts"]["checkpoints"]
    assert facts[0] == {
        "label": "document",
        "path": paths[0],
        "updates": 12,
        "unit": "document",
        "units": 6,
    }
    first, second = points_of(figure, "document"), points_of(figure, "other")
    assert first != second and first.keys() == {
        *(
            (f"{side}: {kind} attention", f"{limit}document, {range_}")
            for side, kind in (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
            for range_ in ("group", "global")
            for limit in ("", "at most ")
        ),
        *(("gates", f"document, {it}") for it in ("encoder self", "decoder self", "decoder cross")),
        *((f"gradients at {side} words", "document") for side in ("source", "target")),
        *((f"gradients of {side} layers", "document") for side in ("encoder", "decoder")),
    }
    for (panel, line), points in first.items():
        if line.startswith("at most "):
            below = first[panel, line.removeprefix("at most ")]
            assert all(0 <= below[x] <= most + 1e-4 for x, most in points.items())
    assert all(0 < y < 1 for key, gate in first.items() if key[0] == "gates" for y in gate.values())
    assert first["gradients at source words", "document"].keys() == {-2, -1, 0, 1, 2}
    assert first["gradients of encoder layers", "document"].keys() == {1, 2}
    # A batch is as good as units by themselves.
    assert main(["analyse", "--path", paths[0], *files, "--max-tokens", "1", "--json"]) == 0
    alone = points_of(json.loads(capsys.readouterr().out), "")
    for panel, range_ in (("encoder: self attention", "global"), ("gates", "decoder cross")):
        points = first[panel, f"document, {range_}"]
        assert alone[panel, range_] == pytest.approx(points, rel=1e-5)


def points_of(figure: dict[str, Any], label: str) -> dict[tuple[str, str], dict[float, float]]:
    """The lines of one model, by panel and name."""
    return {
        (panel["title"], series["label"]): {point["x"]: point["y"] for point in series["points"]}
        for panel in figure["panels"]
        for series in panel["series"]
        if label in series["label"]
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--path {document} --split dev", "dev"),
        ("--path {document} --plot p.txt", "`--plot` must end in .png, .pdf, .svg, but is 'p.txt'"),
        ("--path {document} --plot no/p.png", "`--plot` 'no/p.png': cannot be written"),
        ("--path same={document} same={sentence}", "are both called same, as seeds of one"),
        ("memory --path {document}", "its model has no recurrent memory"),
        ("fusion --path {document}", "its model fuses no groups of layers"),
        ("cost --path a={document} a={document}", "are both 'a'"),
        ("cost --path {document} --lengths 120", "must be multiples of 100, but one is 120."),
    ],
)
def test_mistakes(
    words: str, message: str, tiny: TinyWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["analyse", *words.format_map(tiny.checkpoints).split()]
    if command[1] not in ("fusion", "cost"):
        command += ["--data", str(tiny.data), "--cpu", "--units", "2"]
    assert main(command) == 1
    error = capsys.readouterr().err
    assert message in error.splitlines()[-1]
    assert error.count("\n") == 1 + error.count(": checkpoint ")


def save(path: Path, model: Any, updates: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    history = [{"num_updates": updates}]
    torch.save({"model": model.state_dict(), "optimizer_history": history}, path)
    return path


# ---- gradients and weights of layers -------------------------------------------------------------


def test_bins_and_unique_words() -> None:
    distance = torch.tensor([25, 14, 14, 12, 9, 3, 0, -1, -11])
    words = torch.tensor([7, 7, 8, 7, 7, 7, 7, 7, 7])
    places, bins = Distances(20, 10).chosen(distance, words, -20)
    assert places.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert bins.tolist() == [10, 10, 10, 0, 0, 0, -10, -20]
    places, bins = Distances(20, 10, unique=True).chosen(distance, words, 0)
    # Of word 7 the nearest of each bin; word 8 is another one.
    assert dict(zip(places.tolist(), bins.tolist(), strict=True)) == {2: 10, 3: 10, 6: 0}


# ---- weights of fusion ---------------------------------------------------------------------------


def test_weights_are_those_of_the_equations(tmp_path: Path) -> None:
    model = shake(
        fusion_model(encoder_group_size=2, decoder_group_size=2, decoder_group_fusion="sum")
    )
    found = fusion_weights(save(tmp_path / "a.pt", model, 1))
    with torch.no_grad():
        # A stack whose layer j is all that is not 0 shows the gate of j.
        for layer, gate in enumerate(found.decoder):
            states = [torch.zeros(1, 16) for _ in range(6)]
            states[layer + 1] += 1
            assert float(model.decoder.fusion(states).sum()) == pytest.approx(16 * gate)
        assert model.decoder.log_weights().exp().tolist() == pytest.approx(found.groups)
    assert sum(found.groups) == pytest.approx(1) and len(found.groups) == 3
    weights = model.encoder.fusion.weights.tolist()
    assert found.encoder == pytest.approx([1 / (1 + math.exp(-w)) for w in weights])


def test_the_command_over_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gates = {}
    for name, seed in (("one", 1), ("two", 2)):
        for updates in (100, 20):
            model: Any = fusion_model(seed)
            with torch.no_grad():
                model.decoder.probabilities.weights[0] = seed * updates / 10
            save(tmp_path / name / f"checkpoint_1_{updates}.pt", model, updates)
            psi = torch.softmax(model.decoder.probabilities.weights.detach() / 4, 0)
            gates[name, updates] = float(psi[0])
        save(tmp_path / name / "checkpoint_best.pt", model, 20)
    paths = [f"seeds={tmp_path / name}" for name in ("one", "two")]
    plot = tmp_path / "weights.svg"
    assert main(["analyse", "fusion", "--path", *paths, "--json", "--plot", str(plot)]) == 0
    figure = json.loads(capsys.readouterr().out)
    assert figure == json.loads(plot.with_suffix(".json").read_text())
    assert figure["title"] == "seeds"
    (groups,) = [panel for panel in figure["panels"] if "Eq 6" in panel["title"]]
    points = groups["series"][0]["points"]
    assert [point["x"] for point in points] == [20, 100]
    for point in points:
        ends = sorted(gates[name, point["x"]] for name in ("one", "two"))
        assert [point["low"], point["high"]] == pytest.approx(ends)
        assert point["y"] == pytest.approx(sum(ends) / 2)
    single = ["analyse", "fusion", "--path", str(tmp_path / "one" / "checkpoint_best.pt")]
    assert main(single) == 0
    assert "weights of the decoder's groups (Eq 6)" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    with pytest.raises(GtransError, match="there are no checkpoints in this folder"):
        runs_of({"a": [str(tmp_path / "empty")]})


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
    assert text.predicted.labels[:2] == ("c", "</s>")
    maps = {one.name: one for one in attention_maps(model, NET_INPUT, text)}
    assert set(maps) >= {
        "encoder-self-group-layer-1",
        "encoder-self-global-layer-2",
        "decoder-cross-group-layer-2",
        "decoder-cross-global-layer-2",
    }
    cross = maps["decoder-cross-global-layer-2"]
    assert cross.queries == text.predicted and cross.keys == text.source
    assert cross.weights.sum(2).allclose(torch.ones(2, 9))
    group = maps["encoder-self-group-layer-1"].weights
    assert not group[:, :4, 4:].any() and not group[:, 4:7, 7:].any()

    # By the equation: softmax(QK / sqrt(d)) of the embedded words, sentence by sentence.
    attention = model.encoder.layers[0].self_attn
    kept: list[Tensor] = []
    attention.q_proj.register_forward_pre_hook(lambda _, given: kept.append(given[0]))
    with torch.no_grad():
        model(**NET_INPUT)
        expected = weights_of(attention, kept[0][4:7], kept[0][4:7])
    assert group[:, 4:7, 4:7].allclose(expected, atol=1e-6)

    some = {one.name: one for one in of_sentences(maps.values(), 2, 2)}
    second = some["decoder-cross-group-layer-2"]
    assert second.queries.labels == text.predicted.labels[3:7]
    assert second.keys.labels == ("<s>", "c", "</s>")
    assert some["decoder-cross-global-layer-2"].keys.labels == text.source.labels


def weights_of(attention: Any, query: Tensor, key: Tensor) -> Tensor:
    """softmax(QK / sqrt(d)), ``(heads, queries, keys)``."""
    q, k = (
        projection(states).view(len(states), 2, 8).transpose(0, 1)
        for projection, states in ((attention.q_proj, query), (attention.k_proj, key))
    )
    return (q @ k.transpose(1, 2) / math.sqrt(8)).softmax(-1)


def test_writing_to_a_memory_and_reading_it() -> None:
    """Sentence 2 reads what sentence 1 has written; both by their weights as defined."""
    model = memory_transformer(memory_size=3).eval()
    of_source, of_target = (1, 1, 1, 1, 2, 2, 2, 3, 3, 3), (1, 1, 1, 2, 2, 2, 2, 3, 3)
    sides = ((SOURCE, of_source), (READ, of_target), (TARGET, of_target))
    axes = [Axis(tuple(map(str, ids[0].tolist())), numbers) for ids, numbers in sides]
    text = UnitText(*axes, axes[0])
    maps = {one.name: one for one in attention_maps(model, NET_INPUT, text)}
    write = [maps[f"encoder-update-layer-2-sentence-{number}"] for number in (1, 2, 3)]
    assert [one.keys.labels for one in write] == [
        ("0", "4", "5", "2"),
        ("0", "6", "2"),
        ("0", "5", "2"),
    ]
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


@pytest.mark.long
def test_the_gallery(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "maps"
    options = ["--data", str(tiny.data), "--cpu", "--split", "test", "--out", str(out)]
    command = ["analyse", "maps", "--path", str(tiny.checkpoints["document"]), *options]
    assert main([*command, "--unit", "2", "--sentences", "1-2", "--kinds", "cross"]) == 0
    assert "3 maps" in capsys.readouterr().out
    pictures = sorted(out.glob("*.svg"))
    assert len(pictures) == 3 and ">&lt;s&gt;<" in pictures[1].read_text("utf-8")
    numbers = json.loads((out / "maps.json").read_text(encoding="utf-8"))
    assert [one["name"] for one in numbers] == [
        *("decoder-cross-global-layer-2", "decoder-cross-group-layer-1"),
        "decoder-cross-group-layer-2",
    ]
    for one in numbers:
        assert (len(one["weights"]), len(one["weights"][0])) == (
            len(one["queries"]),
            len(one["keys"]),
        )
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


def test_a_memory_that_is_sure_gains_all_bits() -> None:
    """Update Attention that looks at the first word of 4 alone, next to one that knows nothing."""
    model = memory_transformer(memory_size=3).eval()
    before = [parameter.clone() for parameter in model.parameters()]
    places: dict[Location, HeadGain] = {}
    add_gains(places, model, [with_random_memories(model, seed) for seed in (1, 2)], NET_INPUT)
    assert {(place.side, place.kind) for place in places} == {
        (side, kind) for side in ("encoder", "decoder") for kind in ("update", "memory")
    }
    # As untrained as the random ones: nothing is gained, but the maps are not the same.
    output = places[Location("encoder", "memory", 2)]
    assert output.queries == 20 and abs(output.gain) < 0.2
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), before, strict=True))

    # Trained until each word reads a vector of its own: log2(3) bits more than with equal weights.
    memory: Any = model.encoder.layers[1].memory
    with torch.no_grad():
        memory.output_attn.k_proj.weight.mul_(1e4)
    places.clear()
    drawn: Any = with_random_memories(model, 1)
    add_gains(places, model, [drawn], NET_INPUT)
    output = places[Location("encoder", "memory", 2)]
    assert output.entropy < 0.05
    assert output.gain == pytest.approx(output.random_entropy, abs=0.05)
    assert float(drawn.encoder.layers[1].memory.output_attn.k_proj.weight.abs().max()) < 10
    sizes = [MemoryGain("a", "a.pt", 3, places), MemoryGain("b", "b.pt", 3, places)]
    (gain,) = gain_figure(sizes).panels
    series = gain.series
    assert gain.x_label == "memory vectors"
    assert [one.label for one in series] == ["Update Attention", "Output Attention"]
    expected = sum(places[Location(side, "memory", 2)].gain for side in ("encoder", "decoder")) / 2
    assert series[1].points[0].y == pytest.approx(expected) and series[1].points[0].runs == 2


def test_random_memories_of_pre_norm_models() -> None:
    """Memories that are added have a LayerNorm there, and none in post-norm models."""
    options = {"encoder_normalize_before": True, "decoder_normalize_before": True}
    model = memory_transformer(memory_size=3, memory_output="added", **options).eval()
    drawn: Any = with_random_memories(model, 1)
    trained, random = model.encoder.layers[1].memory, drawn.encoder.layers[1].memory
    assert trained.output_attn_layer_norm is not None
    assert not torch.equal(random.initial, trained.initial)
    places: dict[Location, HeadGain] = {}
    add_gains(places, model, [drawn], NET_INPUT)
    assert {place.kind for place in places} == {"update", "memory"}
    with pytest.raises(GtransError, match="a line is of one system"):
        gain_figure([MemoryGain(name, f"{name}.pt", 3, places, name) for name in "ab"])


# ---- cost ----------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_cost_of_lengths(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "cost.svg"
    path = str(tiny.checkpoints["document"])
    options = ["--cpu", "--lengths", "8", "--json"]
    assert main(["analyse", "cost", "--path", f"doc={path}", *options, "--plot", str(plot)]) == 0
    figure = json.loads(capsys.readouterr().out)
    (found,) = figure["facts"]["models"]["doc"]
    assert found["tokens"] == 8 and found["seconds"] > 0 and found["peak"] > 50
    panels = {panel["title"]: panel for panel in figure["panels"]}
    (point,) = panels["time per token"]["series"][0]["points"]
    assert point["y"] == pytest.approx(1000 * found["seconds"] / 8)
