"""The report on a corpus: its counts, beside those that the papers print."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.errors import GtransError
from gtrans.experiments.catalogue import find, read_catalogue
from gtrans.identity.json_files import read_object
from gtrans.lab.corpora.assembling import RECORD
from gtrans.lab.corpora.catalogue import Corpus
from gtrans.lab.corpora.statistics import Split, compare, count
from gtrans.languages import language_code
from gtrans.messages import say
from gtrans.text.prepared_folder import STATE_FILE, read_state

_TEXT = re.compile(r"(.+)\.([A-Za-z_-]+)")
_SPLIT = re.compile(r"(train|dev|valid|test)\d*")
_OF_PAIR = re.compile(r"(.+)\.([A-Za-z_]+-[A-Za-z_]+)")  # of a corpus of several pairs
_REFERENCE = re.compile(r".+\.ref\d+")  # a second one, as `gtrans get-corpus` names it
_PIECES = re.compile(r"(train|valid|test\d*)\.bpe\.\w+")
WORDS, PIECES = "words", "pieces"
# What the papers call a split is DEV here; that of a folder of `gtrans prepare` is "valid".
_SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "test": "test"}
_COLUMNS = {
    "sentences": "sentences",
    "documents": "documents",
    "instances": "instances",
    "sentences of a document": "sentences of a document",
    "sentences in a document": "sentences of a document",
    "sentences of an instance": "sentences of an instance",
    "tokens of an instance": "tokens of an instance",
}


@dataclass(frozen=True)
class Printed:
    """A number that a paper prints.

    Attributes:
        experiment, row, column: where.
        paper: what is printed.
        here: the number of this corpus; None: it has no such split, or is not in pieces.
    """

    experiment: str
    row: str
    column: str
    paper: float | int | str
    here: float | int | None

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return {
            name: getattr(self, name) for name in ("experiment", "row", "column", "paper", "here")
        }


@dataclass(frozen=True)
class Report:
    """What a corpus holds.

    Attributes:
        path: as the user named it.
        languages: source and target.
        unit: what a token is: ``words``, or ``pieces`` of a prepared folder.
        max_doc_tokens: longest instance.
        splits: counts by name.
        printed: numbers of papers beside those.
    """

    path: str
    languages: tuple[str, str]
    unit: str
    max_doc_tokens: int
    splits: dict[str, Split]
    printed: list[Printed]

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return {
            "path": self.path,
            "languages": list(self.languages),
            "tokens are": self.unit,
            "max_doc_tokens": self.max_doc_tokens,
            "splits": {name: s.as_json(self.languages) for name, s in self.splits.items()},
            "paper": [number.as_json() for number in self.printed],
        }


def report(
    path: Path, languages: Sequence[str], max_doc_tokens: int, corpus: Corpus | None
) -> Report:
    """Count a corpus.

    Args:
        path: a folder with ``SPLIT.LANG``, or one of ``gtrans prepare``.
        languages: source and target; empty: those of ``corpus`` or of the folder.
        max_doc_tokens: longest instance.
        corpus: whose numbers in the papers are compared; None: none.

    Raises:
        GtransError: there is no corpus in the folder, or its sides do not belong together.
    """
    dictionaries: list[set[str]] = []
    if (path / STATE_FILE).is_file():
        unit = PIECES
        state = read_state(path)
        pair = (str(state["source_lang"]), str(state["target_lang"]))
        if languages and tuple(languages) != pair:
            raise GtransError(
                f"{path}: it was prepared from {pair[0]} to {pair[1]}; leave `--source-lang` and "
                "`--target-lang` out"
            )
        names = {m[1] for found in path.glob("text/*") if (m := _PIECES.fullmatch(found.name))}
        files = {name: [path / "text" / f"{name}.bpe.{lang}" for lang in pair] for name in names}
        dictionaries = [_symbols(path / f"dict.{lang}.txt") for lang in pair]
    else:
        unit = WORDS
        pair = _languages(path, languages, corpus)
        names = _splits_of(path, pair)
        files = {name: [resolve(str(path / name), lang) for lang in pair] for name in names}
    if not files:
        raise GtransError(
            f"{path}: no text of {'-'.join(pair)}, such as train.{pair[0]} (of a folder of `gtrans "
            "prepare`: text/train.bpe.*)"
        )
    order = sorted(files, key=lambda name: ([*_SPLITS, name].index(name), name))
    splits = {name: count(files[name][0], files[name][1], max_doc_tokens) for name in order}
    compare(splits, dictionaries)
    printed = [] if corpus is None else list(_printed(corpus, splits, unit))
    return Report(str(path), pair, unit, max_doc_tokens, splits, printed)


def _name(path: Path) -> re.Match[str] | None:
    return _TEXT.fullmatch(path.name.removesuffix(".gz"))


def _splits_of(path: Path, pair: tuple[str, str]) -> set[str]:
    """The names of texts that have both sides.

    Raises:
        GtransError: there is no such folder, or a side of a split is missing.
    """
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such folder.")
    found = [m for file in path.iterdir() if file.is_file() and (m := _name(file))]
    sides = {lang: {m[1] for m in found if m[2] == lang} for lang in pair}
    for other, lang in (pair, pair[::-1]):
        for name in sorted(sides[other] - sides[lang]):
            split, of = name, "-".join(pair)
            if found_pair := _OF_PAIR.fullmatch(name):
                split, of = found_pair[1], found_pair[2]
            if {*of.split("-")} != {*pair}:
                continue  # it has that of another pair
            if _SPLIT.fullmatch(split):
                raise GtransError(
                    f"{path / name}.{lang}: there is no such file (nor .gz), the other side of "
                    f"{name}.{other}"
                )
            if not _REFERENCE.fullmatch(name):
                say(f"{path / name}.{other}: not counted, there is no {name}.{lang}")
    return sides[pair[0]] & sides[pair[1]]


def _languages(path: Path, given: Sequence[str], corpus: Corpus | None) -> tuple[str, str]:
    """Source and target of a folder of text.

    Raises:
        GtransError: they are not given, and the files do not tell; or they are no languages.
    """
    if given:
        if given[0] == given[1]:
            raise GtransError(f"`--source-lang` and `--target-lang` are both '{given[0]}'")
        return given[0], given[1]
    if corpus is not None and corpus.source:
        return corpus.source, corpus.target
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such folder.")
    found = sorted(
        {m[2] for file in path.iterdir() if (m := _name(file)) and language_code(m[2]) is not None}
    )
    if len(found) != 2:
        raise GtransError(
            f"{path}: texts of {len(found)} languages ({', '.join(found) or 'none'}); name two, "
            "`--source-lang` and `--target-lang`"
        )
    return _recorded(path, found) or _guessed(path, found)


def _recorded(path: Path, found: Sequence[str]) -> tuple[str, str] | None:
    """What ``gtrans get-corpus`` or ``make-corpus`` wrote beside the texts."""
    with suppress(FileNotFoundError, GtransError):  # a file of this name may be another program's
        record = read_object(path / RECORD)
        pairs = record.get("pairs", [record.get("pair")])
        for pair in (found, found[::-1]):
            if pairs == ["-".join(pair)]:
                return pair[0], pair[1]
    return None


def _guessed(path: Path, found: Sequence[str]) -> tuple[str, str]:
    say(
        f"{path}: taken as from {found[0]} to {found[1]}, in the order of the alphabet; "
        "`--source-lang` and `--target-lang` say it"
    )
    return found[0], found[1]


def _symbols(dictionary: Path) -> set[str]:
    if not dictionary.is_file():
        raise GtransError(f"{dictionary}: there is no such dictionary; prepare the corpus anew.")
    return {line.rpartition(" ")[0] for line in iterate_raw_lines(dictionary, strip=False)}


def _printed(corpus: Corpus, splits: dict[str, Split], unit: str) -> Iterator[Printed]:
    """What the papers' tables print of a corpus, in their order; their instances have pieces."""
    catalogue = read_catalogue()
    by_name = {_SPLITS.get(name, name): split for name, split in splits.items()}
    for name, row in corpus.tables.items():
        (experiment,) = find(catalogue, [name])
        (values,) = (r.values for r in experiment.printed.rows if r.label == row)
        for column, value in zip(experiment.printed.columns, values, strict=True):
            if value is not None:
                split, what = column_of(column)
                here = None if "instance" in what and unit != PIECES else by_name.get(split)
                yield Printed(name, row, column, value, _number(here, what))


def column_of(column: str) -> tuple[str, str]:
    """The split and the count that a column of a table names: ``valid: sentences``.

    Raises:
        KeyError: it names none that is counted.
    """
    first, colon, rest = column.partition(": ")
    if not colon:
        rest, _, first = column.rpartition(" ")
    return _SPLITS[first], _COLUMNS[rest]


def _number(split: Split | None, what: str) -> float | int | None:
    if split is None:
        return None
    averages = split.averages()
    return round(averages[what], 1) if what in averages else int(getattr(split, what))
