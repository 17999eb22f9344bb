"""Units of a corpus, their frames, their batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from gtrans.data.examples import Frame, Rows
from hypothesis import given
from hypothesis import strategies as st

from gtrans.data.document_dataset import (
    DocumentDataset,
    check_no_marks,
    document_units,
)
from gtrans.data.units import UnitOptions
from gtrans.data.word_dropout import word_dropout
from gtrans.errors import GtransError

BOS, PAD, EOS, WORD = 0, 1, 2, 9
BOTH, END = Frame(BOS, EOS, PAD, "both"), Frame(BOS, EOS, PAD, "end")


def sizes(text: list[int]) -> np.ndarray[Any, Any]:
    """Words per line (0: an empty line) -> sizes with the end symbol."""
    return np.array(text) + 1


class Lines(list):  # type: ignore[type-arg]
    """A binarised side in memory."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(torch.tensor([WORD + i] * n + [EOS]) for i, n in enumerate(words))
        self.sizes = sizes(words)


def dataset(words: list[int], other: list[int] | None = None, **options: Any) -> DocumentDataset:
    """``other``: words of the target's lines, the same by default; an empty list: no target."""
    target = words if other is None else other
    unit = UnitOptions(options.pop("unit", "document"), **options)
    units = document_units(sizes(words), sizes(target) if target else None, unit, "x")
    rows = Rows(BOTH, unit)
    return DocumentDataset(Lines(words), Lines(target) if target else None, units, rows)


def units_of(
    words: list[int], target: list[int] | None, unit: str, limit: int = 512
) -> list[tuple[int, int, int]]:
    """First line, number of the first sentence, number of sentences of every unit."""
    sides = sizes(words), None if target is None else sizes(target)
    units = document_units(*sides, UnitOptions(unit, max_doc_tokens=limit), "x")
    assert np.array_equal(units.lines[:, :2], units.lines[:, 2:4])
    assert np.array_equal(units.lines[:, :2], units.lines[:, 4:])
    begins, ends = units.lines[:, 0].tolist(), units.lines[:, 1].tolist()
    first = units.first_sentence.tolist()
    return [(b, number, e - b) for b, number, e in zip(begins, first, ends, strict=True)]


def test_units_of_a_small_corpus() -> None:
    words = [0, 3, 4, 0, 0, 5, 2, 2, 0]
    assert units_of(words, None, "sentence", 512) == [
        (1, 0, 1), (2, 1, 1), (5, 2, 1), (6, 3, 1), (7, 4, 1),
    ]  # fmt: skip
    assert units_of(words, None, "document", 512) == [
        (1, 0, 2), (5, 2, 3),
    ]  # fmt: skip
    # 5 + 2 = 7, then 4 each: a limit of 12 takes two sentences, the third stands alone.
    assert units_of(words, None, "document", 12)[1:] == [
        (5, 2, 2), (7, 4, 1),
    ]  # fmt: skip
    # The longer side counts.
    other = [0, 3, 4, 0, 0, 1, 9, 2, 0]
    assert units_of(words, other, "document", 12)[1:] == [
        (5, 2, 1), (6, 3, 1), (7, 4, 1),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 30), min_size=1, max_size=40), st.integers(8, 60))
def test_units_hold_every_sentence_once_and_in_order(words: list[int], limit: int) -> None:
    if not any(words):
        with pytest.raises(GtransError, match="holds no sentence"):
            units_of(words, None, "document", limit)
        return
    lines = [i for i, n in enumerate(words) if n]
    found = units_of(words, None, "document", limit)
    assert [line for first, _, count in found for line in range(first, first + count)] == lines
    assert [first for _, first, _ in found] == [lines.index(line) for line, _, _ in found]
    for first, _, count in found:
        cost = sum(words[line] + 2 for line in range(first, first + count))
        assert count == 1 or cost <= limit


def test_sides_that_differ_are_refused_with_the_line() -> None:
    with pytest.raises(GtransError, match="^x: line 3 is empty on the source side but not on"):
        units_of([3, 3, 0, 3], [3, 3, 3, 3], "document")
    with pytest.raises(GtransError, match="source has 2 lines, the target 3; they part at line 3"):
        units_of([3, 3], [3, 3, 3], "document")


def test_frames() -> None:
    sentences = [torch.tensor([5, 6, EOS]), torch.tensor([7, EOS])]
    assert BOTH.source(sentences).tolist() == [BOS, 5, 6, EOS, BOS, 7, EOS]
    previous, target = BOTH.target(sentences)
    assert previous.tolist() == [BOS, 5, 6, EOS, BOS, 7]
    assert target.tolist() == [5, 6, EOS, PAD, 7, EOS]
    assert END.source(sentences).tolist() == [5, 6, EOS, 7, EOS]
    previous, target = END.target(sentences)
    assert previous.tolist() == [EOS, 5, 6, EOS, 7]
    assert target.tolist() == [5, 6, EOS, 7, EOS]


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
    data = dataset(words, max_doc_tokens=64)
    indices, ignored = data.filter_indices_by_size(data.ordered_indices(), (10, 10))
    assert not ignored
    batches = data.batch_by_size(
        indices, max_tokens=max_tokens, required_batch_size_multiple=multiple
    )
    assert sorted(i for batch in batches for i in batch) == list(range(len(data)))
    for batch in batches:
        assert len(batch) == 1 or max(data.num_tokens(i) for i in batch) * len(batch) <= max_tokens


@pytest.mark.parametrize("impl", ["mmap", "cached", "lazy"])
def test_marks_in_the_text_are_refused(tmp_path: Path, impl: str) -> None:
    symbols = Dictionary()
    symbols.add_symbol("word")

    def side(lines: list[list[int]]) -> Any:
        path = str(tmp_path / impl)
        builder = indexed_dataset.make_builder(path + ".bin", impl=impl, vocab_size=len(symbols))
        for line in lines:
            builder.add_item(torch.IntTensor(line))
        builder.finalize(path + ".idx")
        return indexed_dataset.make_dataset(path, impl, fix_lua_indexing=True)

    check_no_marks(side([[4, 4, EOS], [EOS], [4, EOS]]), symbols, "x.en")
    with pytest.raises(GtransError, match="^x.en: line 2 holds a literal <s>"):
        check_no_marks(side([[4, EOS], [4, BOS, EOS]]), symbols, "x.en")
    with pytest.raises(GtransError, match="^x.en: line 1 holds a literal </s>"):
        check_no_marks(side([[4, EOS, 4, EOS], [4, EOS]]), symbols, "x.en")


def test_word_dropout() -> None:
    tokens = torch.randint(4, 50, (40, 60))
    tokens[:, ::7], tokens[:, 1::11], tokens[0, 5:] = BOS, EOS, PAD
    marks = tokens.le(EOS)
    dropped = word_dropout(tokens, 0.3, 99, (BOS, EOS, PAD), (1, 2, 3))
    assert torch.equal(dropped[marks], tokens[marks])
    changed = dropped.ne(tokens)
    assert dropped[changed].eq(99).all()
    assert abs(changed[~marks].float().mean().item() - 0.3) < 0.03
    again = word_dropout(tokens, 0.3, 99, (BOS, EOS, PAD), (1, 2, 3))
    assert torch.equal(dropped, again)
    assert not torch.equal(dropped, word_dropout(tokens, 0.3, 99, (BOS, EOS, PAD), (1, 2, 4)))
    assert torch.equal(word_dropout(tokens, 0.0, 99, (), (1,)), tokens)
