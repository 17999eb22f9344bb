"""Variable-length kernels: where they may run, what they are given, and what runs otherwise."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from support.batches import PLANS, batch_of, plans_of
from torch import Tensor

from gtrans.modules import varlen_attention as varlen
from gtrans.modules.group_attention import segment_attention, to_device
from gtrans.modules.transformer import MultiheadAttention

SOURCE = [[3, 0, 5], [7], [1, 2, 2]]
TARGET = [[2, 4, 1], [9], [3, 1, 2]]


def attend_by_boundaries(
    q: Tensor, k: Tensor, v: Tensor, begins_q: Tensor, begins_k: Tensor, longest_q: int,
    longest_k: int, *, window_size: tuple[int, int],
) -> Tensor:  # fmt: skip
    """What the kernels promise, segment by segment; ``(tokens, heads, head)``."""
    causal, longest = window_size == (-1, 0), (longest_q, longest_k)
    sizes = (begins_q.diff(), begins_k.diff())
    assert begins_q.dtype == begins_k.dtype == torch.int32
    assert (int(sizes[0].max()), int(sizes[1].max())) == longest
    outputs = []
    for part_q, part_k, part_v in zip(
        q.split(sizes[0].tolist()), k.split(sizes[1].tolist()), v.split(sizes[1].tolist()),
        strict=True,
    ):  # fmt: skip
        scores = torch.einsum("qhd,khd->hqk", part_q, part_k) / math.sqrt(q.size(2))
        if causal:
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -math.inf)
        outputs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), part_v))
    return torch.cat(outputs)


@pytest.mark.parametrize("name", PLANS)
def test_kernels_are_told_the_segments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varlen, "_kernel", lambda: attend_by_boundaries)
    plan = plans_of(batch_of(SOURCE, left=True), batch_of(TARGET))[name]
    torch.manual_seed(0)
    query = torch.randn(plan.size[0], 8)
    key, value = torch.randn(2, plan.size[1], 8)
    torch.testing.assert_close(
        varlen.varlen_attention(query, key, value, plan, 2),
        segment_attention(query, key, value, plan, 2),
    )


class Stand:
    """As much of a CUDA tensor as the decision looks at."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16, dim: int = 64) -> None:
        self.is_cuda, self.dtype, self.dim = True, dtype, dim
        self.device = torch.device("cuda", 0)

    def size(self, axis: int) -> int:
        return self.dim


def test_falls_back_where_they_may_not() -> None:
    plan = plans_of(batch_of(SOURCE), batch_of(TARGET))["encoder_group"]
    attention = MultiheadAttention(8, 2)
    x = torch.randn(plan.size[0], 8)
    found = attention(x, x, x, plan)
    attention.backend = "regroup"
    torch.testing.assert_close(found, attention(x, x, x, plan))


def test_where_they_suit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varlen, "_device_has_kernels", lambda device: device.index == 0)
    plan = plans_of(batch_of(SOURCE), batch_of(TARGET))["encoder_group"]
    partial = plans_of(batch_of([[3, 4], [2]]), batch_of([[2], [1]]))["cross_group"]
    old_card = Stand()
    old_card.device = torch.device("cuda", 1)
    cases: list[tuple[tuple[Any, ...], bool]] = [
        ((Stand(), plan, 2, 0.0), True),
        ((Stand(torch.float16), plan, 8, 0.0), True),
        ((Stand(), plan, 2, 0.1), False),  # dropout
        ((Stand(torch.float32), plan, 2, 0.0), False),
        ((Stand(), plan, 16, 0.0), False),  # heads of 4
        ((Stand(dim=1024), plan, 2, 0.0), False),  # heads of 512
        ((old_card, plan, 2, 0.0), False),
        ((torch.zeros(4, 64), plan, 2, 0.0), False),  # on the CPU
        ((Stand(), partial, 2, 0.0), False),  # keys that nobody sees
    ]
    for arguments, expected in cases:
        assert varlen.suits(*arguments) is expected, arguments


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the real kernels need a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", PLANS)
def test_kernels_on_cuda(name: str, dtype: torch.dtype) -> None:
    made = plans_of(batch_of(SOURCE, left=True), batch_of(TARGET))[name]
    plan = to_device(made, torch.device("cuda"))
    torch.manual_seed(0)
    sizes = (*plan.size, plan.size[1])
    inputs = [torch.randn(s, 64, device="cuda", dtype=dtype, requires_grad=True) for s in sizes]
    if not varlen.suits(inputs[0], plan, 2, 0.0):
        pytest.skip("this CUDA device has no variable-length kernels")
    results = []
    for attend in (varlen.varlen_attention, segment_attention):
        output = attend(*inputs, plan, 2)
        results.append((output, *torch.autograd.grad(output.float().square().sum(), inputs)))
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, atol=3e-2, rtol=3e-2)
