"""Measure the information gain of a trained memory over a random one, by the memory's size.

The model reads the split --split with its references. Its memory decides by attention which words
write to it (Update Attention) and which of its vectors a word reads (Output Attention). The gain
is the entropy of these weights with a memory as it begins training, minus that with the trained
memory, in bits: how much more the trained memory selects. Models of different sizes are points of
one line; models of one size are its seeds. The divergence of the two is drawn beside it.
"""

from __future__ import annotations

import argparse

from gtrans.cli.shared.labelled_paths import add_checkpoints, by_label, labelled_paths
from gtrans.cli.shared.model_options import add_read, add_scoring, add_units, check_scoring
from gtrans.errors import GtransError
from gtrans.lab.figure_output import add_plot, check_figure, write
from gtrans.libraries import ENGINE

EXAMPLE = (
    "gtrans analyse memory --path m8/checkpoint_best.pt m16/checkpoint_best.pt --data data "
    "--plot gain.png"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse memory``."""
    files = parser.add_argument_group("files")
    add_checkpoints(files)
    add_read(files)
    add_plot(files)
    what = parser.add_argument_group("measurements")
    add_units(what)
    what.add_argument(
        "--draws",
        type=int,
        default=3,
        metavar="N",
        help="random memories to compare with (default: %(default)s)",
    )
    what.add_argument(
        "--seed", type=int, default=1, help="of the random memories (default: %(default)s)"
    )
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Measure, draw and print.

    Raises:
        GtransError: a checkpoint, the data folder or its split is missing or damaged, a model has
            no memory, or an option has an impossible value.
    """
    check_scoring(args)
    for flag in ("units", "draws"):
        if (value := getattr(args, flag)) < 1:
            raise GtransError(f"`--{flag}` must be at least 1, but is {value}.")
    if args.seed < 0:
        raise GtransError(f"`--seed` must be at least 0, but is {args.seed}.")
    from gtrans.lab.analysis.memory_gain import gain_figure, memory_gain
    from gtrans.lab.analysis.runs import runs_of
    from gtrans.text.prepared_folder import prepared_files

    runs = runs_of(by_label(labelled_paths(args.path)))
    files = [step.path for run in runs for step in run.steps]
    check_figure(args, [*files, *prepared_files(args.data)])
    found = [
        memory_gain(
            run, args.data, args.split, units=args.units, draws=args.draws, seed=args.seed,
            max_tokens=args.max_tokens, cpu=args.cpu, fp16=args.fp16,
        )
        for run in runs
    ]  # fmt: skip
    write(args, gain_figure(found, args.title or ""))
