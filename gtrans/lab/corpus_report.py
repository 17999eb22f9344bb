"""Count a corpus: documents, sentences, instances, types, unknown words, duplicates, overlap.

PATH is a folder with text, such as train.en and train.de (one sentence per line, an empty line
between documents), or a folder of `gtrans prepare`. Tokens are words between white space, in a
prepared folder subword pieces.
"""

from __future__ import annotations

import argparse
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from gtrans.cli.shared.tables import aligned
from gtrans.data.documents import iterate_raw_lines, resolve
from gtrans.data.instances import MARKS_PER_SENTENCE, split_instances
from gtrans.errors import GtransError
from gtrans.identity.json_files import read_object
from gtrans.languages import language_code
from gtrans.messages import json_text, print_lines, say
from gtrans.text.prepared_folder import STATE_FILE, read_state
from gtrans.text.reader import Sides

EXAMPLE = "gtrans corpus-report texts/iwslt17 --source-lang en --target-lang de"
NEEDS = ()
_TEXT = re.compile(r"(.+)\.([A-Za-z_-]+)")
_SPLIT = re.compile(r"(train|dev|valid|test)\d*")
_OF_PAIR = re.compile(r"(.+)\.([A-Za-z_]+-[A-Za-z_]+)")  # of a corpus of several pairs
_REFERENCE = re.compile(r".+\.ref\d+")  # a second one, as `gtrans get-corpus` names it
_PIECES = re.compile(r"(train|valid|test\d*)\.bpe\.\w+")
WORDS, PIECES = "words", "pieces"
_SPLITS = ("train", "dev", "valid", "test")
_Texts = tuple[str, str]  # a sentence pair

