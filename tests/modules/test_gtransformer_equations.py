"""The equations as printed are the oracle of what the models run."""

from __future__ import annotations

import pytest
import torch
from support.batches import layouts_of, plans_of
from support.gtransformer_equations import (
    GAMMA,
    document_attention,
    group_mask,
    group_tags,
)

from gtrans.modules.transformer import ATTENTION_KINDS, DocumentAttention

BOS, PAD, EOS = 0, 1, 2
# two documents: 3 and 2 sentences on each side, of unequal lengths
SOURCE = [[0, 5, 6, 2, 0, 7, 2, 0, 8, 9, 5, 2], [0, 4, 2, 0, 6, 6, 2]]
TARGET = [[0, 9, 2, 0, 8, 7, 6, 2, 0, 5], [0, 4, 4, 4, 2, 0, 9]]


def padded(documents: list[list[int]]) -> torch.Tensor:
    rows = [torch.tensor(document) for document in documents]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


def test_tags_of_the_papers_example():
    """App. B: ``<s> there is no public transport . </s> <s> ..`` has tags 1, .., 1, 2, ..."""
    tokens = torch.tensor([BOS, 5, 6, 7, 8, 9, 4, EOS, BOS, 5, EOS])
    assert group_tags(tokens, EOS).tolist() == [1] * 8 + [2] * 3


def test_the_mask_is_gamma_where_tags_differ():
    mask = group_mask(torch.tensor([1, 2]), torch.tensor([1, 1, 2, 3]))
    assert mask.tolist() == [[0, 0, GAMMA, GAMMA], [GAMMA, GAMMA, 0, GAMMA]]


@pytest.mark.parametrize("backend", ["regroup", "dense"])
@pytest.mark.parametrize("kind", ATTENTION_KINDS)
@pytest.mark.parametrize("where", ["encoder", "decoder", "cross"])
def test_what_the_models_run_is_the_equation(kind, where, backend):
    torch.manual_seed(1)
    module = DocumentAttention(12, 3, kind=kind)
    module.backend = backend
    if module.global_attn is not None:
        module.global_attn.backend = backend
    batch = padded(SOURCE), padded(TARGET)
    made = plans_of(*batch)
    plans = {kind: made[f"{where}_{kind}"] for kind in ("group", "global")}
    sides = {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}[where]
    states = [torch.randn(layout.tokens, 12) for layout in layouts_of(*batch)]
    queries, keys = (states[side] for side in sides)
    found = module(queries, keys, plans)
    sides = [(SOURCE, TARGET)[side] for side in sides]
    query_rows = queries.split([len(document) for document in sides[0]])
    key_rows = keys.split([len(document) for document in sides[1]])
    tags = [[group_tags(torch.tensor(one), EOS) for one in side] for side in sides]
    expected = [
        document_attention(module, query, key, *tag, causal=where == "decoder")
        for query, key, *tag in zip(query_rows, key_rows, *tags, strict=True)
    ]
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-5, atol=1e-6)
