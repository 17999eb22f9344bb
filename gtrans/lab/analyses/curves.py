"""Draw learning curves from the logs of training runs, several models in one figure.

A run is a folder with the log train.log, which the recipes keep, or a log itself. Runs with one
label are seeds of one model: their mean is drawn, with the smallest and the largest value.

--values names what the log has: loss, nll_loss, ppl, gnorm, lr, wps of training, weight_group_*
of a model with several decoder groups; behind the name of a validation split and a colon what was
measured on it: valid:loss, valid:s_bleu.
"""

from __future__ import annotations

import argparse

from gtrans.cli.shared.labelled_paths import by_label, labelled_paths
from gtrans.lab.figure_output import add_figure, check_figure, title_of, write

EXAMPLE = (
    "gtrans analyse curves --path fine-tuned=out/finetune random=out/randinit "
    "--values loss valid:loss --plot curves.png"
)
NEEDS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse curves``."""
    from gtrans.lab.analysis.curves import AXES, DEFAULT_VALUES, UPDATES

    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL=]RUN",
        help="run folders or logs; without a label they are called by their folder",
    )
    parser.add_argument(
        "--values",
        nargs="+",
        default=list(DEFAULT_VALUES),
        metavar="NAME",
        help="what to draw, a panel each; * stands for any characters, such as weight_group_* "
        f"(default: {' '.join(DEFAULT_VALUES)})",
    )
    parser.add_argument(
        "--against", choices=AXES, default=UPDATES, help="horizontal axis (default: %(default)s)"
    )
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read the logs, draw and print.

    Raises:
        GtransError: a log is missing or has no such value, or the plot cannot be written.
    """
    from gtrans.lab.analysis.curves import curves
    from gtrans.lab.analysis.history import read_history

    given = by_label(labelled_paths(args.path))
    models = {label: [read_history(path) for path in paths] for label, paths in given.items()}
    check_figure(args, [run.path for runs in models.values() for run in runs])
    write(args, curves(models, args.values, args.against, title_of(args, list(models))))
