"""Sentences that are given other neighbours, and what comes back to their places."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gtrans.translating.force_decode import cut_into_documents, put_back, shuffled_order


@given(st.lists(st.integers(0, 5), max_size=8))
def test_what_is_shuffled_comes_back(lengths: list[int]) -> None:
    count = sum(lengths)
    order = shuffled_order(count)
    assert sorted(order) == list(range(count)) and order == shuffled_order(count)
    shuffled = cut_into_documents(order, lengths)
    assert [len(document) for document in shuffled] == lengths
    # Every number stands for its sentence.
    again = put_back([number for document in shuffled for number in document], order)
    assert again == list(range(count))


def test_neighbours_are_drawn_from_all_documents() -> None:
    first = cut_into_documents(shuffled_order(100), [10] * 10)[0]
    assert max(first) - min(first) >= 50
