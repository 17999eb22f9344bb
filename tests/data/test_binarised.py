"""Damaged binarised files and dictionaries are found before anything is read from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from support.writing import refused

from gtrans.data.binarised import load_dictionary, load_lines

BOS, EOS = 0, 2
LINES = [[4, 5, EOS], [EOS], [6, EOS], [7, 7, 7, EOS]]


def written(folder: Path, lines: Sequence[Sequence[int]] = LINES, impl: str = "mmap") -> str:
    path = str(folder / "x.en")
    builder = indexed_dataset.make_builder(f"{path}.bin", impl, vocab_size=8)
    for line in lines:
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{path}.idx")
    return path


def load(path: str) -> Any:
    return load_lines(path, Dictionary(), 8)


def test_whole_files_are_read(tmp_path: Path) -> None:
    lines = load(written(tmp_path))
    assert [lines[number].tolist() for number in range(len(lines))] == LINES
    refused(lambda: load(written(tmp_path, impl="cached")), "x.en.idx: cannot be read (Assertion")


@pytest.mark.parametrize("kind", ["idx", "bin"])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path)
    file = Path(f"{path}.{kind}")
    file.write_bytes(file.read_bytes()[:9])
    refused(lambda: load(path), f"{path}.{kind}: ")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([[4, EOS], [4, BOS, EOS]], "x.en: line 2 holds a literal <s>"),
        ([[4, EOS, 4, EOS], [4, EOS]], "x.en: line 1 holds a literal </s>"),
        ([[4, EOS], [4, 5, 8, EOS]], "x.en: line 2 has the id 8, but the dictionary has 8"),
        ([[4, EOS], [4, 5]], "x.en: line 2 does not end where the index says"),
    ],
)  # fmt: skip
def test_ids_that_no_text_has_are_refused(
    tmp_path: Path, lines: list[list[int]], message: str
) -> None:
    refused(lambda: load(written(tmp_path, lines)), message)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refused(lambda: load(str(tmp_path / "y.en")), "y.en.idx: there is no such binarised file")
    refused(lambda: load_dictionary(tmp_path / "none"), "there is no such dictionary")
