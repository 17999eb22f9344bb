"""Count a corpus: documents, sentences, instances, tokens, types.

PATH is a folder with text, such as train.en and train.de (one sentence per line, an empty line
between documents), or a folder of `gtrans prepare`. Tokens are words between white space, in a
prepared folder subword pieces.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gtrans.data.documents import resolve
from gtrans.data.instances import MARKS_PER_SENTENCE, split_instances
from gtrans.errors import GtransError
from gtrans.identity.json_files import read_object
from gtrans.messages import aligned, json_text, print_lines
from gtrans.text.prepared_folder import STATE_FILE, read_state
from gtrans.text.reader import Sides

EXAMPLE = "gtrans corpus-report texts/iwslt17 --source-lang en --target-lang de"
NEEDS = ()
_TEXT = re.compile(r"(.+)\.([A-Za-z_-]+)")
_SPLIT = re.compile(r"(train|dev|valid|test)\d*")
_PIECES = re.compile(r"(train|valid|test\d*)\.bpe\.\w+")
WORDS, PIECES = "words", "pieces"
_SPLITS = ("train", "dev", "valid", "test")
_Texts = tuple[str, str]  # a sentence pair


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
    counts = [split.as_json(found.languages) for split in found.splits.values()]
    rows = [["", *found.splits]]
    for name, first in counts[0].items():
        if isinstance(first, dict):
            for what in first:
                values = [one[name][what] for one in counts]
                rows.append([f"{name}: {what}", *(f"{value:,}" for value in values)])
        else:
            rows.append([name, *(f"{one[name]:,}" for one in counts)])
    yield from aligned(rows, {0})


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
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such folder.")
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
    else:
        unit = WORDS
        pair = (languages[0], languages[1]) if languages else _recorded(path)
        names = _splits_of(path, pair)
        files = {name: [resolve(str(path / name), lang) for lang in pair] for name in names}
    if not files:
        raise GtransError(
            f"{path}: no text of {'-'.join(pair)}, such as train.{pair[0]} (of a folder of `gtrans "
            "prepare`: text/train.bpe.*)"
        )
    order = sorted(files, key=lambda name: ([*_SPLITS, name].index(name), name))
    splits = {name: count(files[name][0], files[name][1], max_doc_tokens) for name in order}
    return Report(str(path), pair, unit, max_doc_tokens, splits)


def _splits_of(path: Path, pair: tuple[str, str]) -> set[str]:
    """The names of texts that have both sides.

    Raises:
        GtransError: a side of a split is missing.
    """
    names = [_TEXT.fullmatch(file.name.removesuffix(".gz")) for file in path.iterdir()]
    sides = [{m[1] for m in names if m and m[2] == lang} for lang in pair]
    for name in sorted(sides[0] ^ sides[1]):
        if _SPLIT.fullmatch(name):
            lang, other = pair if name in sides[1] else pair[::-1]
            raise GtransError(
                f"{path / name}.{lang}: there is no such file (nor .gz), the other side of "
                f"{name}.{other}"
            )
    return sides[0] & sides[1]


def _recorded(path: Path) -> tuple[str, str]:
    """The languages that ``gtrans get-corpus`` or ``make-corpus`` wrote beside the texts.

    Raises:
        GtransError: there are none, or several pairs.
    """
    with suppress(FileNotFoundError, GtransError):  # a file of this name may be another program's
        record = read_object(path / "corpus.json")
        pairs = record.get("pairs", [record.get("pair")])
        if len(pairs) == 1:
            source, _, target = str(pairs[0]).partition("-")
            if source and target:
                return source, target
    raise GtransError(f"{path}: its languages are not known; give `--source-lang`, `--target-lang`")


@dataclass
class Side:
    """One side of a split.

    Attributes:
        tokens: what stands between white space: words, or subword pieces.
        types: the different tokens.
    """

    tokens: int = 0
    types: set[str] = field(default_factory=set)


@dataclass
class Split:
    """What a split holds.

    Attributes:
        documents, sentences: their numbers; a sentence is a pair.
        instances: of up to ``max_doc_tokens``; see :func:`gtrans.data.instances.split_instances`.
        instance_tokens: source tokens of all instances, with two marks for each sentence.
        sides: source and target.
    """

    documents: int = 0
    sentences: int = 0
    instances: int = 0
    instance_tokens: int = 0
    sides: tuple[Side, Side] = field(default_factory=lambda: (Side(), Side()))

    def as_json(self, languages: Sequence[str]) -> dict[str, Any]:
        """Its counts, and means over documents and instances as the papers' tables have them."""
        return {
            "documents": self.documents,
            "sentences": self.sentences,
            "instances": self.instances,
            "sentences of a document": round(self.sentences / self.documents, 2),
            "sentences of an instance": round(self.sentences / self.instances, 2),
            "tokens of an instance": round(self.instance_tokens / self.instances, 2),
            **{
                lang: {"tokens": side.tokens, "types": len(side.types)}
                for lang, side in zip(languages, self.sides, strict=True)
            },
        }


def count(source: Path, target: Path, max_doc_tokens: int) -> Split:
    """Count one split of plain text or pieces.

    Raises:
        GtransError: the two files do not belong together, or cannot be read.
    """
    split = Split()
    for document in _documents(Sides(source, target).read()):
        lengths: tuple[list[int], list[int]] = ([], [])
        for pair in document:
            for text, side, sizes in zip(pair, split.sides, lengths, strict=True):
                words = text.split()
                side.types.update(words)
                side.tokens += len(words)
                sizes.append(len(words))
        split.documents += 1
        split.sentences += len(document)
        split.instances += len(split_instances(*lengths, max_doc_tokens))
        split.instance_tokens += sum(lengths[0]) + MARKS_PER_SENTENCE * len(document)
    return split


def _documents(pairs: Iterable[_Texts | None]) -> Iterator[list[_Texts]]:
    document: list[_Texts] = []
    for pair in pairs:
        if pair is None:
            yield document
            document = []
        else:
            document.append(pair)
    yield document
