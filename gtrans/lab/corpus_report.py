"""Count a corpus: documents, chunks, tokens, unknown words, duplicates, test text in training text.

PATH is a folder with text, such as train.en and train.de (one sentence per line, an empty line
between documents), or a folder of `gtrans prepare`. Tokens are words between white space, or the
subwords of a prepared folder. The training text, or the prepared dictionary, says which tokens are
known.
"""

from __future__ import annotations

import argparse
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from gtrans.data.documents import resolve
from gtrans.data.units import SPECIAL_TOKENS_PER_SENTENCE, split_chunks
from gtrans.errors import GtransError
from gtrans.files import read_object
from gtrans.languages import WITHOUT_SPACES, language_code
from gtrans.messages import aligned, json_text, print_lines, with_schema
from gtrans.option_types import whole
from gtrans.text.prepared_folder import STATE_FILE, read_state
from gtrans.text.reader import Sides
from gtrans.text.subwords import read_subwords

EXAMPLE = "gtrans corpus-report corpus/iwslt17 --source-lang en --target-lang de"
NEEDS = ()
_TEXT = re.compile(r"(.+)\.([A-Za-z_-]+)")
_SPLIT = re.compile(r"(train|dev|valid|test)\d*")
_SUBWORDS = re.compile(r"(train|valid|test\d*)\.bpe\.\w+")
OVERLAP_WORDS = 5
"""Shorter sources are not looked for in the training text: "Thank you." is in every talk."""
_SPLITS = ("train", "dev", "valid", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add = parser.add_argument
    add("path", type=Path, metavar="PATH", help="folder of the corpus")
    add("--source-lang", metavar="LANG", help="source language of text")
    add("--target-lang", metavar="LANG", help="target language of text")
    add(
        "--max-doc-tokens",
        type=whole(1),
        default=512,
        metavar="N",
        help="longest chunk, with two special tokens for each sentence (default: %(default)s)",
    )
    add("--json", action="store_true", help="write JSON to standard output")


def run(args: argparse.Namespace) -> None:
    """Print the report."""
    if bool(args.source_lang) != bool(args.target_lang):
        raise GtransError("`--source-lang` and `--target-lang` belong together; give both or none")
    languages = [args.source_lang, args.target_lang] if args.source_lang else []
    data = report(args.path, languages, args.max_doc_tokens)
    if args.json:
        print(json_text(with_schema("corpus-report", data)))
    else:
        print_lines(*_lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data['path']}: {'-'.join(data['languages'])}, tokens are {data['tokens are']}"
    yield ""
    columns = [_flat(split) for split in data["splits"].values()]
    rows = [["", *data["splits"]]]
    for name in columns[0]:
        cells = [_shown(column[name]) for column in columns]
        rows.append([name, *cells])
    yield from aligned(rows, {0})


def _flat(record: Mapping[str, Any]) -> dict[str, float | None]:
    numbers = {}
    for name, value in record.items():
        if isinstance(value, dict):
            for key, number in value.items():
                numbers[f"{name}: {key}"] = number
        else:
            numbers[name] = value
    return numbers


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:,}"


def report(path: Path, languages: Sequence[str], max_doc_tokens: int) -> dict[str, Any]:
    """Return the counts of a corpus, for JSON.

    ``path`` has ``SPLIT.LANG``, or is a folder of ``gtrans prepare``. Without ``languages``, the
    corpus's own count. GtransError: it has no split in both languages.
    """
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such folder.")
    is_prepared = (path / STATE_FILE).is_file()
    if is_prepared:
        corpus = _prepared_files(path, languages)
    else:
        corpus = _text_files(path, languages)
    if not corpus.files:
        source, target = corpus.languages
        raise GtransError(
            f"{path}: no text of {source}-{target}, such as train.{source} (of a folder of `gtrans "
            "prepare`: text/train.bpe.*)"
        )
    counts = {}
    for name in sorted(corpus.files, key=_split_order):
        counts[name] = count(corpus.files[name], corpus.languages, max_doc_tokens)
    train = counts.get("train")
    known: Mapping[str, Collection[str]] | None = None
    if is_prepared:
        known = {}
        for lang in corpus.languages:
            known[lang] = frozenset(read_subwords(path / f"dict.{lang}.txt"))
    elif train is not None:
        known = train.words
    records = {}
    for name, split in counts.items():
        other = None if name == "train" else train
        records[name] = split.record(other, known)
    return {
        "path": str(path),
        "languages": corpus.languages,
        "tokens are": "subwords" if is_prepared else "words",
        "max_doc_tokens": max_doc_tokens,
        "splits": records,
    }


@dataclass(frozen=True)
class _CorpusFiles:
    languages: list[str]
    files: dict[str, list[Path]]


def _prepared_files(path: Path, languages: Sequence[str]) -> _CorpusFiles:
    state = read_state(path)
    pair = [str(state["source_lang"]), str(state["target_lang"])]
    if languages and [*languages] != pair:
        raise GtransError(
            f"{path}: it was prepared from {pair[0]} to {pair[1]}; leave `--source-lang` and "
            "`--target-lang` out"
        )
    files = {}
    for file in path.glob("text/*"):
        match = _SUBWORDS.fullmatch(file.name)
        if match is not None:
            name = match[1]
            files[name] = [path / "text" / f"{name}.bpe.{lang}" for lang in pair]
    return _CorpusFiles(pair, files)


