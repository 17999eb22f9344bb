"""Multi-level training (Eq 7): the loss, its gradient, its memory, its logs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from hypothesis import given
from hypothesis import strategies as st
from support.batches import EOS, PAD
from support.untrained import dictionary, fusion_model, shake

from gtrans.criterions.chunked_cross_entropy import MultiLevelCrossEntropy
from gtrans.errors import GtransError
from gtrans.modules import chunked_loss as module
from gtrans.modules.chunked_loss import Losses, chunked_loss

TASK = SimpleNamespace(target_dictionary=dictionary())
SOURCE = torch.tensor([[PAD, PAD, 5, 6, 7, EOS], [8, 9, 10, 11, 12, EOS]])
TARGET = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
INPUT = torch.tensor([[EOS, 5, 6, 7], [EOS, 8, PAD, PAD]])
SAMPLE: dict[str, Any] = {
    "net_input": {"src_tokens": SOURCE, "src_lengths": None, "prev_output_tokens": INPUT},
    "target": TARGET,
    "ntokens": 6,
}


def criterion(smoothing: float = 0.1, rows: int | None = None) -> MultiLevelCrossEntropy:
    return MultiLevelCrossEntropy(TASK, False, smoothing, rows)


def losses_of(
    features: torch.Tensor,
    projection: torch.Tensor,
    target: torch.Tensor,
    smoothing: float,
    rows: int,
    share: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> Losses:
    weights = torch.ones(len(target)) if share is None else share
    return chunked_loss(features, projection, target, weights, smoothing, rows, bias=bias)


@given(rows=st.integers(1, 30), smoothing=st.sampled_from([0.0, 0.1]), seed=st.integers(0, 9999))
def test_chunks_make_no_difference(rows: int, smoothing: float, seed: int) -> None:
    """Losses and gradients in double precision, against the softmax written out."""
    torch.manual_seed(seed)
    features = torch.randn(11, 4, dtype=torch.float64, requires_grad=True)
    projection = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    target = torch.randint(7, (11,))
    share = torch.rand(11, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True)
    losses = losses_of(features, projection, target, smoothing, rows, share, bias)
    logs = (features @ projection.t() + bias).log_softmax(1)
    wanted = torch.full_like(logs, smoothing / 6).scatter(1, target[:, None], 1 - smoothing)
    torch.testing.assert_close(losses.smoothed, -(wanted * logs).sum(1))
    torch.testing.assert_close(losses.plain, -logs.gather(1, target[:, None]).squeeze(1))
    inputs = [features, projection, share, bias]
    found = torch.autograd.grad(3 * losses.total, inputs)
    expected = torch.autograd.grad(3 * (share * -(wanted * logs).sum(1)).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_loss_is_equation_7() -> None:
    model = shake(fusion_model())
    with torch.no_grad():
        loss, size, logged = criterion()(model, SAMPLE)
        outputs = model(SOURCE, None, INPUT, states_only=True)[0]
    assert model.decoder.probabilities is not None
    psi = torch.softmax(model.decoder.probabilities.weights.detach() / math.sqrt(16), 0)
    words = TARGET[TARGET.ne(PAD)]
    total, mixture = 0.0, torch.zeros(6)
    for weight, features in zip(psi, outputs.features, strict=True):
        logs = (features @ outputs.projection.detach().t()).log_softmax(-1)
        right = logs.gather(1, words[:, None]).squeeze(1)
        share = 0.1 / 23
        total += float(weight * -((0.9 - share) * right.sum() + share * logs.sum()))
        mixture += weight * right.exp()
    assert size == 6
    assert float(loss) == pytest.approx(total, rel=1e-5)
    assert float(logged["nll_loss"]) == pytest.approx(float(-mixture.log().sum()), rel=1e-5)
    assert [float(logged[f"weight_group_{i}"]) for i in (1, 2, 3)] == pytest.approx(
        (6 * psi).tolist()
    )
    parts = [float(logged[f"loss_group_{i}"]) for i in (1, 2, 3)]
    assert sum(w * p for w, p in zip(psi.tolist(), parts, strict=True)) == pytest.approx(total)


def test_no_pass_keeps_more_logits_than_it_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product has at most 4 rows, once; nothing as large as that is kept for the gradient."""
    sizes: list[int] = []
    real = module.F.linear

    def linear(features: torch.Tensor, *others: torch.Tensor | None) -> torch.Tensor:
        sizes.append(features.size(0))
        return real(features, *others)

    monkeypatch.setattr(module.F, "linear", linear)
    features = torch.randn(18, 3, requires_grad=True)
    projection = torch.randn(500, 3, requires_grad=True)
    kept: list[int] = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        kept.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        losses = losses_of(features, projection, torch.arange(18), 0.1, 4)
    assert max(kept, default=0) < 4 * 500
    losses.total.backward()
    assert sorted(sizes) == [2] + [4] * 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_safe(dtype: torch.dtype) -> None:
    """Logits far outside of what exp can do in half precision; the loss stays finite."""
    features = (torch.randn(6, 8) * 30).to(dtype).requires_grad_()
    projection = (torch.randn(40, 8) * 30).to(dtype).requires_grad_()
    losses = losses_of(features, projection, torch.arange(6), 0.1, 4)
    assert losses.total.dtype == losses.plain.dtype == torch.float32
    assert bool(losses.smoothed.isfinite().all()) and bool(losses.plain.isfinite().all())
    losses.total.backward()
    assert features.grad is not None and features.grad.dtype == dtype
    assert projection.grad is not None and projection.grad.dtype == dtype


