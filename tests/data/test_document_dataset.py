"""Units of a corpus, those that are chosen, their frames, their batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gtrans.data.document_dataset import DocumentDataset
from gtrans.data.examples import ExampleBuilder
from gtrans.data.frame import Frame
from gtrans.data.units import (
    DocumentUnit,
    SentenceUnit,
    Unit,
    Units,
    UnitSelection,
    UnitSpan,
    WindowUnit,
    document_units,
)
from gtrans.errors import GtransError

BOS, PAD, EOS, WORD = 0, 1, 2, 9
DOCUMENT = DocumentUnit()
BOTH, END = Frame(BOS, EOS, PAD, "both"), Frame(BOS, EOS, PAD, "end")


def sizes(text: list[int]) -> np.ndarray[Any, Any]:
    """Words per line (0: an empty line) -> sizes with ``</s>``."""
    return np.array(text) + 1


class Lines(list):  # type: ignore[type-arg]
    """A binarised side in memory."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(torch.tensor([WORD + i] * n + [EOS]) for i, n in enumerate(words))
        self.sizes = sizes(words)


def dataset(
    words: list[int], other: list[int] | None = None, unit: Unit = DOCUMENT
) -> DocumentDataset:
    """``other``: words of the target's lines, the same by default; an empty list: no target."""
    target = words if other is None else other
    units = document_units(sizes(words), sizes(target) if target else None, unit, "x")
    examples = ExampleBuilder(BOTH, unit)
    return DocumentDataset(Lines(words), Lines(target) if target else None, units, examples)


def spans_of(units: Units) -> list[UnitSpan]:
    return [UnitSpan._make(range(*ends) for ends in lines) for lines in units.lines.tolist()]


def units_of(words: list[int], target: list[int] | None, unit: Unit) -> list[tuple[int, int, int]]:
    """First line, number of the first sentence, number of sentences of every unit."""
    sides = sizes(words), None if target is None else sizes(target)
    units = document_units(*sides, unit, "x")
    spans = spans_of(units)
    for span in spans:
        assert span.target == span.predicted == span.kept == span.source
    first = units.first_sentence.tolist()
    return [
        (span.source.start, number, len(span.source))
        for span, number in zip(spans, first, strict=True)
    ]


def test_units_of_a_small_corpus() -> None:
    words = [0, 3, 4, 0, 0, 5, 2, 2, 0]
    assert units_of(words, None, SentenceUnit()) == [
        (1, 0, 1), (2, 1, 1), (5, 2, 1), (6, 3, 1), (7, 4, 1),
    ]  # fmt: skip
    assert units_of(words, None, DOCUMENT) == [
        (1, 0, 2), (5, 2, 3),
    ]  # fmt: skip
    # 5 + 2 = 7, then 4 each: a limit of 12 takes two sentences, the third stands alone.
    assert units_of(words, None, DocumentUnit(12))[1:] == [
        (5, 2, 2), (7, 4, 1),
    ]  # fmt: skip
    # The longer side counts.
    other = [0, 3, 4, 0, 0, 1, 9, 2, 0]
    assert units_of(words, other, DocumentUnit(12))[1:] == [
        (5, 2, 1), (6, 3, 1), (7, 4, 1),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(8, 60))
def test_units_hold_every_sentence_once_and_in_order(words: list[int], limit: int) -> None:
    if not any(words):
        with pytest.raises(GtransError, match="holds no sentence"):
            units_of(words, None, DocumentUnit(limit))
        return
    lines = [i for i, n in enumerate(words) if n]
    found = units_of(words, None, DocumentUnit(limit))
    assert [line for first, _, count in found for line in range(first, first + count)] == lines
    assert [first for _, first, _ in found] == [lines.index(line) for line, _, _ in found]
    for first, _, count in found:
        cost = sum(words[line] + 2 for line in range(first, first + count))
        assert count == 1 or cost <= limit


def test_sides_that_differ_are_refused_with_the_line() -> None:
    with pytest.raises(GtransError, match="^x: line 3 is empty on the source side but not on"):
        units_of([3, 3, 0, 3], [3, 3, 3, 3], DOCUMENT)
    with pytest.raises(GtransError, match="target 3; they differ from line 3 on"):
        units_of([3, 3], [3, 3, 3], DOCUMENT)


@pytest.mark.parametrize(
    ("sides", "target", "predicted"),
    [
        ("source", [(1, 2), (2, 3), (4, 5)], [(1, 2), (2, 3), (4, 5)]),
        ("both", [(1, 2), (1, 3), (4, 5)], [(1, 2), (1, 3), (4, 5)]),
        ("history", [(1, 2), (1, 3), (4, 5)], [(1, 2), (2, 3), (4, 5)]),
    ],
)
def test_windows_of_a_small_corpus(
    sides: str, target: list[tuple[int, int]], predicted: list[tuple[int, int]]
) -> None:
    """One sentence before the current one, never across the empty line."""
    words = [0, 3, 4, 0, 5]
    data = dataset(words, unit=WindowUnit(context_sides=sides))
    units = data.units
    spans = spans_of(units)
    assert [span.source for span in spans] == [range(1, 2), range(1, 3), range(4, 5)]
    assert [span.target for span in spans] == [range(*ends) for ends in target]
    assert [span.predicted for span in spans] == [range(*ends) for ends in predicted]
    assert [span.kept for span in spans] == [range(1, 2), range(2, 3), range(4, 5)]
    assert units.first_sentence.tolist() == [0, 1, 2]
    # Sizes count what a row holds: words and two special tokens a sentence.
    assert data.source_sizes.tolist() == [5, 11, 7]
    assert data.target_sizes.tolist() == [
        sum(words[line] + 2 for line in span.target) for span in spans
    ]


