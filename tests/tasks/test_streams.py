"""Memories between the windows of documents: one that is not finite is replaced by a new one."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.untrained import memory_transformer

from gtrans.modules.memory import MemoryFlow
from gtrans.tasks.parts import Batch
from gtrans.tasks.parts.streams import Streams

SIZE, DIM = 16, 16


def ended(streams: Streams, batch: Batch, broken: list[bool]) -> None:
    """The batch has been read; an overflow has broken the memories of some rows."""
    left = torch.ones(len(broken), SIZE, DIM)
    left[torch.tensor(broken), 0, 0] = float("inf")
    left[torch.tensor(broken), 0, 1] = float("nan")
    flow = batch.sample["net_input"]["memory"]
    flow.leaving = {0: left, 1: torch.ones(len(broken), SIZE, DIM)}
    streams.after_batch(batch)


def batch_of(model: Any, position: int, update: int) -> Batch:
    runs = [(0, position, 2), (1, position, 2)]
    return Batch({"net_input": {}, "runs": runs}, model, "train", update)


@pytest.mark.parametrize("repeated", [False, True], ids=["next update", "after a skipped one"])
def test_an_overflow_does_not_poison_the_rest_of_its_document(
    caplog: pytest.LogCaptureFixture, repeated: bool
) -> None:
    model: Any = memory_transformer(dropout=0.0)
    streams = Streams(SimpleNamespace(update_freq=[1]))
    streams.begin_epoch(1, model, SimpleNamespace(steps_of=lambda document: 6))
    first = streams.before_batch(batch_of(model, 0, 0))
    ended(streams, first, [False, True])
    second = streams.before_batch(batch_of(model, 2, 0 if repeated else 1))
    flow: MemoryFlow = second.sample["net_input"]["memory"]
    assert flow.fresh is not None and flow.fresh.tolist() == [False, True]
    tokens = torch.tensor([[0, 5, 6, 2], [0, 7, 8, 2]])
    logits, _ = model(tokens, None, tokens, memory=flow)
    logits.sum().backward()
    assert logits.isfinite().all() and flow.stacked_leaving.isfinite().all()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    # The document that began anew reads what a new document reads.
    alone, _ = model(tokens[1:], None, tokens[1:], memory=MemoryFlow())
    torch.testing.assert_close(logits[1:], alone)
    streams.after_batch(second)
    with caplog.at_level(logging.WARNING):
        streams.begin_validation()
        streams.begin_validation()
    assert [record.args for record in caplog.records] == [(1,)]
