"""Adam by fused kernels is fairseq's Adam; on a CPU exactly, on a GPU nearly."""

import copy
from typing import Any

import pytest
import torch
from fairseq.optim.adam import FairseqAdam
from omegaconf import OmegaConf

from gtrans.optim.fused_adam import FusedAdam, FusedAdamConfig

CPU = torch.device("cpu")
DEVICES = [CPU, pytest.param(torch.device("cuda"), marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU"))]  # fmt: skip


def trained(kind: type[FairseqAdam], device: torch.device, steps: int, state: Any = None) -> Any:
    """The parameters and the state of the optimizer after some steps."""
    cfg = OmegaConf.structured(
        FusedAdamConfig(adam_betas="(0.9, 0.98)", weight_decay=0.01, lr=[0.01])
    )
    cfg.lr, cfg.tpu = [0.01], False
    draw = torch.Generator().manual_seed(1)
    table = torch.randn(4, 3, generator=draw).to(device).requires_grad_()
    optimizer = kind(cfg, [table])
    if state is not None:
        with torch.no_grad():
            table.copy_(state[0])
        optimizer.load_state_dict(copy.deepcopy(state[1]))
    for step in range(steps):
        table.grad = torch.full_like(table, 0.1 * (step + 1)) + table.detach()
        optimizer.step()
    return table.detach().clone(), copy.deepcopy(optimizer.state_dict())


@pytest.mark.parametrize("device", DEVICES)
def test_steps(device: torch.device) -> None:
    ours, theirs = trained(FusedAdam, device, 5)[0], trained(FairseqAdam, device, 5)[0]
    tolerance = 0 if device == CPU else 1e-5
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [FairseqAdam, FusedAdam])
def test_goes_on_where_another_device_or_optimizer_stopped(
    kind: type[FairseqAdam], device: torch.device
) -> None:
    """As torch's own AdamW saves its state, with the steps in a tensor, too."""
    table, state = trained(kind, device, 3)
    for values in state["state"].values():
        values["step"] = torch.tensor(float(values["step"]))
    there = trained(FusedAdam, CPU, 2, (table.cpu(), state))[0]
    here = trained(FusedAdam, device, 2, (table, state))[0].cpu()
    torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-5)
    whole = trained(FairseqAdam, CPU, 2, (table.cpu(), trained(FairseqAdam, CPU, 3)[1]))[0]
    torch.testing.assert_close(there, whole, rtol=1e-5, atol=1e-5)
