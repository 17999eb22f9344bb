"""Binarised files and dictionaries of fairseq, checked before anything is read from them.

fairseq believes what an index says: with an index that does not fit its data it reads other
sentences than there are, and an id that no dictionary has ends the program in the middle of a
training. Here the data are read once, in chunks: every line must end with the end symbol and have
none inside, so an index that was changed in any way is found.

Two formats are read, fairseq's ``mmap``, which ``fairseq-preprocess`` writes, and ``cached`` or
``lazy``, its older one. In an index there are, after a header,

* ``mmap``: ``(lines,)`` int32 tokens of each line, ``(lines,)`` int64 bytes before each line;
* older: ``(lines + 1,)`` int64 dimensions before each line, ``(lines + 1,)`` int64 tokens before
  each line, ``(lines,)`` int64 tokens of each line. Its ids are one larger.
"""

from __future__ import annotations

import itertools
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, data_utils
from numpy.typing import NDArray

from gtrans.errors import GtransError

_MMAP = b"MMIDIDX\x00\x00" + struct.pack("<Q", 1)
_OLDER = b"TNTIDX\x00\x00" + struct.pack("<Q", 1)
_OLDER_IMPLS = ("cached", "lazy")
# fairseq's codes for whole numbers.
_DTYPES: dict[int, type[Any]] = {
    1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16, 9: np.uint32,
    10: np.uint64,
}  # fmt: skip
_LINES_AT_ONCE = 1 << 20
_WAY_OUT = "prepare the corpus again"


class _Damage(ValueError):
    """What is wrong with a binarised file."""


@dataclass(frozen=True)
class _Index:
    """What an index says.

    Attributes:
        dtype: of the ids.
        sizes: ``(lines,)`` tokens of each line.
        before: ``(lines,)`` tokens before each line, in units of ``unit``.
        unit: 1 for tokens, or the bytes of a token.
        shift: what is added to every id.
    """

    dtype: np.dtype[Any]
    sizes: NDArray[Any]
    before: NDArray[Any]
    unit: int
    shift: int


def load_lines(
    path: str, dictionary: Dictionary, size: int, impl: Any = None, combine: bool = False
) -> Any:
    """An indexed dataset of the lines of ``PATH.bin`` and ``PATH.idx``.

    Args:
        path: without suffix.
        dictionary: that of the ids.
        size: how many symbols of the dictionary the corpus may have.
        impl: fairseq's ``--dataset-impl``; None: what the index is.
        combine: join ``PATH``, ``PATH1``, .., the parts of a split, as fairseq does.

    Raises:
        GtransError: a file is missing or damaged, the two do not belong together, an id is not
            in the dictionary, or a line holds a sentence mark.
    """
    for part in _parts(path, combine):
        _check(part, dictionary, size, impl)
    lines = data_utils.load_indexed_dataset(path, dictionary, impl, combine=combine)
    if getattr(lines, "supports_prefetch", False):  # otherwise no line can be read
        lines.prefetch(range(len(lines)))
    return lines


def load_dictionary(path: str | Path) -> Dictionary:
    """A dictionary with lines ``SYMBOL COUNT``.

    Raises:
        GtransError: it is missing or not of this form; the message names the line.
    """
    if not Path(path).is_file():
        raise GtransError(f"{path}: there is no such dictionary; prepare the corpus there.")
    try:
        return Dictionary.load(str(path))
    except Exception:  # fairseq raises errors of many kinds, which do not name the line
        raise _dictionary_error(path) from None


def _dictionary_error(path: str | Path) -> GtransError:
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        return GtransError(f"{path}: cannot be read ({error.strerror}).")
    known = set(Dictionary().symbols)
    for number, line in enumerate(lines, start=1):
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return GtransError(f"{path}:{number}: not UTF-8; {_WAY_OUT}.")
        overwrite = text.rstrip().endswith(" #fairseq:overwrite")
        symbol, _, count = text.rstrip().removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdecimal() or len(count) > 18:
            return GtransError(f"{path}:{number}: not a line 'SYMBOL COUNT'; {_WAY_OUT}.")
        if symbol in known and not overwrite:
            return GtransError(f"{path}:{number}: '{symbol}' occurs twice; {_WAY_OUT}.")
        known.add(symbol)
    return GtransError(f"{path}: not a dictionary; {_WAY_OUT}.")


def _parts(path: str, combine: bool) -> Iterator[str]:
    """The parts of a side, at least one."""
    for number in itertools.count():
        part = f"{path}{number or ''}"
        if number and not (combine and os.path.isfile(f"{part}.idx")):
            return
        yield part


def _check(path: str, dictionary: Dictionary, size: int, impl: Any) -> None:
    for kind in ("idx", "bin"):
        if not os.path.isfile(f"{path}.{kind}"):
            raise GtransError(f"{path}.{kind}: there is no such binarised file; {_WAY_OUT}.")
    try:
        index = _read_index(f"{path}.idx", impl)
        _check_data(f"{path}.bin", index, dictionary, size)
    except _Damage as error:
        raise GtransError(f"{path}{error}; {_WAY_OUT}.") from None
    except OSError as error:
        raise GtransError(f"{error.filename}: cannot be read ({error.strerror}).") from None


