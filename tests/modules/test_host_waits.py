"""What the counter of waits sees, and that a pretended device computes what the CPU does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from support.host_waits import HostWaits, pretend
from torch import Tensor, nn

WAITING: dict[str, Callable[[Tensor], object]] = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "mask": lambda x: x[x > 0],
    "assigned by a mask": lambda x: x.__setitem__(x > 0, 0.0),
    "list": lambda x: x[[0, 1]],
    "unique": lambda x: torch.unique(x),
    "to the host": lambda x: x.cpu(),
    "equal": lambda x: torch.equal(x, x),
    "repeat": lambda x: torch.repeat_interleave(x[:, 0], (x[:, 0] > 0).long()),
    "tensor of a list": lambda x: torch.tensor([1.0, 2.0], device=x.device),
    "to the device": lambda x: torch.ones(2).to(x.device, non_blocking=True),
}
NOT_WAITING: dict[str, Callable[[Tensor], object]] = {
    "index": lambda x: x[torch.arange(2, device=x.device)],
    "from pinned memory": lambda x: torch.ones(2).pin_memory().to(x.device, non_blocking=True),
    "repeat": lambda x: torch.repeat_interleave(
        x[:, 0], torch.ones(3, dtype=torch.long, device=x.device), output_size=3
    ),
    "on the host": lambda x: torch.ones(3).tolist(),
}


@pytest.mark.parametrize("name", WAITING)
def test_it_waits(name: str) -> None:
    with HostWaits() as waits:
        WAITING[name](pretend(torch.randn(3, 4)))
    assert waits.count == 1, waits.places
    assert waits.within("tests/modules/test_host_waits.py") == 1  # the place is named


@pytest.mark.parametrize("name", NOT_WAITING)
def test_it_does_not_wait(name: str) -> None:
    with HostWaits() as waits:
        NOT_WAITING[name](pretend(torch.randn(3, 4)))
    assert waits.count == 0, waits.places


def test_the_pretended_device_computes_the_same() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
    model[2].weight = model[0].weight  # shared parameters stay shared
    x = torch.randn(3, 4)
    loss = model(x).square().sum()
    (expected,) = torch.autograd.grad(loss, [model[0].weight])
    with HostWaits():
        pretend(model)
        found = model(pretend(x)).square().sum()
        found.backward()
    assert model[2].weight is model[0].weight and not found.is_cpu
    torch.testing.assert_close(found.held, loss.detach())
    torch.testing.assert_close(model[0].weight.grad.held, expected)


def test_both_sides_do_not_mix() -> None:
    with HostWaits(), pytest.raises(RuntimeError, match="host and of the device"):
        pretend(torch.ones(2)) + torch.ones(2)
