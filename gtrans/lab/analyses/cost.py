"""Measure what decoding costs by the length of a text: time and memory.

Texts of random tokens, in sentences (chunks) of equal length, are translated by each model in the
unit that it was trained with; every translation is as long as its source. A sentence model and a
recurrent memory take chunk after chunk, a document model the whole text (--max-doc-tokens cuts it).

Each model and length has a fresh process. Memory is its largest resident size, on a GPU what it has
taken there; what translating adds to the loaded model is told apart. Time is CPU time of one
thread, on a GPU that of the clock.
"""

from __future__ import annotations

import argparse

from gtrans.cli.shared.labelled_paths import by_label, labelled_paths
from gtrans.cli.shared.model_options import add_device
from gtrans.errors import GtransError
from gtrans.lab.figure_output import add_figure, check_figure, title_of, write
from gtrans.libraries import ENGINE

EXAMPLE = (
    "gtrans analyse cost --path sentence=sentence/checkpoint_best.pt memory=memory/"
    "checkpoint_best.pt --lengths 100 500 1000 --plot cost.png"
)
NEEDS = ENGINE
LENGTHS = (100, 200, 500, 1000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse cost``."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]CKPT",
        help="checkpoints; training makes no difference to their cost",
    )
    files.add_argument(
        "--data",
        metavar="DIR",
        help="data folder that they were trained with (default: what each checkpoint carries)",
    )
    text = parser.add_argument_group("texts")
    text.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=list(LENGTHS),
        metavar="N",
        help="tokens of a text: multiples of --chunk, or fewer (default: 100 200 500 1000)",
    )
    for flag, default, meaning in (
        ("--chunk", 100, "tokens of a sentence"),
        ("--documents", 1, "texts side by side"),
        ("--beam", 5, "hypotheses of the search"),
        ("--rounds", 1, "how often each length is timed; the median counts"),
    ):
        text.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{meaning} (default: %(default)s)"
        )
    text.add_argument(
        "--max-doc-tokens",
        type=int,
        metavar="N",
        help="longest instance of a document model, marks included (default: the whole text)",
    )
    add_device(parser.add_argument_group("size"))
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, draw and print.

    Raises:
        GtransError: a checkpoint is missing or damaged, a model cannot read so long a text, or an
            option has an impossible value.
    """
    given = by_label(labelled_paths(args.path))
    for label, paths in given.items():
        if len(paths) > 1:
            raise GtransError(
                f"--path: {' and '.join(paths)} are both '{label}'; the cost of seeds is the same, "
                "so give each model once, with a LABEL of its own."
            )
    check_figure(args, [path for paths in given.values() for path in paths])
    from gtrans.lab.analysis.cost import Text, check_lengths, cost_figure, costs

    text = Text(args.chunk, args.documents, args.beam, args.rounds, args.max_doc_tokens)
    lengths = sorted(set(args.lengths))
    check_lengths(lengths, text)
    models = {label: paths[0] for label, paths in given.items()}
    found = costs(models, args.data, lengths, text, cpu=args.cpu, fp16=args.fp16)
    write(args, cost_figure(found, text, title_of(args, list(given))))
