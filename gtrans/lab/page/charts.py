"""The charts of the page: drawn by matplotlib, embedded as SVG in the page's own colours."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from gtrans.lab.analysis.figures import Figure, Panel
from gtrans.lab.analysis.plots import (
    COLOURS,
    MARKS,
    draw,
    error_lengths,
    figure_class,
    plain,
    repeatable,
)
from gtrans.lab.page.scores import ScoresOfTest

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
# Sentinels for what matplotlib draws in black and grey; the style sheet has the colours of both
# themes, also for the series.
_INK, _GRID = "#123456", "#654321"
_VARIABLES = {
    **{colour.lower(): f"var(--series-{number})" for number, colour in enumerate(COLOURS)},
    _INK: "var(--ink)",
    _GRID: "var(--rule)",
}
_SETTINGS = {
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
# The metrics whose intervals are drawn, if the tables have them.
_DRAWN = ("s_bleu", "d_bleu", "chrf", "meteor")


@dataclass(frozen=True)
class Chart:
    """A chart: its title, what it shows in words, and the SVG."""

    title: str
    words: str
    svg: str


def draw_figure(identity: str, title: str, figure: Figure) -> Chart:
    """A figure of :mod:`gtrans.lab.analysis`."""
    words = "; ".join(filter(None, map(_ends, figure.panels)))
    return Chart(title or figure.title, words, _svg(identity, lambda: draw(figure)))


def _ends(panel: Panel) -> str:
    """A panel in words: where its lines end."""
    ends = [
        f"{one.label} {one.points[-1].y:.3g}"
        for one in panel.series
        if one.points and one.kind != "limit"
    ]
    return f"{panel.title} ({panel.y_label}) at the end: {', '.join(ends)}" if ends else ""


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

    def drawn() -> Any:
        figure = figure_class()(
            figsize=(2.0 + 2.1 * len(columns), 0.9 + 0.34 * len(names)), layout="constrained"
        )
        every = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
        for axes, column in zip(every, columns, strict=True):
            for place, name in enumerate(names):
                cell = scores.rows[name].get(column.key)
                if cell is None:
                    continue
                below, above = error_lengths(cell.score, *(cell.interval or (None, None)))
                axes.errorbar(
                    cell.score, place, xerr=[[below], [above]], capsize=3, markersize=5,
                    marker=MARKS[place % len(MARKS)], color=COLOURS[place % len(COLOURS)],
                )  # fmt: skip
            axes.set_title(column.label, fontsize="medium")
            axes.set_yticks(range(len(names)), [plain(name) for name in names])
            axes.set_ylim(len(names) - 0.5, -0.5)
            axes.locator_params(axis="x", nbins=4)
        return figure

    words = "; ".join(
        f"{column.label}: "
        + ", ".join(
            f"{name} {row[column.key].score:.2f}"
            for name, row in scores.rows.items()
            if column.key in row
        )
        for column in columns
    )
    return Chart(title, words, _svg(identity, drawn))


def _svg(identity: str, drawn: Callable[[], Any]) -> str:
    """The SVG of a figure of matplotlib; ``identity`` keeps its names apart from those of others.

    Its text stays text, in the fonts of the page.
    """
    content = io.BytesIO()
    with repeatable(), importlib.import_module("matplotlib").rc_context(_SETTINGS):
        canvas = importlib.import_module("matplotlib.backends.backend_svg").FigureCanvasSVG(drawn())
        canvas.print_svg(content, metadata={"Date": None})
    root = ElementTree.fromstring(content.getvalue())
    for found in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(found)
    width, height = (float(value) for value in root.attrib["viewBox"].split()[2:])
    root.attrib |= {"width": f"{width:.0f}pt", "height": f"{height:.0f}pt", "aria-hidden": "true"}
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
        value = re.sub(r"#[0-9a-f]{6}\b", _of_page, value)
        value = re.sub(r"(font(?:-family)?: [^;]*?)'[^;]*", r"\1system-ui, sans-serif", value)
    return value


def _of_page(colour: re.Match[str]) -> str:
    """A colour of the style sheet; any other, lighter where the page is dark."""
    return _VARIABLES.get(colour[0], f"color-mix(in oklab, {colour[0]} var(--shade), white)")
