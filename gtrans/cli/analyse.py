"""Measure how a model uses context: entropy of attention, openness of gates, gradients.

The model reads the split --split with its references, in the unit that it was trained with.
The output has, for every layer,

  attention  the entropy of the attention weights in bits: of the mean of all heads, the mean
             over single heads, and the maximum, which uniform attention would reach
  gates      how far the gates are open: the mean weight that they give to the wider
             attention (global attention, or attention to a context)
  fusion     what layer fusion has learned, from the bottom: gates of the encoder's groups and of
             the decoder's layers, and weights of the decoder's groups

With --gradients it also has the gradients of each sentence's loss: their mean norm at an
embedded word of another sentence, relative to that at a word of the sentence itself. They
are listed by the distance in sentences; negative distances are later sentences.

Give several checkpoints of one run to see how the values change during training. --plot
draws the entropy (over updates if there are several checkpoints) and the gradients.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtrans.cli.shared.model_options import add_scoring, check_scoring
from gtrans.cli.shared.tables import aligned
from gtrans.errors import GtransError
from gtrans.libraries import ENGINE
from gtrans.messages import json_text, print_lines

if TYPE_CHECKING:
    from gtrans.analysis.corpus import Analysis
    from gtrans.analysis.reach import Reach

EXAMPLE = (
    "gtrans analyse --path checkpoints/checkpoint_best.pt --data data-bin --split valid "
    "--gradients --plot analysis.png"
)
NEEDS = ENGINE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse``."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="CKPT",
        help="checkpoints; each is analysed by itself",
    )
    files.add_argument(
        "--data", required=True, metavar="DIR", help="data folder, made by 'gtrans prepare'"
    )
    files.add_argument(
        "--split", default="valid", help="split of --data to read (default: %(default)s)"
    )
    files.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the results into a .png, .pdf or .svg file (needs the extra 'plots')",
    )
    what = parser.add_argument_group("measurements")
    what.add_argument(
        "--units",
        type=int,
        default=200,
        metavar="N",
        help="read at most N units, evenly spread over the split (default: %(default)s)",
    )
    what.add_argument("--gradients", action="store_true", help="measure gradients by distance")
    what.add_argument(
        "--farthest",
        type=int,
        default=5,
        metavar="N",
        help="with --gradients: the largest distance in sentences (default: %(default)s)",
    )
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Measure and print.

    Raises:
        GtransError: a checkpoint, the data folder or its split is missing or damaged, an
            option has an impossible value, or the model does not support gradients.
    """
    check_scoring(args)
    for flag, least in (("units", 1), ("farthest", 0)):
        value = getattr(args, flag)
        if value < least:
            raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.analysis.corpus import analyse, as_json
    from gtrans.analysis.plots import check_plot, draw
    from gtrans.text.prepared_folder import prepared_files

    plot = None if args.plot is None else Path(args.plot)
    if plot is not None:
        check_plot(plot, [*args.path, *prepared_files(args.data)])
    found = [
        analyse(
            path, args.data, args.split, args.units,
            farthest=args.farthest if args.gradients else None,
            max_tokens=args.max_tokens, cpu=args.cpu, fp16=args.fp16,
        )
        for path in args.path
    ]  # fmt: skip
    if plot is not None:
        draw(found, plot)
    if args.json:
        print(json_text([as_json(one) for one in found]))
        return
    for one in found:
        print_lines(*report(one))


def report(found: Analysis) -> list[str]:
    """Tables of one checkpoint."""
    lines = [f"{found.path}: {found.updates} updates, {found.units} units ({found.unit})", ""]
    header = ("attention", "range", "layer", "entropy", "of a head", "at most")
    rows: list[Sequence[str]] = [header]
    for location, spread in found.seen.ordered_attention():
        bits = (spread.entropy, spread.head_entropy, spread.max_entropy)
        rows.append(
            (
                f"{location.side} {location.kind}", location.range, str(location.layer),
                *(f"{value / spread.queries:.2f}" for value in bits),
            )
        )  # fmt: skip
    lines += aligned(rows, {0, 1})
    gates = found.seen.ordered_gates()
    if gates:
        shares = [("gate", "layer", "open")]
        for location, opening in gates:
            name = f"{location.side} {location.kind}"
            shares.append((name, str(location.layer), f"{opening.mean:.3f}"))
        lines += ["", *aligned(shares, {0})]
    if found.fusion:
        learned = [("fusion", "from the bottom")]
        for name, values in found.fusion.items():
            learned.append((name, " ".join(f"{value:.3f}" for value in values)))
        lines += ["", *aligned(learned, {0, 1})]
    if found.reach is not None:
        lines += ["", *_gradients(found.reach)]
    return [*lines, ""]


def _gradients(reach: Reach) -> list[str]:
    from gtrans.analysis.reach import SIDES

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
