"""Count a corpus: documents, sentences, instances, types, unknown words, duplicates, overlap.

PATH is a folder with text, such as train.en and train.de (one sentence per line, an empty line
between documents), or a folder of `gtrans prepare`. Tokens are words between white space, in a
prepared folder subword pieces. With --corpus, the papers' numbers stand beside those of the folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from gtrans.cli.shared.tables import aligned
from gtrans.errors import GtransError
from gtrans.lab.corpora.catalogue import corpus_named
from gtrans.lab.corpora.report import Report, report
from gtrans.lab.corpora.statistics import OVERLAP_WORDS
from gtrans.messages import json_text, print_lines

EXAMPLE = "gtrans corpus-report texts/iwslt17 --source-lang en --target-lang de --corpus iwslt17"
NEEDS = ()


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
    parser.add_argument(
        "--corpus", metavar="NAME", help="compare with what the papers print of this corpus"
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
    corpus = corpus_named(args.corpus) if args.corpus else None
    found = report(args.path, languages if all(languages) else [], args.max_doc_tokens, corpus)
    if args.json:
        print(json_text(found.as_json()))
    else:
        print_lines(*_lines(found))


def _lines(found: Report) -> Iterator[str]:
    yield f"{found.path}: {'-'.join(found.languages)}, tokens are {found.unit}"
    yield ""
    yield from aligned(list(_table(found)), {0})
    if found.printed:
        rows = [["", "paper", "here"]]
        for number in found.printed:
            here = "-" if number.here is None else f"{number.here:,}"
            rows.append(
                [f"{number.experiment} {number.row}: {number.column}", str(number.paper), here]
            )
        yield ""
        yield from aligned(rows, {0})


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
