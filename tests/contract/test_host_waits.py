"""The host never waits for the device in training, and at most twice in a decoding step."""

from __future__ import annotations

import pytest
from support.contract import Built, Case, batch_of, build, cases

from gtrans.modules.group_attention import BACKENDS
from gtrans.modules.host_waits import HostWaits, pretend


def training_waits(built: Built) -> HostWaits:
    net_input = built.task.complete_input(batch_of(built)["net_input"])
    built.model.train()
    with HostWaits() as waits:
        logits = pretend(built.model)(**pretend(net_input))[0]
        logits.float().square().sum().backward()
    return waits


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_training_does_not_wait(case: Case, backend, prepared_with_bert):
    waits = training_waits(build(case, prepared_with_bert, attention_backend=backend))
    assert waits.count == 0, waits.places
