"""Turn plain-text documents into a binarised corpus for fairseq-train.

The text has one sentence per line and an empty line (or <d>, <doc ..>, OPUS's <fromDoc>)
between documents, the same in both languages. PREFIX.LANG is a UTF-8 file, which may be gzipped
(PREFIX.LANG.gz). Both may also be JSON lines, tables (TSV), SGM or WMT XML with document ids;
PREFIX is then one file that has both sides, or stands for two. All input files are checked
before anything is written.

After an interruption, run the same command again: it skips finished steps. If an input file
or an option has changed, only the steps that depend on it are repeated.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path

from gtrans.cli.shared.reading import add_choice, choice_of
from gtrans.libraries import ENGINE
from gtrans.messages import aligned, print_lines, say
from gtrans.option_types import whole
from gtrans.text.preparation import COLUMNS, prepare, table, warnings
from gtrans.text.preparation_options import DEFAULT_MERGES, PreparationOptions

EXAMPLE = (
    "gtrans prepare --source-lang en --target-lang de --train corpus/train "
    "--valid corpus/valid --test corpus/test --bpe-merges 8000 --out data-bin"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of ``gtrans prepare``."""
    corpus = parser.add_argument_group("corpus")
    corpus.add_argument("--source-lang", required=True, metavar="LANG", help="source language")
    corpus.add_argument("--target-lang", required=True, metavar="LANG", help="target language")
    corpus.add_argument(
        "--train", nargs="+", default=[], metavar="PREFIX", help="training text; several are joined"
    )
    corpus.add_argument("--valid", metavar="PREFIX", help="validation text")
    corpus.add_argument(
        "--test",
        nargs="+",
        default=[],
        metavar="PREFIX",
        help="test text; several become the splits test, test1, ...",
    )
    add_choice(corpus, ("source", "reference"), direction=False)
    corpus.add_argument(
        "--binarised",
        type=Path,
        metavar="DIR",
        help="instead of text: the dictionaries and splits that fairseq-preprocess has written to "
        "DIR, in the subwords of --bpe-codes, --sentencepiece or --byte-bpe; an empty line of the "
        "text marks a document. Plain text, in every other command, is then text as it was before "
        "these subwords",
    )
    corpus.add_argument(
        "--out", required=True, type=Path, metavar="DIR", help="data folder to write"
    )

    text = parser.add_argument_group("text")
    subwords = text.add_mutually_exclusive_group()
    subwords.add_argument(
        "--reuse",
        type=Path,
        metavar="DIR|CKPT",
        help="use the text options, truecasers, subwords and dictionary of this data folder, or "
        "those in this checkpoint",
    )
    subwords.add_argument(
        "--bpe-merges",
        type=whole(1),
        metavar="N",
        help=f"joint BPE merges (default: {DEFAULT_MERGES})",
    )
    subwords.add_argument(
        "--bpe-symbols",
        type=whole(1),
        metavar="N",
        help="size of the joint BPE vocabulary instead of --bpe-merges: merges and characters",
    )
    subwords.add_argument(
        "--bpe-codes",
        type=Path,
        metavar="FILE",
        help="segment with these merges of subword-nmt instead of learning some",
    )
    text.add_argument(
        "--normalise",
        action="store_true",
        help="replace quotation marks and dashes as Moses' punctuation normalisation does; the "
        "model then cannot write them, which costs a German output 4 to 6 BLEU",
    )
    text.add_argument(
        "--no-tokenise",
        action="store_true",
        help="skip tokenisation: the text is tokenised already",
    )
    text.add_argument(
        "--segmenter",
        choices=["jieba"],
        help="find the words of Chinese with jieba (pip install '.[zh]'), as the experiments "
        "on Chinese in the papers do (default: every character is a token)",
    )
    text.add_argument("--no-truecase", action="store_true", help="skip truecasing")
    subwords.add_argument(
        "--sentencepiece",
        type=Path,
        metavar="MODEL",
        help="segment the plain text with this SentencePiece model instead of Moses steps and BPE; "
        "mBART needs its sentence.bpe.model",
    )
    subwords.add_argument(
        "--byte-bpe",
        type=Path,
        metavar="DIR",
        help="segment the plain text with the byte-level BPE in this folder instead of Moses steps "
        "and BPE; BART needs it (encoder.json and vocab.bpe, or vocab.json and merges.txt)",
    )
    text.add_argument(
        "--dictionary",
        type=Path,
        metavar="DICT",
        help="dict.txt with the subwords to use, with --bpe-codes (default: those of the training "
        "text), --sentencepiece or --byte-bpe (default: all subwords of the model)",
    )
    text.add_argument(
        "--bert",
        metavar="NAME_OR_DIR",
        help="also segment the plain source into the subwords of this BERT: a local folder or a "
        "name on the Hugging Face hub (bert-base-uncased); with --reuse, instead of that folder's",
    )

    run_group = parser.add_argument_group("run")
    run_group.add_argument(
        "--workers", type=whole(1), metavar="N",
        help="processes; the result does not depend on it (default: all cores)",
    )  # fmt: skip
    run_group.add_argument("--force", action="store_true", help="repeat all steps, finished or not")


def run(args: argparse.Namespace) -> None:
    """Run ``gtrans prepare``."""
    given = {field.name for field in fields(PreparationOptions)} & vars(args).keys()
    choice = choice_of(args, f"{args.source_lang}-{args.target_lang}")
    options = {name: getattr(args, name) for name in given}
    if args.reuse is not None and args.reuse.is_file():
        # Imported on demand: torch and fairseq need seconds, which --help should not.
        from gtrans.decoding.loading import carried_data

        options["reuse"] = Path(carried_data(str(args.reuse))["data"])
    counts = prepare(PreparationOptions(**options, choice=choice))
    print_lines(*aligned(table(counts), {0, 1}), COLUMNS)
    for warning in warnings(counts):
        say(f"warning: {warning}")