def _read_index(path: str, impl: Any) -> _Index:
    contents = np.memmap(path, np.uint8, "r") if os.path.getsize(path) else np.zeros(0, np.uint8)
    start = contents[:17].tobytes()
    impl = None if impl is None else str(getattr(impl, "value", impl))
    if start[: len(_MMAP)] == _MMAP and impl in (None, "mmap"):
        return _mmap_index(contents)
    if start[: len(_OLDER)] == _OLDER and impl in (None, *_OLDER_IMPLS):
        return _older_index(contents)
    wanted = "" if impl is None else f" of the format '{impl}' (`--dataset-impl`)"
    raise _Damage(f".idx: not an index{wanted}")


def _mmap_index(contents: NDArray[np.uint8]) -> _Index:
    code, lines = _numbers("<BQ", contents, len(_MMAP))
    dtype, begin = _dtype(code), len(_MMAP) + 9
    _check_length(contents, begin + 12 * lines)
    sizes = contents[begin : begin + 4 * lines].view(np.int32)
    before = contents[begin + 4 * lines :].view(np.int64)
    return _Index(dtype, sizes, before, dtype.itemsize, 0)


def _older_index(contents: NDArray[np.uint8]) -> _Index:
    code, item, lines, entries = _numbers("<QQQQ", contents, len(_OLDER))
    dtype, begin = _dtype(code), len(_OLDER) + 32
    _check_length(contents, begin + 8 * (2 * (lines + 1) + entries))
    if item != dtype.itemsize or entries != lines:
        raise _Damage(".idx: damaged, its numbers contradict each other")
    numbers = contents[begin:].view(np.int64)
    dimensions, before, sizes = np.split(numbers, (lines + 1, 2 * (lines + 1)))
    if not np.array_equal(dimensions, np.arange(lines + 1)) or before[-1] != sizes.sum():
        raise _Damage(".idx: damaged, its numbers contradict each other")
    return _Index(dtype, sizes, before[:lines], 1, -1)


def _numbers(form: str, contents: NDArray[np.uint8], begin: int) -> tuple[int, ...]:
    header = contents[begin : begin + struct.calcsize(form)].tobytes()
    if len(header) < struct.calcsize(form):
        raise _Damage(".idx: cut off")
    return struct.unpack(form, header)


def _dtype(code: int) -> np.dtype[Any]:
    if code not in _DTYPES:
        raise _Damage(f".idx: damaged, there is no kind {code} of whole numbers")
    return np.dtype(_DTYPES[code])


def _check_length(contents: NDArray[np.uint8], expected: int) -> None:
    if len(contents) != expected:
        raise _Damage(f".idx: {len(contents)} bytes, but by its header it has {expected}")


def _check_data(path: str, index: _Index, dictionary: Dictionary, size: int) -> None:
    if not len(index.sizes):
        raise _Damage(".idx: it has no line")
    length, item = os.path.getsize(path), index.dtype.itemsize
    ids = np.memmap(path, index.dtype, "r", shape=length // item) if length >= item else None
    end = 0
    for begin in range(0, len(index.sizes), _LINES_AT_ONCE):
        sizes = index.sizes[begin : begin + _LINES_AT_ONCE].astype(np.int64)
        ends = end + np.cumsum(sizes)
        before = index.before[begin : begin + len(sizes)]
        if sizes.min() < 1 or not np.array_equal(before, (ends - sizes) * index.unit):
            raise _Damage(".idx: damaged, its numbers contradict each other")
        if ids is None or ends[-1] > len(ids):
            break
        _check_ids(ids[end : ends[-1]], ends - end, begin, index.shift, dictionary, size)
        end = int(ends[-1])
    total = int(index.sizes.sum(dtype=np.int64)) * item
    if length != total:
        raise _Damage(f".bin: {length} bytes, but its index counts {total}; they do not fit")


def _check_ids(
    ids: NDArray[Any],
    ends: NDArray[np.int64],
    line: int,
    shift: int,
    dictionary: Dictionary,
    size: int,
) -> None:
    """Check the lines of a chunk.

    Args:
        ids: ``(tokens,)`` as they are in the file.
        ends: ``(lines,)`` tokens up to the end of each line.
        line: number of the first line, from 0.
        shift: see :class:`_Index`.
        dictionary: for its marks.
        size: the ids must be below.
    """

    def line_of(token: int) -> int:
        return line + int(np.searchsorted(ends, token, side="right")) + 1

    low, high = int(ids.min()) + shift, int(ids.max()) + shift
    if low < 0 or high >= size:
        value = low if low < 0 else high
        number = line_of(int(np.flatnonzero(ids == value - shift)[0]))
        raise _Damage(
            f".bin: line {number} has the symbol number {value}, but the dictionary has {size} "
            "symbols"
        )
    is_end = ids == dictionary.eos() - shift
    open_lines = np.flatnonzero(~is_end[ends - 1])
    if open_lines.size:
        raise _Damage(
            f": line {line + int(open_lines[0]) + 1} does not end where the index says; the .idx "
            "is damaged, or of another .bin"
        )
    is_end[ends - 1] = False
    for mark, found in (
        (dictionary.eos_word, is_end),
        (dictionary.bos_word, ids == dictionary.bos() - shift),
    ):
        if found.any():
            raise _Damage(
                f": line {line_of(int(np.argmax(found)))} holds a literal {mark}, which would "
                "become a sentence mark; escape it (`gtrans prepare` does)"
            )
