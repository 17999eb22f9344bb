"""The sentence structure of a batch, and regrouped attention against the equation as written."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import BATCHES, BOS, EOS, PAD, PLANS, batch_of, plans_of

from gtrans.errors import GtransError
from gtrans.modules.group_attention import (
    SHAPES,
    AttentionPlan,
    DocumentLayout,
    dense_attention,
    rounded_width,
    segment_attention,
)


def test_the_token_that_opens_the_decoder_input_opens_every_sentence() -> None:
    both = torch.tensor([[BOS, 7, EOS, BOS, 8, PAD]])
    layout = DocumentLayout.of_target(both, PAD, BOS, EOS)
    assert layout.sentence.tolist() == [0, 0, 0, 1, 1]
    end_only = torch.tensor([[EOS, 7, 7, EOS, 8, PAD]])
    layout = DocumentLayout.of_target(end_only, PAD, BOS, EOS)
    assert layout.sentence.tolist() == [0, 0, 0, 1, 1]
    # What stands before the first mark belongs to the first sentence.
    layout = DocumentLayout.of_target(torch.tensor([[9, BOS, 7, EOS, BOS, 8]]), PAD, BOS, EOS)
    assert layout.sentence_counts.tolist() == [3]


@given(BATCHES, st.booleans())
def test_layout_agrees_with_counting(documents: list[list[int]], left: bool) -> None:
    tokens = batch_of(documents, left)
    layout = DocumentLayout.of_source(tokens, PAD, EOS)
    target = DocumentLayout.of_target(tokens, PAD, BOS, EOS)
    expected = [words + 2 for document in documents for words in document]
    for side in (layout, target):
        assert side.sentence_lengths.tolist() == expected
        assert side.document_lengths.tolist() == [sum(w + 2 for w in d) for d in documents]
        assert side.sentence_counts.tolist() == [len(d) for d in documents]
        numbers = [k for d in documents for k, w in enumerate(d) for _ in range(w + 2)]
        assert side.sentence.tolist() == numbers
        inner = [i for d in documents for w in d for i in range(w + 2)]
        assert side.position_in_sentence.tolist() == inner


@given(BATCHES, st.booleans())
def test_packing_and_padding_are_inverse(documents: list[list[int]], left: bool) -> None:
    tokens = batch_of(documents, left)
    layout = DocumentLayout.of_source(tokens, PAD, EOS)
    assert torch.equal(layout.pad(layout.pack(tokens), PAD), tokens)
    assert layout.pack(tokens).ne(PAD).all()


# ---- attention -----------------------------------------------------------------------------------


def compare(plan: AttentionPlan, heads: int = 2, dim: int = 8) -> None:
    """Outputs and gradients of both backends agree to 1e-5."""
    torch.manual_seed(1)
    sizes = (*plan.size, plan.size[1])
    inputs = [torch.randn(size, dim, requires_grad=True) for size in sizes]
    weight = torch.randn(plan.size[0], dim)
    results = []
    for attend in (segment_attention, lambda *a: dense_attention(*a)[0]):
        output = attend(*inputs, plan, heads)
        grads = torch.autograd.grad((output * weight).sum(), inputs)
        results.append((output, *grads))
    for mine, oracle in zip(*results, strict=True):
        torch.testing.assert_close(mine, oracle, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", PLANS)
@given(BATCHES, st.data())
@settings(max_examples=40)
def test_regrouped_equals_dense(name: str, documents: list[list[int]], data: st.DataObject) -> None:
    other = [[data.draw(st.integers(0, 6)) for _ in document] for document in documents]
    compare(plans_of(batch_of(documents, left=True), batch_of(other))[name])


@pytest.mark.parametrize("name", PLANS)
def test_rounded_shapes_change_nothing(name: str) -> None:
    """Buckets of few shapes have padding and rows of padding; words and gradients are the same."""
    source, target = (
        batch_of([[3] * 9, [50], [1, 90, 2]], left=True),
        batch_of([[4] * 9, [41], [2, 60, 3]]),
    )
    results = []
    for shapes in SHAPES:
        plan = plans_of(source, target, shapes)[name]
        torch.manual_seed(1)
        sizes = (*plan.size, plan.size[1])
        inputs = [torch.randn(size, 8, dtype=torch.double, requires_grad=True) for size in sizes]
        weight = torch.randn(plan.size[0], 8, dtype=torch.double)
        output = segment_attention(*inputs, plan, 2)
        results.append([output, *torch.autograd.grad((output * weight).sum(), inputs)])
        for bucket in plan.buckets if shapes == "rounded" else ():
            assert bucket.query == rounded_width(bucket.query)
            assert bucket.key == rounded_width(bucket.key)
    for exact, rounded in zip(*results, strict=True):
        torch.testing.assert_close(rounded, exact, atol=1e-6, rtol=0)


def test_fewer_target_sentences_than_source_sentences() -> None:
    plans = plans_of(batch_of([[3, 4, 5], [2, 2]]), batch_of([[2], [1, 1]]))
    compare(plans["cross_group"])


def test_more_target_sentences_are_refused() -> None:
    with pytest.raises(GtransError, match="row 1 .* 3 target sentences but only 2 source"):
        plans_of(batch_of([[3], [2, 2]]), batch_of([[3], [1, 1, 1]]))


def test_cost_grows_with_sentences_not_with_the_document() -> None:
    """The padded rows and scores of 80 equal sentences are 80 times those of one."""

    def scores(sentences: int) -> int:
        source = batch_of([[23] * sentences])
        buckets = plans_of(source, source)["encoder_group"].buckets
        return sum(b.segments * b.query * b.key for b in buckets)

    assert scores(80) == 80 * scores(1)


def test_ragged_sentences_waste_little() -> None:
    source = batch_of([[5, 200, 30, 31, 8, 60, 3, 45, 25]])
    buckets = plans_of(source, source)["encoder_group"].buckets
    padded = sum(bucket.segments * bucket.query for bucket in buckets)
    assert padded < 1.25 * source.numel()
