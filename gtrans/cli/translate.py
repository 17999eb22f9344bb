"""Translate text, or files and folders of documents.

FILE is plain text (.txt, one sentence per line; with --split-sentences running text), Markdown
(.md), HTML (.html), Word (.docx), or JSON lines (.jsonl) or a table (.tsv) with document ids.
The translations have the same names, relative paths and formats in the folder --output-dir;
markup and code stay. Each file is a document. `docs/documents.md` says how markup is placed.

--input is a text with one sentence per line and an empty line (or a line <d>, <doc ..>, or OPUS's
<fromDoc>) between documents, or one with document ids (JSON lines, TSV, SGM, WMT XML).
It is tokenised and segmented as the corpus in --data was. The output is plain text with one
line for every line of the input; its empty lines are the document boundaries of the input.
(With --free it has one line for every document.) A name in .gz is compressed. --stream reads
such text from the standard input and writes each document as soon as it is translated.

After an interruption, run the same command again: it continues where it stopped. Finished
translations are kept in OUTPUT.*.partial; OUTPUT appears when everything is translated.
OUTPUT.made.json says what the finished translation was made from: run the same command again,
and it does nothing. An output that is a device or a FIFO has no such files; it gets the
translation when everything is translated.
"""

from __future__ import annotations

import argparse
import ast
from typing import Any

from gtrans.annexes import formats
from gtrans.cli.shared.model_options import (
    add_context,
    add_device,
    add_instances,
    add_model_files,
    context_of,
)
from gtrans.cli.shared.reading import add_choice, choice_of
from gtrans.errors import GtransError
from gtrans.libraries import ENGINE
from gtrans.search.options import DecodingOptions, SearchOptions, split_paths

EXAMPLE = (
    "gtrans translate --path checkpoints/checkpoint_best.pt manual.md website "
    "--output-dir translated"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of ``gtrans translate``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    files.add_argument(
        "sources", nargs="*", metavar="FILE|FOLDER", help="documents, and folders of documents"
    )
    files.add_argument(
        "--output-dir", metavar="DIR", help="folder for the translations of FILE|FOLDER"
    )
    files.add_argument(
        "--format",
        choices=list(formats().SUFFIXES),
        help="format of all files (default: by the ends of their names)",
    )
    files.add_argument(
        "--split-sentences",
        action="store_true",
        help="a line of plain text or a row is a paragraph, not a sentence, and a text file is one "
        "document (text in Markdown, HTML and Word is always split)",
    )
    files.add_argument("--input", metavar="FILE", help="text, gzipped or not; - is standard input")
    files.add_argument(
        "--output",
        metavar="FILE",
        help="translation of --input; - is standard output, a name in .gz is compressed",
    )
    files.add_argument(
        "--stream",
        action="store_true",
        help="translate the standard input to the standard output, document by document",
    )
    files.add_argument(
        "--json",
        action="store_true",
        help="write JSON lines, one for each sentence: ids of document and sentence, source, "
        "translation (`hypothesis`) and score; of FILE they are in DIR/FILE.jsonl",
    )
    files.add_argument(
        "--nbest",
        type=int,
        metavar="N",
        help="with --json: the N best translations of each sentence (default: 1)",
    )
    add_choice(files, ("source",))
    search = parser.add_argument_group("search")
    SearchOptions.add_arguments(search)
    unit = parser.add_argument_group("size")
    add_instances(unit, "the checkpoint's")
    add_device(unit)
    DecodingOptions.add_arguments(unit)
    unit.add_argument(
        "--workers",
        type=_workers,
        default=1,
        metavar="N|auto",
        help="share the documents out over N processes: on CPUs with one thread each, on GPUs one "
        "each; auto: as many as there are (default: %(default)s)",
    )
    add_context(parser)
    parser.add_argument(
        "--model-overrides",
        default="{}",
        metavar="DICT",
        help="options of the models instead of those in the checkpoints, as in fairseq-generate: "
        "\"{'use_groups': '3:6'}\" of a fusion model translates by these decoder groups",
    )


def _workers(text: str) -> int:
    if text == "auto":
        return 0
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a number of processes or auto, but is '{text}'")
    return int(text)


def _overrides(text: str) -> dict[str, Any]:
    try:
        overrides = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        overrides = None
    if not isinstance(overrides, dict) or not all(isinstance(name, str) for name in overrides):
        raise GtransError(
            f"`--model-overrides` must be names and values in braces, such as "
            f"\"{{'use_groups': '3:6'}}\", but is '{text}'."
        )
    return overrides


def run(args: argparse.Namespace) -> None:
    """Translate.

    Raises:
        GtransError: see :func:`gtrans.translating.translation.translate`.
    """
    _check(args)
    options = DecodingOptions.of(
        args,
        paths=tuple(split_paths(args.path)),
        search=SearchOptions.of(args),
        context=_overrides(args.model_overrides) | context_of(args),
        choice=choice_of(args),
        nbest=(args.nbest or 1) if args.json else 0,
    )
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.translating import translation

    if args.stream:
        translation.translate_stream(options)
    elif args.sources:
        translation.translate_files(
            options, args.sources, args.output_dir, args.format, args.split_sentences
        )
    else:
        translation.translate(options, args.input, args.output)


def _check(args: argparse.Namespace) -> None:
    """Raises GtransError for options that do not belong together."""
    text = args.input is not None
    ways = "FILE or FOLDER with `--output-dir`; `--input` with `--output`; `--stream`"
    several = args.workers != 1
    mistakes = (
        (bool(args.sources) + text + args.stream > 1, f"give one of: {ways}."),
        (not (args.sources or text or args.stream), f"nothing to translate: give {ways}."),
        (
            args.sources and args.output_dir is None,
            "`--output-dir` is missing: where the translation is to be written.",
        ),
        (
            text and args.output is None,
            "`--output` is missing: where the translation is to be written.",
        ),
        (
            not args.sources and (args.output_dir or args.format or args.split_sentences),
            "`--output-dir`, `--format` and `--split-sentences` belong to FILE or FOLDER, which is "
            "not given.",
        ),
        (
            args.output is not None and not text,
            "`--output` belongs to `--input`, which is not given.",
        ),
        (
            args.sources and args.free,
            "`--free` gives no translation for each sentence, which a document needs to keep its "
            "form; translate text with `--input`.",
        ),
        (
            args.stream and several,
            "`--workers` is for files and texts; `--stream` takes one after another.",
        ),
        (
            args.nbest is not None and (not args.json or args.nbest < 1),
            f"`--nbest` {args.nbest}: it must be at least 1, and needs `--json`, which writes "
            "several translations of a sentence.",
        ),
    )
    for is_made, told in mistakes:
        if is_made:
            raise GtransError(told)
