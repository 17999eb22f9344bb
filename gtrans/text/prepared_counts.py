"""What a prepared folder holds: the table with which ``gtrans prepare`` ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gtrans.text.plain_text import input_warnings
from gtrans.text.subword_model import read_pieces

COLUMNS = (
    "longest: pieces of the longest sentence; types: different pieces; unknown: pieces that are "
    "not in the dictionary"
)


@dataclass
class SideCounts:
    """One language of a split.

    Attributes:
        split, lang: as in the names of the files.
        documents, sentences: their numbers.
        longest: pieces of the longest sentence.
        pieces: their number.
        types: the different ones.
        unknown: pieces that are not in the dictionary.
    """

    split: str
    lang: str
    documents: int = 0
    sentences: int = 0
    longest: int = 0
    pieces: int = 0
    unknown: int = 0
    types: set[str] = field(default_factory=set)

    def count(self, lines: Iterable[list[str]], known: set[str]) -> SideCounts:
        """Add the pieces of each line; a line without pieces ends a document."""
        between = True
        for line in lines:
            self.documents += bool(line) and between
            between = not line
            if not line:
                continue
            self.sentences += 1
            self.longest = max(self.longest, len(line))
            self.pieces += len(line)
            self.unknown += sum(piece not in known for piece in line)
            self.types.update(line)
        return self


def count_splits(
    folder: Path, splits: Iterable[str], languages: tuple[str, str]
) -> list[SideCounts]:
    """The counts of both languages of every split of a prepared folder."""
    known = {lang: set(read_pieces(folder / f"dict.{lang}.txt")) for lang in languages}
    found = []
    for split in splits:
        for lang in languages:
            text = folder / "text" / f"{split}.bpe.{lang}"
            name = f"{split}.{'-'.join(languages)}.{lang}"
            lines = _of_text(text) if text.is_file() else _of_binarised(folder, name, lang)
            found.append(SideCounts(split, lang).count(lines, known[lang]))
    return found


def table(counts: Iterable[SideCounts]) -> list[tuple[str, ...]]:
    """The rows of the table, its header first; :data:`COLUMNS` explains them."""
    rows: list[tuple[str, ...]] = [
        ("split", "language", "documents", "sentences", "longest", "types", "unknown")
    ]
    for side in counts:
        numbers = (side.documents, side.sentences, side.longest, len(side.types))
        unknown = f"{100 * side.unknown / max(side.pieces, 1):.2f}%"
        rows.append((side.split, side.lang, *(f"{number:,}" for number in numbers), unknown))
    return rows


def warnings(counts: Iterable[SideCounts]) -> list[str]:
    """One for each split that is a single document of several sentences, or is mostly unknown."""
    counts = list(counts)
    unknown = [
        warning
        for side in counts
        for warning in input_warnings(f"{side.split}.{side.lang}", (), side.unknown, side.pieces)
    ]
    return unknown + [
        f"{split} is one document of {sentences:,} sentences; if there are several, put an empty "
        "line between them on both sides"
        for split, sentences in {
            side.split: side.sentences
            for side in counts
            if side.documents == 1 and side.sentences > 1
        }.items()
    ]


def _of_text(path: Path) -> Iterator[list[str]]:
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.split()


def _of_binarised(folder: Path, name: str, lang: str) -> Iterator[list[str]]:
    from gtrans.data.binarised import load_dictionary, load_lines

    dictionary = load_dictionary(folder / f"dict.{lang}.txt")
    for ids in load_lines(str(folder / name), dictionary, len(dictionary)):
        yield [dictionary[int(number)] for number in ids[:-1]]
