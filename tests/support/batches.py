"""Batches of made-up documents, and the attention plans of a pair of them."""

from __future__ import annotations

import torch
from hypothesis import strategies as st
from torch import Tensor

from gtrans.models.base.planning import cross_plans, self_plans
from gtrans.modules.group_attention import AttentionPlan, DocumentLayout

BOS, PAD, EOS = 0, 1, 2

# Words per sentence, per document.
BATCHES = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=4)
PLANS = (
    "encoder_group", "encoder_global", "decoder_group", "decoder_global",
    "cross_group", "cross_global",
)  # fmt: skip


def batch_of(documents: list[list[int]], left: bool = False) -> Tensor:
    """``<s> w .. </s> <s> ..`` for every document, padded on one side."""
    rows = [
        [token for words in document for token in (BOS, *[7] * words, EOS)]
        for document in documents
    ]
    width = max(map(len, rows))
    pads = [[PAD] * (width - len(row)) for row in rows]
    return torch.tensor([p + r if left else r + p for r, p in zip(rows, pads, strict=True)])


def layouts_of(source: Tensor, target: Tensor) -> tuple[DocumentLayout, DocumentLayout]:
    return (
        DocumentLayout.of_source(source, PAD, EOS),
        DocumentLayout.of_target(target, PAD, BOS, EOS),
    )


def plans_of(source: Tensor, target: Tensor, shapes: str = "exact") -> dict[str, AttentionPlan]:
    """The plans :data:`PLANS` of a batch."""
    encoded, read = layouts_of(source, target)
    kinds = "group", "global"
    made = {
        "encoder": self_plans(encoded, kinds, shapes),
        "decoder": self_plans(read, kinds, shapes, causal=True),
        "cross": cross_plans(encoded, read, kinds, shapes),
    }
    return {f"{side}_{kind}": plan for side, own in made.items() for kind, plan in own.items()}


def context_plan(rows: list[int], context: list[int]) -> AttentionPlan:
    """The plan by which rows of so many tokens see contexts of so many."""
    layout = DocumentLayout.of_rows(torch.tensor(rows))
    return self_plans(layout, ("context",), "exact", torch.tensor(context))["context"]
