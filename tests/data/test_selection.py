"""Which part of a training set is read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from gtrans.data.units import DocumentUnit, Selection, SentenceUnit, document_units
from gtrans.errors import GtransError

# Tokens of the lines of five documents, 0 between them: with marks 4 + 6, 12, 3 + 3 + 3, 30, 5.
WORDS = np.array([2, 4, 0, 10, 0, 0, 1, 1, 1, 0, 28, 0, 3])
STARTS = [0, 3, 6, 10, 12]


def starts(selection: Selection, unit=None) -> list[int]:
    """First lines of the units that are read."""
    sizes = WORDS + 1
    units = document_units(sizes, sizes, unit or DocumentUnit(), "x", selection)
    return units.lines[:, 0, 0].tolist()


def test_documents_of_a_least_length():
    assert starts(Selection(min_tokens=9)) == [0, 3, 6, 10]
    assert starts(Selection(min_tokens=10)) == [0, 3, 10]
    # Lengths are those of documents, whatever the unit is; the longer side counts.
    assert starts(Selection(min_tokens=10), SentenceUnit()) == [0, 1, 3, 10]
    target = np.where(WORDS == 3, 9, WORDS) + 1
    units = document_units(WORDS + 1, target, DocumentUnit(), "x", Selection(min_tokens=11))
    assert units.lines[:, 0, 0].tolist() == [3, 10, 12]
    assert units.first_sentence.tolist() == [2, 6, 7]  # among all sentences of the corpus


def test_a_smaller_sample_is_part_of_a_larger_one():
    drawn = [starts(Selection(instances=number)) for number in range(1, 6)]
    assert [len(one) for one in drawn] == [1, 2, 3, 4, 5]
    assert all(set(small) < set(large) for small, large in pairwise(drawn))
    assert all(one == sorted(one) for one in drawn) and drawn[-1] == STARTS


def test_units_are_drawn_from_the_documents_that_are_left():
    assert starts(Selection(min_tokens=10, instances=4), SentenceUnit()) == [0, 1, 3, 10]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_tokens": 31}, "`--min-doc-tokens` 31: no document of x is so long, the longest has"
                             " 30 tokens"),
        ({"instances": 6}, "`--sample-instances` 6: x has only 5 instances;"),
    ],
)  # fmt: skip
def test_what_there_is_not_is_refused(wrong, message):
    with pytest.raises(GtransError) as refused:
        starts(Selection(**wrong))
    assert message in str(refused.value)
