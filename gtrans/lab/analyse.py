"""Measure how a model uses context: entropy of attention, openness of gates, gradients.

The model is run on the split --split and its references, in the unit that it was trained with. The
output has, for every layer,

  attention  the entropy of the attention weights, of the mean of all heads, in bits, and the
             maximum, which uniform attention would reach
  gates      the mean weight that the gates give to the wider attention (global attention, or
             attention to a context)

--gradients adds the gradient of each sentence's loss at the embedded words of all sentences: its
mean norm by the distance in sentences; negative distances are later sentences. --layer-gradients
adds the norm of the training loss's gradient at every layer.

Several models are compared; several checkpoints of a run, or a run folder, show changes during
training (train with --save-interval-updates N --keep-interval-updates -1): then a value is the mean
of all layers. --plot draws the printed numbers.

Other analyses are chosen by a word; 'gtrans analyse WORD --help' describes them:
  curves     learning curves from the logs of training runs
  fusion     gates and weights of fused layers over training
  maps       attention maps of a document, as pictures
  memory     information gain of trained over random memory
  cost       time and memory of decoding by length
  scores     scores by the length of sentences or their position, from their JSON
"""

from __future__ import annotations

import argparse

from gtrans.cli.shared.options import add_read, add_scoring, add_units, check_scoring
from gtrans.environment import ENGINE
from gtrans.lab.plots import add_plot, check_figure, title_of, write
from gtrans.lab.runs import add_checkpoints, labelled_paths
from gtrans.option_types import whole

EXAMPLE = (
    "gtrans analyse --path checkpoints/checkpoint_best.pt --data data-bin --split valid "
    "--gradients --plot analysis.png"
)
NEEDS = ENGINE
PARTS_IN = "gtrans.lab.analyses"
PARTS = ("curves", "fusion", "maps", "memory", "cost", "scores")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    files = parser.add_argument_group("files")
    add_checkpoints(files)
    add_read(files)
    add_plot(files)
    group = parser.add_argument_group("measurements")
    add_units(group)
    group.add_argument("--gradients", action="store_true", help="measure gradients by distance")
    group.add_argument(
        "--farthest",
        type=whole(0),
        default=5,
        metavar="N",
        help="with --gradients: the largest distance in sentences (default: %(default)s)",
    )
    group.add_argument(
        "--bin",
        type=whole(1),
        default=1,
        metavar="N",
        help="with --gradients: take N distances together, such as 0 to 9, 10 to 19 "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--unique",
        action="store_true",
        help="with --gradients: count a word that occurs several times in a bin once, where it is "
        "nearest",
    )
    group.add_argument(
        "--layer-gradients",
        action="store_true",
        help="measure the gradient of the training loss at every layer",
    )
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Measure and print."""
    check_scoring(args)
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.lab.checkpoint_measurements import measure_runs, overview_figure
    from gtrans.lab.runs import checkpoints_of, runs_of
    from gtrans.text.prepared_folder import prepared_files

    labelled = labelled_paths(args.path)
    runs = runs_of(labelled)
    check_figure(args, [*checkpoints_of(runs), *prepared_files(args.data)])
    checkpoints = measure_runs(runs, args)
    write(args, overview_figure(checkpoints, title_of(list(labelled)), args.bin))
