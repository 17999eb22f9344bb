"""Damaged binarised files and dictionaries are found before anything is read from them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, indexed_dataset
from support.writing import refused

from gtrans.data.binarised import load_dictionary, load_lines
from gtrans.errors import GtransError

BOS, EOS = 0, 2
LINES = [[4, 5, EOS], [EOS], [6, EOS], [7, 7, 7, EOS]]
# In an index of the kind mmap: the byte that says the type of the ids, and the first of the sizes.
KIND, HEADER = 17, 26
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


@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("kind", ["idx", "bin"])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, impl: str, kind: str) -> None:
    path = written(tmp_path, impl=impl)
    file = Path(f"{path}.{kind}")
    whole = file.read_bytes()
    for end in [*range(len(whole)), None]:
        file.write_bytes(whole + b"\0" if end is None else whole[:end])
        refused(lambda: load(path, impl), f"{path}.{kind}")


@pytest.mark.parametrize("impl", IMPLS)
def test_every_changed_byte_of_an_index_is_found(tmp_path: Path, impl: str) -> None:
    """A signed type of the same size is none."""
    path = written(tmp_path, impl=impl)
    file = Path(f"{path}.idx")
    whole = file.read_bytes()
    accepted = []
    for place in range(len(whole)):
        for change in (1, 255):
            changed = bytearray(whole)
            changed[place] ^= change
            file.write_bytes(changed)
            with suppress(GtransError):
                assert contents(load(path, impl)) == LINES
                accepted.append(place)
    assert accepted in ([], [KIND])


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
        ((1, 3, 2, 4), "line 1 does not end where the index says"),
        ((4, 2, 4), "line 1 holds a literal </s>"),
        ((3, 1, 2), ".bin: 20 bytes, but its index counts 12"),
        ((3, 1, 2, 4, 1), ".bin: 20 bytes, but its index counts 22"),
        ((3, 1, 2, 0, 4), "its numbers contradict each other"),
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
        ([[4, EOS], [4, 5, 8, EOS]], "x.en.bin: line 2 has the symbol number 8, but the dictionary "
         "has 8 symbols"),
        ([[4, EOS], [4, 5]], "x.en: line 2 does not end where the index says"),
    ],
)  # fmt: skip
def test_ids_that_no_text_has_are_refused(
    tmp_path: Path, impl: str, lines: list[list[int]], message: str
) -> None:
    refused(lambda: load(written(tmp_path, lines, impl)), message)


def test_a_negative_id_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, impl="cached")
    ids = np.fromfile(f"{path}.bin", np.int32)
    ids[1] = -6
    ids.tofile(f"{path}.bin")
    refused(lambda: load(path), "line 1 has the symbol number -7")


def test_the_data_of_another_index(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = written(tmp_path / "other", [[4, EOS], [4, 5, 6, EOS], [EOS], [4, 7, EOS]])
    path = written(tmp_path)
    assert Path(f"{other}.bin").stat().st_size == Path(f"{path}.bin").stat().st_size
    Path(f"{other}.bin").rename(f"{path}.bin")
    refused(lambda: load(path), "the .idx is damaged, or of another .bin")


def test_another_format_than_the_one_asked_for(tmp_path: Path) -> None:
    refused(lambda: load(written(tmp_path), "cached"), "x.en.idx", "(`--dataset-impl`)")
    refused(lambda: load(str(tmp_path / "y.en")), "y.en.idx: there is no such binarised file")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a 1\nb\n", ":2: not a line 'SYMBOL COUNT'"),
        (b"a 1\nb x\n", ":2: not a line 'SYMBOL COUNT'"),
        (b"a 1\nb -\xc3\xbc\n", ":2: not a line 'SYMBOL COUNT'"),
        (b"a 1\n" + b"b " + b"9" * 5000, ":2: not a line 'SYMBOL COUNT'"),
        (b"a 1\n\xff 2\n", ":2: not UTF-8"),
        (b"a 1\nb 1\na 2\n", ":3: 'a' occurs twice"),
        (b"a 1\n<pad> 2\n", ":2: '<pad>' occurs twice"),
        (b"\x1f\x8b\x08\x00", ":1: not UTF-8"),
    ],
)
def test_a_damaged_dictionary_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "dict.en.txt"
    path.write_bytes(content)
    refused(lambda: load_dictionary(path), f"{path}{message}")


@pytest.mark.parametrize("path", ["none", "."])
def test_no_dictionary(tmp_path: Path, path: str) -> None:
    refused(lambda: load_dictionary(tmp_path / path), "there is no such dictionary")


