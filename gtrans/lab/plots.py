"""Figures as numbers, their JSON, and their drawing with matplotlib."""

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
XValue = float | str  # a place on the x axis: a number or a category


@dataclass(frozen=True)
class Point:
    """A value of a series, perhaps the mean of several runs.

    Attributes:
        x: a number, or the name of a category.
        low, high: its interval, or the smallest and the largest run.
    """

    x: XValue
    y: float
    low: float | None = None
    high: float | None = None
    runs: int = 1


@dataclass(frozen=True)
class Series:
    """Points that share a colour and a name.

    Attributes:
        colour: series with the same number belong together.
        kind: ``limit`` is a dotted line that other points cannot pass.
        shade: from 0 (dark) to 1 (light) for ordered series, such as layers; None: use ``colour``.
        marker: number of the marker; None: ``colour``.
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
    """A pair of axes; ``logarithmic`` is the y axis."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    logarithmic: bool = False


@dataclass(frozen=True)
class Figure:
    """Panels side by side, row by row; ``facts`` is the provenance of the numbers."""

    title: str
    panels: tuple[Panel, ...]
    facts: dict[str, Any] = field(default_factory=dict)


def mean_of_runs(runs: Iterable[Sequence[tuple[XValue, float]]]) -> tuple[Point, ...]:
    """Return the mean, smallest and largest value at each ``x``, of the runs that have it."""
    values_by_x: dict[XValue, list[float]] = defaultdict(list)
    for run in runs:
        for x, y in run:
            values_by_x[x].append(y)
    return tuple(_mean(x, values_by_x[x]) for x in _in_order(values_by_x))


def shades(count: int) -> list[float]:
    """Return a shade for each of ``count`` ordered series."""
    return [number / max(count - 1, 1) for number in range(count)]


def _mean(x: XValue, values: Sequence[float]) -> Point:
    if len(values) == 1:
        return Point(x, values[0])
    return Point(
        x,
        y=statistics.fmean(values),
        low=min(values),
        high=max(values),
        runs=len(values),
    )


def to_json(figure: Figure) -> dict[str, Any]:
    """Return the figure for JSON; values that are not finite are null."""
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
    """Raise an error if ``--plot`` cannot be written, or is an input."""
    for path in map(Path, args.plot):
        if path.suffix not in SUFFIXES:
            raise GtransError(f"`--plot` must end in {', '.join(SUFFIXES)}, but is '{path}'.")
        for file in (path, path.with_suffix(".json")):
            check_output("--plot", file, inputs)
    if args.plot:
        figure_class()


def figure_class() -> Any:
    """Return matplotlib's ``Figure``."""
    _matplotlib()
    return importlib.import_module("matplotlib.figure").Figure


def _matplotlib() -> Any:
    require(["matplotlib"], "`--plot`")
    return importlib.import_module("matplotlib")


def plain(text: str) -> str:
    """Escape dollar signs, between which matplotlib reads mathematics."""
    return text.replace("$", r"\$")


def write_together(contents: Mapping[Path, str | Callable[[], Any]]) -> None:
    """Write texts and figures of matplotlib (made by functions), or nothing."""
    # A figure is the same file again, and the text of an SVG is text.
    settings = {"svg.hashsalt": "gtrans", "svg.fonttype": "none"}
    with replacing(*contents) as temporary, _matplotlib().rc_context(settings):
        for file, path in zip(temporary, contents, strict=True):
            content = contents[path]
            if isinstance(content, str):
                file.write_text(content, encoding="utf-8")
                continue
            # In memory first, because matplotlib does not say why a file could not be written.
            picture = io.BytesIO()
            figure_format = path.suffix.removeprefix(".")
            metadata = _DATE.get(path.suffix)
            content().savefig(picture, dpi=150, format=figure_format, metadata=metadata)
            file.write_bytes(picture.getvalue())


def write_figure(figure: Figure, paths: Iterable[str]) -> None:
    """Draw a figure into ``paths``, and write its numbers as JSON beside them."""
    text = json.dumps(to_json(figure), indent=2) + "\n"
    contents: dict[Path, str | Callable[[], Any]] = {}
    for path in map(Path, paths):
        contents[path] = partial(draw, figure)
        contents[path.with_suffix(".json")] = text
    if contents:
        write_together(contents)


def draw(figure: Figure) -> Any:
    """Return a figure of matplotlib."""
    count = max(len(figure.panels), 1)
    columns = min(count, _COLUMNS)
    rows = math.ceil(count / columns)
    width, height = _PANEL_INCHES
    most = max((len(panel.series) for panel in figure.panels), default=0)
    if most > _FEW_SERIES:
        legend_lines = min(most, _MANY_SERIES + 1)
        height += legend_lines * _LEGEND_LINE_INCHES
    size = (width * columns, height * rows)
    drawn = figure_class()(figsize=size, layout="constrained")
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
    numbers = _x_numbers(panel)
    if numbers and all(x == int(x) for x in numbers):
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(numbers) == 1:
            only = numbers.pop()
            axes.set_xlim(only - 1, only + 1)
    if panel.logarithmic:
        axes.set_yscale("log", nonpositive="mask")
    has_labels = any(series.label for series in panel.series)
    if has_labels or len(panel.series) > 1:
        _draw_legend(axes, is_below=len(panel.series) > _FEW_SERIES)


def _x_numbers(panel: Panel) -> set[float]:
    numbers = set()
    for series in panel.series:
        for point in series.points:
            if not isinstance(point.x, str):
                numbers.add(point.x)
    return numbers


