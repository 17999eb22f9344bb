"""Show the gates and weights by which a GTRANS fuses its layers, over training.

They are read from checkpoints: the gates of the encoder's groups (Eq 2 of Yang et al. 2022), those
of the decoder's layers (Eq 4; --decoder-group-fusion sum or mean has them), and the weights of the
decoder's groups (Eq 6). Of a run folder all checkpoints are read: train with
--save-interval-updates N --keep-interval-updates -1.
"""

from __future__ import annotations

import argparse

from gtrans.cli.shared.labelled_paths import add_checkpoints, by_label, labelled_paths
from gtrans.lab.figure_output import add_figure, check_figure, title_of, write
from gtrans.libraries import ENGINE

EXAMPLE = "gtrans analyse fusion --path checkpoints --plot weights.png"
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse fusion``."""
    add_checkpoints(parser)
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read, draw and print.

    Raises:
        GtransError: a checkpoint is missing, damaged or of a model that fuses nothing, or the
            plot cannot be written.
    """
    from gtrans.lab.analysis.fusion_weights import fusion_figure
    from gtrans.lab.analysis.runs import runs_of

    given = by_label(labelled_paths(args.path))
    runs = runs_of(given)
    check_figure(args, [step.path for run in runs for step in run.steps])
    write(args, fusion_figure(runs, title_of(args, list(given))))
