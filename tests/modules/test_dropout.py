"""Dropout keeps the mean and drops the share it is told, independently."""

from __future__ import annotations

import pytest
import torch

from gtrans.modules.transformer import dropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_share_scale_and_independence(probability: float) -> None:
    torch.manual_seed(0)
    x = torch.full((4, 100_001), 2.0, requires_grad=True)
    output = dropout(x, probability, True)
    dropped = output.eq(0).float()
    torch.testing.assert_close(dropped.mean(1), torch.full((4,), probability), atol=6e-3, rtol=0.0)
    kept = output[output.ne(0)]
    scaled = torch.full_like(kept, 2 / (1 - probability))
    torch.testing.assert_close(kept, scaled, rtol=1e-3, atol=0.0)
    # the four decisions of one random number
    quarters = dropped.flatten()[: 4 * 100_000].view(-1, 4).t()
    assert (torch.corrcoef(quarters) - torch.eye(4)).abs().max() < 0.015
    output.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, output.detach() / 2)


def test_edges() -> None:
    x = torch.ones(5)
    assert dropout(x, 0.0, True) is x
    assert dropout(x, 0.5, False) is x
    assert torch.equal(dropout(x, 1.0, True), torch.zeros(5))
    assert dropout(torch.ones(0, 3), 0.5, True).shape == (0, 3)
