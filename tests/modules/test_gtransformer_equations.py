"""The equations as printed are the oracle of what the models run."""

from __future__ import annotations

import pytest
import torch
from support.gtransformer_equations import (
    GAMMA,
    document_attention,
    group_mask,
    group_tags,
)

from gtrans.modules.attention import KINDS, DocumentAttention
from gtrans.modules.attention_plans import AttentionPlans
from gtrans.modules.layout import DocumentLayout

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
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["encoder", "decoder", "cross"])
def test_what_the_models_run_is_the_equation(kind, where, backend):
    torch.manual_seed(1)
    module = DocumentAttention(12, 3, kind=kind)
    module.backend = backend
    if module.global_attn is not None:
        module.global_attn.backend = backend
    source = DocumentLayout.of_source(padded(SOURCE), PAD, EOS)
    target = DocumentLayout.of_target(padded(TARGET), PAD, BOS, EOS)
    plans = AttentionPlans(source, target)
    keys = torch.randn(source.tokens, 12)
    if where == "encoder":
        queries = keys
        plan = (lambda: plans.encoder_group), (lambda: plans.encoder_global)
        sides = SOURCE, SOURCE
    else:
        queries = torch.randn(target.tokens, 12)
        if where == "decoder":
            keys = queries
            plan = (lambda: plans.decoder_group), (lambda: plans.decoder_global)
            sides = TARGET, TARGET
        else:
            plan = (lambda: plans.cross_group), (lambda: plans.cross_global)
            sides = TARGET, SOURCE
    found = module(queries, keys, *plan)
    query_rows = queries.split([len(document) for document in sides[0]])
    key_rows = keys.split([len(document) for document in sides[1]])
    tags = [[group_tags(torch.tensor(one), EOS) for one in side] for side in sides]
    expected = [
        document_attention(module, query, key, *tag, causal=where == "decoder")
        for query, key, *tag in zip(query_rows, key_rows, *tags, strict=True)
    ]
    torch.testing.assert_close(found, torch.cat(expected), rtol=1e-5, atol=1e-6)
