"""Dictionary files of fairseq: a line ``ENTRY COUNT`` for each vocabulary entry.

A line may end in ``#fairseq:overwrite`` to repeat an entry: the earlier one keeps its row of the
embeddings, but the text gets the id of the later one. This module needs neither torch nor fairseq.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from gtrans.data.documents import read_text
from gtrans.errors import GtransError

_OVERWRITE = " #fairseq:overwrite"
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")


class DictionaryEntry(NamedTuple):
    """A line of a dictionary."""

    text: str
    frequency: int


def read_dictionary_file(path: Path) -> list[DictionaryEntry]:
    """Return the entries of a file, without fairseq's special tokens."""
    return parse_dictionary(read_text(path), path)


def parse_dictionary(contents: str, path: Path) -> list[DictionaryEntry]:
    """Return the entries in the text of a dictionary file."""
    entries: list[DictionaryEntry] = []
    lines: dict[str, int] = dict.fromkeys(_SPECIAL, 0)
    for number, line in enumerate(contents.split("\n"), start=1):
        if not line.strip():
            continue
        content = line.rstrip()
        overwrites = content.endswith(_OVERWRITE)
        text, _, count = content.removesuffix(_OVERWRITE).rpartition(" ")
        if not text or not count.isdecimal():
            raise GtransError(f"{path}:{number}: not a line 'ENTRY COUNT' of a dictionary.")
        if text in lines and not overwrites:
            first = f"in line {lines[text]}" if lines[text] else "in every dictionary"
            raise GtransError(
                f"{path}:{number}: '{text}' is {first} already; take this line out, or end it with "
                f"'{_OVERWRITE}', with which it replaces the other"
            )
        lines[text] = number
        entries.append(DictionaryEntry(text, int(count)))
    return entries


def dictionary_lines(entries: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield the lines of a dictionary file."""
    earlier = set(_SPECIAL)
    for text, count in entries:
        overwrite = _OVERWRITE if text in earlier else ""
        yield f"{text} {count}{overwrite}\n"
        earlier.add(text)
