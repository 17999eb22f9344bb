"""``--amp``: with a scaled loss the updates of fp32, and bf16 on CPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.in_process import Training
from support.runs import log_of, refusal, train
from support.suites import others_long
from support.tiny_models import TinyWorld

from gtrans.optim import amp

_OVERFLOW = 2.0**127
GIVEN = ("--dropout", "0.2", "--clip-norm", "0.5", "--update-freq", "2")


@pytest.fixture
def scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scaler that works on CPUs, in fp32, in place of CUDA's."""
    scaler = torch.amp.GradScaler

    def on_cpu(device: str, enabled: bool, **named: Any) -> torch.amp.GradScaler:
        return scaler("cpu", **named)

    monkeypatch.setattr(amp.torch.amp, "GradScaler", on_cpu)


@pytest.mark.usefixtures("scaled")
@pytest.mark.parametrize("scale", others_long(["1024", str(int(_OVERFLOW))], ["1024"]))
def test_updates_are_those_of_fp32(tiny: TinyWorld, scale: str) -> None:
    """Also after overflows, whose batches are read again at half the scale."""
    plain = Training(tiny.data, *GIVEN).update(4)
    retried = ("--amp-batch-retries", "1000")
    mixed = Training(tiny.data, *GIVEN, "--amp", "--amp-init-scale", scale, *retried).update(4)
    assert mixed.trainer.get_num_updates() == 4
    plain.assert_same(mixed)
    reached = mixed.trainer.optimizer.scaler.get_scale()
    assert reached == 1024 if scale == "1024" else 1 < reached < _OVERFLOW


@pytest.mark.usefixtures("scaled")
def test_a_skipped_batch_changes_nothing(tiny: TinyWorld) -> None:
    run = Training(tiny.data, *GIVEN, "--amp", "--amp-init-scale", str(int(_OVERFLOW)))
    before = {name: value.clone() for name, value in run.parameters.items()}
    run.update(1)  # two retries, and no more
    assert run.trainer.get_num_updates() == 0
    assert run.trainer.optimizer.scaler.get_scale() == _OVERFLOW / 8
    assert all(torch.equal(before[name], value) for name, value in run.parameters.items())


@pytest.mark.long
@pytest.mark.usefixtures("scaled")
def test_two_rates_and_the_saved_scale(tiny: TinyWorld, tmp_path: Path) -> None:
    """The rates come from the options, the scale and its counter from the checkpoint."""
    start = (
        "--init-from",
        str(tiny.checkpoints["sentence"]),
        "--optimizer",
        "two_rate_adam",
        "--lr-scale-pretrained",
    )
    window = ("--amp-init-scale", "64", "--amp-scale-window", "3")
    mixed = Training(tiny.data, *GIVEN, "--amp", *window, *start, "0.2")
    plain = Training(tiny.data, *GIVEN, *start, "0.2")
    plain.update(4).assert_same(mixed.update(4))
    first = mixed.trainer.optimizer
    saved = torch.load(_saved(first.state_dict(), tmp_path), weights_only=True)
    assert saved["scaler"]["scale"] == 128 and saved["scaler"]["_growth_tracker"] == 1
    again = Training(tiny.data, *GIVEN, "--amp", *window, *start, "0.5").trainer.optimizer
    again.load_state_dict(saved)
    assert again.scaler.state_dict() == first.scaler.state_dict()
    assert [group["lr_scale"] for group in again.param_groups] == [1.0, 0.5]


def _saved(state: dict[str, Any], folder: Path) -> Path:
    torch.save(state, folder / "state.pt")
    return folder / "state.pt"


@pytest.mark.long
def test_bf16_on_a_cpu(tiny: TinyWorld) -> None:
    """Products are of bf16, parameters and their updates of fp32; there is no scale."""
    run, plain = Training(tiny.data, *GIVEN, "--amp"), Training(tiny.data, *GIVEN)
    types = set()
    layer = run.trainer.get_model().encoder.layers[0].fc1
    layer.register_forward_hook(lambda _, inputs, output: types.add(output.dtype))
    run.update(3), plain.update(3)
    assert types == {torch.bfloat16}
    for name, value in plain.parameters.items():
        mixed = run.parameters[name]
        assert mixed.dtype == torch.float32
        assert not name.endswith("fc1.weight") or not torch.equal(mixed, value)
    assert not run.trainer.optimizer.scaler.is_enabled()
    assert "scaler" not in run.trainer.optimizer.state_dict()


def test_the_command_learns_and_refuses_a_broken_loss(tiny: TinyWorld, stock, tmp_path) -> None:
    log = log_of(train(stock, tiny.data, tmp_path / "a", "--amp", "--log-interval", "1",
                       "--log-format", "json", updates=12))  # fmt: skip
    losses = [float(line.split('"loss": "')[1].split('"')[0])
              for line in log.splitlines() if '"loss": "' in line]  # fmt: skip
    assert losses[-1] < losses[0] - 1
    assert "CUDA is not available" not in log
    broken = train(stock, tiny.data, tmp_path / "b", "--amp", "--lr", "1e30", updates=4)
    assert "not finite" in refusal(broken)
