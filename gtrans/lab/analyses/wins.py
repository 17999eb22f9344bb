"""Mean scores and win ratio over language pairs, by resource.

Every file of 'gtrans score --json' is LABEL@PAIR=FILE. The win ratio is the share of pairs with a
better score than the baseline's (of error rates, a lower one). --sizes names a file with a line
for every pair, PAIR and its training sentences, separated by a tab; with it, high, medium and low
resource are told apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gtrans.errors import GtransError
from gtrans.lab.figure_output import add_figure, check_figure, write
from gtrans.lab.score_files import score_files

EXAMPLE = (
    "gtrans analyse wins --baseline MNMT --sizes sizes.tsv --path MNMT@de-en=m.de-en.json "
    "MNMT@fr-en=m.fr-en.json GTRANS@de-en=g.de-en.json GTRANS@fr-en=g.fr-en.json"
)
NEEDS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse wins``."""
    from gtrans.lab.analysis.wins import HIGH, LOW

    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="LABEL@PAIR=FILE",
        help="JSON files with scores; FILE:SYSTEM for one of several systems",
    )
    parser.add_argument(
        "--baseline", required=True, metavar="LABEL", help="the system to win against"
    )
    parser.add_argument(
        "--values", default="s_bleu", metavar="NAME", help="which score (default: %(default)s)"
    )
    parser.add_argument(
        "--sizes", type=Path, metavar="FILE", help="training sentences of the pairs"
    )
    parser.add_argument(
        "--high", type=int, default=HIGH, metavar="N",
        help="least sentences of a pair with high resource (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--low", type=int, default=LOW, metavar="N",
        help="pairs with fewer sentences have low resource (default: %(default)s)",
    )  # fmt: skip
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Count, draw and print.

    Raises:
        GtransError: a file is missing or lacks what is asked for, systems have different pairs,
            or the plot cannot be written.
    """
    from gtrans.lab.analysis.wins import wins

    if args.low > args.high:
        raise GtransError(f"`--low` must be at most --high {args.high}, but is {args.low}.")
    files = score_files(args.path, x_wanted=True)
    sizes = {} if args.sizes is None else _sizes(args.sizes)
    check_figure(args, [*(file.path for file in files), *([args.sizes] if args.sizes else [])])
    bounds = args.high, args.low
    write(args, wins(files, args.baseline, args.values, sizes, bounds, args.title or ""))


def _sizes(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise GtransError(f"`--sizes` {path}: it cannot be read as text in UTF-8.") from None
    sizes = {}
    for number, line in enumerate(lines, 1):
        pair, _, count = line.partition("\t")
        if not pair or not count.strip().isdigit():
            raise GtransError(f"{path}:{number}: not a pair and its sentences, separated by a tab.")
        sizes[pair] = int(count)
    return sizes
