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

from gtrans.cli.shared.model_options import (
    add_context,
    add_device,
    add_instances,
    add_model_files,
    context_of,
)
from gtrans.cli.shared.reading import add_choice, choice_of
from gtrans.decoding.options import MAX_TOKENS, DecodingOptions, SearchOptions, split_paths
from gtrans.errors import GtransError
from gtrans.formats.catalogue import SUFFIXES
from gtrans.libraries import ENGINE

EXAMPLE = (
    "gtrans translate --path checkpoints/checkpoint_best.pt manual.md website "
    "--output-dir translated"
)
NEEDS = ENGINE
_AS_GIVEN = (
    "data",
    "max_tokens",
    "max_doc_tokens",
    "overlap",
    "cpu",
    "fp16",
    "bf16",
    "int8",
    "force",
    "tokens",
    "workers",
)


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
        choices=list(SUFFIXES),
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
        "--candidates",
        metavar="JSONL",
        help="translations of any system, of which the model chooses in document context: a line "
        "for each sentence with `source`, `candidates` and `doc_id`; gives --output",
    )
    files.add_argument("--split", metavar="NAME", help="binarised split of --data, such as test")
    files.add_argument(
        "--output",
        metavar="FILE",
        help="translation of --input or --split; - is standard output, a name in .gz is compressed",
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
    files.add_argument(
        "--tokens",
        action="store_true",
        help="write the tokens of Moses with spaces between them instead of plain text, for "
        "programs that count tokens (multi-bleu.perl)",
    )
    add_choice(files, ("source",))
    search = parser.add_argument_group("search")
    SearchOptions.add_arguments(search)
    unit = parser.add_argument_group("size")
    unit.add_argument(
        "--max-tokens",
        type=int,
        default=MAX_TOKENS,
        metavar="N",
        help="source tokens decoded at once, padding included; fewer where the logits of many "
        "short rows would fill the memory (default: %(default)s)",
    )
    add_instances(unit, "as in training")
    add_device(unit)
    unit.add_argument(
        "--bf16",
        action="store_true",
        help="compute in bfloat16: faster on a GPU or a processor with instructions for it "
        "(avx512_bf16); a word may differ here and there",
    )
    unit.add_argument(
        "--int8",
        action="store_true",
        help="weights of 8 bits on a CPU: faster, and a word may differ here and there, also by "
        "what else is in a batch",
    )
    unit.add_argument(
        "--workers",
        type=_workers,
        default=1,
        metavar="N|auto",
        help="share the documents out over N processes: on CPUs with one thread each, on GPUs one "
        "each; auto: as many as there are (default: %(default)s)",
    )
    unit.add_argument(
        "--force", action="store_true", help="translate anew, even if it is finished or in part"
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
        found = ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise GtransError(
            f"`--model-overrides` must be names and values in braces, such as "
            f"\"{{'use_groups': '3:6'}}\", but is '{text}'."
        )
    return found


def run(args: argparse.Namespace) -> None:
    """Translate.

    Raises:
        GtransError: see :func:`gtrans.decoding.translation.translate`.
    """
    given = DecodingOptions(
        paths=tuple(split_paths(args.path)),
        search=SearchOptions.of(args),
        context=_overrides(args.model_overrides) | context_of(args),
        choice=choice_of(args),
        nbest=0 if not args.json else 1 if args.nbest is None else args.nbest,
        **{name: getattr(args, name) for name in _AS_GIVEN},
    )
    _check(args)
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.decoding import candidates, translation

    if args.candidates is not None:
        candidates.choose_candidates(given, args.candidates, args.output)
    elif args.stream:
        translation.translate_stream(given)
    elif args.sources:
        files = translation.Files(
            tuple(args.sources), args.output_dir, args.format, args.split_sentences
        )
        translation.translate_files(given, files)
    else:
        translation.translate(given, args.output, args.input, args.split)


def _check(args: argparse.Namespace) -> None:
    """Refuse options that do not belong together.

    Raises:
        GtransError: saying what to give.
    """
    text = any(one is not None for one in (args.input, args.split, args.candidates))
    if args.candidates is not None and (args.input or args.split or args.free or args.workers != 1):
        raise GtransError(
            "`--candidates` has the text itself; leave `--input`, `--split`, `--free` and "
            "`--workers` out."
        )
    if (args.sources and (text or args.stream)) or (text and args.stream):
        raise GtransError(
            "give one of: FILE or FOLDER with `--output-dir`; `--input` or `--split` with "
            "`--output`; `--stream`."
        )
    if not (args.sources or text or args.stream):
        raise GtransError(
            "nothing to translate: give FILE or FOLDER with `--output-dir`, or `--input` or "
            "`--split` with `--output`, or `--stream`."
        )
    for given, flag, value in (
        (bool(args.sources), "output-dir", args.output_dir),
        (text, "output", args.output),
    ):
        if given and value is None:
            raise GtransError(f"`--{flag}` is missing: where the translation is to be written.")
        if value is not None and not given:
            belongs = "FILE or FOLDER" if flag == "output-dir" else "`--input` or `--split`"
            raise GtransError(f"`--{flag}` belongs to {belongs}, which is not given.")
    if args.input is not None and args.split is not None:
        raise GtransError("give either `--input` FILE or `--split` NAME.")
    if args.split is not None and args.data is None:
        raise GtransError("`--split` needs `--data`, the folder of the binarised split.")
    if args.sources and args.free:
        raise GtransError(
            "`--free` gives no translation for each sentence, which a document needs to keep its "
            "form; translate text with `--input`."
        )
    if args.stream and args.workers != 1:
        raise GtransError("`--workers` is for files and texts; `--stream` takes one after another.")
    for flag, value in (("format", args.format), ("split-sentences", args.split_sentences)):
        if value and not args.sources:
            raise GtransError(f"`--{flag}` belongs to FILE or FOLDER, which is not given.")
    if args.nbest is not None and (not args.json or args.nbest < 1):
        raise GtransError(
            f"`--nbest` {args.nbest}: it must be at least 1, and needs `--json`, which writes "
            "several translations of a sentence."
        )
