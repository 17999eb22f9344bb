"""Documents with a memory between their instances, read one instance after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gtrans.data.examples import ExampleBuilder
from gtrans.data.units import InstanceStreamUnit, Unit


def lengths(sentences: Sequence[Tensor]) -> list[int]:
    """Tokens of each sentence without its end symbol."""
    return [len(sentence) - 1 for sentence in sentences]


def instances_of(unit: Unit, source: Sequence[Tensor]) -> list[int] | None:
    """How a search cuts a document, which knows no translation."""
    return unit.steps(lengths(source)) if isinstance(unit, InstanceStreamUnit) else None


def read_in_turn(
    builder: ExampleBuilder, model: Any, source: Sequence[Tensor], target: Sequence[Tensor]
) -> list[tuple[range, float]]:
    """Of every instance its own sentences, and their score where it alone is read.

    The memory is carried from one to the next.
    """
    found, memory = [], model.new_memory()
    for span in builder.unit.parts(lengths(source)):
        sides = ([side[n] for n in span.source] for side in (source, target))
        row = builder.example(
            span._replace(written=span.current), *sides, instances=[len(span.source)]
        )
        batch = builder.collate([row])
        logits = model(**batch["net_input"], memory=memory)[0].float()
        memory = memory.following(torch.tensor([0]))
        log_probs = model.search_scores(logits).gather(2, batch["target"][:, :, None])
        words = batch["target"].ne(builder.frame.pad)
        found.append((span.current, float((log_probs.squeeze(2) * words).sum())))
    return found
