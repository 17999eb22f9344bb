"""Binarised files and dictionaries of fairseq, checked before anything is read from them.

fairseq reads wrong sentences with an index of other data, and stops in the middle of a training at
an id beyond the dictionary. So all ids are checked, and every line must end with its only ``</s>``.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import Dictionary, data_utils

from gtrans.data.dictionary_file import dictionary_lines, read_dictionary_file
from gtrans.errors import GtransError, one_line
from gtrans.files import atomic_writer

_IDS_AT_ONCE = 1 << 24
_WAY_OUT = "prepare the corpus again"


def load_lines(path: str, dictionary: Dictionary, size: int) -> Any:
    """Open ``PATH.bin`` and ``PATH.idx`` as an indexed dataset of lines.

    Args:
        path: without suffix.
        size: only the first ``size`` entries of the dictionary may occur.
    """
    for kind in ("idx", "bin"):
        if not os.path.isfile(f"{path}.{kind}"):
            raise GtransError(f"{path}.{kind}: there is no such binarised file; {_WAY_OUT}.")
    try:
        lines = data_utils.load_indexed_dataset(path, dictionary, "mmap")
    except Exception as error:  # what fairseq, struct and NumPy say of a damaged index
        reason = one_line(error)
        raise GtransError(f"{path}.idx: cannot be read ({reason}); {_WAY_OUT}.") from None
    _check_length(path, lines)
    _check_ids(path, lines, dictionary, size)
    return lines


def ids_of(lines: Any) -> Any:
    """Return ``(n,)`` all ids of an indexed dataset, mapped from the disk."""
    return np.frombuffer(lines._bin_buffer, lines._index.dtype)


def load_dictionary(path: str | Path) -> Dictionary:
    """Read a dictionary."""
    if not Path(path).is_file():
        raise GtransError(f"{path}: there is no such dictionary; prepare the corpus there.")
    dictionary = Dictionary()
    for text, count in read_dictionary_file(Path(path)):
        dictionary.add_symbol(text, count, overwrite=True)
    return dictionary


def write_dictionary(dictionary: Dictionary, path: Path) -> None:
    """Write a dictionary file without fairseq's special tokens."""
    entries = zip(dictionary.symbols, dictionary.count, strict=True)
    own_entries = islice(entries, dictionary.nspecial, None)
    with atomic_writer(path) as file:
        file.writelines(dictionary_lines(own_entries))


def count_entries(lines: Any, size: int) -> Any:
    """Return ``(size,)`` how often each entry occurs."""
    ids = ids_of(lines)
    counts = np.zeros(size, np.int64)
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[begin : begin + _IDS_AT_ONCE]
        counts += np.bincount(some, minlength=size)
    return counts


def _check_length(path: str, lines: Any) -> None:
    if not len(lines.sizes):
        raise GtransError(f"{path}.idx: it has no line; {_WAY_OUT}.")
    length = os.path.getsize(f"{path}.bin")
    ids = int(np.sum(lines.sizes, dtype=np.int64))
    counted = ids * np.dtype(lines._index.dtype).itemsize
    if length != counted:
        raise GtransError(
            f"{path}.bin: {length} bytes, but its index counts {counted}; {_WAY_OUT}."
        )


def _check_ids(path: str, lines: Any, dictionary: Dictionary, size: int) -> None:
    ids = ids_of(lines)
    ends = np.cumsum(lines.sizes, dtype=np.int64)
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        some = ids[begin : begin + _IDS_AT_ONCE]
        ends_here = ends[(ends > begin) & (ends <= begin + len(some))]
        is_last = np.zeros(len(some), np.bool_)
        is_last[ends_here - 1 - begin] = True
        mistake = _first_mistake(some, is_last, dictionary, size)
        if mistake is not None:
            place = begin + mistake.place
            line = int(np.searchsorted(ends, place, side="right")) + 1
            raise GtransError(f"{path}: line {line} {mistake.message}; {_WAY_OUT}.")


class _IdMistake(NamedTuple):
    place: int
    message: str


def _first_mistake(ids: Any, is_last: Any, dictionary: Dictionary, size: int) -> _IdMistake | None:
    """Return a mistake among ``ids (n,)``; ``is_last (n,)``: the id should end a line."""
    wrong = (ids < 0) | (ids >= size)
    if wrong.any():
        place = int(np.argmax(wrong))
        return _IdMistake(place, f"has the id {ids[place]}, but the dictionary has {size}")
    is_eos = ids == dictionary.eos()
    wrong = is_last & ~is_eos
    if wrong.any():
        place = int(np.argmax(wrong))
        return _IdMistake(place, "does not end where the index says")
    wrong = ~is_last & is_eos
    if wrong.any():
        place = int(np.argmax(wrong))
        return _IdMistake(place, f"holds a literal {dictionary.eos_word}")
    wrong = ids == dictionary.bos()
    if wrong.any():
        place = int(np.argmax(wrong))
        return _IdMistake(place, f"holds a literal {dictionary.bos_word}")
    return None
