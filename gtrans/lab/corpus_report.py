"""Count a corpus: documents, sentences, chunks, tokens, types.

PATH is a folder with text, such as train.en and train.de (one sentence per line, an empty line
between documents), or a folder of `gtrans prepare`. Tokens are words between white space, or the
subwords of a prepared folder.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from gtrans.data.documents import resolve
from gtrans.data.units import MARKS_PER_SENTENCE, split_instances
from gtrans.errors import GtransError
from gtrans.files import read_object
from gtrans.messages import aligned, json_text, of_form, print_lines
from gtrans.option_types import whole
from gtrans.text.prepared_folder import STATE_FILE, read_state
from gtrans.text.reader import Sides

EXAMPLE = "gtrans corpus-report corpus/iwslt17 --source-lang en --target-lang de"
NEEDS = ()
_TEXT = re.compile(r"(.+)\.([A-Za-z_-]+)")
_SPLIT = re.compile(r"(train|dev|valid|test)\d*")
_PIECES = re.compile(r"(train|valid|test\d*)\.bpe\.\w+")
_SPLITS = ("train", "dev", "valid", "test")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of ``gtrans corpus-report``."""
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
    """Print the report.

    Raises:
        GtransError: an option is wrong, or there is no corpus.
    """
    languages = [args.source_lang, args.target_lang]
    if any(languages) != all(languages):
        raise GtransError("`--source-lang` and `--target-lang` belong together; give both or none")
    data = report(args.path, languages if all(languages) else [], args.max_doc_tokens)
    if args.json:
        print(json_text(of_form("corpus-report", data)))
    else:
        print_lines(*_lines(data))


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data['path']}: {'-'.join(data['languages'])}, tokens are {data['tokens are']}"
    yield ""
    splits = list(data["splits"].values())
    rows = [["", *data["splits"]]]
    for name, first in splits[0].items():
        if isinstance(first, dict):
            for key in first:
                rows.append([f"{name}: {key}", *(f"{split[name][key]:,}" for split in splits)])
        else:
            rows.append([name, *(f"{split[name]:,}" for split in splits)])
    yield from aligned(rows, {0})


def report(path: Path, languages: Sequence[str], max_doc_tokens: int) -> dict[str, Any]:
    """Count a corpus, for a JSON file.

    Args:
        path: a folder with ``SPLIT.LANG``, or one of ``gtrans prepare``.
        languages: source and target; empty: those of the folder.
        max_doc_tokens: longest chunk.

    Raises:
        GtransError: there is no corpus in the folder, or its sides do not belong together.
    """
    if not path.is_dir():
        raise GtransError(f"{path}: there is no such folder.")
    is_prepared = (path / STATE_FILE).is_file()
    if is_prepared:
        state = read_state(path)
        pair = [str(state["source_lang"]), str(state["target_lang"])]
        if languages and [*languages] != pair:
            raise GtransError(
                f"{path}: it was prepared from {pair[0]} to {pair[1]}; leave `--source-lang` and "
                "`--target-lang` out"
            )
        names = {m[1] for file in path.glob("text/*") if (m := _PIECES.fullmatch(file.name))}
        files = {name: [path / "text" / f"{name}.bpe.{lang}" for lang in pair] for name in names}
    else:
        texts = _texts(path)
        pair = [*languages] if languages else _languages(path, texts)
        own, other = (texts[lang] for lang in pair)
        # A text without its other side is an error if it is a split.
        names = {it for it in own | other if it in own & other or _SPLIT.fullmatch(it)}
        files = {name: [resolve(str(path / name), lang) for lang in pair] for name in names}
    if not files:
        raise GtransError(
            f"{path}: no text of {'-'.join(pair)}, such as train.{pair[0]} (of a folder of `gtrans "
            "prepare`: text/train.bpe.*)"
        )
    order = sorted(files, key=lambda name: ([*_SPLITS, name].index(name), name))
    return {
        "path": str(path),
        "languages": pair,
        "tokens are": "subwords" if is_prepared else "words",
        "max_doc_tokens": max_doc_tokens,
        "splits": {name: count(files[name], pair, max_doc_tokens) for name in order},
    }


def _texts(path: Path) -> Mapping[str, set[str]]:
    """The names of the texts of a folder, by language."""
    texts: defaultdict[str, set[str]] = defaultdict(set)
    for file in path.iterdir():
        if match := _TEXT.fullmatch(file.name.removesuffix(".gz")):
            texts[match[2]].add(match[1])
    return texts


def _languages(path: Path, texts: Mapping[str, set[str]]) -> list[str]:
    """Source and target language: as recorded with the text, or those of its files, English first.

    Raises:
        GtransError: there are not two.
    """
    with suppress(FileNotFoundError, GtransError):  # a file of this name may be another program's
        record = read_object(path / "corpus.json")
        pairs = record.get("pairs", [record.get("pair")])
        if len(pairs) == 1 and str(pairs[0]).count("-") == 1:
            return str(pairs[0]).split("-")
    langs = [lang for lang, names in texts.items() if any(map(_SPLIT.fullmatch, names))]
    if len(langs) != 2:
        raise GtransError(
            f"{path}: it has texts of {', '.join(sorted(langs)) or 'no language'}; name two with "
            "`--source-lang`, `--target-lang`"
        )
    return sorted(langs, key=lambda lang: (lang != "en", lang))


def count(files: Sequence[Path], languages: Sequence[str], max_doc_tokens: int) -> dict[str, Any]:
    """Count a split of plain text or subwords; means are those that the papers' tables have.

    Tokens of a chunk are those of its source, with two special tokens for each sentence.

    Raises:
        GtransError: the two files do not belong together, or cannot be read.
    """
    documents = sentences = chunks = chunk_tokens = 0
    tokens: dict[str, Counter[str]] = {lang: Counter() for lang in languages}
    pairs = Sides(files[0], files[1]).read()
    for has_text, lines in groupby(pairs, key=lambda pair: pair is not None):
        if not has_text:
            continue
        lengths: tuple[list[int], list[int]] = ([], [])
        for pair in lines:
            for text, lang, sizes in zip(pair or (), languages, lengths, strict=True):
                words = text.split()
                tokens[lang].update(words)
                sizes.append(len(words))
        documents += 1
        sentences += len(lengths[0])
        chunks += len(split_instances(*lengths, max_doc_tokens))
        chunk_tokens += sum(lengths[0]) + MARKS_PER_SENTENCE * len(lengths[0])
    return {
        "documents": documents,
        "sentences": sentences,
        "chunks": chunks,
        "sentences of a document": round(sentences / documents, 2),
        "sentences of a chunk": round(sentences / chunks, 2),
        "tokens of a chunk": round(chunk_tokens / chunks, 2),
        **{lang: {"tokens": words.total(), "types": len(words)} for lang, words in tokens.items()},
    }
