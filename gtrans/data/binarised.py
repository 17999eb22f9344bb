"""Binarised files and dictionaries of fairseq, checked before anything is read from them.

fairseq believes what an index says: with an index of other data it reads other sentences than there
are, and an id that no dictionary has ends the program in the middle of a training. So every id is
looked at once: each line must end with the end symbol and have none inside.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary, MMapIndexedDataset, data_utils
from numpy.typing import NDArray

from gtrans.errors import GtransError, one_line

_IDS_AT_ONCE = 1 << 24
_WAY_OUT = "prepare the corpus again"


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
        for kind in ("idx", "bin"):
            if not os.path.isfile(f"{part}.{kind}"):
                raise GtransError(f"{part}.{kind}: there is no such binarised file; {_WAY_OUT}.")
            if not os.path.getsize(f"{part}.{kind}"):
                raise GtransError(f"{part}.{kind}: it is empty; {_WAY_OUT}.")
        _check(part, _load(part, dictionary, impl), dictionary, size)
    lines = _load(path, dictionary, impl, combine)
    if getattr(lines, "supports_prefetch", False):  # otherwise no line can be read
        lines.prefetch(range(len(lines)))
    return lines


def load_dictionary(path: str | Path) -> Dictionary:
    """A dictionary with lines ``SYMBOL COUNT``.

    Raises:
        GtransError: it is missing or not of this form.
    """
    if not Path(path).is_file():
        raise GtransError(f"{path}: there is no such dictionary; prepare the corpus there.")
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises errors of many kinds
        raise GtransError(f"{path}: not a dictionary ({one_line(error)}); {_WAY_OUT}.") from None


def _parts(path: str, combine: bool) -> Iterator[str]:
    """The parts of a side, at least one."""
    for number in itertools.count():
        part = f"{path}{number or ''}"
        if number and not (combine and os.path.isfile(f"{part}.idx")):
            return
        yield part


def _load(path: str, dictionary: Dictionary, impl: Any, combine: bool = False) -> Any:
    try:
        return data_utils.load_indexed_dataset(path, dictionary, impl, combine=combine)
    except Exception as error:  # what fairseq, struct and NumPy say of a damaged index
        raise GtransError(f"{path}.idx: cannot be read ({one_line(error)}); {_WAY_OUT}.") from None


def count_symbols(path: str, lines: Any, size: int) -> Any:
    """``(size,)``: how often each symbol occurs in ``PATH.bin``, the file of ``lines``."""
    dtype, shift = _kind_of_ids(lines)
    ids = np.memmap(f"{path}.bin", dtype, "r")
    counts = np.zeros(size, np.int64)
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[begin : begin + _IDS_AT_ONCE].astype(np.int64) + shift
        counts += np.bincount(some, minlength=size)
    return counts


def check_sides(
    source_blank: NDArray[np.bool_], target_blank: NDArray[np.bool_], name: str
) -> None:
    """Raises GtransError if a line is empty on one side only, or one side has more lines.

    ``source_blank (lines,)`` and ``target_blank (lines,)`` are True for empty lines.
    """
    lines = min(len(source_blank), len(target_blank))
    differ = np.flatnonzero(source_blank[:lines] != target_blank[:lines])
    if differ.size:
        line = int(differ[0])
        empty, full = "target", "source"
        if source_blank[line]:
            empty, full = "source", "target"
        raise GtransError(
            f"{name}: line {line + 1} is empty on the {empty} side but not on the {full} side; "
            "both sides need the same sentences and the same empty lines between documents."
        )
    if len(source_blank) != len(target_blank):
        raise GtransError(
            f"{name}: the source has {len(source_blank)} lines, the target {len(target_blank)}; "
            f"they differ from line {lines + 1} on."
        )


def _kind_of_ids(lines: Any) -> tuple[Any, int]:
    """The type of the ids in a file, and what is to be added to each."""
    new = isinstance(lines, MMapIndexedDataset)
    dtype = np.dtype(lines._index.dtype if new else lines.dtype)
    return dtype, 0 if new else -1  # fairseq's older formats count symbols from 1


def _check(path: str, lines: Any, dictionary: Dictionary, size: int) -> None:
    """Compare the ids of a file with its index and with the dictionary."""
    ends = np.cumsum(lines.sizes, dtype=np.int64)
    if not len(ends):
        raise GtransError(f"{path}.idx: it has no line; {_WAY_OUT}.")
    dtype, shift = _kind_of_ids(lines)
    length, wanted = os.path.getsize(f"{path}.bin"), ends[-1] * dtype.itemsize
    if length != wanted:
        raise GtransError(f"{path}.bin: {length} bytes, but its index counts {wanted}; {_WAY_OUT}.")
    ids = np.memmap(f"{path}.bin", dtype, "r")

    def refuse(token: int, says: str) -> None:
        line = int(np.searchsorted(ends, token, side="right")) + 1
        raise GtransError(f"{path}: line {line} {says}; {_WAY_OUT}.")

    end, start = dictionary.eos() - shift, dictionary.bos() - shift
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[begin : begin + _IDS_AT_ONCE]
        here = ends[(ends > begin) & (ends <= begin + len(some))] - 1 - begin
        is_end = some == end
        broken = here[~is_end[here]]
        is_end[here] = False
        low, high = int(some.min()) + shift, int(some.max()) + shift
        if low < 0 or high >= size:
            strange = low if low < 0 else high
            place = begin + int(np.argmax(some == strange - shift))
            refuse(place, f"has the symbol {strange}, but the dictionary has {size}")
        if len(broken):
            refuse(begin + int(broken[0]), "does not end where the index says")
        for wrong, says in (
            (is_end, f"holds a literal {dictionary.eos_word}"),
            (some == start, f"holds a literal {dictionary.bos_word}"),
        ):
            if wrong.any():
                refuse(begin + int(np.argmax(wrong)), says)