def _draw_legend(axes: Any, is_below: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    step = max(math.ceil(len(handles) / _MANY_SERIES), 1)
    last = len(handles) - 1
    shown = {*range(0, len(handles), step), last}
    shown_handles, shown_labels = [], []
    for number in sorted(shown):
        shown_handles.append(handles[number])
        shown_labels.append(labels[number])
    position: dict[str, Any] = {}
    if is_below:
        position = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    axes.legend(shown_handles, shown_labels, fontsize="small", **position)


def _colour(series: Series) -> Any:
    if series.shade is None:
        return COLOURS[series.colour % len(COLOURS)]
    # The lightest end would not be seen on white.
    return _matplotlib().colormaps["viridis"](0.9 * series.shade)


def _draw_line(axes: Any, series: Series) -> None:
    points = [point for point in series.points if math.isfinite(point.y)]
    x, y, low, high = [], [], [], []
    for point in points:
        x.append(point.x)
        y.append(point.y)
        low.append(point.y if point.low is None else point.low)
        high.append(point.y if point.high is None else point.high)
    marker = _marker(series, len(points))
    axes.plot(
        x,
        y,
        _line_style(series),
        marker=marker,
        markersize=12 if marker == "_" else 4,
        color=_colour(series),
        label=plain(series.label),
    )
    if all(point.low is None for point in points):
        return
    if len(points) == 1:
        axes.vlines(x, low, high, color=_colour(series))
    else:
        axes.fill_between(
            x,
            low,
            high,
            color=_colour(series),
            alpha=0.2,
            linewidth=0,
        )


def _line_style(series: Series) -> str:
    if series.kind == "limit":
        return ":"
    return "--" if series.dashed else "-"


def _marker(series: Series, points: int) -> str:
    if series.kind == "limit":
        return "_" if points == 1 else ""
    if points > _MANY_POINTS:
        return ""
    number = series.colour if series.marker is None else series.marker
    return MARKERS[number % len(MARKERS)]


def _draw_bars(axes: Any, bars: Sequence[Series]) -> None:
    positions: dict[str, int] = {}
    for series in bars:
        for point in series.points:
            positions.setdefault(str(point.x), len(positions))
    width = 0.8 / max(len(bars), 1)
    middle = (len(bars) - 1) / 2
    for number, series in enumerate(bars):
        offset = (number - middle) * width
        centres, heights, below, above = [], [], [], []
        for point in series.points:
            low = point.y if point.low is None else point.low
            high = point.y if point.high is None else point.high
            centres.append(positions[str(point.x)] + offset)
            heights.append(point.y if math.isfinite(point.y) else 0)
            # A score may lie outside the interval of its resampled scores, which reaches one way
            # then.
            below.append(max(0, point.y - low))
            above.append(max(0, high - point.y))
        errors = (below, above) if any(below) or any(above) else None
        axes.bar(
            centres,
            heights,
            width,
            color=_colour(series),
            label=plain(series.label),
            yerr=errors,
            capsize=2,
        )
    if positions:
        names = [plain(name) for name in positions]
        axes.set_xticks(range(len(names)), names)


# -------------------------------------------------------------------------------------------------
#
# The output of all parts of ``gtrans analyse``: a figure, its numbers, a table.


def add_figure(parser: argparse.ArgumentParser) -> None:
    """Add ``--plot`` and ``--json``."""
    group = parser.add_argument_group("output")
    add_plot(group)
    group.add_argument("--json", action="store_true", help="write JSON to standard output")


def add_plot(group: argparse._ArgumentGroup) -> None:
    """Add ``--plot``."""
    group.add_argument(
        "--plot",
        nargs="+",
        default=[],
        metavar="FILE",
        help="draw into .png, .pdf or .svg files (needs the extra 'plots'); the numbers are "
        "written beside each, as FILE.json without its .png",
    )


def title_of(labels: Sequence[str]) -> str:
    """Return the label of the only model."""
    return labels[0] if len(labels) == 1 else ""


def write(args: argparse.Namespace, figure: Figure) -> None:
    """Draw ``--plot``, and print the numbers."""
    write_figure(figure, args.plot)
    if args.json:
        print(json_text(to_json(figure)))
    else:
        print_lines(*tables(figure))


def tables(figure: Figure) -> list[str]:
    """Return a table for every panel, with a column for every series."""
    lines: list[str] = []
    for panel in figure.panels:
        rows = _panel_rows(panel)
        lines += [f"{panel.title}; {panel.y_label}", *aligned(rows, {0}), ""]
    return lines


def _panel_rows(panel: Panel) -> list[tuple[str, ...]]:
    titles = [panel.x_label]
    points_by_x: list[dict[XValue, Point]] = []
    places: dict[XValue, None] = {}
    for series in panel.series:
        titles.append(series.label or panel.y_label)
        points = {point.x: point for point in series.points}
        points_by_x.append(points)
        places |= dict.fromkeys(points)
    rows = [tuple(titles)]
    for x in _in_order(places):
        cells = [_point_cell(points.get(x)) for points in points_by_x]
        rows.append((_x_cell(x), *cells))
    return rows


def _in_order(places: Iterable[XValue]) -> list[XValue]:
    xs = list(places)
    if not any(isinstance(x, str) for x in xs):
        xs.sort(key=float)
    return xs


def _x_cell(x: XValue) -> str:
    if isinstance(x, str):
        return x
    return f"{x:,.6g}" if x % 1 else f"{int(x):,}"


def _point_cell(point: Point | None) -> str:
    if point is None:
        return "-"
    if point.low is None or point.high is None:
        return f"{point.y:.4g}"
    return f"{point.y:.4g} ({point.low:.4g} to {point.high:.4g})"
