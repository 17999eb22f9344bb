"""Whitening of the states that a frozen encoder gives."""

from __future__ import annotations

import hashlib

import torch

from gtrans.modules.bert import SHRINKAGE, Whitening

NAME = hashlib.sha256(b"an encoder").hexdigest()


def correlated(count: int = 4000) -> torch.Tensor:
    torch.manual_seed(1)
    scales = torch.tensor([3.0, 1.0, 0.7, 0.4])
    axes, _ = torch.linalg.qr(torch.randn(4, 4))
    return (torch.randn(count, 4) * scales) @ axes + torch.tensor([5.0, -2.0, 0.0, 1.0])


def test_states_become_uncorrelated_and_of_variance_one() -> None:
    states = correlated()
    whitening = Whitening(4)
    assert torch.equal(whitening(states), states) and whitening.measured_on is None
    whitening.measure(states.split(700), NAME)
    assert whitening.measured_on == NAME
    found = whitening(states)
    assert torch.allclose(found.mean(0), torch.zeros(4), atol=1e-4)
    variances, axes = torch.linalg.eigh(torch.cov(states.T, correction=0))
    wanted = variances / (variances + SHRINKAGE * variances.mean())
    assert torch.allclose(torch.cov(found.T, correction=0), axes * wanted @ axes.T, atol=1e-3)
    assert torch.allclose(torch.cov(found.T), torch.eye(4), atol=0.2)


def test_by_hand() -> None:
    """Two axes of variance 4 and 1 around (1, 0): divided by the roots of 4.025 and 1.025."""
    whitening = Whitening(2)
    whitening.measure([torch.tensor([[3.0, 1.0], [-1.0, 1.0], [3.0, -1.0], [-1.0, -1.0]])], NAME)
    expected = torch.tensor([2 / 4.025**0.5, -1 / 1.025**0.5])
    assert torch.allclose(whitening(torch.tensor([3.0, -1.0])), expected, atol=1e-5)


def test_raw_states_stay_as_they_are() -> None:
    whitening = Whitening(4, raw=True)
    states = correlated(10)
    whitening.measure([states], NAME)
    assert torch.equal(whitening(states), states) and whitening.measured_on == NAME
