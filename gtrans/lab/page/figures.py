"""The figures of the page: what the logs have by updates, and what ``gtrans analyse`` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gtrans.errors import GtransError
from gtrans.identity.json_files import read_json
from gtrans.lab.analysis.curves import curves
from gtrans.lab.analysis.figures import Figure, Panel, Point, Series
from gtrans.lab.page.charts import Chart, draw_figure
from gtrans.lab.page.training import Training

# Values that are drawn if a log has them; those that a pattern finds get a figure of their own.
_CURVES = ("loss", "valid:loss", "valid:s_bleu", "valid:d_bleu", "valid:chrf")
_PARTS = {
    "weight_group_*": "Weights of the layer groups in the loss",
    "*gate*": "Gates",
    "*entropy*": "Entropy of attention",
}


def training_charts(models: Mapping[str, Training]) -> list[Chart]:
    """Losses and scores by updates, and what else the logs have of groups, gates and entropy."""
    histories = {label: [one.history] for label, one in models.items()}
    charts = []
    values = [value for value in _CURVES if _logged(models, value)]
    if values:
        title = "Training and validation"
        charts.append(draw_figure("curves", title, curves(histories, values)))
    for number, (pattern, title) in enumerate(_PARTS.items()):
        if _logged(models, pattern):
            charts.append(draw_figure(f"part-{number}", title, curves(histories, [pattern])))
    return charts


def _logged(models: Mapping[str, Training], value: str) -> bool:
    """Whether a log has a value, or values with ``*`` in their name."""
    split, _, pattern = value.rpartition(":")
    names = {name for one in models.values() for name in one.history.names(split or "train")}
    return any(Path(name).match(pattern) for name in names)


def analysis_charts(paths: Sequence[str]) -> list[Chart]:
    """The figures of ``gtrans analyse``, by the numbers beside its plots.

    Raises:
        GtransError: a file has something else.
    """
    charts = []
    for number, path in enumerate(paths):
        try:
            figure = _figure(read_json(Path(path)))
            title = figure.title or Path(path).stem
            charts.append(draw_figure(f"analysis-{number}", title, figure))
        except FileNotFoundError:
            raise GtransError(f"`--analysis` {path}: there is no such file.") from None
        except (AttributeError, KeyError, TypeError, ValueError):
            raise GtransError(
                f"`--analysis` {path}: it is not what `gtrans analyse --plot` writes beside its "
                "pictures."
            ) from None
    return charts


def _figure(found: Mapping[str, Any]) -> Figure:
    """The reverse of :func:`~gtrans.lab.analysis.figures.to_json`, without its null points."""
    panels = []
    for panel in found["panels"]:
        series = []
        for one in panel["series"]:
            points = tuple(Point(**point) for point in one["points"] if point["y"] is not None)
            series.append(Series(**{**one, "points": points}))
        panels.append(Panel(**{**panel, "series": tuple(series)}))
    if not panels:
        raise ValueError("no panels")
    return Figure(str(found["title"]), tuple(panels))
