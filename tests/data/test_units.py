"""Units, as sentence numbers and as rows of a batch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from gtrans.data.examples import ContextText, Frame, Rows
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gtrans.data.units import UNITS, UnitOptions
from gtrans.errors import GtransError

BOS, PAD, EOS = 0, 1, 2
FRAME = Frame(BOS, EOS, PAD)


def sentence(*words: int) -> Tensor:
    return torch.tensor([*words, EOS])


DOCUMENT = [sentence(10), sentence(20, 21), sentence(30), sentence(40)]


def rows_of(rows: Rows, source: list[Tensor], target: list[Tensor] | None = None) -> list[Any]:
    return [
        rows.item(
            piece,
            [source[number] for number in piece.source],
            None if target is None else [target[number] for number in piece.target],
        )
        for piece in rows.unit.pieces([len(one) - 1 for one in source])
    ]


def window(**options: Any) -> Rows:
    context = ContextText((50, 60), sentence(7, 8), seed=1)
    return Rows(FRAME, UnitOptions("window", **options), context)


@given(
    st.lists(st.integers(1, 30), max_size=20),
    st.sampled_from(UNITS),
    st.integers(8, 60),
    st.integers(0, 3),
    st.integers(0, 3),
    st.sampled_from(["source", "both"]),
    st.sampled_from(["true", "none"]),
)
def test_every_sentence_is_current_once_and_in_order(
    lengths: list[int], unit: str, limit: int, before: int, after: int, sides: str, kind: str
) -> None:
    pieces = UnitOptions(unit, limit, before, after, kind, sides).pieces(lengths)
    assert [k for piece in pieces for k in piece.current] == list(range(len(lengths)))
    for piece in pieces:
        assert set(piece.current) <= set(piece.target) <= set(piece.source)
        assert set(piece.source) <= set(range(len(lengths)))  # no neighbours beyond the ends


def test_windows_end_with_their_document() -> None:
    pieces = UnitOptions("window", context_before=2, context_after=1).pieces([1, 1, 1])
    assert [piece.source for piece in pieces] == [range(0, 2), range(0, 3), range(0, 3)]
    assert [piece.target for piece in pieces] == [range(0, 1), range(1, 2), range(2, 3)]


def test_rows_of_windows() -> None:
    rows = window(context_before=1, context_after=1)
    batch = rows.batch(rows_of(rows, DOCUMENT, DOCUMENT)[:2])
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 10, EOS, BOS, 20, 21, EOS, PAD, PAD, PAD],
        [BOS, 10, EOS, BOS, 20, 21, EOS, BOS, 30, EOS],
    ]
    assert batch["net_input"]["current"].tolist() == [0, 1]
    assert batch["net_input"]["prev_output_tokens"].tolist() == [[BOS, 10, PAD], [BOS, 20, 21]]
    assert batch["target"].tolist() == [[10, EOS, PAD], [20, 21, EOS]]
    assert batch["nsentences"] == 2 and batch["ntokens"] == 5
    written = rows.written(batch["net_input"])
    assert [[one.tolist() for one in row] for row in written] == [[[10, EOS]], [[20, 21, EOS]]]
    assert rows.wanted(batch["net_input"]) == [slice(None)] * 2


def test_rows_of_windows_on_both_sides() -> None:
    rows = window(context_before=1, context_sides="both")
    batch = rows.batch(rows_of(rows, DOCUMENT, DOCUMENT))
    assert batch["nsentences"] == 7
    written = rows.written(batch["net_input"])
    assert [[len(one) - 1 for one in row] for row in written] == [[1], [1, 2], [2, 1], [1, 1]]
    assert rows.wanted(batch["net_input"]) == [slice(0, 1)] + [slice(1, 2)] * 3


def sources(rows: Rows, document: list[Tensor]) -> list[list[list[int]]]:
    items = rows_of(rows, document)
    return [[one.tolist() for one in FRAME.sentences(item["source"])] for item in items]


def test_fixed_random_and_no_context() -> None:
    fixed = sources(window(context_kind="fixed"), DOCUMENT)
    assert fixed[0] == [[10, EOS]]  # a missing neighbour stays missing
    assert fixed[1] == [[7, 8, EOS], [20, 21, EOS]]
    assert sources(window(context_kind="none"), DOCUMENT) == [[one.tolist()] for one in DOCUMENT]
    random = sources(window(context_kind="random"), DOCUMENT)
    assert [row[-1] for row in random] == [one.tolist() for one in DOCUMENT]
    neighbours = [row[0] for row in random[1:]]
    assert [len(one) for one in neighbours] == [2, 3, 2]  # as long as the true ones
    assert all(50 <= word < 60 for one in neighbours for word in one[:-1])


def test_random_context_depends_on_text_and_seed_alone() -> None:
    long = [torch.randint(10, 99, (20,)) for _ in range(4)]
    long = [torch.cat([one, sentence()]) for one in long]
    rows = window(context_kind="random")
    assert sources(rows, long) == sources(rows, long)
    assert sources(rows, long)[2:] == sources(rows, long[1:])[1:]
    other = Rows(FRAME, rows.unit, ContextText((50, 60), sentence(), seed=2))
    assert sources(rows, long)[1] != sources(other, long)[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_doc_tokens": 7}, "`--max-doc-tokens` must be at least 8, but is 7"),
        ({"context_before": -1}, "`--context-before` must be at least 0, but is -1"),
        ({"context_sides": "both", "context_kind": "random"}, "`--context-kind random` replaces"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GtransError, match=message):
        UnitOptions("window", **options)
