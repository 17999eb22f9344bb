"""Draw scores that are finished: by a setting, or by length and position within the corpus.

Files are those of 'gtrans score --json', or any JSON with numbers, such as that of 'gtrans contrast
--json'. LABEL@X=FILE is the score of LABEL at X: a length of input, a size of the corpus or of the
memory, a number of layers or parameters. Files with one LABEL and X are seeds: their mean is drawn,
with the smallest and the largest; a single file has its confidence interval. FILE:SYSTEM chooses
one of several systems of a file.

--by length or position draws BLEU of parts of the test set, from the tables of 'gtrans
score --json'; --baseline the differences from one of the systems, with the intervals of the tests
that 'gtrans score --test-parts' makes.
"""

from __future__ import annotations

import argparse

from gtrans.errors import GtransError
from gtrans.lab.figure_output import add_figure, check_figure, title_of, write
from gtrans.lab.score_files import score_files

EXAMPLE = (
    "gtrans analyse scores --path document@256=d256.json document@512=d512.json "
    "G-Transformer@256=g256.json G-Transformer@512=g512.json --values d_bleu --x-label 'tokens of "
    "the input' --plot lengths.png"
)
NEEDS = ()
BY = ("x", "length", "position")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``gtrans analyse scores``."""
    parser.add_argument(
        "--path",
        required=True,
        nargs="+",
        metavar="[LABEL[@X]=]FILE",
        help="JSON files with scores; FILE:SYSTEM for one of several systems",
    )
    parser.add_argument(
        "--values",
        nargs="+",
        default=["s_bleu"],
        metavar="NAME",
        help="what to draw, a panel each: metrics of 'gtrans score', or the keys that lead to a "
        "number of another file, as in all.accuracy; with --by one metric, or mean_of_positions "
        "(default: s_bleu)",
    )
    parser.add_argument(
        "--by",
        choices=BY,
        default="x",
        help="x: by the X of the files; length: of sentences; position: of a sentence in its "
        "document (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline", metavar="LABEL", help="with --by length or position: differences"
    )
    parser.add_argument("--x-label", default="", help="what X is, for the axis")
    add_figure(parser)


def run(args: argparse.Namespace) -> None:
    """Read, draw and print.

    Raises:
        GtransError: a file is missing or lacks what is asked for, or the plot cannot be written.
    """
    from gtrans.lab.analysis.scores import by_part, by_setting

    files = score_files(args.path)
    check_figure(args, [file.path for file in files])
    title = title_of(args, list(dict.fromkeys(file.label for file in files)))
    if args.by == "x":
        if args.baseline is not None:
            raise GtransError("`--baseline` is for --by length or position.")
        write(args, by_setting(files, args.values, args.x_label, title))
        return
    if len(args.values) > 1:
        raise GtransError(f"`--by` {args.by} draws one metric; give one of --values.")
    write(args, by_part(files, args.by, args.values[0], args.baseline, title))