def test_a_loss_scale_saves_small_gradients_in_half_precision() -> None:
    """A gradient of 1e-8 is nothing in fp16, but not when the loss has been multiplied."""
    features = torch.zeros(1, 2, dtype=torch.float16)
    features[0, 0] = 16.0
    projection = torch.tensor([[1.0, 0], [-0.15, 0]], dtype=torch.float16).requires_grad_()
    losses = losses_of(features, projection, torch.tensor([0]), 0.0, 4)
    (losses.total * 4096).backward()
    assert projection.grad is not None
    exact = 4096 * 16 * math.exp(-16 * 1.15) / (1 + math.exp(-16 * 1.15))
    assert float(projection.grad[1, 0]) == pytest.approx(exact, rel=0.02)


def test_logs_of_workers_add_up() -> None:
    model = shake(fusion_model())
    with torch.no_grad():
        _, _, logged = criterion()(model, SAMPLE)
    with metrics.aggregate() as aggregator:
        MultiLevelCrossEntropy.reduce_metrics([logged, logged])
    values = aggregator.get_smoothed_values()
    assert values["loss"] == pytest.approx(float(logged["loss"]) / 6 / math.log(2), abs=1e-3)
    weights = [values[f"weight_group_{i}"] for i in (1, 2, 3)]
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert values["loss_group_3"] == pytest.approx(
        float(logged["loss_group_3"]) / 6 / math.log(2), abs=1e-3
    )


def test_mistakes() -> None:
    with pytest.raises(GtransError, match="`--softmax-rows` must be at least 1, but is 0."):
        criterion(rows=0)
    with pytest.raises(GtransError, match="`--label-smoothing` must be at least 0 and below 1"):
        criterion(smoothing=1.0)


@pytest.mark.parametrize("options", [{"system": "post-norm"}, {"decoder_group_size": 5}])
def test_one_group_has_the_loss_and_the_gradient_of_fairseqs_criterion(
    options: dict[str, Any],
) -> None:
    stock = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1)
    results = []
    for each in (criterion(rows=4), stock):
        model = shake(fusion_model(**options))
        loss, _, logged = each(model, SAMPLE)
        loss.backward()
        gradient = {n: p.grad for n, p in model.named_parameters()}
        gradient.pop("decoder.probabilities.weights", None)  # has no say when it is alone
        results.append((float(loss), float(logged["nll_loss"]), gradient))
    (loss, nll, gradient), (loss_, nll_, gradient_) = results
    assert (loss, nll) == pytest.approx((loss_, nll_), rel=1e-5)
    for name, value in gradient.items():
        assert value is not None, name
        torch.testing.assert_close(value, gradient_[name], atol=1e-4, rtol=1e-4)
