"""Options of every class, all pairs of values: what is not refused trains and decodes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support.contract import (
    Built,
    Case,
    batch_of,
    build,
    first_cases,
    loss_of,
    searched_and_read,
)
from support.option_values import covering, dimensions
from support.suites import others_long

from gtrans.errors import GtransError
from gtrans.models.base.model import DocumentModel


def tried(case: Case, data: Any, row: dict[str, Any]) -> Built | None:
    """The model with these options; None where they are refused, in one line."""
    try:
        return build(case, data, **row)
    except GtransError as error:
        refusal = str(error)
    assert "\n" not in refusal and "`" in refusal
    return None


# The classes whose options `make test` tries; those of the others are for `make test-all`.
TRIED = ("gtransformer", "flat_transformer_bert")

# What nothing reads beside a value of another option, and is refused.
UNREAD: dict[tuple[str, Any], set[str]] = {
    ("encoder_group_size", 0): {"no_encoder_fusion"},
    ("decoder_group_size", 0): {"no_decoder_fusion", "decoder_group_fusion", "probability_fusion"},
    ("han_context", True): {"bert_integration", "combine", "context_place", "drop_net"},
}


def read(row: dict[str, Any]) -> dict[str, Any]:
    """The options without those that nothing would read."""
    unread = set().union(*(UNREAD.get(item, set()) for item in row.items()))
    return {name: value for name, value in row.items() if name not in unread}


def check(built: Built, row: dict[str, Any]) -> None:
    built.model.train()
    loss = loss_of(built, batch_of(built))
    assert torch.isfinite(loss)
    loss.backward()
    # DistributedDataParallel waits for the gradient of every parameter. Layers and groups that
    # are left out in decoding have none.
    if row.get("keep_encoder_layers") is None and row.get("use_groups") is None:
        parameters = built.model.named_parameters()
        assert [n for n, p in parameters if p.requires_grad and p.grad is None] == []
    for written, read in searched_and_read(built):
        assert written == pytest.approx(read, abs=2e-4)


@pytest.mark.parametrize(
    "case",
    others_long(
        first_cases(),
        [case for case in first_cases() if case.arch.removesuffix("_tiny") in TRIED],
    ),
)
def test_pairs_of_options(case, prepared_with_bert):
    dims = dimensions(case.model)
    unused = {(name, value) for name, values in dims.items() for value in values}

    def works(row: dict[str, Any]) -> bool:
        built = tried(case, prepared_with_bert, row)
        try:
            return built is not None and (check(built, row) or True)
        except Exception as error:
            raise AssertionError(f"{case} with {row}") from error

    for row in map(read, covering(dims, 2)):
        if works(row):
            unused -= set(row.items())
    # What no row of others goes with is refused in company; by itself it works.
    alone = [(name, value) for name, value in unused if not works({name: value})]
    assert not alone or case.model.bert_use is not DocumentModel.bert_use, alone
    # BERT's words are its own.
    assert {name for name, _ in alone} <= {"share_all_embeddings"}, alone
