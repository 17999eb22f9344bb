"""Equations 2 to 6 of GTRANS and those of its baselines, against sums done by hand."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gtrans.modules.layer_fusion import (
    DecoderGroupFusion,
    EncoderGroupFusion,
    LayerCombination,
    ProbabilityFusion,
    RepresentationFusion,
    TransparentAttention,
    fuse_probabilities,
    group_tops,
)


def logit(share: float) -> float:
    return math.log(share / (1 - share))


def states(*rows: tuple[float, ...]) -> list[Tensor]:
    """One token's embedded input, then the output of each layer."""
    return [torch.tensor([row]).float() for row in rows]


@torch.no_grad()
def given_weights(module: torch.nn.Module, *shares: float) -> None:
    module.weights.copy_(torch.tensor([logit(share) for share in shares]))  # type: ignore[operator]


# Layers 1 to 5 of width 2; the embedded input (9, 9) must play no part.
FIVE = states((9, 9), (1, 0), (2, 0), (0, 4), (3, 1), (0, 8))


# ---- Eq 2 ----------------------------------------------------------------------------------------


def test_encoder_fusion_by_hand() -> None:
    """Layers 2, 4, 5 with gates 1/2, 1/4, 3/4: mean (1.75, 6.25) / 3, normalised to (-1, 1)."""
    fusion = EncoderGroupFusion(5, 2, 2)
    given_weights(fusion, 0.5, 0.25, 0.75)
    assert fusion.layer_norm is not None
    before: list[Tensor] = []
    fusion.layer_norm.register_forward_hook(lambda _, inputs, __: before.append(inputs[0]))
    output = fusion(FIVE)
    torch.testing.assert_close(before[0], torch.tensor([[1.75 / 3, 6.25 / 3]]))
    torch.testing.assert_close(output, torch.tensor([[[-1.0, 1.0]]]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("size", [5, 7])
def test_one_group_has_no_layer_norm(size: int) -> None:
    fusion = EncoderGroupFusion(5, size, 2)
    assert fusion.layer_norm is None and fusion.weights.shape == (1,)
    given_weights(fusion, 0.25)
    torch.testing.assert_close(fusion(FIVE), torch.tensor([[[0.0, 2.0]]]))


# ---- Eq 3-6 --------------------------------------------------------------------------------------


def test_decoder_fusion_by_hand() -> None:
    fusion = DecoderGroupFusion(5, 2)
    given_weights(fusion, 0.5, 0.25, 0.75, 0.5, 0.125)
    expected = torch.tensor([[[1.0, 0.0]], [[1.5, 3.5]], [[0.0, 1.0]]])
    torch.testing.assert_close(fusion(FIVE), expected)
    assert fusion.use(2, 2) == 4  # the fifth layer need not run
    torch.testing.assert_close(fusion(FIVE[:5]), expected[1:2])
    assert fusion.use(2, 3) == 5
    torch.testing.assert_close(fusion(FIVE), expected[1:])


def test_probability_fusion_by_hand() -> None:
    """D = 4, so tau = 2; w = (0, 2 ln 3): psi = (1/4, 3/4)."""
    fusion = ProbabilityFusion(2, 4)
    with torch.no_grad():
        fusion.weights.copy_(torch.tensor([0.0, 2 * math.log(3)]))
    weights = fusion.log_weights(slice(0, 2))
    torch.testing.assert_close(weights.exp(), torch.tensor([0.25, 0.75]))
    one, other = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.1, 0.8, 0.1]])
    logits = torch.stack([one.log() + 3, other.log() - 5])
    expected = torch.tensor([[0.2, 0.6625, 0.1375]])
    torch.testing.assert_close(fuse_probabilities(logits, weights).exp(), expected)
    # The weighted mean of logarithms is Eq 7 with the other sign, and no probability.
    scores = fuse_probabilities(logits, weights, "geometric")
    torch.testing.assert_close(scores, 0.25 * one.log() + 0.75 * other.log())
    assert bool((scores <= expected.log()).all()) and float(scores.exp().sum()) < 1
    # One group alone has all the weight.
    assert fusion.log_weights(slice(1, 2)).tolist() == [0.0]
    assert fuse_probabilities(logits[1:], weights[:1]).equal(logits[1])


@given(
    groups=st.integers(2, 6),
    scale=st.floats(0.1, 200),
    seed=st.integers(0, 10**6),
    half=st.booleans(),
)
def test_fused_log_probabilities_are_finite_and_sum_to_one(
    groups: int, scale: float, seed: int, half: bool
) -> None:
    """In half precision, too, where exp(-200) and sums of thousands of words do not exist."""
    torch.manual_seed(seed)
    logits = (torch.randn(groups, 3, 50) * scale).clamp(-6e4, 6e4)
    logits = logits.half() if half else logits
    weights = torch.log_softmax(torch.randn(groups) * 5, 0)
    fused = fuse_probabilities(logits, weights)
    assert fused.dtype == torch.float32 and bool(fused.isfinite().all())
    torch.testing.assert_close(fused.logsumexp(-1), torch.zeros(3), atol=1e-4, rtol=0)
    exact = (weights.double().exp()[:, None, None] * logits.double().softmax(-1)).sum(0)
    torch.testing.assert_close(fused.exp().double(), exact, atol=1e-5, rtol=1e-4)


# ---- the systems that the paper compares with ----------------------------------------------------


def test_transparent_attention_by_hand() -> None:
    """Weights ln 1, ln 1, ln 2 for the first layer: shares 1/4, 1/4, 1/2."""
    fusion = TransparentAttention(2, 2)
    with torch.no_grad():
        fusion.weights.copy_(torch.tensor([[1.0, 1.0, 2.0], [1.0, 1.0, 1.0]]).log())
    first, second = fusion(states((4, 0), (0, 4), (2, 2)))
    torch.testing.assert_close(first, torch.tensor([[2.0, 2.0]]))
    torch.testing.assert_close(second, torch.tensor([[2.0, 2.0]]))


def test_layer_combination_begins_as_the_average_of_normalised_states() -> None:
    fusion = LayerCombination(2, 2)
    first = fusion.remember(torch.tensor([[3.0, 1.0]]), 0)
    torch.testing.assert_close(first, torch.tensor([[1.0, -1.0]]), atol=1e-4, rtol=0)
    second = fusion.remember(torch.tensor([[0.0, 5.0]]), 1)
    torch.testing.assert_close(fusion.layer_input([first]), first)
    torch.testing.assert_close(fusion.layer_input([first, second]), (first + second) / 2)
    third = fusion.remember(torch.tensor([[7.0, 1.0]]), 2)
    with torch.no_grad():
        fusion.weights[2] = torch.tensor([1.0, 0.0, 2.0])
    torch.testing.assert_close(fusion([first, second, third])[0], first + 2 * third)


def test_group_tops_follow_the_minimum_of_equation_2() -> None:
    assert group_tops(6, 3) == [3, 6]
    assert group_tops(5, 2) == [2, 4, 5]
    assert group_tops(7, 3) == [3, 6, 7]
    assert group_tops(4, 1) == [1, 2, 3, 4]
    assert group_tops(4, 4) == group_tops(4, 9) == [4]


def test_representation_fusion_reads_all_layers() -> None:
    fusion = RepresentationFusion(2, 2)
    given = [state.requires_grad_() for state in states((9, 9), (1, 2), (3, -1))]
    fusion(given)[0, 0, 0].backward()
    assert given[0].grad is None
    assert all(bool(state.grad.ne(0).any()) for state in given[1:])  # type: ignore[union-attr]
