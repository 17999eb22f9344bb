"""Damaged binarised files and dictionaries are found before anything is read from them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from support.writing import refused

from gtrans.data.binarised import load_dictionary, load_lines

BOS, EOS = 0, 2
LINES = [[4, 5, EOS], [EOS], [6, EOS], [7, 7, 7, EOS]]
HEADER = 26  # bytes of an index of the kind mmap before the sizes
IMPLS = ("mmap", "cached", "lazy")


def written(folder: Path, lines: Sequence[Sequence[int]] = LINES, impl: str = "mmap") -> str:
    path = str(folder / "x.en")
    builder = indexed_dataset.make_builder(f"{path}.bin", impl, vocab_size=8)
    for line in lines:
        builder.add_item(torch.tensor(line))
    builder.finalize(f"{path}.idx")
    return path


def contents(lines: Any) -> list[list[int]]:
    return [lines[number].tolist() for number in range(len(lines))]


def load(path: str, impl: str | None = None, symbols: int = 8) -> Any:
    return load_lines(path, Dictionary(), symbols, impl)


@pytest.mark.parametrize("impl", IMPLS)
def test_whole_files_are_read(tmp_path: Path, impl: str) -> None:
    path = written(tmp_path, impl=impl)
    for given in (impl, None):
        assert contents(load(path, given)) == LINES


@pytest.mark.parametrize("kind", ["idx", "bin"])
@pytest.mark.parametrize("end", [0, 9, -1])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, kind: str, end: int) -> None:
    path = written(tmp_path)
    file = Path(f"{path}.{kind}")
    file.write_bytes(file.read_bytes()[:end])
    refused(lambda: load(path), f"{path}.{kind}: ")


def sizes_changed(path: str, sizes: Sequence[int]) -> None:
    """Write other sizes, and the pointers that fit them."""
    index = bytearray(Path(f"{path}.idx").read_bytes())
    before = 2 * np.cumsum([0, *sizes])[: len(sizes)]
    index[HEADER - 8 : HEADER] = np.int64(len(sizes)).tobytes()
    del index[HEADER:]
    index += np.int32(sizes).tobytes() + np.int64(before).tobytes()
    Path(f"{path}.idx").write_bytes(index)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((3, 1, 3, 3), "line 3 does not end where the index says"),
        ((4, 2, 4), "line 1 holds a literal </s>"),
        ((3, 1, 2), ".bin: 20 bytes, but its index counts 12"),
        ((), ".idx: it has no line"),
    ],
)
def test_an_index_of_other_lines_is_refused(
    tmp_path: Path, sizes: Sequence[int], message: str
) -> None:
    path = written(tmp_path)
    sizes_changed(path, sizes)
    refused(lambda: load(path), path, message)


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([[4, EOS], [4, BOS, EOS]], "x.en: line 2 holds a literal <s>"),
        ([[4, EOS, 4, EOS], [4, EOS]], "x.en: line 1 holds a literal </s>"),
        ([[4, EOS], [4, 5, 8, EOS]], "x.en: line 2 has the symbol 8, but the dictionary has 8"),
        ([[4, EOS], [4, 5]], "x.en: line 2 does not end where the index says"),
    ],
)  # fmt: skip
def test_ids_that_no_text_has_are_refused(
    tmp_path: Path, impl: str, lines: list[list[int]], message: str
) -> None:
    refused(lambda: load(written(tmp_path, lines, impl)), message)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refused(lambda: load(str(tmp_path / "y.en")), "y.en.idx: there is no such binarised file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1\nb\n", ": not a dictionary (ValueError: Incorrect dictionary format"),
        (b"a 1\n\xff 2\n", ": not a dictionary ("),
        (b"a 1\nb 1\na 2\n", ": not a dictionary (RuntimeError: Duplicate word found"),
    ],
)
def test_a_damaged_dictionary_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    refused(lambda: load_dictionary(path), f"{path}{message}")


@pytest.mark.parametrize("path", ["none", "."])
def test_no_dictionary(tmp_path: Path, path: str) -> None:
    refused(lambda: load_dictionary(tmp_path / path), "there is no such dictionary")


