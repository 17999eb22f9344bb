"""The charts of the page: drawn by matplotlib, embedded as SVG in the page's own colours."""

from __future__ import annotations

import importlib
import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

from gtrans.report.scores import ScoresOfTest

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
# Colours that are told apart without seeing red and green (Okabe and Ito 2008), and what the style
# sheet calls them: it has darker and lighter ones for the two themes.
_SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
_INK, _GRID = "#123456", "#654321"
_VARIABLES = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(_SERIES)},
    _INK: "var(--ink)",
    _GRID: "var(--rule)",
}
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text, in the fonts of the page
    "text.parse_math": False,  # a name with a dollar sign is a name
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
# The metrics whose intervals are drawn, if the tables have them.
_DRAWN = ("s_bleu", "d_bleu", "chrf", "meteor")

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Chart:
    """A chart: its title, what it shows in words, and the SVG."""

    title: str
    words: str
    svg: str


@dataclass(frozen=True)
class Panel:
    """What is drawn in one frame: lines by their names, and dotted the limit of each."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Points]
    limits: Mapping[str, Points] = field(default_factory=dict)


def draw_panels(identity: str, title: str, words: str, panels: Sequence[Panel]) -> Chart:
    """Frames side by side, at most two in a row, with one legend for lines of the same names."""
    columns = min(2, len(panels))
    rows = (len(panels) + columns - 1) // columns
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))

    def draw(figure: Any) -> None:
        every = figure.subplots(rows, columns, squeeze=False).flatten()
        handles: dict[str, Any] = {}
        for axes, panel in zip(every, panels, strict=False):
            for name, points in panel.lines.items():
                place = names.index(name)
                style = {
                    "color": _SERIES[place % len(_SERIES)],
                    "linestyle": _DASHES[place // len(_SERIES) % len(_DASHES)],
                    "linewidth": 1.6,
                }
                if len(points) < 40:
                    style |= {"marker": _MARKERS[place % len(_MARKERS)], "markersize": 4}
                (handles[name],) = axes.plot(*zip(*points, strict=True), **style)
                if limit := panel.limits.get(name):
                    dotted = style | {"linestyle": ":", "linewidth": 1.0, "marker": None}
                    axes.plot(*zip(*limit, strict=True), **dotted)
            axes.set_title(panel.title, fontsize=10, loc="left")
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
            if all(float(x).is_integer() for line in panel.lines.values() for x, _ in line):
                axes.xaxis.get_major_locator().set_params(integer=True)
        for axes in every[len(panels) :]:
            axes.set_visible(False)
        figure.legend(handles.values(), handles.keys(), loc="outside lower center",
                      ncols=min(4, max(1, 90 // (6 + max(map(len, names))))))  # fmt: skip

    height = 3.0 * rows + 0.28 * (1 + len(names) // 4)
    return Chart(title, words, _svg(identity, (4.6 * columns, height), draw))


def draw_intervals(identity: str, title: str, scores: ScoresOfTest) -> Chart | None:
    """Scores with their 95% intervals, a frame for each metric; None if there are none."""
    columns = [
        column
        for column in scores.columns
        if column.key in _DRAWN and any(row[column.key].interval for row in scores.rows.values()
                                        if column.key in row)
    ]  # fmt: skip
    if not columns:
        return None
    names = list(scores.rows)

    def draw(figure: Any) -> None:
        every = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(every, columns, strict=True):
            for place, name in enumerate(names):
                cell = scores.rows[name].get(column.key)
                if cell is None:
                    continue
                low, high = cell.interval or (cell.score, cell.score)
                # A score may lie outside the interval of its resampled scores.
                ends = [[max(0.0, cell.score - low)], [max(0.0, high - cell.score)]]
                axes.errorbar(
                    cell.score, place, xerr=ends, capsize=3, markersize=5,
                    marker=_MARKERS[place % len(_MARKERS)], color=_SERIES[place % len(_SERIES)],
                )  # fmt: skip
            axes.set_title(column.label, fontsize=10, loc="left")
            axes.set_yticks(range(len(names)), names)
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.locator_params(axis="x", nbins=4)

    words = "; ".join(
        f"{column.label}: "
        + ", ".join(
            f"{name} {row[column.key].score:.2f}"
            for name, row in scores.rows.items()
            if column.key in row
        )
        for column in columns
    )
    size = (2.0 + 2.1 * len(columns), 0.9 + 0.34 * len(names))
    return Chart(title, words, _svg(identity, size, draw))


def _svg(identity: str, size: tuple[float, float], draw: Callable[[Any], None]) -> str:
    """The SVG of a figure; ``identity`` keeps its names apart from those of other figures."""
    # fairseq makes every library log at level INFO.
    for library in ("matplotlib", "PIL"):
        logging.getLogger(library).setLevel(logging.ERROR)
    matplotlib = importlib.import_module("matplotlib")
    figures = importlib.import_module("matplotlib.figure")
    drawn = io.BytesIO()
    with matplotlib.rc_context({**_SETTINGS, "svg.hashsalt": identity}):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(drawn.getvalue())
    for found in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(found)
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    root.attrib |= {"width": f"{width:.0f}", "height": f"{height:.0f}", "aria-hidden": "true"}
    for element in root.iter():
        for name, value in element.attrib.items():
            element.attrib[name] = _fitted(name, value, identity)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _fitted(name: str, value: str, identity: str) -> str:
    """An attribute with the colours of the page, and with identifiers of its own."""
    if name == "id":
        return f"{identity}-{value}"
    if name == f"{{{_XLINK}}}href":
        return value.replace("#", f"#{identity}-", 1)
    value = value.replace("url(#", f"url(#{identity}-")
    if name in ("style", "fill", "stroke"):
        value = re.sub(r"#[0-9a-f]{6}", lambda found: _VARIABLES.get(found[0], found[0]), value)
        value = re.sub(r"(font(?:-family)?: [^;]*?)'[^;]*", r"\1system-ui, sans-serif", value)
    return value