def _text_files(path: Path, languages: Sequence[str]) -> _CorpusFiles:
    names_by_lang = _names_by_language(path)
    pair = list(languages) or _languages(path, names_by_lang)
    source_names = names_by_lang[pair[0]]
    target_names = names_by_lang[pair[1]]
    files = {}
    for name in source_names | target_names:
        has_both = name in source_names and name in target_names
        # A text without its other side is an error if it is a split.
        if has_both or _SPLIT.fullmatch(name):
            files[name] = [resolve(str(path / name), lang) for lang in pair]
    return _CorpusFiles(pair, files)


def _split_order(name: str) -> tuple[int, str]:
    number = _SPLITS.index(name) if name in _SPLITS else len(_SPLITS)
    return number, name


def _names_by_language(path: Path) -> Mapping[str, set[str]]:
    names: defaultdict[str, set[str]] = defaultdict(set)
    for file in path.iterdir():
        match = _TEXT.fullmatch(file.name.removesuffix(".gz"))
        if match is not None:
            name, lang = match.groups()
            names[lang].add(name)
    return names


def _languages(path: Path, names_by_lang: Mapping[str, set[str]]) -> list[str]:
    """Return the recorded languages, or the files' with English first."""
    with suppress(FileNotFoundError, GtransError):  # a file of this name may be another program's
        record = read_object(path / "corpus.json")
        pairs = record.get("pairs", [record.get("pair")])
        pair = str(pairs[0]) if len(pairs) == 1 else ""
        if pair.count("-") == 1:
            return pair.split("-")
    langs = []
    for lang, names in names_by_lang.items():
        if any(_SPLIT.fullmatch(name) for name in names):
            langs.append(lang)
    if len(langs) != 2:
        found = ", ".join(sorted(langs)) or "no language"
        raise GtransError(
            f"{path}: it has texts of {found}; name two with `--source-lang`, `--target-lang`"
        )
    return sorted(langs, key=lambda lang: (lang != "en", lang))


@dataclass
class SplitCounts:
    """The counts of a split; its sentences are pairs.

    Attributes:
        words: how often each token occurs, by language.
        pairs, sources: hashes of all sentence pairs, and of the longer source sentences.
        chunk_tokens: source tokens, with two special tokens for each sentence.
    """

    words: dict[str, Counter[str]]
    pairs: array[int] = field(default_factory=lambda: array("q"))
    sources: array[int] = field(default_factory=lambda: array("q"))
    documents: int = 0
    sentences: int = 0
    chunks: int = 0
    chunk_tokens: int = 0
    longest: int = 0  # sentences of a document
    longest_in_tokens: int = 0  # on the source side

    def add_document(self, pairs: Iterable[tuple[str, str]], max_doc_tokens: int) -> None:
        """Count a document."""
        source_lang = next(iter(self.words))
        source_words, target_words = self.words.values()
        # Of Chinese and the like, two characters count as a word.
        has_no_spaces = language_code(source_lang) in WITHOUT_SPACES
        source_lengths, target_lengths = [], []
        for source, target in pairs:
            source_tokens = source.split()
            target_tokens = target.split()
            source_words.update(source_tokens)
            target_words.update(target_tokens)
            source_lengths.append(len(source_tokens))
            target_lengths.append(len(target_tokens))
            self.pairs.append(hash((source, target)))
            words = len(source) // 2 if has_no_spaces else len(source_tokens)
            if words >= OVERLAP_WORDS:
                self.sources.append(hash(source))
        sentences = len(source_lengths)
        tokens = sum(source_lengths)
        chunks = split_chunks(source_lengths, target_lengths, max_doc_tokens)
        self.documents += 1
        self.sentences += sentences
        self.chunks += len(chunks)
        self.chunk_tokens += tokens + SPECIAL_TOKENS_PER_SENTENCE * sentences
        self.longest = max(self.longest, sentences)
        self.longest_in_tokens = max(self.longest_in_tokens, tokens)

    def record(
        self, train: SplitCounts | None, known: Mapping[str, Collection[str]] | None
    ) -> dict[str, Any]:
        """Return the counts for JSON, with the means of the papers' tables.

        ``train`` is None for the training text itself. ``known`` is the vocabulary by language;
        without it, unknown tokens are not counted.
        """
        in_train = None
        if train is not None:
            own_sources = np.frombuffer(self.sources, np.int64)
            train_sources = np.frombuffer(train.sources, np.int64)
            is_in_train = np.isin(own_sources, train_sources)
            in_train = int(is_in_train.sum())
        record: dict[str, Any] = {
            "documents": self.documents,
            "sentences": self.sentences,
            "chunks": self.chunks,
            "sentences of a document": round(self.sentences / self.documents, 2),
            "sentences of a chunk": round(self.sentences / self.chunks, 2),
            "tokens of a chunk": round(self.chunk_tokens / self.chunks, 2),
            "longest document, sentences": self.longest,
            "longest document, tokens": self.longest_in_tokens,
            "duplicate pairs": len(self.pairs) - len(set(self.pairs)),
            f"sources of {OVERLAP_WORDS} words or more": len(self.sources),
            "of these in train": in_train,
        }
        for lang, words in self.words.items():
            unknown = None
            if known is not None:
                unknown = 0
                for word, number in words.items():
                    if word not in known[lang]:
                        unknown += number
            record[lang] = {
                "tokens": words.total(),
                "types": len(words),
                "unknown tokens": unknown,
            }
        return record


def count(files: Sequence[Path], languages: Sequence[str], max_doc_tokens: int) -> SplitCounts:
    """Count a split of plain text or subwords."""
    counts = SplitCounts({lang: Counter() for lang in languages})
    pairs = Sides(files[0], files[1]).read()
    for has_text, group in groupby(pairs, key=lambda pair: pair is not None):
        if has_text:
            document = (pair for pair in group if pair is not None)
            counts.add_document(document, max_doc_tokens)
    return counts
