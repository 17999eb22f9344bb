"""The sentence structure of a batch, read from its marks."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from support.batches import BATCHES, BOS, EOS, PAD, batch_of

from gtrans.modules.group_attention import DocumentLayout


def test_the_symbol_that_opens_the_decoder_input_opens_every_sentence() -> None:
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