def test_batch() -> None:
    data = dataset([2, 1, 0, 3], [1, 2, 0, 1])
    batch = data.collater([data[0], data[1]])
    assert batch["net_input"]["src_tokens"].tolist() == [
        [BOS, 9, 9, EOS, BOS, 10, EOS],
        [BOS, 12, 12, 12, EOS, PAD, PAD],
    ]
    assert batch["target"].tolist() == [[9, EOS, PAD, 10, 10, EOS], [12, EOS] + [PAD] * 4]
    assert batch["nsentences"] == 3 and batch["ntokens"] == 7
    assert batch["first_sentence"].tolist() == [0, 2]
    assert dataset([2, 1], []).collater([dataset([2, 1], [])[0]])["target"] is None
    assert data.collater([]) == {}


@given(
    st.lists(st.integers(0, 40), min_size=2, max_size=60).filter(any),
    st.integers(4, 100),
    st.integers(1, 8),
)
def test_every_unit_is_in_one_batch_however_long(
    words: list[int], max_tokens: int, multiple: int
) -> None:
    """Nothing is skipped, long units have their own batch, batches keep to their limit."""
    data = dataset(words, unit=DocumentUnit(64))
    indices, ignored = data.filter_indices_by_size(data.ordered_indices(), (10, 10))
    assert not ignored
    batches = data.batch_by_size(
        indices, max_tokens=max_tokens, required_batch_size_multiple=multiple
    )
    assert sorted(i for batch in batches for i in batch) == list(range(len(data)))
    for batch in batches:
        assert len(batch) == 1 or max(data.num_tokens(i) for i in batch) * len(batch) <= max_tokens


def test_a_sentence_that_is_too_long_for_a_model_is_found_before_the_search() -> None:
    """Documents that are translated in chunks count what is read at once."""
    unit = DocumentUnit(12, overlap=1)
    lines = sizes([5, 5, 30, 5])
    units = document_units(lines, None, unit, "x")
    data = DocumentDataset(Lines([5, 5, 30, 5]), None, units, ExampleBuilder(BOTH, unit))
    assert (len(data), data.sizes.tolist()) == (1, [32])
    data.check_lengths((40, 40), "x")
    with pytest.raises(GtransError, match="32 tokens, but the model has learned only 20"):
        data.check_lengths((20, 20), "x")


# ---- a part of a training set --------------------------------------------------------------------

# Tokens of the lines of five documents, 0 between them; with special tokens 4 + 6, 12, 3 + 3 + 3,
# 30, 5.
TOKENS = np.array([2, 4, 0, 10, 0, 0, 1, 1, 1, 0, 28, 0, 3])
FIRST_LINES = [0, 3, 6, 10, 12]


def starts(selection: UnitSelection, unit=None) -> list[int]:
    """First lines of the units that are read."""
    sizes = TOKENS + 1
    units = document_units(sizes, sizes, unit or DocumentUnit(), "x", selection)
    return units.lines[:, 0, 0].tolist()


def test_documents_of_a_least_length():
    assert starts(UnitSelection(min_tokens=9)) == [0, 3, 6, 10]
    assert starts(UnitSelection(min_tokens=10)) == [0, 3, 10]
    # Lengths are those of documents, whatever the unit is; the longer side counts.
    assert starts(UnitSelection(min_tokens=10), SentenceUnit()) == [0, 1, 3, 10]
    target = np.where(TOKENS == 3, 9, TOKENS) + 1
    units = document_units(TOKENS + 1, target, DocumentUnit(), "x", UnitSelection(min_tokens=11))
    assert units.lines[:, 0, 0].tolist() == [3, 10, 12]
    assert units.first_sentence.tolist() == [2, 6, 7]  # among all sentences of the corpus


def test_a_smaller_sample_is_part_of_a_larger_one():
    drawn = [starts(UnitSelection(units=number)) for number in range(1, 6)]
    assert [len(one) for one in drawn] == [1, 2, 3, 4, 5]
    assert all(set(small) < set(large) for small, large in pairwise(drawn))
    assert all(one == sorted(one) for one in drawn) and drawn[-1] == FIRST_LINES


def test_units_are_drawn_from_the_documents_that_are_left():
    assert starts(UnitSelection(min_tokens=10, units=4), SentenceUnit()) == [0, 1, 3, 10]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_tokens": 31}, "`--min-doc-tokens` 31: no document of x is so long, the longest has"
                             " 30 tokens"),
        ({"units": 6}, "`--sample-instances` 6: x has only 5 units;"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused(wrong, message):
    with pytest.raises(GtransError) as refused:
        starts(UnitSelection(**wrong))
    assert message in str(refused.value)
