"""What all parts of ``gtrans analyse`` write: a figure, its numbers, a table."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gtrans.cli.shared.tables import aligned
from gtrans.messages import json_text, print_lines

if TYPE_CHECKING:
    from gtrans.lab.analysis.figures import Figure


def add_figure(parser: argparse.ArgumentParser) -> None:
    """``--plot``, ``--title`` and ``--json``."""
    group = parser.add_argument_group("output")
    add_plot(group)
    group.add_argument("--json", action="store_true", help="write JSON to standard output")


def add_plot(group: argparse._ArgumentGroup) -> None:
    """``--plot`` and ``--title``."""
    group.add_argument(
        "--plot",
        nargs="+",
        default=[],
        metavar="FILE",
        help="draw into .png, .pdf or .svg files (needs the extra 'plots'); the numbers are "
        "written beside each, as FILE.csv and FILE.json without its .png",
    )
    group.add_argument(
        "--title", help="title of the figure (default: the model's label, if there is one model)"
    )


def check_figure(args: argparse.Namespace, inputs: Sequence[str | Path]) -> None:
    """Raises GtransError, before anything is computed, if ``--plot`` cannot be written."""
    from gtrans.lab.analysis.plots import check_plots

    check_plots(args.plot, inputs)


def title_of(args: argparse.Namespace, labels: Sequence[str]) -> str:
    """``--title``, or the label of the only model."""
    if args.title is not None:
        return str(args.title)
    return labels[0] if len(labels) == 1 else ""


def write(args: argparse.Namespace, figure: Figure) -> None:
    """Draw what ``--plot`` asks for, and print the numbers."""
    from gtrans.lab.analysis.figures import to_json
    from gtrans.lab.analysis.plots import write_figure

    write_figure(figure, args.plot)
    if args.json:
        print(json_text(to_json(figure)))
    else:
        print_lines(*tables(figure))


def tables(figure: Figure) -> list[str]:
    """A table for every panel: a line for every x, a column for every series."""
    lines: list[str] = []
    for panel in figure.panels:
        by_x = [{point.x: point for point in series.points} for series in panel.series]
        places = list(dict.fromkeys(x for points in by_x for x in points))
        if not any(isinstance(x, str) for x in places):
            places.sort(key=lambda x: float(x))
        rows = [(panel.x_label, *(series.label or panel.y_label for series in panel.series))]
        for x in places:
            name = x if isinstance(x, str) else f"{x:,.6g}" if x % 1 else f"{int(x):,}"
            cells = []
            for points in by_x:
                point = points.get(x)
                cell = "-" if point is None else f"{point.y:.4g}"
                if point is not None and point.low is not None and point.high is not None:
                    cell += f" ({point.low:.4g} to {point.high:.4g})"
                cells.append(cell)
            rows.append((name, *cells))
        lines += [f"{panel.title}; {panel.y_label}", *aligned(rows, {0}), ""]
    return lines
