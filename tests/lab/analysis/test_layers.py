"""What is measured of layers: gradients of the loss, gates and weights of their fusion."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.fusion_models import fusion_model, shake
from support.tiny_models import TinyWorld
from support.untrained import task_for, untrained
from torch import Tensor

from gtrans.cli import main
from gtrans.criterions.chunked_cross_entropy import ChunkedCrossEntropy
from gtrans.errors import GtransError
from gtrans.lab.analyses.fusion import fusion_weights
from gtrans.lab.gradients import Distances, layer_gradients
from gtrans.lab.runs import runs_of

BOS, PAD, EOS, A, B, C = 0, 1, 2, 4, 5, 6
SOURCE = torch.tensor([[BOS, A, B, EOS, BOS, C, EOS]])
READ = torch.tensor([[BOS, C, EOS, BOS, A, A]])
TARGET = torch.tensor([[C, EOS, PAD, A, A, EOS]])


def save(path: Path, model: Any, updates: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    history = [{"num_updates": updates}]
    torch.save({"model": model.state_dict(), "optimizer_history": history}, path)
    return path


# ---- gradients -----------------------------------------------------------------------------------


def test_gradients_by_finite_differences() -> None:
    """The slope of the loss along a layer's gradient is the norm of that gradient."""
    task = task_for("document")
    model = untrained(task).double().eval()
    criterion = ChunkedCrossEntropy(task, label_smoothing=0.1)
    net_input = {"src_tokens": SOURCE, "src_lengths": None, "prev_output_tokens": READ}
    sample = {"target": TARGET, "ntokens": 5, "net_input": net_input}
    found = layer_gradients(model, criterion, [sample, sample])
    assert [(one.side, one.layer) for one in found] == [
        ("encoder", 1), ("encoder", 2), ("decoder", 1), ("decoder", 2)
    ]  # fmt: skip
    assert all(parameter.grad is None for parameter in model.parameters())

    def loss() -> float:
        """By the definition of label smoothing, without the criterion."""
        logits = model(**net_input)[0].log_softmax(-1)[0]
        real = TARGET[0] != PAD
        own = -logits[real].gather(1, TARGET[0][real][:, None]).squeeze(1)
        symbols = logits.size(1)
        spread = (-logits[real].sum(1) - own) * 0.1 / (symbols - 1)
        return float((0.9 * own + spread).mean())

    for one in found:
        parameters = list(getattr(model, one.side).layers[one.layer - 1].parameters())
        slopes: list[float] = []
        directions = gradient_of(model, net_input, parameters)
        for sign in (1, -1):
            with torch.no_grad():
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter += sign * 1e-5 * direction
                slopes.append(loss())
                for parameter, direction in zip(parameters, directions, strict=True):
                    parameter -= sign * 1e-5 * direction
        slope = (slopes[0] - slopes[1]) / 2e-5
        assert one.norm == pytest.approx(slope, rel=1e-3), one


def gradient_of(model: Any, net_input: Any, parameters: list[Tensor]) -> list[Tensor]:
    """The direction of the gradient, of length 1."""
    logits = model(**net_input)[0][0]
    real = TARGET[0] != PAD
    loss = torch.nn.functional.cross_entropy(
        logits[real], TARGET[0][real], label_smoothing=0.1 * logits.size(1) / (logits.size(1) - 1)
    )
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
    parts = [torch.zeros_like(p) if g is None else g for p, g in
             zip(parameters, gradients, strict=True)]  # fmt: skip
    norm = math.sqrt(sum(float(part.square().sum()) for part in parts))
    return [part / norm for part in parts]


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
    model = shake(fusion_model(encoder_group_size=2, decoder_group_size=2,
                               decoder_group_fusion="sum"))  # fmt: skip
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


def test_mistakes(tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "fusion", "--path", str(tiny.checkpoints["document"])]) == 1
    assert "its model fuses no groups of layers" in capsys.readouterr().err
    with pytest.raises(GtransError, match="there are no checkpoints in this folder"):
        runs_of({"a": [str(tmp_path)]})
    options = ["--path", str(tiny.checkpoints["document"]), "--data", str(tiny.data)]
    for more in (("--unique",), ("--bin", "2"), ("--farthest", "5")):
        assert main(["analyse", *options, *more]) == 1
        assert "`--unique` are about `--gradients`" in capsys.readouterr().err


# ---- several models, several checkpoints ---------------------------------------------------------


def test_models_and_updates_in_one_figure(
    tiny: TinyWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over updates a line is the mean of all layers; the other model is a line of its own."""
    state = torch.load(tiny.checkpoints["document"], weights_only=False)
    state["optimizer_history"][-1]["num_updates"] = 6
    (tmp_path / "run").mkdir()
    early = tmp_path / "run" / "checkpoint_1_6.pt"
    torch.save(state, early)
    (tmp_path / "run" / "checkpoint_last.pt").symlink_to(tiny.checkpoints["other"])
    paths = [f"moving={tmp_path / 'run'}", f"still={tiny.checkpoints['document']}"]
    plot = tmp_path / "plot.svg"
    options = ["--data", str(tiny.data), "--cpu", "--units", "3", "--layer-gradients", "--json"]
    assert main(["analyse", "--path", *paths, *options, "--plot", str(plot)]) == 0
    printed = capsys.readouterr()
    named = [early, tmp_path / "run" / "checkpoint_last.pt", tiny.checkpoints["document"]]
    for count, path in enumerate(named, start=1):
        assert f"{path}: checkpoint {count} of 3" in printed.err
    found = json.loads(printed.out)
    assert [(one["label"], one["updates"]) for one in found] == [
        ("moving", 6), ("moving", 12), ("still", 12)
    ]  # fmt: skip
    figure = json.loads(plot.with_suffix(".json").read_text())
    panels = {panel["title"]: panel for panel in figure["panels"]}
    lines = {one["label"]: one for one in panels["decoder: cross attention"]["series"]}
    assert {"moving, global", "still, group", "at most moving, global"} <= set(lines)
    assert lines["at most moving, global"]["kind"] == "limit"
    ends = [lines[f"at most {name}, global"]["points"][-1] for name in ("moving", "still")]
    assert ends[0] == ends[1] and ends[0]["x"] == 12
    seen = [one for one in found[1]["attention"] if
            (one["side"], one["kind"], one["range"]) == ("encoder", "self", "group")]  # fmt: skip
    mean = SimpleNamespace(bits=sum(one["entropy"] * one["queries"] for one in seen),
                           queries=sum(one["queries"] for one in seen))  # fmt: skip
    lines = {one["label"]: one for one in panels["encoder: self attention"]["series"]}
    encoder = lines["moving, group"]
    assert [point["x"] for point in encoder["points"]] == [6, 12]
    assert encoder["points"][1]["y"] == pytest.approx(mean.bits / mean.queries)
    gates = {one["label"] for one in panels["gates"]["series"]}
    assert {"moving, decoder cross", "still, encoder self"} <= gates
    norms = panels["gradients of encoder layers"]["series"]
    assert [one["label"] for one in norms] == [
        *("moving, layer 1", "moving, layer 2", "still, layer 1", "still, layer 2")
    ]
    assert norms[0]["points"][0]["y"] == pytest.approx(found[0]["layer_gradients"][0]["norm"])
