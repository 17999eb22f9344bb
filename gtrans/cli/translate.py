"""Translate whole documents, from text or from a binarised split.

Text has one sentence per line and an empty line (or a line <d>) between documents. It
goes through the preparation of --data, the model, and back. The output has a line for
every line of the input, empty lines in the same places; only they are empty lines.

Interrupted, the same command goes on where it stopped: OUTPUT.partial keeps what is
finished, OUTPUT appears when all is.
"""

from __future__ import annotations

import argparse

from gtrans.cli._model import add_context, add_device, add_model_files, context_of

EXAMPLE = (
    "gtrans translate --path checkpoints/checkpoint_best.pt --data data-bin "
    "--input test.en --output test.hyp.de"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of ``gtrans translate``."""
    files = parser.add_argument_group("files")
    add_model_files(files)
    source = files.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", metavar="FILE", help="text, gzipped or not; - reads it")
    source.add_argument("--split", metavar="NAME", help="binarised split of --data, e.g. test")
    files.add_argument("--output", required=True, metavar="FILE", help="translation; - prints")
    search = parser.add_argument_group("search")
    for flag, default, help_text in (
        ("--beam", 5, "hypotheses kept"),
        ("--max-len-a", 2.0, "A: a sentence of n words gets at most A n + B words"),
        ("--max-len-b", 50.0, "B"),
        ("--min-len", 1, "words that a sentence has at least"),
        ("--lenpen", 1.0, "scores are divided by length ** LENPEN; above 1 favours long output"),
        ("--unkpen", 0.0, "penalty for <unk>"),
    ):
        search.add_argument(
            flag,
            type=type(default),
            default=default,
            metavar="N" if isinstance(default, int) else "X",
            help=f"{help_text} (default: %(default)s)",
        )
    unit = parser.add_argument_group("size")
    unit.add_argument(
        "--max-tokens",
        type=int,
        default=4000,
        metavar="N",
        help="source tokens decoded at once, padding included (default: %(default)s)",
    )
    unit.add_argument(
        "--max-doc-tokens",
        type=int,
        metavar="N",
        help="longest instance, two marks per sentence included (default: as trained)",
    )
    add_device(unit)
    add_context(parser)


def run(args: argparse.Namespace) -> None:
    """Translate.

    Raises:
        GtransError: see :func:`gtrans.decoding.translation.translate`.
    """
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.data.documents import STANDARD_STREAM
    from gtrans.decoding.document_search import SearchOptions
    from gtrans.decoding.loading import split_paths
    from gtrans.decoding.translation import TranslationOptions, translate
    from gtrans.messages import say

    sentences = translate(
        TranslationOptions(
            paths=tuple(split_paths(args.path)),
            data=args.data,
            output=args.output,
            input=args.input,
            split=args.split,
            search=SearchOptions(
                beam=args.beam,
                max_len_a=args.max_len_a,
                max_len_b=args.max_len_b,
                min_len=args.min_len,
                lenpen=args.lenpen,
                unkpen=args.unkpen,
            ),
            max_tokens=args.max_tokens,
            max_doc_tokens=args.max_doc_tokens,
            context=context_of(args),
            cpu=args.cpu,
            fp16=args.fp16,
        )
    )
    if args.output != STANDARD_STREAM:
        say(f"{sentences} sentences written to {args.output}")
