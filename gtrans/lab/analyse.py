"""Measure how a model uses context: entropy of attention, openness of gates, gradients.

The model is run on the split --split and its references, in the unit that it was trained with.
The output has, for every layer,

  attention  the entropy of the attention weights, of the mean of all heads, in bits, and the
             maximum, which uniform attention would reach
  gates      how far the gates are open: the mean weight that they give to the wider
             attention (global attention, or attention to a context)

With --gradients it also has the gradients of each sentence's loss: their mean norm at an
embedded word of another sentence, relative to that at a word of the sentence itself. They
are listed by the distance in sentences; negative distances are later sentences. With
--layer-gradients it has the norm of the training loss's gradient at every layer.

Several models are compared; several checkpoints of a run, or a run folder, show how the values
change during training (train with --save-interval-updates N --keep-interval-updates -1). --plot
draws all of it, by layer, or by update if a run has several checkpoints.

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
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gtrans.cli.shared.model_options import add_read, add_scoring, add_units, check_scoring
from gtrans.errors import GtransError
from gtrans.lab.plots import add_plot, check_figure, title_of
from gtrans.lab.runs import add_checkpoints, labelled_paths
from gtrans.libraries import ENGINE
from gtrans.messages import aligned, json_text, print_lines

if TYPE_CHECKING:
    from gtrans.lab.gradients import Reach
    from gtrans.lab.measure import Analysis

EXAMPLE = (
    "gtrans analyse --path checkpoints/checkpoint_best.pt --data data-bin --split valid "
    "--gradients --plot analysis.png"
)
NEEDS = ENGINE
PARTS_IN = "gtrans.lab.analyses"
PARTS = ("curves", "fusion", "maps", "memory", "cost", "scores")
_FARTHEST = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse``."""
    files = parser.add_argument_group("files")
    add_checkpoints(files)
    add_read(files)
    add_plot(files)
    group = parser.add_argument_group("measurements")
    add_units(group)
    group.add_argument("--gradients", action="store_true", help="measure gradients by distance")
    group.add_argument(
        "--farthest",
        type=int,
        metavar="N",
        help=f"with --gradients: the largest distance in sentences (default: {_FARTHEST})",
    )
    group.add_argument(
        "--bin",
        type=int,
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
    """Measure and print.

    Raises:
        GtransError: a checkpoint, the data folder or its split is missing or damaged, an
            option has an impossible value, or the model does not support gradients.
    """
    check_scoring(args)
    for flag, least in (("units", 1), ("farthest", 0), ("bin", 1)):
        value = getattr(args, flag)
        if value is not None and value < least:
            raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
    if not args.gradients and (args.unique or args.bin > 1 or args.farthest is not None):
        raise GtransError(
            "`--bin`, `--farthest` and `--unique` are about `--gradients`; give it, too."
        )
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.lab.gradients import Distances
    from gtrans.lab.measure import analyse_runs, as_json, overview
    from gtrans.lab.plots import write_figure
    from gtrans.lab.runs import runs_of
    from gtrans.text.prepared_folder import prepared_files

    labelled = labelled_paths(args.path)
    runs = runs_of(labelled)
    files = [step.path for run in runs for step in run.steps]
    check_figure(args, [*files, *prepared_files(args.data)])
    farthest = _FARTHEST if args.farthest is None else args.farthest
    distances = Distances(farthest, args.bin, args.unique)
    analyses = analyse_runs(
        runs, args.data, args.split, args.units,
        distances=distances if args.gradients else None, by_layer=args.layer_gradients,
        max_tokens=args.max_tokens, cpu=args.cpu, fp16=args.fp16,
    )  # fmt: skip
    if args.plot:
        write_figure(overview(analyses, title_of(list(labelled)), args.bin), args.plot)
    if args.json:
        print(json_text([as_json(analysis) for analysis in analyses]))
        return
    for analysis in analyses:
        print_lines(*report(analysis))


def report(analysis: Analysis) -> list[str]:
    """Tables of one checkpoint."""
    from gtrans.lab.attention import in_order

    counts = f"{analysis.updates} updates, {analysis.units} units ({analysis.unit})"
    lines = [f"{analysis.path}: {counts}", ""]
    rows: list[Sequence[str]] = [("attention", "range", "layer", "entropy", "at most")]
    for place, spread in in_order(analysis.seen.attention):
        bits = (f"{value / spread.queries:.2f}" for value in (spread.entropy, spread.max_entropy))
        rows.append((f"{place.side} {place.kind}", place.range, str(place.layer), *bits))
    lines += aligned(rows, {0, 1})
    shares = [("gate", "layer", "open")]
    for place, opening in in_order(analysis.seen.gates):
        shares.append((f"{place.side} {place.kind}", str(place.layer), f"{opening.mean:.3f}"))
    if shares[1:]:
        lines += ["", *aligned(shares, {0})]
    if analysis.reach is not None:
        lines += ["", *_gradients(analysis.reach)]
    if analysis.layers is not None:
        norms = [("gradient", "layer", "norm")]
        norms += [(layer.side, str(layer.layer), f"{layer.norm:.3e}") for layer in analysis.layers]
        lines += ["", *aligned(norms, {0})]
    return [*lines, ""]


def _gradients(reach: Reach) -> list[str]:
    from gtrans.lab.gradients import SIDES

    rows: list[Sequence[str]] = [("gradient at distance", *SIDES)]
    own = {side: reach.mean(side, 0) for side in SIDES}
    for distance in reach.distances():
        cells = [
            f"{reach.mean(side, distance) / own[side]:.4f}"
            if reach.words.get((side, distance)) and own[side]
            else "-"
            for side in SIDES
        ]
        rows.append((str(distance), *cells))
    return aligned(rows, {0})
