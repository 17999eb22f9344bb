"""Figures as numbers: panels with the points of several series, and their JSON."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from gtrans.environment import require
from gtrans.errors import GtransError
from gtrans.files import check_output, replacing
from gtrans.messages import aligned, finite, json_text, print_lines, with_schema

Kind = Literal["line", "limit", "bars"]
X = float | str


@dataclass(frozen=True)
class Point:
    """A value of a series.

    Attributes:
        x: a number, or the name of a category.
        y: the value; the mean if there are several runs.
        low, high: ends of its interval, or the smallest and the largest run; None: neither.
        runs: of how many runs ``y`` is the mean.
    """

    x: X
    y: float
    low: float | None = None
    high: float | None = None
    runs: int = 1


@dataclass(frozen=True)
class Series:
    """Points that share a colour and a name.

    Attributes:
        label: its name in the legend.
        points: its points, sorted by ``x`` if these are numbers.
        colour: number of its colour; series with the same number belong together.
        kind: ``line``: points joined by lines; ``limit``: a dashed line that other points cannot
            pass; ``bars``.
        dashed: whether its line is dashed, to tell it from others of its colour.
        shade: a colour from 0 (dark) to 1 (light) for ordered series, such as layers; None: the
            colour of ``colour``.
        marker: number of the marker of its points; None: the number of the colour.
    """

    label: str
    points: tuple[Point, ...]
    colour: int = 0
    kind: Kind = "line"
    dashed: bool = False
    shade: float | None = None
    marker: int | None = None


@dataclass(frozen=True)
class Panel:
    """A pair of axes.

    Attributes:
        title: its heading.
        x_label, y_label: names of the axes, with units.
        series: the series to draw.
        logarithmic: whether the values have a logarithmic axis.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side.

    Attributes:
        title: the title above all panels; empty: none.
        panels: from left to right, row by row.
        facts: the provenance of the numbers, for JSON.
    """

    title: str
    panels: tuple[Panel, ...]
    facts: dict[str, Any] = field(default_factory=dict)


def mean_of_runs(runs: Iterable[Sequence[tuple[X, float]]]) -> tuple[Point, ...]:
    """The points of several runs as one series: mean, smallest and largest value at each ``x``.

    Runs need not have the same ``x``; :attr:`Point.runs` says how many have one.
    """
    values: dict[X, list[float]] = defaultdict(list)
    for run in runs:
        for x, y in run:
            values[x].append(y)
    xs = list(values)
    if all(not isinstance(x, str) for x in xs):
        xs.sort(key=lambda x: float(x))
    return tuple(_mean(x, values[x]) for x in xs)


def shades(count: int) -> list[float]:
    """The shades of ``count`` ordered series."""
    return [number / max(count - 1, 1) for number in range(count)]


def _mean(x: X, values: Sequence[float]) -> Point:
    if len(values) == 1:
        return Point(x, values[0])
    return Point(x, statistics.fmean(values), min(values), max(values), len(values))


def to_json(figure: Figure) -> dict[str, Any]:
    """The figure as an object; a value that is not finite is null."""
    return with_schema("figure", finite(asdict(figure)))


# -------------------------------------------------------------------------------------------------
#
# Figures drawn by matplotlib, with their numbers beside them.

SUFFIXES = (".png", ".pdf", ".svg")
_DATE = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}

# Okabe and Ito 2008: colours that stay apart for colour-blind readers. Markers repeat later than
# colours, so that more series differ, too, and all of them in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vXP*<>h"
_PANEL_INCHES, _COLUMNS = (5.0, 3.6), 3
_MANY_POINTS = 40  # more have no markers
_FEW_SERIES = 5  # the legend of more would hide lines: it stands below the panel
_LEGEND_LINE_INCHES = 0.18
_MANY_SERIES = 12  # of more, a legend has the first, the last and some between


def check_figure(args: argparse.Namespace, inputs: Sequence[str | Path]) -> None:
    """Raises GtransError, before anything is computed, if ``--plot`` cannot be written.

    This includes that one of the plots, or one of the files with their numbers, is one of
    ``inputs``, the files that are read.
    """
    for path in map(Path, args.plot):
        if path.suffix not in SUFFIXES:
            raise GtransError(f"`--plot` must end in {', '.join(SUFFIXES)}, but is '{path}'.")
        for file in (path, path.with_suffix(".json")):
            check_output("--plot", file, inputs)
    if args.plot:
        figure_class()


def figure_class() -> Any:
    """matplotlib's ``Figure``, which needs no screen.

    Raises:
        GtransError: matplotlib is not installed.
    """
    _matplotlib()
    return importlib.import_module("matplotlib.figure").Figure


def _matplotlib() -> Any:
    require(["matplotlib"], "`--plot`")
    return importlib.import_module("matplotlib")


def plain(text: str) -> str:
    """``text`` for matplotlib, which reads text between dollars as mathematics."""
    return text.replace("$", r"\$")


def write_together(contents: Mapping[Path, str | Callable[[], Any]]) -> None:
    """Write all files, or none.

    Args:
        contents: for every file its text, or a function that draws a figure of matplotlib; the
            suffix of the file is the format.

    Raises:
        GtransError: a file cannot be written.
    """
    # A figure is the same file again, and the text of an SVG is text.
    settings = {"svg.hashsalt": "gtrans", "svg.fonttype": "none"}
    with replacing(*contents) as temporary, _matplotlib().rc_context(settings):
        for written, (path, content) in zip(temporary, contents.items(), strict=True):
            if isinstance(content, str):
                written.write_text(content, encoding="utf-8")
                continue
            # In memory first, because its library does not say why a file could not be written.
            buffer, kind = io.BytesIO(), path.suffix
            content().savefig(buffer, dpi=150, format=kind[1:], metadata=_DATE.get(kind))
            written.write_bytes(buffer.getvalue())


def write_figure(figure: Figure, paths: Iterable[str]) -> None:
    """Draw a figure into each of ``paths``, and write its numbers as JSON beside them.

    Raises:
        GtransError: a file cannot be written; then none is.
    """
    text = json.dumps(to_json(figure), indent=2) + "\n"
    contents: dict[Path, str | Callable[[], Any]] = {}
    for path in map(Path, paths):
        contents[path] = partial(draw, figure)
        contents[path.with_suffix(".json")] = text
    if contents:
        write_together(contents)


def draw(figure: Figure) -> Any:
    """A figure of matplotlib."""
    count = max(len(figure.panels), 1)
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    width, height = _PANEL_INCHES
    most = max((len(panel.series) for panel in figure.panels), default=0)
    height += min(most, _MANY_SERIES + 1) * _LEGEND_LINE_INCHES * (most > _FEW_SERIES)
    drawn = figure_class()(figsize=(width * columns, height * rows), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False).flatten()
    for axis, panel in zip(axes, figure.panels, strict=False):
        _draw_panel(axis, panel)
    for axis in axes[len(figure.panels) :]:
        axis.axis("off")
    if figure.title:
        drawn.suptitle(plain(figure.title))
    return drawn


def _draw_panel(axes: Any, panel: Panel) -> None:
    _draw_bars(axes, [series for series in panel.series if series.kind == "bars"])
    for series in panel.series:
        if series.kind != "bars":
            _draw_line(axes, series)
    axes.set_title(plain(panel.title), fontsize="medium")
    axes.set_xlabel(plain(panel.x_label))
    axes.set_ylabel(plain(panel.y_label))
    numbers: list[float] = []
    for series in panel.series:
        numbers += [point.x for point in series.points if not isinstance(point.x, str)]
    if numbers and all(x == int(x) for x in numbers):
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(set(numbers)) == 1:
            axes.set_xlim(numbers[0] - 1, numbers[0] + 1)
    if panel.logarithmic:
        axes.set_yscale("log", nonpositive="mask")
    if len(panel.series) > 1 or any(series.label for series in panel.series):
        handles, labels = axes.get_legend_handles_labels()
        step = max(math.ceil(len(handles) / _MANY_SERIES), 1)
        shown = sorted({*range(0, len(handles), step), len(handles) - 1})
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
        position = below if len(panel.series) > _FEW_SERIES else {}
        entries = [handles[i] for i in shown], [labels[i] for i in shown]
        axes.legend(*entries, fontsize="small", **position)


def _colour(series: Series) -> Any:
    if series.shade is None:
        return COLOURS[series.colour % len(COLOURS)]
    # The lightest end would not be seen on white.
    return _matplotlib().colormaps["viridis"](0.9 * series.shade)


def _draw_line(axes: Any, series: Series) -> None:
    points = [p for p in series.points if math.isfinite(p.y)]
    x, y = [p.x for p in points], [p.y for p in points]
    limit = series.kind == "limit"
    number = series.colour if series.marker is None else series.marker
    marker = MARKERS[number % len(MARKERS)] if len(points) <= _MANY_POINTS else ""
    if limit:
        marker = "_" if len(points) == 1 else ""
    style = ":" if limit else "--" if series.dashed else "-"
    size, colour = 12 if marker == "_" else 4, _colour(series)
    axes.plot(x, y, style, marker=marker, markersize=size, color=colour, label=plain(series.label))
    if any(p.low is not None for p in points):
        low = [p.y if p.low is None else p.low for p in points]
        high = [p.y if p.high is None else p.high for p in points]
        if len(points) == 1:
            axes.vlines(x, low, high, color=colour)
        else:
            axes.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)


def _draw_bars(axes: Any, bars: Sequence[Series]) -> None:
    """The bars of all series of a panel, bars of a category side by side over its name."""
    names: dict[str, None] = {}
    for series in bars:
        names |= dict.fromkeys(str(point.x) for point in series.points)
    positions = {name: n for n, name in enumerate(names)}
    width = 0.8 / max(len(bars), 1)
    for number, series in enumerate(bars):
        beside = (number - (len(bars) - 1) / 2) * width
        centres = [positions[str(point.x)] + beside for point in series.points]
        # A score may lie outside the interval of its resampled scores, which reaches one way then.
        below = [0 if p.low is None else max(0, p.y - p.low) for p in series.points]
        above = [0 if p.high is None else max(0, p.high - p.y) for p in series.points]
        heights = [p.y if math.isfinite(p.y) else 0 for p in series.points]
        errors = (below, above) if any((*below, *above)) else None
        colour, label = _colour(series), plain(series.label)
        axes.bar(centres, heights, width, color=colour, label=label, yerr=errors, capsize=2)
    if positions:
        axes.set_xticks(range(len(positions)), list(map(plain, positions)))


# -------------------------------------------------------------------------------------------------
#
# The output of all parts of ``gtrans analyse``: a figure, its numbers, a table.


def add_figure(parser: argparse.ArgumentParser) -> None:
    """``--plot`` and ``--json``."""
    group = parser.add_argument_group("output")
    add_plot(group)
    group.add_argument("--json", action="store_true", help="write JSON to standard output")


def add_plot(group: argparse._ArgumentGroup) -> None:
    """``--plot``."""
    group.add_argument(
        "--plot",
        nargs="+",
        default=[],
        metavar="FILE",
        help="draw into .png, .pdf or .svg files (needs the extra 'plots'); the numbers are "
        "written beside each, as FILE.json without its .png",
    )


def title_of(labels: Sequence[str]) -> str:
    """The title of a figure: the label of the only model."""
    return labels[0] if len(labels) == 1 else ""


def write(args: argparse.Namespace, figure: Figure) -> None:
    """Draw the files of ``--plot``, and print the numbers."""

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
        places: dict[float | str, None] = {}
        for points in by_x:
            places |= dict.fromkeys(points)
        xs = list(places)
        if not any(isinstance(x, str) for x in xs):
            xs.sort(key=lambda x: float(x))
        rows = [(panel.x_label, *(series.label or panel.y_label for series in panel.series))]
        for x in xs:
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
