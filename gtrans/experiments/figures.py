"""A figure of the scores of an experiment, as PNG and SVG; its numbers are those of the table."""

from __future__ import annotations

import importlib
import io
import logging
from pathlib import Path
from typing import Any

from gtrans.experiments.catalogue import Figure, Variant
from gtrans.identity.files import binary_writer
from gtrans.libraries import require

# The same figure is the same file: no date, and no random names.
_METADATA: dict[str, dict[str, None]] = {"png": {}, "svg": {"Date": None}}


def draw(figure: Figure, variants: tuple[Variant, ...], table: dict[str, Any], stem: Path) -> None:
    """Write STEM.png and STEM.svg: a curve for each series, its spread over seeds as bars.

    Raises:
        GtransError: the library is not installed, or a file cannot be written.
    """
    for library in ("matplotlib", "PIL"):
        logging.getLogger(library).setLevel(logging.WARNING)
    require(["matplotlib"], f"the figure of {table['experiment']}")
    place = {variant.label: variant for variant in variants}
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in table["rows"]:
        variant, cell = place[row["label"]], row["cells"].get(figure.y)
        if variant.x is None or cell is None:
            continue
        corpus = [row["corpus"]] if len(table["corpora"]) > 1 else []
        name = ", ".join([*([variant.series] if variant.series else []), *corpus])
        point = (variant.x, cell["mean"], cell["spread"] or 0.0)
        curves.setdefault(name, []).append(point)
    canvas = importlib.import_module("matplotlib.figure").Figure(
        figsize=(6, 4), layout="constrained"
    )
    axes = canvas.subplots()
    for name, points in curves.items():
        x, y, bars = zip(*sorted(points), strict=True)
        axes.errorbar(x, y, yerr=bars, marker="o", capsize=3, label=name or None)
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    axes.set_title(f"{table['experiment']} at scale {table['scale']}")
    if figure.logarithmic:
        axes.set_xscale("log", base=2)
    if any(curves):
        axes.legend()
    rc_context = importlib.import_module("matplotlib").rc_context
    for kind, metadata in _METADATA.items():
        drawn = io.BytesIO()
        with rc_context({"svg.hashsalt": "gtrans"}):
            canvas.savefig(drawn, dpi=150, format=kind, metadata=metadata)
        with binary_writer(stem.with_name(f"{stem.name}.{kind}")) as file:
            file.write(drawn.getvalue())
