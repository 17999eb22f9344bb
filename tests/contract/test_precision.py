"""Every class and unit in other precisions: training mixed, as in fp32; decoding in bf16."""

from __future__ import annotations

import pytest
import torch
from support.contract import batch_of, build, loss_of, searched_and_read, with_the_others_long


@pytest.mark.parametrize(
    "backend", ["regroup", pytest.param("dense", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("case", with_the_others_long())
def test_mixed_precision(case, backend, prepared_with_bert) -> None:
    """bf16 is ``--amp`` on a CPU; fp16 has the types that ``--amp`` has on CUDA."""
    built = build(case, prepared_with_bert, attention_backend=backend, dropout=0.0)
    built.model.train()
    batch = batch_of(built)
    batch["net_input"] = built.task.complete_input(batch["net_input"])
    expected = loss_of(built, batch).item()
    for precision in (torch.bfloat16, torch.float16):
        built.model.zero_grad()
        with torch.autocast("cpu", precision):
            loss = loss_of(built, batch)
        assert loss.item() == pytest.approx(expected, rel=0.02)
        loss.backward()
        for name, parameter in built.model.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, name
                assert parameter.grad.dtype == torch.float32
                assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("case", with_the_others_long())
def test_decoding_in_bf16(case, prepared_with_bert) -> None:
    """``--bf16``: the search has the scores of one pass in the same precision."""
    built = build(case, prepared_with_bert)
    built.model.bfloat16()
    pairs = list(searched_and_read(built))
    assert len(pairs) >= 3
    for written, read in pairs:
        assert written == pytest.approx(read, rel=0.01, abs=0.05)
