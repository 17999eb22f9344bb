"""A figure of the scores of an experiment; its numbers are those of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gtrans.experiments.catalogue import Figure as Wanted
from gtrans.experiments.catalogue import Variant
from gtrans.lab.analysis.figures import Figure, Panel, Series, mean_of_runs
from gtrans.lab.analysis.plots import write_figure

ENDINGS = (".png", ".svg")


def draw(wanted: Wanted, variants: tuple[Variant, ...], table: dict[str, Any], stem: Path) -> None:
    """Write STEM.png and STEM.svg, and their numbers beside them: a curve for each series.

    A point is the mean over seeds, its bar goes from the smallest to the largest.

    Raises:
        GtransError: the library is not installed, or a file cannot be written.
    """
    panels = []
    for axis in wanted.x:
        for title in wanted.y:
            found = curves(axis, title, variants, table)
            if found:
                panels.append(Panel(title, axis, title, found))
    title = f"{table['experiment']}: {table['title']} (scale {table['scale']})"
    figure = Figure(title, tuple(panels), {"scale": table["scale"], "corpora": table["corpora"]})
    write_figure(figure, [f"{stem}{ending}" for ending in ENDINGS])


def curves(
    axis: str, title: str, variants: tuple[Variant, ...], table: dict[str, Any]
) -> tuple[Series, ...]:
    """The curves of a column of the table, over one of the axes."""
    place = {variant.label: variant for variant in variants}
    points: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    for row in table["rows"]:
        variant, cell = place[row["label"]], row["cells"].get(title)
        if axis not in variant.x or cell is None:
            continue
        corpus = [row["corpus"]] if len(table["corpora"]) > 1 else []
        name = ", ".join([*([variant.series] if variant.series else []), *corpus])
        points.setdefault(name, []).append((variant.x[axis], cell))
    found = []
    for number, (name, of_name) in enumerate(points.items()):
        runs: dict[int, list[tuple[float | str, float]]] = {}
        for x, cell in of_name:
            for seed in cell["seeds"]:
                runs.setdefault(seed["seed"], []).append((x, seed["value"]))
        found.append(Series(name or title, mean_of_runs(runs.values()), number))
    return tuple(found)
