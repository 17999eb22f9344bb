"""Figures as numbers: panels with the points of several series, and their CSV and JSON."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

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
    """The points of one thing, which have one colour.

    Attributes:
        label: its name in the legend.
        points: by ``x``, if these are numbers.
        colour: number of its colour; series with the same number belong together.
        kind: ``line``: points joined by lines; ``limit``: a dashed line that other points cannot
            pass; ``bars``.
        dashed: another line of the same colour.
        mark: number of the mark of its points; None: that of the colour.
        shade: the colour instead, from 0 (dark) to 1 (light): for series that have an order, such
            as layers; None: the colour of ``colour``.
    """

    label: str
    points: tuple[Point, ...]
    colour: int = 0
    kind: Kind = "line"
    dashed: bool = False
    shade: float | None = None
    mark: int | None = None


@dataclass(frozen=True)
class Panel:
    """A pair of axes.

    Attributes:
        title: what it shows.
        x_label, y_label: names of the axes, with units.
        series: what is drawn.
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
        title: of the whole; empty: none.
        panels: from left to right, row by row.
        facts: from what the numbers come, for JSON.
    """

    title: str
    panels: tuple[Panel, ...]
    facts: dict[str, Any] = field(default_factory=dict)


def mean_of_runs(runs: Iterable[Sequence[tuple[X, float]]]) -> tuple[Point, ...]:
    """The points of several runs as one series: mean, smallest and largest value at each ``x``.

    Runs need not have the same ``x``; :attr:`Point.runs` says how many have one.
    """
    found: dict[X, list[float]] = defaultdict(list)
    for run in runs:
        for x, y in run:
            found[x].append(y)
    places = list(found)
    if all(not isinstance(x, str) for x in places):
        places.sort(key=lambda x: float(x))
    return tuple(_mean(x, found[x]) for x in places)


def shades(count: int) -> list[float]:
    """The shades of ``count`` ordered series."""
    return [number / max(count - 1, 1) for number in range(count)]


def _mean(x: X, values: Sequence[float]) -> Point:
    if len(values) == 1:
        return Point(x, values[0])
    return Point(x, statistics.fmean(values), min(values), max(values), len(values))


def to_json(figure: Figure) -> dict[str, Any]:
    """The figure as an object; a value that is not finite is null."""
    found = asdict(figure)
    for panel in found["panels"]:
        for series in panel["series"]:
            for point in series["points"]:
                if not math.isfinite(point["y"]):
                    point["y"] = None
    return found


def to_csv(figure: Figure) -> str:
    """A line for every point, under a head."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("panel", "series", "x", "y", "low", "high", "runs"))
    for panel in figure.panels:
        for series in panel.series:
            for p in series.points:
                ends = ("" if end is None else f"{end:.8g}" for end in (p.low, p.high))
                x = p.x if isinstance(p.x, str) else f"{p.x:g}" if p.x % 1 else f"{int(p.x)}"
                writer.writerow((panel.title, series.label, x, f"{p.y:.8g}", *ends, p.runs))
    return text.getvalue()
