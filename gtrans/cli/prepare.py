"""Turn plain-text documents into a binarised corpus for fairseq-train.

The text has one sentence per line and an empty line (or <d>, <doc ..>, OPUS's <fromDoc>)
between documents, the same in both languages. PREFIX.LANG is a UTF-8 file, which may be gzipped
(PREFIX.LANG.gz). JSON lines, tables (TSV), SGM or WMT XML with document ids are read, too: PREFIX
is then one file with both sides, or two files are PREFIX.LANG or PREFIX.LANG.jsonl (.tsv). So
`--train corpus/train` stands for corpus/train.en.jsonl and corpus/train.de.jsonl.
All input files are checked before anything is written.

After an interruption, run the same command again: it skips finished steps. If an input file
or an option has changed, only the steps that depend on it are repeated.
"""

from __future__ import annotations

import argparse
import atexit
from dataclasses import fields
from pathlib import Path

from gtrans.cli.shared.options import add_selection, selection_of
from gtrans.environment import ENGINE
from gtrans.messages import aligned, print_lines, print_message
from gtrans.text.preparation import COLUMNS, prepare, table, warnings
from gtrans.text.preparation_options import PreparationOptions

EXAMPLE = (
    "gtrans prepare --source-lang en --target-lang de --train corpus/train "
    "--valid corpus/valid --test corpus/test --bpe-merges 8000 --out data-bin"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    corpus = parser.add_argument_group("corpus")
    text = parser.add_argument_group("text")
    groups = {
        "corpus": corpus,
        "text": text,
        "subwords": text.add_mutually_exclusive_group(),
        "run": parser.add_argument_group("run"),
    }
    for option in fields(PreparationOptions):
        if option.name == "selection":
            add_selection(corpus, ("source", "reference"), direction=False)
            continue
        settings = dict(option.metadata)
        group = groups[settings.pop("group")]
        group.add_argument(f"--{option.name.replace('_', '-')}", **settings)


def run(args: argparse.Namespace) -> None:
    """Run ``gtrans prepare``."""
    options = {}
    for option in fields(PreparationOptions):
        value = getattr(args, option.name, None)
        if value is not None:
            options[option.name] = value
    options["selection"] = selection_of(args, f"{args.source_lang}-{args.target_lang}")
    if args.reuse is not None and args.reuse.is_file():
        # Imported on demand: torch and fairseq need seconds, which --help should not.
        from gtrans.checkpoints.reading import read_checkpoint
        from gtrans.translating.loading import stored_fingerprint

        state = read_checkpoint(args.reuse, in_memory=False)
        folder = stored_fingerprint(state, str(args.reuse)).data_folder()
        atexit.register(folder.cleanup)
        options["reuse"] = Path(folder.name)
    counts = prepare(PreparationOptions(**options))
    print_lines(*aligned(table(counts), {0, 1}), COLUMNS)
    for warning in warnings(counts):
        print_message(f"warning: {warning}")
