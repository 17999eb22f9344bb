"""What layers are made of: fast linear maps and dropout, context attention by hand."""

from __future__ import annotations

import math

import pytest
import torch
from support.batches import context_plan
from torch import nn

from gtrans.modules.transformer import (
    ContextAttention,
    Gate,
    Linear,
    MultiheadAttention,
    PackedContext,
    dropout,
)

# ---- linear maps and dropout ---------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 6), (5, 6), (8, 6), (9, 6), (0, 6), (2, 3, 6)])
def test_a_linear_map_of_few_rows_is_torchs(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    mine, stock = Linear(6, 4, bias=bias), nn.Linear(6, 4, bias=bias)
    stock.load_state_dict(mine.state_dict())
    x = torch.randn(shape)
    with torch.no_grad():
        output = mine(x)
    torch.testing.assert_close(output, stock(x).detach(), atol=1e-6, rtol=1e-6)
    assert output.is_contiguous()


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_dropout_has_its_share_and_scale_and_is_independent(probability: float) -> None:
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


def test_edges_of_dropout() -> None:
    x = torch.ones(5)
    assert dropout(x, 0.0, True) is x
    assert dropout(x, 0.5, False) is x
    assert torch.equal(dropout(x, 1.0, True), torch.zeros(5))
    assert dropout(torch.ones(0, 3), 0.5, True).shape == (0, 3)


# ---- context attention ---------------------------------------------------------------------------


def attention(dim: int = 2, key_dim: int = 3) -> MultiheadAttention:
    torch.manual_seed(1)
    return MultiheadAttention(dim, 1, 0.0, key_dim).eval()


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("context_first", [False, True])
def test_gate_by_hand(context_first: bool) -> None:
    """Eq 3.5: g of [B, D] is the share of B; Eq 3.10: d of [F, G] is the share of F."""
    gate = Gate(1, other_first=context_first)
    with torch.no_grad():
        gate.proj.weight.copy_(torch.tensor([[0.5, -1.0]]))
        gate.proj.bias.fill_(0.25)
    own, context = 2.0, 3.0
    first, second = (context, own) if context_first else (own, context)
    share = sigmoid(0.5 * first - 1.0 * second + 0.25)
    wanted = share * first + (1 - share) * second
    found = gate(torch.tensor([[own]]), torch.tensor([[context]]))
    assert found.item() == pytest.approx(wanted, abs=1e-6)


def test_attention_to_the_context_by_hand() -> None:
    """Eq 3.4 for one query, two context tokens of another width, one head."""
    heads = attention()
    query, states = torch.tensor([[1.0, -2.0]]), torch.tensor([[1.0, 0, 2], [0.5, 1, -1]])
    q = query @ heads.q_proj.weight.T + heads.q_proj.bias
    k = states @ heads.k_proj.weight.T + heads.k_proj.bias
    v = states @ heads.v_proj.weight.T + heads.v_proj.bias
    scores = [(q[0] * row).sum().item() / math.sqrt(2) for row in k]
    total = sum(map(math.exp, scores))
    mixed = sum(math.exp(s) / total * row for s, row in zip(scores, v, strict=True))
    wanted = mixed @ heads.out_proj.weight.T + heads.out_proj.bias

    beside = ContextAttention(heads, "mean", context_first=False).eval()
    own = torch.tensor([[0.5, 0.25]])
    found = beside.combine(own, heads(query, states, states, context_plan([1], [2])))
    assert torch.allclose(found, 0.5 * own + 0.5 * wanted, atol=1e-6)


def test_every_row_sees_its_own_context_only() -> None:
    beside = ContextAttention(attention(), "mean", context_first=False).eval()
    lengths = torch.tensor([3, 1, 2])
    states, query = torch.randn(6, 3), torch.randn(7, 2)
    context = PackedContext(states, lengths)
    plan = context_plan([2, 4, 1], [3, 1, 2])
    before = beside.attention(query, states, states, plan)
    changed = states.clone()
    changed[3] += 1  # the context of the second row
    after = beside.attention(query, changed, changed, plan)
    moved = (before - after).abs().sum(1).gt(1e-6).tolist()
    assert moved == [False] * 2 + [True] * 4 + [False]
    assert context.align(states).shape == (3, 3, 3)
    assert torch.equal(context.align(states)[2, :2], states[4:])


@pytest.mark.parametrize(
    ("rate", "lot", "encoder", "decoder"),
    [
        # Eq 2.16: U < p/2 self-attention alone, U > 1 - p/2 BERT alone, else both;
        # Eq 2.17: U < p/2 BERT alone, U > 1 - p/2 attention to the encoder alone.
        (1.0, 0.2, 0.0, 1.0),
        (1.0, 0.8, 1.0, 0.0),
        (0.6, 0.29, 0.0, 1.0),
        (0.6, 0.31, 0.5, 0.5),
        (0.6, 0.69, 0.5, 0.5),
        (0.6, 0.71, 1.0, 0.0),
        (0.0, 0.0, 0.5, 0.5),
    ],
)
def test_drop_net(rate: float, lot: float, encoder: float, decoder: float) -> None:
    for context_first, share in ((False, encoder), (True, decoder)):
        beside = ContextAttention(attention(), "mean", context_first=context_first, drop_net=rate)
        assert beside.context_share(lot) == share


def test_drop_net_in_training_is_one_of_the_two_and_the_mean_at_inference() -> None:
    beside = ContextAttention(attention(), "mean", context_first=False, drop_net=1.0).train()
    own, context = torch.zeros(1, 2), torch.ones(1, 2)
    torch.manual_seed(3)
    seen = {float(beside.combine(own, context)[0, 0]) for _ in range(30)}
    assert seen == {0.0, 1.0}
    assert float(beside.eval().combine(own, context)[0, 0]) == 0.5
