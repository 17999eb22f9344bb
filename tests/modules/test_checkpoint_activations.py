"""`--checkpoint-activations`: the same losses and gradients, with less kept for the gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.contract import Case, batch_of, build, cases

from gtrans.criterions.chunked_cross_entropy import MultiLevelCrossEntropy

# One of each kind of batch in any run of the tests, all in the long one.
ALWAYS = ("gtransformer_tiny", "memory_transformer_tiny", "bert_context_transformer_tiny")
assert set(ALWAYS) <= {case.arch for case in cases()}
DROPOUT = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.2}


def step(case: Case, data: Path, amp: bool = False, **options: Any) -> tuple[Any, dict[str, Any]]:
    """The loss and the gradients of one batch."""
    built = build(case, data, **DROPOUT, **options)
    sample = batch_of(built)
    net_input = built.task.complete_input(sample["net_input"])
    criterion = MultiLevelCrossEntropy(built.task, label_smoothing=0.1)
    torch.manual_seed(5)
    with torch.autocast("cpu", torch.bfloat16, enabled=amp):
        loss, _, _ = criterion(built.model.train(), {**sample, "net_input": net_input})
        loss.backward()
    return loss, {n: p.grad for n, p in built.model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    "case",
    [
        case if case.arch in ALWAYS else pytest.param(case, marks=pytest.mark.long)
        for case in cases()
    ],
    ids=str,
)
@pytest.mark.parametrize("amp", [False, True], ids=["fp32", "amp"])
def test_losses_and_gradients_are_the_same(case: Case, amp: bool, prepared_with_bert: Path) -> None:
    further = {"memory_bptt": 2} if "memory" in case.arch else {}
    loss, gradients = step(case, prepared_with_bert, amp, **further)
    again, found = step(case, prepared_with_bert, amp, checkpoint_activations=True, **further)
    assert torch.equal(loss, again)
    assert gradients.keys() == found.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-7, rtol=1e-6, msg=name)


def test_less_is_kept(prepared_with_bert: Path) -> None:
    case = next(case for case in cases() if case.arch == "gtransformer_tiny")
    kept = []
    for checkpoints in (False, True):
        numbers = 0

        def count(x: torch.Tensor) -> torch.Tensor:
            nonlocal numbers
            numbers += 0 if isinstance(x, torch.nn.Parameter) else x.numel()
            return x

        with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            step(case, prepared_with_bert, checkpoint_activations=checkpoints)
        kept.append(numbers)
    assert kept[1] < 0.5 * kept[0]
