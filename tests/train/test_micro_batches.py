"""An update counts the batches that it has read, wherever a worker lacks one."""

from __future__ import annotations

from typing import Any

import pytest
from support.in_process import Training
from support.suites import others_long
from support.tiny_models import TinyWorld

STREAMS = (
    *("--arch", "memory_transformer_tiny", "--max-tokens", "200"),
    *("--min-window", "1", "--max-window", "2"),
)


@pytest.mark.parametrize(
    "options",
    [pytest.param((), id="document"), pytest.param(STREAMS, id="stream", marks=pytest.mark.long)],
)
@pytest.mark.parametrize("last", others_long([False, True], [True]))
def test_a_dummy_counts_nothing(tiny: TinyWorld, options: tuple[str, ...], last: bool) -> None:
    """The gradient of the batch is divided by its own tokens, and only these are logged."""
    options += ("--dropout", "0", "--update-freq", "2")
    whole, partly = (Training(tiny.data, *options) for _ in range(2))
    absent: tuple[Any, ...] = ({}, None)
    for missing in absent:
        logged: list[dict[str, Any]] = []
        for training, lacks in ((whole, False), (partly, True)):
            samples: list[Any] = [next(training.batches)]
            if lacks:
                samples.insert(last, missing)
            logged.append(training.trainer.train_step(samples))
        assert logged[0]["sample_size"] == logged[1]["sample_size"] > 0
        assert logged[0]["loss"] == pytest.approx(logged[1]["loss"])
    whole.assert_same(partly)
