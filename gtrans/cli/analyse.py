"""What a model does with its context: spread of attention, gates, reach of gradients.

The model reads the prepared split --split with its references, in the unit it was trained
with. Told are, for every layer,

  attention  the entropy of its distributions in bits: of the mean of all heads, of a head,
             and at most, if it were the same on everything that may be seen
  gates      the mean share of the wider attention (global, or that to a context)

With --gradients also from where the gradient of a sentence's loss comes: its mean norm at
an embedded word, by the number of sentences between, as a multiple of that in the
sentence itself (source and target; negative distances are sentences that follow).

Several checkpoints of one run show how that develops; --plot draws the attention's
entropy (over updates if there are several), and the gradients if they are asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtrans.cli._model import add_scoring, check_scoring
from gtrans.cli._table import aligned
from gtrans.errors import GtransError

if TYPE_CHECKING:
    from gtrans.analysis.corpus import Analysis
    from gtrans.analysis.reach import Reach

EXAMPLE = (
    "gtrans analyse --path checkpoints/checkpoint_best.pt --data data-bin --split valid "
    "--gradients --plot analysis.png"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse``."""
    files = parser.add_argument_group("files")
    files.add_argument(
        "--path", required=True, nargs="+", metavar="CKPT", help="checkpoints, each by itself"
    )
    files.add_argument(
        "--data", required=True, metavar="DIR", help="folder made by 'gtrans prepare'"
    )
    files.add_argument(
        "--split", default="valid", help="split of it to read (default: %(default)s)"
    )
    files.add_argument(
        "--plot", metavar="FILE", help="draw what was found: .png, .pdf or .svg (extra: plots)"
    )
    what = parser.add_argument_group("what")
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
        help="with --gradients: the largest distance (default: %(default)s)",
    )
    add_scoring(parser)


def run(args: argparse.Namespace) -> None:
    """Measure and print.

    Raises:
        GtransError: a checkpoint, the data folder or its split is missing or damaged, an
            option has an impossible value, or gradients of a model that does not give them.
    """
    check_scoring(args)
    for flag, least in (("units", 1), ("farthest", 0)):
        value = getattr(args, flag)
        if value < least:
            raise GtransError(f"`--{flag}` must be at least {least}, but is {value}.")
    # Imported on demand: torch and fairseq need seconds, which --help should not.
    from gtrans.analysis.corpus import analyse, as_json
    from gtrans.analysis.plots import check_plot, draw

    plot = None if args.plot is None else Path(args.plot)
    if plot is not None:
        check_plot(plot)
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
        print(json.dumps([as_json(one) for one in found], indent=2))
        return
    for one in found:
        print("\n".join(report(one)))


def report(found: Analysis) -> list[str]:
    """Tables of one checkpoint."""
    lines = [f"{found.path}: {found.updates} updates, {found.rows} units ({found.unit})", ""]
    header = ("attention", "range", "layer", "entropy", "of a head", "at most")
    rows: list[Sequence[str]] = [header]
    for place, spread in found.seen.ordered_attention():
        bits = (spread.entropy, spread.head_entropy, spread.most)
        rows.append(
            (
                f"{place.side} {place.kind}", place.range, str(place.layer),
                *(f"{value / spread.queries:.2f}" for value in bits),
            )
        )  # fmt: skip
    lines += aligned(rows, {0, 1})
    gates = found.seen.ordered_gates()
    if gates:
        shares = [("gate", "layer", "open")]
        for place, opening in gates:
            name = f"{place.side} {place.kind}"
            shares.append((name, str(place.layer), f"{opening.mean:.3f}"))
        lines += ["", *aligned(shares, {0})]
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


