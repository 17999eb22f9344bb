"""The linear layer for few rows is nn.Linear."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gtrans.modules.transformer import Linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 6), (5, 6), (8, 6), (9, 6), (0, 6), (2, 3, 6)])
def test_same_numbers(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    mine, stock = Linear(6, 4, bias=bias), nn.Linear(6, 4, bias=bias)
    stock.load_state_dict(mine.state_dict())
    x = torch.randn(shape)
    with torch.no_grad():
        output = mine(x)
    torch.testing.assert_close(output, stock(x).detach(), atol=1e-6, rtol=1e-6)
    assert output.is_contiguous()