OVERLAP_WORDS = 5
"""Source sentences of fewer words are not counted as overlap: "Thank you ." is in every talk."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans corpus-report``."""
    parser.add_argument("path", type=Path, metavar="PATH", help="folder of the corpus")
    parser.add_argument("--source-lang", metavar="LANG", help="source language of text")
    parser.add_argument("--target-lang", metavar="LANG", help="target language of text")
    parser.add_argument(
        "--max-doc-tokens",
        type=int,
        default=512,
        metavar="N",
        help="longest instance, with two marks for each sentence (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the report.

    Raises:
        GtransError: an option is wrong, or there is no corpus.
    """
    languages = [args.source_lang, args.target_lang]
    if any(languages) != all(languages):
        raise GtransError("`--source-lang` and `--target-lang` belong together; give both or none")
    if args.max_doc_tokens < 1:
        raise GtransError(f"`--max-doc-tokens` must be at least 1, but is {args.max_doc_tokens}")
    found = report(args.path, languages if all(languages) else [], args.max_doc_tokens)
    if args.json:
        print(json_text(found.as_json()))
    else:
        print_lines(*_lines(found))


def _lines(found: Report) -> Iterator[str]:
    yield f"{found.path}: {'-'.join(found.languages)}, tokens are {found.unit}"
    yield ""
    yield from aligned(list(_table(found)), {0})


def _table(found: Report) -> Iterator[list[str]]:
    """A row for each count, a column for each split."""
    splits = found.splits.values()
    yield ["", *found.splits]

    def row(name: str, values: list[int | float | None]) -> list[str]:
        return [name, *("-" if v is None else f"{v:,}" for v in values)]

    yield row("documents", [s.documents for s in splits])
    yield row("sentences", [s.sentences for s in splits])
    yield row(f"instances of up to {found.max_doc_tokens} tokens", [s.instances for s in splits])
    for name in next(iter(splits)).averages():
        yield row(name, [round(s.averages()[name], 1) for s in splits])
    yield row("longest document, sentences", [s.longest_document for s in splits])
    yield row("longest document, tokens", [s.longest_document_tokens for s in splits])
    yield row("duplicate pairs", [s.duplicates for s in splits])
    yield row(f"source in train, of {OVERLAP_WORDS} words or more", [s.overlap for s in splits])
    for index, lang in enumerate(found.languages):
        yield row(f"{lang}: tokens", [s.sides[index].tokens for s in splits])
        yield row(f"{lang}: types", [len(s.sides[index].types) for s in splits])
        yield row(f"{lang}: longest sentence", [s.sides[index].longest for s in splits])
        yield row(f"{lang}: unknown tokens", [s.sides[index].unknown for s in splits])


@dataclass(frozen=True)
class Report:
    """What a corpus holds.

    Attributes:
        path: as the user named it.
        languages: source and target.
        unit: what a token is: ``words``, or ``pieces`` of a prepared folder.
        max_doc_tokens: longest instance.
        splits: counts by name.
    """

    path: str
    languages: tuple[str, str]
    unit: str
    max_doc_tokens: int
    splits: dict[str, Split]

    def as_json(self) -> dict[str, Any]:
        """All of it, for a JSON file."""
        return {
            "path": self.path,
            "languages": list(self.languages),
            "tokens are": self.unit,
            "max_doc_tokens": self.max_doc_tokens,
            "splits": {name: s.as_json(self.languages) for name, s in self.splits.items()},
        }


def report(path: Path, languages: Sequence[str], max_doc_tokens: int) -> Report:
    """Count a corpus.

    Args:
        path: a folder with ``SPLIT.LANG``, or one of ``gtrans prepare``.
        languages: source and target; empty: those of the folder.
        max_doc_tokens: longest instance.

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
        pair = _languages(path, languages)
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
    return Report(str(path), pair, unit, max_doc_tokens, splits)


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


def _languages(path: Path, given: Sequence[str]) -> tuple[str, str]:
    """Source and target of a folder of text.

    Raises:
        GtransError: they are not given, and the files do not tell; or they are no languages.
    """
    if given:
        if given[0] == given[1]:
            raise GtransError(f"`--source-lang` and `--target-lang` are both '{given[0]}'")
        return given[0], given[1]
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
        record = read_object(path / "corpus.json")
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


@dataclass
class Side:
    """One side of a split.

    Attributes:
        tokens: what stands between white space: words, or subword pieces.
        types: how often each token occurs.
        longest: tokens of the longest sentence.
        unknown: tokens that the training text, or the dictionary, does not have; None: there is
            neither.
    """

    tokens: int = 0
    types: Counter[str] = field(default_factory=Counter)
    longest: int = 0
    unknown: int | None = None


@dataclass
class Split:
    """What a split holds.

    Attributes:
        documents, sentences: their numbers; a sentence is a pair.
        longest_document: sentences of the longest document.
        longest_document_tokens: tokens of the document that is longest in tokens of a side.
        instances: of up to ``max_doc_tokens``; see :func:`gtrans.data.instances.split_instances`.
        instance_tokens: source tokens of all instances, with two marks for each sentence.
        duplicates: pairs that have occurred before in this split.
        overlap: pairs of at least 5 source words whose source stands in the training text.
        overlap_candidates: pairs of at least 5 source words.
        sides: source and target.
    """

    documents: int = 0
    sentences: int = 0
    longest_document: int = 0
    longest_document_tokens: int = 0
    instances: int = 0
    instance_tokens: int = 0
    duplicates: int = 0
    overlap: int | None = None
    overlap_candidates: int = 0
    sides: tuple[Side, Side] = field(default_factory=lambda: (Side(), Side()))
    _pairs: array[int] = field(default_factory=lambda: array("Q"))
    _sources: array[int] = field(default_factory=lambda: array("Q"))

    def averages(self) -> dict[str, float]:
        """Means over documents and instances, as the papers' tables have them."""
        return {
            "sentences of a document": self.sentences / self.documents,
            "sentences of an instance": self.sentences / self.instances,
            "tokens of an instance": self.instance_tokens / self.instances,
        }

    def as_json(self, languages: Sequence[str]) -> dict[str, Any]:
        """All of it, for a JSON file."""
        found: dict[str, Any] = {
            "documents": self.documents,
            "sentences": self.sentences,
            "instances": self.instances,
            **{name: round(value, 2) for name, value in self.averages().items()},
            "longest document": self.longest_document,
            "longest document in tokens": self.longest_document_tokens,
            "duplicates": self.duplicates,
            "in train": self.overlap,
            "in train, of": self.overlap_candidates if self.overlap is not None else None,
        }
        for lang, side in zip(languages, self.sides, strict=True):
            found[lang] = {
                "tokens": side.tokens,
                "types": len(side.types),
                "longest sentence": side.longest,
                "unknown": side.unknown,
            }
        return found


def count(source: Path, target: Path, max_doc_tokens: int) -> Split:
    """Count one split of plain text or pieces.

    Raises:
        GtransError: the two files do not belong together, or cannot be read.
    """
    split = Split()
    for document in _documents(Sides(source, target).read()):
        _add_document(split, document, max_doc_tokens)
    split.duplicates = len(split._pairs) - len(_sorted(split._pairs))
    split._pairs = array("Q")
    return split


def compare(splits: Mapping[str, Split], dictionaries: Sequence[Collection[str]]) -> None:
    """Fill in what the other splits share with the training text.

    Args:
        splits: all splits, by name; ``train`` may not be there. The training text of ``test.de-en``
            is ``train.de-en``.
        dictionaries: the tokens that a model would know on each side; empty: those of ``train``.
    """
    import numpy as np

    for name, split in splits.items():
        train = "".join(["train", *name.partition(".")[1:]])
        base = splits.get(train)
        known = dictionaries or ([side.types for side in base.sides] if base else [])
        if known and (dictionaries or name != train):
            for side, symbols in zip(split.sides, known, strict=True):
                side.unknown = sum(n for word, n in side.types.items() if word not in symbols)
        if base is not None and name != train:
            seen = _sorted(base._sources)
            own = np.frombuffer(split._sources, np.uint64) if split._sources else seen[:0]
            split.overlap = int(np.isin(own, seen).sum())


def _documents(pairs: Iterable[_Texts | None]) -> Iterator[list[_Texts]]:
    document: list[_Texts] = []
    for pair in pairs:
        if pair is None:
            yield document
            document = []
        else:
            document.append(pair)
    yield document


def _add_document(split: Split, document: list[_Texts], max_doc_tokens: int) -> None:
    lengths: tuple[list[int], list[int]] = ([], [])
    for pair in document:
        for text, side, sizes in zip(pair, split.sides, lengths, strict=True):
            words = text.split()
            side.types.update(words)
            side.tokens += len(words)
            side.longest = max(side.longest, len(words))
            sizes.append(len(words))
        split._pairs.append(_key("\t".join(pair)))
        if lengths[0][-1] >= OVERLAP_WORDS:
            split._sources.append(_key(pair[0]))
            split.overlap_candidates += 1
    split.documents += 1
    split.sentences += len(document)
    split.longest_document = max(split.longest_document, len(document))
    longer = max(map(sum, lengths))
    split.longest_document_tokens = max(split.longest_document_tokens, longer)
    split.instances += len(split_instances(*lengths, max_doc_tokens))
    split.instance_tokens += sum(lengths[0]) + MARKS_PER_SENTENCE * len(document)


def _key(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _sorted(keys: array[int]) -> Any:
    """The different keys, in order."""
    import numpy as np

    return np.unique(np.frombuffer(keys, np.uint64)) if keys else np.zeros(0, np.uint64)
