"""Translate text, or files and folders of documents.

FILE is plain text (.txt, one sentence per line; with --split-sentences running text), Markdown
(.md), HTML (.html), Word (.docx), or JSON lines (.jsonl) or a table (.tsv) with document ids.
The translations have the same names, relative paths and formats in the folder --output-dir;
markup and code stay. Each file is a document. `docs/documents.md` says how markup is placed.

--input is a text with one sentence per line and an empty line (or a line <d>, <doc ..>, or OPUS's
<fromDoc>) between documents, or one with document ids (JSON lines, TSV, SGM, WMT XML).
It is tokenised and segmented as the corpus in --data was. The output is plain text with one line
for every line of the input, and the same empty lines between documents. (With --free it has one
line for every document.) A name in .gz is compressed. --stream reads such text from the standard
input and writes each document as soon as it is translated.

After an interruption, run the same command again: it continues where it stopped. Finished
translations are kept in OUTPUT.*.partial; OUTPUT appears when everything is translated.
OUTPUT.made.json then names everything that it was made from, and the same command does nothing. A
device or a FIFO has no such files; it gets the translation when everything is translated.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gtrans.annexes import formats
from gtrans.cli.shared.options import (
    add_chunks,
    add_context,
    add_device,
    add_model_files,
    add_selection,
    context_of,
    selection_of,
)
from gtrans.environment import ENGINE
from gtrans.errors import GtransError
from gtrans.search.options import DecodingOptions, SearchOptions, split_paths

if TYPE_CHECKING:
    from gtrans.translating.inputs import FileToTranslate
    from gtrans.translating.translation import Translation

EXAMPLE = (
    "gtrans translate --path checkpoints/checkpoint_best.pt manual.md website "
    "--output-dir translated"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
        type=_format,
        metavar="NAME",
        help="format of all files, such as markdown; an unknown name lists all (default: by the "
        "ends of their names)",
    )
    files.add_argument(
        "--split-sentences",
        action=argparse.BooleanOptionalAction,
        help="a line of plain text or a row is a paragraph, not a sentence, and a text file is one "
        "document (default: only text in Markdown, HTML and Word is split; with "
        "--no-split-sentences each of their blocks is one sentence)",
    )
    files.add_argument("--input", metavar="FILE", help="text, gzipped or not; - is standard input")
    files.add_argument(
        "--output",
        metavar="FILE",
        help="translation of --input; - is standard output, a name in .gz is compressed, one in "
        ".jsonl has JSON lines, as with --json",
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
    add_selection(files, ("source",))
    search = parser.add_argument_group("search")
    SearchOptions.add_arguments(search)
    unit = parser.add_argument_group("size")
    add_chunks(unit, "the checkpoint's")
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


def _format(name: str) -> str:
    # Only here the formats are looked up: plain text needs none of them.
    names = list(formats().SUFFIXES)
    if name not in names:
        choices = ", ".join(map(repr, names))
        raise argparse.ArgumentTypeError(f"invalid choice: '{name}' (choose from {choices})")
    return name


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
    """Translate; after an error the finished parts are kept for the next run."""
    _check(args)
    options = _options(args)
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.translating.inputs import TextToTranslate, files_to_translate
    from gtrans.translating.outcome import Outcome
    from gtrans.translating.stream import translate_stream
    from gtrans.translating.translation import decode_texts
    from gtrans.translating.translator import MOST_WARNED_TEXTS, Translator

    if args.stream:
        translate_stream(Translator.from_options(options), options)
        return

    # Mistakes in names and files are found before models are loaded.
    texts: Sequence[TextToTranslate | FileToTranslate]
    if args.sources:
        texts = files_to_translate(
            args.sources, args.output_dir, options, args.format, args.split_sentences
        )
    else:
        texts = [TextToTranslate.open(args.input, args.output, options)]
    outcome = Outcome(len(texts), args.output_dir)

    # The checkpoint
    translator = Translator.from_options(options)

    # The documents: all are read before the first is translated.
    unfinished: list[Translation] = []
    for text in texts:
        with outcome.failures_of(text.path):
            translation = text.read(translator, options)
            if translation.output.is_finished():
                outcome.was_finished(translation)
            else:
                unfinished.append(translation)
    outcome.report_finished(len(unfinished))

    # The batches, and the output of each text as soon as its last batch is decoded
    for translation in decode_texts(translator, options, unfinished, outcome.failed):
        with outcome.failures_of(translation.source.path):
            translation.write()
            outcome.was_written(translation)
    outcome.report(len(translator.warned) - MOST_WARNED_TEXTS)


def _options(args: argparse.Namespace) -> DecodingOptions:
    writes_json = args.json or _is_json_lines(args.output)
    return DecodingOptions.from_flags(
        args,
        paths=tuple(split_paths(args.path)),
        search=SearchOptions.from_flags(args),
        context=_overrides(args.model_overrides) | context_of(args),
        selection=selection_of(args),
        nbest=(args.nbest or 1) if writes_json else 0,
    )


def _is_json_lines(output: str | None) -> bool:
    if output is None:
        return False
    return output.lower().removesuffix(".gz").endswith(".jsonl")


def _check(args: argparse.Namespace) -> None:
    _check_one_input(args)
    _check_output(args)
    if args.sources and args.free:
        raise GtransError(
            "`--free` gives no translation for each sentence, which a document needs to keep its "
            "form; translate text with `--input`."
        )
    if args.stream and args.workers != 1:
        raise GtransError("`--workers` is for files and texts; `--stream` takes one after another.")
    writes_json = args.json or _is_json_lines(args.output)
    if args.nbest is not None and (not writes_json or args.nbest < 1):
        raise GtransError(
            f"`--nbest` {args.nbest}: it must be at least 1, and needs `--json`, which writes "
            "several translations of a sentence."
        )


def _check_one_input(args: argparse.Namespace) -> None:
    ways = "FILE or FOLDER with `--output-dir`; `--input` with `--output`; `--stream`"
    given = [bool(args.sources), args.input is not None, args.stream]
    if given.count(True) > 1:
        raise GtransError(f"give one of: {ways}.")
    if not any(given):
        raise GtransError(f"nothing to translate: give {ways}.")


def _check_output(args: argparse.Namespace) -> None:
    has_text = args.input is not None
    if args.sources and args.output_dir is None:
        raise GtransError("`--output-dir` is missing: where the translation is to be written.")
    if has_text and args.output is None:
        raise GtransError("`--output` is missing: where the translation is to be written.")
    is_about_files = args.output_dir or args.format or args.split_sentences is not None
    if is_about_files and not args.sources:
        raise GtransError(
            "`--output-dir`, `--format` and `--split-sentences` belong to FILE or FOLDER, which is "
            "not given."
        )
    if args.output is not None and not has_text:
        raise GtransError("`--output` belongs to `--input`, which is not given.")
