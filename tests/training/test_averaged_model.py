"""``--store-ema``: every table decays once, and what holds no real numbers is copied."""

from __future__ import annotations

import pytest
import torch
from fairseq.dataclass.configs import EMAConfig
from support.contract import Case
from support.runs import last
from support.tiny_models import StockCommands
from torch import nn

from gtrans.modules.whitening import Whitening
from gtrans.training.averaged_model import AveragedModel


class Tied(nn.Module):
    """A table with three names, and the digest of a whitening."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Embedding(3, 2)
        self.decoder = nn.Embedding(3, 2)
        self.output = nn.Linear(2, 3)
        self.decoder.weight = self.output.weight = self.encoder.weight
        self.whitening = Whitening(2)

    def move(self) -> None:
        with torch.no_grad():
            self.encoder.weight.add_(1)
            self.output.bias.add_(2)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("fp32", [False, True])
def test_every_table_decays_once(half: bool, fp32: bool) -> None:
    model = Tied().bfloat16() if half else Tied()
    with torch.no_grad():
        model.encoder.weight.zero_()
    model.whitening.measure([torch.randn(20, 2)], "ab" * 32)
    average = AveragedModel(model, EMAConfig(store_ema=True, ema_decay=0.75, ema_fp32=fp32))
    model.move()
    average.step(model, 1)
    found = average.get_model().state_dict()
    tables = [found[f"{name}.weight"] for name in ("encoder", "decoder", "output")]
    assert all(bool((table == 0.25).all()) for table in tables)
    assert average.get_model().whitening.measured_on == "ab" * 32
    if fp32:
        model.move()
        average.step(model, 2)
        kept = [average.fp32_params[f"{name}.weight"] for name in ("encoder", "decoder", "output")]
        assert all(torch.equal(table, torch.full((3, 2), 0.6875)) for table in kept)
        # As from a checkpoint.
        average.build_fp32_params(dict(average.fp32_params))
        assert average.fp32_params["decoder.weight"] is average.fp32_params["encoder.weight"]


def test_a_whitening_is_averaged(stock: StockCommands, prepared_with_bert, tmp_path) -> None:
    case = Case("bert_context_transformer_tiny", "window", "source")
    stock.succeed(
        "train", prepared_with_bert, "--user-dir", "gtrans", "--task", "document_translation",
        *case.flags, "--optimizer", "adam", "--lr", "0.003", "--max-tokens", "300",
        "--max-update", "3", "--criterion", "label_smoothed_cross_entropy",
        "--disable-validation", "--num-workers", "0", "--cpu", "--no-epoch-checkpoints",
        "--bert-cache-gb", "0.1", "--bert-cache", tmp_path / "features", "--store-ema",
        "--save-dir", tmp_path,
    )  # fmt: skip
    state = last(tmp_path)
    own, average = state["model"], state["extra_state"]["ema"]
    (digest,) = (name for name in own if own[name].dtype == torch.uint8)
    assert torch.equal(own[digest], average[digest]) and own[digest].any()
    for name in ("mean", "map"):
        name = digest.replace(".of", f".{name}")
        torch.testing.assert_close(average[name], own[name], atol=1e-6, rtol=1e-5)
