"""The candidates of a search step."""

from __future__ import annotations

import pytest
import torch

from gtrans.decoding.largest import largest


@pytest.mark.parametrize("columns", [5, 64, 1300, 4096, 40_005])
def test_as_topk(columns: int) -> None:
    numbers = torch.randn(7, columns, generator=torch.Generator().manual_seed(columns))
    numbers[2] = float("-inf")
    numbers[2, columns - 1] = 1.0
    wanted = numbers.topk(5, 1)
    best, index = largest(numbers, 5)
    assert torch.equal(best, wanted.values)
    assert torch.equal(numbers.gather(1, index), best)
    assert torch.equal(index[:2], wanted.indices[:2])
    assert int(index[2, 0]) == columns - 1
